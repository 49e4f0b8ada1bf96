// Collections that can be taken back to what they held: for attempts that may fail.
//
//   Journal journal;
//   JournaledList<Diagnostic> diagnostics(journal);
//   Journal::Attempt attempt(journal);
//   ...                                 // collects whatever it collects
//   if (!useful) attempt.undo();        // nothing of it is left, in any collection of the journal
#pragma once

#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace lithify {

/// How to undo every change of the collections that belong to it, as far as the outermost attempt goes back.
class Journal {
 public:
  Journal() = default;
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// A part of a run that can be undone as a whole, any number of times. What is not undone stays. Attempts nest.
  class Attempt {
   public:
    explicit Attempt(Journal& journal) : journal_(journal), begin_(journal.undo_.size()) { ++journal_.open_; }
    ~Attempt() {
      if (--journal_.open_ == 0) journal_.undo_.clear();
    }
    Attempt(const Attempt&) = delete;
    Attempt& operator=(const Attempt&) = delete;

    void undo() {
      for (; journal_.undo_.size() > begin_; journal_.undo_.pop_back()) journal_.undo_.back()();
    }

   private:
    Journal& journal_;
    size_t begin_;
  };

  /// Registers how to undo what was just done.
  template <class Undo>
  void did(Undo undo) {
    if (open_ > 0) undo_.emplace_back(std::move(undo));
  }

 private:
  std::vector<std::function<void()>> undo_;
  int open_ = 0;
};

template <class T>
class JournaledList {
 public:
  explicit JournaledList(Journal& journal) : journal_(journal) {}
  void push_back(T item) {
    items_.push_back(std::move(item));
    journal_.did([this] { items_.pop_back(); });
  }
  const std::vector<T>& all() const { return items_; }
  /// The collection ends here.
  std::vector<T> take() { return std::move(items_); }

 private:
  Journal& journal_;
  std::vector<T> items_;
};

template <class T>
class JournaledSet {
 public:
  explicit JournaledSet(Journal& journal) : journal_(journal) {}
  /// Whether it is new.
  bool insert(const T& item) {
    const auto [at, is_new] = items_.insert(item);
    if (is_new) journal_.did([this, at = at] { items_.erase(at); });
    return is_new;
  }
  bool contains(const T& item) const { return items_.contains(item); }

 private:
  Journal& journal_;
  std::set<T> items_;
};

template <class Key, class T>
class JournaledMap {
 public:
  explicit JournaledMap(Journal& journal) : journal_(journal) {}
  /// Changes an item by `change(T&)`; one that is not there yet begins as T().
  template <class Change>
  void edit(const Key& key, Change change) {
    const auto [at, is_new] = items_.try_emplace(key);
    if (is_new)
      journal_.did([this, at = at] { items_.erase(at); });
    else
      journal_.did([at = at, before = at->second] { at->second = before; });
    change(at->second);
  }
  const std::map<Key, T>& all() const { return items_; }
  /// The collection ends here.
  std::map<Key, T> take() { return std::move(items_); }

 private:
  Journal& journal_;
  std::map<Key, T> items_;
};

}  // namespace lithify
