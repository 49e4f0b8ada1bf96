#include "base/tensor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/checked.hpp"
#include "base/diagnostic.hpp"
#include "base/half.hpp"

namespace lithify {

namespace {

constexpr size_t kBuffer = size_t{1} << 20;       // what is gathered before it is handed on
constexpr size_t kLargeBuffer = size_t{1} << 22;  // the same, when a transposed row is long
constexpr size_t kCacheLine = 64;
constexpr size_t kLinesOfTile = 4;              // adjacent cache lines of a source column that a tile uses
constexpr size_t kDirectRun = size_t{1} << 14;  // runs this long are not worth copying

struct Dim {
  int64_t size;
  int64_t stride;  // in elements
};

/// The dimensions of a view without those of size 1, neighbors merged where one stride covers both.
std::vector<Dim> merged_dims(const TensorView& view) {
  std::vector<Dim> dims;
  for (size_t i = 0; i < view.sizes.size(); ++i) {
    const Dim d{view.sizes[i], view.strides[i]};
    if (d.size == 1) continue;
    if (!dims.empty() && dims.back().stride == d.size * d.stride) {
      dims.back() = {dims.back().size * d.size, d.stride};
    } else {
      dims.push_back(d);
    }
  }
  return dims;
}

/// Calls `visit(element_offset)` for every index of `dims`, last dimension fastest.
template <class F>
void for_each_index(std::span<const Dim> dims, F&& visit) {
  std::vector<int64_t> index(dims.size(), 0);
  int64_t offset = 0;
  while (true) {
    visit(offset);
    size_t d = dims.size();
    while (d > 0 && ++index[d - 1] == dims[d - 1].size) {
      --d;
      offset -= (dims[d].size - 1) * dims[d].stride;
      index[d] = 0;
    }
    if (d == 0) return;
    offset += dims[d - 1].stride;
  }
}

struct Bytes16 {
  uint64_t words[2];
};

/// Calls `f` with a value of the unsigned type that has `element` bytes.
template <class F>
void with_element(size_t element, F&& f) {
  switch (element) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    case 8:
      return f(uint64_t{});
    case 16:
      return f(Bytes16{});
    default:
      throw Error(Code::Internal, "elements of this type have no size");
  }
}

// Storages are not aligned to their elements: every access goes through memcpy.
template <class T>
void copy_element(std::byte* to, const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  std::memcpy(to, &value, sizeof(T));
}

template <class T>
void gather_row(std::byte* to, const std::byte* from, int64_t count, int64_t stride) {
  if (stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
    return;
  }
  const int64_t step = stride * static_cast<int64_t>(sizeof(T));
  for (int64_t i = 0; i < count; ++i, to += sizeof(T), from += step) copy_element<T>(to, from);
}

/// A square of elements in registers: `kSide` vectors of 16 bytes.
template <class T>
struct Square {
  static constexpr size_t kSide = 16 / sizeof(T);
  typedef T Vector __attribute__((vector_size(16)));

  template <size_t... I>
  static Vector interleave_low(Vector a, Vector b, std::index_sequence<I...>) {
    return __builtin_shufflevector(a, b, static_cast<int>(I % 2 * kSide + I / 2)...);
  }
  template <size_t... I>
  static Vector interleave_high(Vector a, Vector b, std::index_sequence<I...>) {
    return __builtin_shufflevector(a, b, static_cast<int>(I % 2 * kSide + kSide / 2 + I / 2)...);
  }

  /// to[r][c] = from[c][r], steps in bytes between the vectors. Interleaving the halves log2(kSide) times transposes.
  static void transpose(std::byte* to, int64_t to_step, const std::byte* from, int64_t from_step) {
    constexpr auto lanes = std::make_index_sequence<kSide>{};
    Vector a[kSide], b[kSide];
    for (size_t i = 0; i < kSide; ++i) std::memcpy(&a[i], from + static_cast<int64_t>(i) * from_step, 16);
    for (size_t done = 1; done < kSide; done *= 2) {
      for (size_t i = 0; i < kSide / 2; ++i) {
        b[2 * i] = interleave_low(a[i], a[i + kSide / 2], lanes);
        b[2 * i + 1] = interleave_high(a[i], a[i + kSide / 2], lanes);
      }
      std::memcpy(a, b, sizeof(a));
    }
    for (size_t i = 0; i < kSide; ++i) std::memcpy(to + static_cast<int64_t>(i) * to_step, &a[i], 16);
  }
};

/// to[r * to_row + c] = from[r + c * from_column], in elements: rows are adjacent in the source, columns in the target.
template <class T>
void transpose_unit(std::byte* to, int64_t to_row, const std::byte* from, int64_t from_column, int64_t rows,
                    int64_t columns) {
  constexpr int64_t size = sizeof(T);
  const int64_t to_step = to_row * size;
  const int64_t from_step = from_column * size;
  const auto copy = [&](int64_t r, int64_t c) {
    copy_element<T>(to + r * to_step + c * size, from + r * size + c * from_step);
  };
  int64_t whole_rows = 0;
  int64_t whole_columns = 0;
  if constexpr (sizeof(T) <= 8) {
    constexpr int64_t side = Square<T>::kSide;
    constexpr int64_t line = std::max<int64_t>(kCacheLine / size, side);
    constexpr int64_t block = std::max<int64_t>(32, side);
    whole_rows = rows / side * side;
    whole_columns = columns / side * side;
    // By blocks of columns, then by cache lines of them: a line is read once, and its neighbors soon after.
    for (int64_t c0 = 0; c0 < whole_columns; c0 += block) {
      for (int64_t r0 = 0; r0 < whole_rows; r0 += line) {
        for (int64_t c = c0; c < std::min(c0 + block, whole_columns); c += side) {
          for (int64_t r = r0; r < std::min(r0 + line, whole_rows); r += side) {
            Square<T>::transpose(to + r * to_step + c * size, to_step, from + r * size + c * from_step, from_step);
          }
        }
      }
    }
  }
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t r = c < whole_columns ? whole_rows : 0; r < rows; ++r) copy(r, c);
  }
}

/// Collects gathered bytes and hands them on when the next piece does not fit.
class RunBuffer {
 public:
  RunBuffer(size_t capacity, const std::function<void(const std::byte*, size_t)>& emit)
      : data_(std::make_unique_for_overwrite<std::byte[]>(capacity)), capacity_(capacity), emit_(emit) {}
  /// Room for `size` bytes, at most the capacity.
  std::byte* reserve(size_t size) {
    if (used_ + size > capacity_) flush();
    std::byte* at = data_.get() + used_;
    used_ += size;
    return at;
  }
  size_t room() {
    if (used_ == capacity_) flush();
    return capacity_ - used_;
  }
  void flush() {
    if (used_ > 0) emit_(data_.get(), used_);
    used_ = 0;
  }

 private:
  std::unique_ptr<std::byte[]> data_;
  size_t capacity_;
  size_t used_ = 0;
  const std::function<void(const std::byte*, size_t)>& emit_;
};

/// Row by row along the last dimension.
template <class T>
void gather_rows(std::span<const Dim> dims, const std::byte* base, RunBuffer& buffer) {
  const Dim row = dims.back();
  for_each_index(dims.first(dims.size() - 1), [&](int64_t offset) {
    for (int64_t done = 0; done < row.size;) {
      const int64_t room = std::max<int64_t>(static_cast<int64_t>(buffer.room() / sizeof(T)), 1);
      const int64_t count = std::min(row.size - done, room);
      gather_row<T>(buffer.reserve(static_cast<size_t>(count) * sizeof(T)),
                    base + (offset + done * row.stride) * static_cast<int64_t>(sizeof(T)), count, row.stride);
      done += count;
    }
  });
}

/// Tiles of some indices of dimension `fast`, whose elements are adjacent in the source, by all that is inside it.
template <class T>
void gather_tiles(std::span<const Dim> dims, size_t fast, int64_t tile_rows, const std::byte* base, RunBuffer& buffer) {
  constexpr int64_t size = sizeof(T);
  const auto inner = dims.subspan(fast + 1, dims.size() - fast - 2);
  const Dim row = dims.back();
  int64_t width = row.size;
  for (const Dim& d : inner) width *= d.size;
  for_each_index(dims.first(fast), [&](int64_t outer_offset) {
    for (int64_t r = 0; r < dims[fast].size; r += tile_rows) {
      const int64_t rows = std::min(tile_rows, dims[fast].size - r);
      std::byte* to = buffer.reserve(static_cast<size_t>(rows * width * size));
      for_each_index(inner, [&](int64_t inner_offset) {
        transpose_unit<T>(to, width, base + (outer_offset + r + inner_offset) * size, row.stride, rows, row.size);
        to += row.size * size;
      });
    }
  });
}

}  // namespace

TensorView TensorView::dense(DType dtype, std::vector<int64_t> sizes, std::vector<std::byte> data) {
  if (std::ranges::any_of(sizes, [](int64_t n) { return n < 0; }))
    throw Error(Code::ShapeMismatch, "a size is negative");
  auto owner = std::make_shared<std::vector<std::byte>>(std::move(data));
  TensorView view;
  view.dtype = dtype;
  view.strides = row_major_strides(sizes);
  view.sizes = std::move(sizes);
  view.storage = std::make_shared<Storage>(Storage{{owner->data(), owner->size()}, owner});
  if (view.nbytes() != owner->size()) throw Error(Code::Internal, "a tensor's bytes do not match its sizes");
  return view;
}

int64_t TensorView::numel() const {
  if (std::ranges::find(sizes, 0) != sizes.end()) return 0;
  int64_t n = 1;
  for (int64_t size : sizes) n = checked_mul(n, size);
  return n;
}

size_t TensorView::nbytes() const {
  return static_cast<size_t>(checked_mul(numel(), static_cast<int64_t>(byte_size(dtype))));
}

bool TensorView::contiguous() const {
  if (numel() == 0) return true;
  int64_t expected = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 1) continue;
    if (strides[i] != expected) return false;
    expected *= sizes[i];
  }
  return true;
}

TensorView TensorView::permuted(std::span<const int64_t> dims) const {
  if (dims.size() != sizes.size()) throw Error(Code::Internal, "a permutation has the wrong number of dimensions");
  TensorView view = *this;
  for (size_t i = 0; i < dims.size(); ++i) {
    const auto d = static_cast<size_t>(dims[i]);
    view.sizes[i] = sizes.at(d);
    view.strides[i] = strides.at(d);
  }
  return view;
}

TensorView TensorView::narrowed(size_t dim, int64_t start, int64_t length) const {
  if (dim >= sizes.size() || start < 0 || length < 0 || start > sizes[dim] - length) {
    throw Error(Code::Internal, "a slice reaches outside its tensor");
  }
  TensorView view = *this;
  view.sizes[dim] = length;
  if (length > 0) view.offset += start * strides[dim];
  return view;
}

std::optional<TensorView> TensorView::reshaped(std::vector<int64_t> new_sizes) const {
  TensorView view = *this;
  view.sizes = std::move(new_sizes);
  const int64_t count = numel();
  if (view.numel() != count) throw Error(Code::Internal, "a reshape changes the number of elements");
  view.strides = row_major_strides(view.sizes);
  if (count == 0 || contiguous()) return view;

  // Every run of old dimensions that one stride covers must be cut exactly by new ones.
  const std::vector<Dim> old_dims = merged_dims(*this);
  size_t next = view.sizes.size();
  for (size_t i = old_dims.size(); i-- > 0;) {
    int64_t left = old_dims[i].size;
    int64_t stride = old_dims[i].stride;
    while (left > 1) {
      if (next == 0) return std::nullopt;
      const int64_t size = view.sizes[--next];
      if (left % size != 0) return std::nullopt;
      view.strides[next] = stride;
      stride *= size;
      left /= size;
    }
  }
  return view;
}

std::vector<std::byte> TensorView::dense_bytes() const {
  std::vector<std::byte> out;
  out.reserve(nbytes());
  for_each_run(*this, [&](const std::byte* data, size_t size) { out.insert(out.end(), data, data + size); });
  return out;
}

Vector<int64_t> row_major_strides(std::span<const int64_t> sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    stride = checked_mul(stride, std::max<int64_t>(sizes[i], 1));
  }
  return strides;
}

void for_each_run(const TensorView& view, const std::function<void(const std::byte*, size_t)>& emit) {
  const int64_t count = view.numel();
  if (count == 0) return;
  const size_t element = byte_size(view.dtype);
  const std::byte* base = view.element(0);
  const std::vector<Dim> dims = merged_dims(view);
  if (dims.empty() || (dims.size() == 1 && dims[0].stride == 1)) {
    emit(base, static_cast<size_t>(count) * element);
    return;
  }

  const Dim row = dims.back();
  const size_t row_bytes = static_cast<size_t>(row.size) * element;
  if (row.stride == 1 && row_bytes >= kDirectRun) {
    for_each_index(std::span(dims).first(dims.size() - 1),
                   [&](int64_t offset) { emit(base + offset * static_cast<int64_t>(element), row_bytes); });
    return;
  }

  const auto unit = std::ranges::find(dims, 1, &Dim::stride);
  int64_t width = 1;  // elements inside the dimension with stride 1
  for (auto d = unit; d != dims.end() && ++d != dims.end();) width *= d->size;
  if (width > 1 && static_cast<uint64_t>(width) <= kLargeBuffer / element / 2) {
    const size_t width_bytes = static_cast<size_t>(width) * element;
    const size_t line = kCacheLine / element;
    const size_t capacity = std::clamp(width_bytes * kLinesOfTile * line, kBuffer, kLargeBuffer);
    size_t tile_rows = capacity / width_bytes;
    if (tile_rows > line) tile_rows -= tile_rows % line;
    RunBuffer buffer(capacity, emit);
    with_element(element, [&]<class T>(T) {
      gather_tiles<T>(std::span(dims), static_cast<size_t>(unit - dims.begin()), static_cast<int64_t>(tile_rows), base,
                      buffer);
    });
    buffer.flush();
    return;
  }
  const bool small = static_cast<uint64_t>(count) < kBuffer / element;
  RunBuffer buffer(small ? static_cast<size_t>(count) * element : kBuffer, emit);
  with_element(element, [&]<class T>(T) { gather_rows<T>(std::span(dims), base, buffer); });
  buffer.flush();
}

namespace {

template <class Out, class In>
void append_as(std::vector<Out>& out, const std::byte* data, size_t bytes) {
  for (size_t i = 0; i + sizeof(In) <= bytes; i += sizeof(In)) {
    In v;
    std::memcpy(&v, data + i, sizeof(In));
    out.push_back(static_cast<Out>(v));
  }
}

template <class Out>
void append_run(std::vector<Out>& out, DType t, const std::byte* data, size_t bytes) {
  switch (t) {
    case DType::Float:
      return append_as<Out, float>(out, data, bytes);
    case DType::Double:
      return append_as<Out, double>(out, data, bytes);
    case DType::Int64:
      return append_as<Out, int64_t>(out, data, bytes);
    case DType::Int32:
      return append_as<Out, int32_t>(out, data, bytes);
    case DType::Int16:
      return append_as<Out, int16_t>(out, data, bytes);
    case DType::Int8:
      return append_as<Out, int8_t>(out, data, bytes);
    case DType::UInt8:
    case DType::Bool:
      return append_as<Out, uint8_t>(out, data, bytes);
    case DType::UInt16:
      return append_as<Out, uint16_t>(out, data, bytes);
    case DType::UInt32:
      return append_as<Out, uint32_t>(out, data, bytes);
    case DType::UInt64:
      return append_as<Out, uint64_t>(out, data, bytes);
    case DType::Half:
    case DType::BFloat16:
      for (size_t i = 0; i + 2 <= bytes; i += 2) {
        uint16_t v;
        std::memcpy(&v, data + i, 2);
        out.push_back(static_cast<Out>(t == DType::Half ? float_from_half(v) : float_from_bfloat16(v)));
      }
      return;
    default:
      throw Error(Code::UnsupportedType, fmt::format("elements of type {} cannot be computed with", name_of(t)));
  }
}

template <class Out>
void append_all(const TensorView& view, std::vector<Out>& out) {
  for_each_run(view, [&](const std::byte* data, size_t bytes) { append_run(out, view.dtype, data, bytes); });
}

}  // namespace

void append_elements(const TensorView& view, std::vector<int64_t>& out) { append_all(view, out); }
void append_elements(const TensorView& view, std::vector<double>& out) { append_all(view, out); }

Vector<int64_t> integers_of(const TensorView& view) {
  std::vector<int64_t> out;
  append_all(view, out);
  return out;
}

}  // namespace lithify
