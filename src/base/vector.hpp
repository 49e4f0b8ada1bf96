// A vector that keeps to its bounds. Rules and folding index by numbers of the program: what such a number reaches
// outside of a vector is an error of the program, never a stray access.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <type_traits>
#include <utility>
#include <vector>

namespace lithify {

/// Throws ShapeMismatch: an operator is given fewer dimensions or elements than it needs.
[[noreturn]] void out_of_bounds();

inline void check_bounds(bool within) {
  if (!within) [[unlikely]]
    out_of_bounds();
}

/// An iterator that steps anywhere but outside of its vector.
template <class T>
class Position {
 public:
  using iterator_concept = std::contiguous_iterator_tag;
  using iterator_category = std::random_access_iterator_tag;
  using value_type = std::remove_cv_t<T>;
  using difference_type = int64_t;  // as numbers of files are: none is cut before it is checked, on 32 bits too
  using pointer = T*;
  using reference = T&;

  Position() = default;
  Position(T* at, T* begin, T* end) : at_(at), begin_(begin), end_(end) {}
  operator Position<const T>() const { return {at_, begin_, end_}; }

  T& operator*() const { return *at_; }
  T* operator->() const { return at_; }
  T& operator[](difference_type n) const { return *(*this + n); }
  Position& operator++() { return ++at_, *this; }
  Position& operator--() { return --at_, *this; }
  Position operator++(int) { return {at_++, begin_, end_}; }
  Position operator--(int) { return {at_--, begin_, end_}; }
  Position& operator+=(difference_type n) {
    check_bounds(n >= begin_ - at_ && n <= end_ - at_);
    at_ += n;
    return *this;
  }
  Position& operator-=(difference_type n) {
    check_bounds(n <= at_ - begin_ && n >= at_ - end_);
    at_ -= n;
    return *this;
  }
  friend Position operator+(Position p, difference_type n) { return p += n; }
  friend Position operator+(difference_type n, Position p) { return p += n; }
  friend Position operator-(Position p, difference_type n) { return p -= n; }
  friend difference_type operator-(const Position& a, const Position& b) { return a.at_ - b.at_; }
  friend bool operator==(const Position& a, const Position& b) { return a.at_ == b.at_; }
  friend auto operator<=>(const Position& a, const Position& b) { return a.at_ <=> b.at_; }

 private:
  T* at_ = nullptr;
  T* begin_ = nullptr;
  T* end_ = nullptr;
};

template <class T>
class Vector : public std::vector<T> {
  using Base = std::vector<T>;

 public:
  using iterator = Position<T>;
  using const_iterator = Position<const T>;

  using Base::Base;
  explicit Vector(const Base& v) : Base(v) {}
  Vector(Base&& v) noexcept : Base(std::move(v)) {}
  Vector& operator=(std::initializer_list<T> items) {
    Base::operator=(items);
    return *this;
  }

  T& operator[](size_t i) {
    check_bounds(i < this->size());
    return Base::operator[](i);
  }
  const T& operator[](size_t i) const {
    check_bounds(i < this->size());
    return Base::operator[](i);
  }
  T& at(size_t i) { return (*this)[i]; }
  const T& at(size_t i) const { return (*this)[i]; }
  T& front() { return (*this)[0]; }
  const T& front() const { return (*this)[0]; }
  T& back() { return (*this)[this->size() - 1]; }
  const T& back() const { return (*this)[this->size() - 1]; }
  void pop_back() {
    check_bounds(!this->empty());
    Base::pop_back();
  }

  iterator begin() { return {this->data(), this->data(), past()}; }
  iterator end() { return {past(), this->data(), past()}; }
  const_iterator begin() const { return {this->data(), this->data(), past()}; }
  const_iterator end() const { return {past(), this->data(), past()}; }
  std::reverse_iterator<iterator> rbegin() { return std::reverse_iterator(end()); }
  std::reverse_iterator<iterator> rend() { return std::reverse_iterator(begin()); }
  std::reverse_iterator<const_iterator> rbegin() const { return std::reverse_iterator(end()); }
  std::reverse_iterator<const_iterator> rend() const { return std::reverse_iterator(begin()); }

  iterator insert(const_iterator at, T item) { return position(Base::insert(base(at), std::move(item))); }
  iterator insert(const_iterator at, size_t n, const T& item) { return position(Base::insert(base(at), n, item)); }
  template <std::input_iterator It>
  iterator insert(const_iterator at, It first, It last) {
    return position(Base::insert(base(at), first, last));
  }
  iterator insert(const_iterator at, std::initializer_list<T> items) { return position(Base::insert(base(at), items)); }
  iterator erase(const_iterator at) {
    check_bounds(at != std::as_const(*this).end());
    return position(Base::erase(base(at)));
  }
  iterator erase(const_iterator first, const_iterator last) {
    check_bounds(first <= last);
    return position(Base::erase(base(first), base(last)));
  }

 private:
  T* past() { return this->data() + this->size(); }
  const T* past() const { return this->data() + this->size(); }
  typename Base::const_iterator base(const_iterator at) const { return Base::begin() + (at - begin()); }
  iterator position(typename Base::iterator at) { return begin() + (at - Base::begin()); }
};

}  // namespace lithify
