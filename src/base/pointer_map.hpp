// What is known of each value or node of a graph, by its address, in one piece of memory: large graphs have millions,
// and a std::unordered_map takes a piece of memory for each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace lithify {

/// A map from addresses, of which none is null and none is removed.
template <class Key, class T>
class PointerMap {
 public:
  /// With room for as many items.
  explicit PointerMap(size_t expected = 0) {
    while (slots_.size() < 2 * expected) grow();
  }
  /// The item of a key; one that is not there yet begins as T().
  T& operator[](Key* key) { return item(key).first; }
  /// The same, and whether it is new.
  std::pair<T&, bool> item(Key* key) {
    if (2 * (size_ + 1) > slots_.size()) grow();
    Slot& slot = slots_[place_of(key)];
    const bool is_new = slot.key == nullptr;
    if (is_new) slot.key = key;
    size_ += is_new;
    return {slot.item, is_new};
  }
  /// nullptr where there is none.
  const T* find(Key* key) const {
    if (slots_.empty()) return nullptr;
    const Slot& slot = slots_[place_of(key)];
    return slot.key ? &slot.item : nullptr;
  }
  bool contains(Key* key) const { return find(key) != nullptr; }
  size_t size() const { return size_; }

 private:
  struct Slot {
    Key* key = nullptr;
    T item = T();
  };

  /// Of the slot that has a key, or else of the free one that it would be put into.
  size_t place_of(Key* key) const {
    constexpr uint64_t golden = 0x9e3779b97f4a7c15;  // odd, and its bits follow no pattern
    const uint64_t hash = reinterpret_cast<uintptr_t>(key) * golden;
    size_t at = static_cast<size_t>(hash >> 32) & (slots_.size() - 1);
    while (slots_[at].key && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
    return at;
  }

  void grow() {
    constexpr size_t first = 16;  // a power of two, as all sizes are
    std::vector<Slot> old(slots_.empty() ? first : 2 * slots_.size());
    old.swap(slots_);
    for (Slot& slot : old)
      if (slot.key) slots_[place_of(slot.key)] = std::move(slot);
  }

  std::vector<Slot> slots_;
  size_t size_ = 0;
};

/// A set of addresses, of which none is null and none is removed.
template <class Key>
class PointerSet {
 public:
  /// Whether it is new.
  bool insert(Key* key) { return keys_.item(key).second; }
  bool contains(Key* key) const { return keys_.contains(key); }

 private:
  struct Nothing {};
  PointerMap<Key, Nothing> keys_;
};

}  // namespace lithify
