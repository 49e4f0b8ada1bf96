// Strided views of memory: what they hand out in row-major order, against a gather element by element.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "base/diagnostic.hpp"
#include "base/tensor.hpp"

using namespace lithify;

namespace {

constexpr DType kTypes[] = {DType::UInt8, DType::Half, DType::Float, DType::Double, DType::ComplexDouble};

/// A view of a fresh storage with random bytes. `misalign` shifts the storage off its natural alignment.
TensorView view_of(DType dtype, std::vector<int64_t> sizes, std::vector<int64_t> strides, int64_t offset = 0,
                   size_t misalign = 0) {
  int64_t last = offset;
  for (size_t i = 0; i < sizes.size(); ++i) last += (sizes[i] - 1) * strides[i];
  const size_t bytes = static_cast<size_t>(last + 1) * byte_size(dtype);
  auto data = std::make_shared<std::vector<std::byte>>(bytes + misalign);
  std::mt19937 random(7);
  for (std::byte& b : *data) b = static_cast<std::byte>(random());
  TensorView view;
  view.dtype = dtype;
  view.sizes = std::move(sizes);
  view.strides = std::move(strides);
  view.offset = offset;
  view.storage = std::make_shared<Storage>(Storage{{data->data() + misalign, bytes}, data});
  return view;
}

std::vector<std::byte> naive_bytes(const TensorView& view) {
  const size_t element = byte_size(view.dtype);
  std::vector<std::byte> out;
  out.reserve(view.nbytes());
  std::vector<int64_t> index(view.sizes.size(), 0);
  for (int64_t n = view.numel(); n > 0; --n) {
    const int64_t at = std::inner_product(index.begin(), index.end(), view.strides.begin(), int64_t{0});
    out.insert(out.end(), view.element(at), view.element(at) + element);
    for (size_t d = index.size(); d-- > 0 && ++index[d] == view.sizes[d];) index[d] = 0;
  }
  return out;
}

bool agrees(const TensorView& view) { return view.dense_bytes() == naive_bytes(view); }

size_t runs_of(const TensorView& view) {
  size_t runs = 0;
  for_each_run(view, [&](const std::byte*, size_t) { ++runs; });
  return runs;
}

TensorView transposed(TensorView view) {
  std::swap(view.sizes[0], view.sizes[1]);
  std::swap(view.strides[0], view.strides[1]);
  return view;
}

}  // namespace

TEST_CASE("a contiguous view is one run of its own memory") {
  TensorView view = view_of(DType::Float, {3, 1, 4, 5}, {20, 99, 5, 1}, 7);
  size_t calls = 0;
  for_each_run(view, [&](const std::byte* data, size_t size) {
    CHECK(data == view.element(0));
    CHECK(size == 240);
    ++calls;
  });
  CHECK(calls == 1);
  CHECK(view.contiguous());
  CHECK(runs_of(view_of(DType::Float, {}, {}, 3)) == 1);
  CHECK(runs_of(view_of(DType::Half, {1, 1}, {5, 9})) == 1);
}

TEST_CASE("a view without elements has no runs") {
  TensorView view;
  view.dtype = DType::Float;
  view.sizes = {3, 0, int64_t{1} << 62, 8};
  view.strides = {0, 8, 8, 1};
  CHECK(view.numel() == 0);
  CHECK(view.contiguous());
  CHECK(runs_of(view) == 0);
}

TEST_CASE("long rows are handed out where they are") {
  const TensorView view = view_of(DType::Float, {3, 8192}, {10000, 1});
  std::vector<const std::byte*> rows;
  for_each_run(view, [&](const std::byte* data, size_t size) {
    CHECK(size == 8192 * 4);
    rows.push_back(data);
  });
  CHECK(rows == std::vector{view.element(0), view.element(10000), view.element(20000)});
}

TEST_CASE("transposed matrices of every element size") {
  for (const DType dtype : kTypes) {
    for (const auto& shape : {std::pair{1, 5},
                              {2, 2},
                              {3, 7},
                              {16, 16},
                              {17, 33},
                              {64, 100},
                              {257, 129},
                              {1000, 3},
                              {3, 1000},
                              {700, 700}}) {
      CAPTURE(name_of(dtype));
      const auto rows = shape.first, columns = shape.second;  // no structured binding: clang 14 captures none
      CAPTURE(rows);
      CAPTURE(columns);
      CHECK(agrees(transposed(view_of(dtype, {rows, columns}, {columns, 1}, 0, 1))));
    }
  }
}

TEST_CASE("rows longer than the buffer") {
  CHECK(agrees(transposed(view_of(DType::Float, {300000, 3}, {3, 1}))));
  CHECK(agrees(transposed(view_of(DType::UInt8, {5000000, 2}, {2, 1}))));
  CHECK(agrees(view_of(DType::Half, {700000}, {3}, 2)));
}

TEST_CASE("an expanded tensor is streamed, however many elements it claims") {
  struct Enough {};
  for (const std::vector<int64_t>& strides : {std::vector<int64_t>{0, 0, 1}, {1, 0, 0}, {0, 1, 0}, {0, 0, 0}}) {
    TensorView view = view_of(DType::ComplexDouble, {2, 2, 2}, strides);
    for (size_t d = 0; d < 3; ++d) {
      if (strides[d] == 0) view.sizes[d] = int64_t{1} << 20;
    }
    size_t total = 0;
    CHECK_THROWS_AS(for_each_run(view,
                                 [&](const std::byte*, size_t size) {
                                   total += size;
                                   if (total > size_t{16} << 20) throw Enough{};
                                 }),
                    Enough);
  }
  TensorView huge = view_of(DType::ComplexDouble, {2, 2}, {0, 0});
  huge.sizes = {int64_t{1} << 31, int64_t{1} << 31};
  CHECK_THROWS_AS(huge.nbytes(), Error);
  CHECK_THROWS_AS(for_each_run(huge, [](const std::byte*, size_t) { throw Enough{}; }), Enough);
}

TEST_CASE("runs are bounded") {
  const TensorView view = transposed(view_of(DType::Float, {2000, 1000}, {1000, 1}));
  size_t total = 0;
  for_each_run(view, [&](const std::byte*, size_t size) {
    CHECK(size <= size_t{4} << 20);
    total += size;
  });
  CHECK(total == view.nbytes());
}

TEST_CASE("random permutations, slices and expansions agree with a naive gather") {
  std::mt19937 random(1);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int round = 0; round < 600; ++round) {
    const auto rank = static_cast<size_t>(pick(0, 5));
    std::vector<int64_t> sizes(rank);
    for (int64_t& s : sizes) s = pick(1, rank > 3 ? 9 : 40);
    TensorView view = view_of(kTypes[pick(0, 4)], sizes, row_major_strides(sizes), pick(0, 3), pick(0, 3));
    std::vector<int64_t> order(rank);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    view = view.permuted(order);
    for (size_t d = 0; d < rank; ++d) {
      if (pick(0, 3) == 0) {
        const int64_t length = pick(0, view.sizes[d]);
        view = view.narrowed(d, pick(0, view.sizes[d] - length), length);
      }
      if (pick(0, 5) == 0) view.strides[d] = 0;
      if (pick(0, 5) == 0 && view.sizes[d] > 1) {  // every second element
        view.sizes[d] /= 2;
        view.strides[d] *= 2;
      }
    }
    CAPTURE(round);
    CHECK(agrees(view));
  }
}

TEST_CASE("reshaping keeps the elements or says that it cannot") {
  const TensorView dense = view_of(DType::Int32, {4, 6}, {6, 1});
  CHECK(dense.reshaped({2, 2, 3, 2})->dense_bytes() == dense.dense_bytes());
  CHECK(dense.reshaped({24})->strides == std::vector<int64_t>{1});
  const TensorView t = transposed(dense);
  CHECK_FALSE(t.reshaped({24}));
  CHECK_FALSE(t.reshaped({4, 6}));
  CHECK(t.reshaped({2, 3, 1, 4})->dense_bytes() == t.dense_bytes());
  CHECK(t.reshaped({6, 2, 2})->dense_bytes() == t.dense_bytes());
  const TensorView rows = view_of(DType::Int32, {4, 6}, {10, 1}, 3);
  CHECK(rows.reshaped({2, 2, 2, 3})->dense_bytes() == rows.dense_bytes());
  CHECK_FALSE(rows.reshaped({3, 8}));
  const TensorView expanded = view_of(DType::Int32, {4, 6}, {0, 0}, 1);
  CHECK(expanded.reshaped({3, 8})->dense_bytes() == expanded.dense_bytes());
  CHECK(view_of(DType::Float, {1, 1}, {7, 7}).reshaped({})->numel() == 1);
  CHECK_THROWS_AS(dense.reshaped({5, 5}), Error);
}

TEST_CASE("random reshapes agree") {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<int64_t> sizes = {2, 3, 4, 1, 2};
    std::shuffle(sizes.begin(), sizes.end(), random);
    TensorView view = view_of(DType::Int16, sizes, row_major_strides(sizes));
    std::vector<int64_t> order = {0, 1, 2, 3, 4};
    if (round % 2) std::swap(order[random() % 5], order[random() % 5]);
    view = view.permuted(order);
    std::vector<int64_t> target = {4, 3, 2, 2, 1};
    std::shuffle(target.begin(), target.end(), random);
    if (const auto reshaped = view.reshaped(target)) CHECK(reshaped->dense_bytes() == view.dense_bytes());
  }
}

TEST_CASE("views that make no sense are faults") {
  const TensorView view = view_of(DType::Float, {4, 6}, {6, 1});
  CHECK_THROWS_AS(view.narrowed(0, 3, 2), Error);
  CHECK_THROWS_AS(view.narrowed(2, 0, 1), Error);
  CHECK_THROWS_AS(view.narrowed(0, -1, 1), Error);
  CHECK_THROWS_AS(view.permuted(std::vector<int64_t>{0}), Error);
  CHECK_THROWS_AS(TensorView::dense(DType::Float, {3}, std::vector<std::byte>(4)), Error);
  TensorView huge = view;
  huge.sizes = {int64_t{1} << 40, int64_t{1} << 40};
  huge.strides = {0, 0};
  CHECK_THROWS_AS(huge.numel(), Error);
  CHECK(view.narrowed(0, 4, 0).numel() == 0);
  CHECK(TensorView::dense(DType::Float, {2}, std::vector<std::byte>(8)).contiguous());
}
