#include "write/plan.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <future>
#include <memory>
#include <thread>

#include "base/diagnostic.hpp"
#include "base/half.hpp"

namespace lithify::write {
namespace {

static_assert(std::endian::native == std::endian::little, "ONNX files are little endian, and so is the mapped memory");

constexpr uint64_t KiB = 1024;
constexpr uint64_t MiB = 1024 * KiB;
/// Large enough that the work between two of them does not count, small enough that threads end together.
constexpr uint64_t job_bytes = 4 * MiB;
constexpr size_t buffer_bytes = 1 * MiB;
/// Longer runs are written from where they are.
constexpr size_t direct_bytes = 64 * KiB;
/// Below this a second thread costs more than it brings.
constexpr uint64_t parallel_bytes = 16 * MiB;

template <typename T, typename Multiply>
void multiply_each(std::span<std::byte> bytes, Multiply multiply) {
  for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T element;
    std::memcpy(&element, &bytes[at], sizeof element);
    element = multiply(element);
    std::memcpy(&bytes[at], &element, sizeof element);
  }
}

void multiply(DType dtype, std::span<std::byte> bytes, float by) {
  switch (dtype) {
    case DType::Float:
      return multiply_each<float>(bytes, [by](float x) { return x * by; });
    case DType::Double:
      return multiply_each<double>(bytes, [by](double x) { return x * by; });
    case DType::Half:
      return multiply_each<uint16_t>(bytes, [by](uint16_t x) { return half_from_float(float_from_half(x) * by); });
    case DType::BFloat16:
      return multiply_each<uint16_t>(bytes,
                                     [by](uint16_t x) { return bfloat16_from_float(float_from_bfloat16(x) * by); });
    default:
      throw Error(Code::Internal, "a scaled constant is not of a floating point type");
  }
}

/// Rounds elements of float32 in place. Returns the bytes that they take then.
size_t round_to(DType to, std::span<std::byte> bytes) {
  size_t end = 0;
  for (size_t at = 0; at + sizeof(float) <= bytes.size(); at += sizeof(float)) {
    float element;
    std::memcpy(&element, &bytes[at], sizeof element);
    const uint16_t bits = to == DType::Half ? half_from_float(element) : bfloat16_from_float(element);
    std::memcpy(&bytes[end], &bits, sizeof bits);
    end += sizeof bits;
  }
  return end;
}

}  // namespace

void Plan::add(std::string_view bytes) { add(std::as_bytes(std::span<const char>(bytes))); }

void Plan::add(const onnx::Tensor& tensor) {
  for (const onnx::Tensor::Piece& piece : tensor.pieces) {
    const TensorView& view = piece.view;
    if (view.numel() == 0) continue;
    if (piece.quantized)
      add(view, *piece.quantized, tensor.dtype);
    else if (!piece.scale && view.dtype == tensor.dtype && view.contiguous())
      add(std::span(view.element(0), view.nbytes()));
    else
      add(Gathered{view, piece.scale ? piece.scale->data() : nullptr, tensor.dtype});
  }
}

void Plan::add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const size_t size = std::min<size_t>(bytes.size(), job_bytes);
    append(size, bytes.first(size));
    bytes = bytes.subspan(size);
  }
}

// Slices along the first dimension that has more than one index follow one another in row-major order.
void Plan::add(const Gathered& gathered) {
  const TensorView& view = gathered.view;
  size_t dim = 0;
  while (!gathered.scale && dim + 1 < view.sizes.size() && view.sizes[dim] == 1) ++dim;
  if (view.nbytes() <= job_bytes || view.sizes.empty() || view.sizes[dim] == 1)
    return append(gathered.bytes(), gathered);

  const int64_t rows = view.sizes[dim];
  const auto row_bytes = static_cast<int64_t>(view.nbytes()) / rows;
  const int64_t step = std::clamp<int64_t>(static_cast<int64_t>(job_bytes) / row_bytes, 1, rows);
  for (int64_t row = 0; row < rows; row += step)
    add(Gathered{view.narrowed(dim, row, std::min(step, rows - row)), gathered.scale ? gathered.scale + row : nullptr,
                 gathered.to});
}

// In steps of whole blocks, after which no byte is shared; but zero points, which may share one and are few, as a
// whole.
void Plan::add(const TensorView& matrix, const Quantized& part, DType to) {
  const int64_t rows = matrix.sizes[0], least = part.axis == 0 ? part.block : 1;
  const auto bytes = static_cast<int64_t>(byte_size(part, matrix));
  int64_t step = std::max<int64_t>(static_cast<int64_t>(job_bytes) * rows / bytes / least, 1) * least;
  if (part.part == Quantized::Part::ZeroPoints) step = rows;
  for (int64_t row = 0; row < rows; row += step) {
    const Rows some{matrix.narrowed(0, row, std::min(step, rows - row)), part, to};
    append(byte_size(part, some.matrix) / (dtype_of(part, matrix) == to ? 1 : 2), some);
  }
}

void Plan::append(uint64_t size, Contents contents) {
  parts_.push_back({size_, size, std::move(contents)});
  size_ += size;
  bytes_ += size;
}

std::vector<size_t> Plan::jobs() const {
  std::vector<size_t> begins;
  uint64_t bytes = job_bytes;
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (bytes >= job_bytes) {
      begins.push_back(i);
      bytes = 0;
    }
    bytes += parts_[i].size;
  }
  begins.push_back(parts_.size());
  return begins;
}

/// Writes parts in order, small ones together.
class Plan::Worker {
 public:
  explicit Worker(const Output& out) : out_(out), buffer_(std::make_unique<std::byte[]>(buffer_bytes)) {}

  void write(std::span<const Part> parts) {
    for (const Part& part : parts) {
      if (part.offset != offset_ + buffered_) {
        flush();
        offset_ = part.offset;
      }
      std::visit([this](const auto& contents) { put(contents); }, part.contents);
      if (offset_ + buffered_ != part.offset + part.size)
        throw Error(Code::Internal, "a constant has another length than was computed");
    }
    flush();
  }

 private:
  void put(std::span<const std::byte> bytes) {
    if (bytes.size() >= direct_bytes) {
      flush();
      out_.write(bytes, offset_);
      offset_ += bytes.size();
    } else {
      std::memcpy(room(bytes.size()), bytes.data(), bytes.size());
    }
  }

  void put(const Gathered& gathered) {
    const TensorView& view = gathered.view;
    const bool is_rounded = gathered.to != view.dtype;
    if (!gathered.scale && !is_rounded)
      return for_each_run(view, [this](const std::byte* data, size_t size) { put(std::span(data, size)); });
    const size_t row_bytes = gathered.scale ? view.nbytes() / static_cast<size_t>(view.sizes[0]) : view.nbytes();
    size_t done = 0;
    for_each_run(view, [&](const std::byte* data, size_t size) {
      while (size > 0) {
        const size_t in_row = std::min({size, row_bytes - done % row_bytes, direct_bytes});
        std::byte* changed = room(in_row);
        std::memcpy(changed, data, in_row);
        if (gathered.scale) multiply(view.dtype, {changed, in_row}, gathered.scale[done / row_bytes]);
        if (is_rounded) buffered_ -= in_row - round_to(gathered.to, {changed, in_row});
        data += in_row;
        size -= in_row;
        done += in_row;
      }
    });
  }

  void put(const Rows& rows) {
    std::vector<std::byte> made(byte_size(rows.part, rows.matrix));
    quantize(rows.part, rows.matrix, made);
    if (dtype_of(rows.part, rows.matrix) != rows.to) made.resize(round_to(rows.to, made));
    put(std::span<const std::byte>(made));
  }

  /// The next `size` bytes of the buffer; at most direct_bytes.
  std::byte* room(size_t size) {
    if (buffered_ + size > buffer_bytes) flush();
    buffered_ += size;
    return buffer_.get() + buffered_ - size;
  }

  void flush() {
    out_.write({buffer_.get(), buffered_}, offset_);
    offset_ += buffered_;
    buffered_ = 0;
  }

  const Output& out_;
  std::unique_ptr<std::byte[]> buffer_;
  size_t buffered_ = 0;
  uint64_t offset_ = 0;  ///< in the output, of the buffer's first byte
};

void Plan::run(const Output& out, Progress& progress) const {
  const std::vector<size_t> begins = jobs();
  std::atomic<size_t> next{0};
  std::atomic<bool> stop{false};
  const auto work = [&](bool calling_thread) {
    try {
      Worker worker(out);
      for (size_t job = next++; job + 1 < begins.size() && !stop; job = next++) {
        const std::span parts = std::span(parts_).subspan(begins[job], begins[job + 1] - begins[job]);
        worker.write(parts);
        for (const Part& part : parts) progress.add(part.size);
        if (calling_thread) progress.report();
      }
    } catch (...) {
      stop = true;
      throw;
    }
  };

  // Deferred when no thread is to be had: nothing is left to do then. The future waits for its thread in any case.
  std::future<void> second;
  if (out.seekable() && bytes_ >= parallel_bytes && std::thread::hardware_concurrency() > 1)
    second = std::async(std::launch::async | std::launch::deferred, work, false);
  work(true);
  if (second.valid()) second.get();
}

}  // namespace lithify::write
