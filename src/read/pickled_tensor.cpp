#include "read/pickled_tensor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/checked.hpp"
#include "base/diagnostic.hpp"
#include "read/typed_container.hpp"

namespace lithify::read {
namespace {

using archive::PickleValue;
using Kind = PickleValue::Kind;

/// A tensor may be larger than its storage (an expanded one is), but not without bound: its elements may get written.
constexpr int64_t max_expanded_bytes = int64_t{1} << 32;

Error malformed(std::string_view name, std::string_view what) {
  return Error(Code::BadPickle, fmt::format("the tensor '{}' is malformed: {}", name, what));
}
Error bad_tensor(std::string_view name, std::string_view what) {
  return Error(Code::BadTensor, fmt::format("the tensor '{}' {}", name, what));
}
Error unsupported(std::string_view name, std::string_view what, std::string hint) {
  return Error(Code::UnsupportedType, fmt::format("the tensor '{}' is {}", name, what), std::move(hint));
}

/// "FloatStorage" is DType::Float. Complex types have their short names in storages.
std::optional<DType> dtype_of_storage(std::string_view type) {
  constexpr std::string_view suffix = "Storage";
  if (!type.ends_with(suffix)) return std::nullopt;
  std::string name(type.substr(0, type.size() - suffix.size()));
  std::ranges::transform(name, name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  if (constexpr std::string_view complex = "complex"; name.starts_with(complex))
    return dtype_named(fmt::format("c{}", std::string_view(name).substr(complex.size())));
  return dtype_named(name);
}

bool is_plain_key(std::string_view key) {
  return !key.empty() && key != "." && key != ".." && std::ranges::all_of(key, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || c == '.';
  });
}

std::vector<int64_t> integers(const PickleValue& value, std::string_view name) {
  if (!value.is(Kind::Tuple) && !value.is(Kind::List)) throw malformed(name, "sizes or strides are missing");
  std::vector<int64_t> result;
  for (const PickleValue& item : value.items()) {
    if (!item.is(Kind::Int) || item.integer() < 0) throw malformed(name, "a size or stride is not a natural number");
    result.push_back(item.integer());
  }
  return result;
}

/// Lazy operations that PyTorch keeps as bits of a tensor: the stored elements are not yet conjugated or negated.
struct LazyBits {
  bool conj = false;
  bool neg = false;
};

LazyBits lazy_bits(const PickleValue& argument, std::string_view name) {
  const PickleValue& flags = untagged(argument);
  if (!flags.is(Kind::Dict)) throw malformed(name, "its flags are not a dictionary");
  LazyBits bits;
  for (size_t i = 0; i + 1 < flags.items().size(); i += 2) {
    const PickleValue &key = flags.items()[i], &value = flags.items()[i + 1];
    if (!key.is(Kind::String) || !value.is(Kind::Bool)) throw malformed(name, "its flags are not booleans");
    if (key.text() == "conj") bits.conj = value.boolean();
    if (key.text() == "neg") bits.neg = value.boolean();
  }
  return bits;
}

/// A copy of the tensor with the lazy operations done: both are flips of sign bits.
TensorView resolved(const TensorView& view, LazyBits bits, std::string_view name) {
  const bool complex = is_complex(view.dtype);
  if ((!complex && !is_float(view.dtype)) || (bits.conj && !complex))
    throw malformed(name, "integers are conjugated or negated lazily");
  if (view.nbytes() > view.storage->bytes.size())
    throw Error(Code::LimitExceeded,
                fmt::format("the tensor '{}' is expanded, and conjugated or negated lazily", name));
  std::vector<std::byte> data = view.dense_bytes();
  const size_t part = byte_size(view.dtype) / (complex ? 2 : 1);
  for (size_t i = 0; i < data.size() / part; ++i) {
    const bool imaginary = complex && i % 2 == 1;
    if (bits.neg != (imaginary && bits.conj)) data[(i + 1) * part - 1] ^= std::byte{0x80};
  }
  return TensorView::dense(view.dtype, view.sizes, std::move(data));
}

}  // namespace

TensorView live_tensor(const TensorView& tensor, const TensorView& described, std::string_view name) {
  if (tensor.dtype != described.dtype || tensor.sizes != described.sizes)
    throw bad_tensor(name, "in memory has another type or other sizes than in the file");
  return tensor;
}

void check_extent(const TensorView& view, int64_t elements, std::string_view name) {
  int64_t count = 1, last = view.offset, element = static_cast<int64_t>(byte_size(view.dtype));
  bool empty = std::ranges::find(view.sizes, 0) != view.sizes.end();
  try {
    for (size_t i = 0; i < view.sizes.size(); ++i) {
      count = checked_mul(count, std::max<int64_t>(view.sizes[i], 1));
      if (!empty) last = checked_add(last, checked_mul(view.sizes[i] - 1, view.strides[i]));
    }
    count = checked_mul(count, element);
  } catch (const Error&) {
    throw bad_tensor(name, "has sizes beyond 64 bits");
  }
  if (empty) return;
  if (last >= elements) throw bad_tensor(name, fmt::format("reaches outside its storage of {} elements", elements));
  if (count > max_expanded_bytes && count / element > elements)
    throw Error(Code::LimitExceeded,
                fmt::format("the tensor '{}' repeats {} stored elements over {} bytes", name, elements, count));
}

struct TensorReader::Named {
  std::string key;
  std::optional<DType> dtype;  // none: the storage is untyped
  int64_t numel;               // elements, or bytes of an untyped storage or one of halves
  bool halves = false;         // whether a byte has two elements, the first in its lower bits
};

bool TensorReader::is_tensor(const PickleValue& value) {
  return value.is(Kind::Reduce) && value.head().module() == "torch._utils" &&
         value.head().name().starts_with("_rebuild_");
}

bool TensorReader::is_quantized(const PickleValue& value) { return value.calls("torch._utils", "_rebuild_qtensor"); }

TensorReader::Quantized TensorReader::read_quantized(const PickleValue& value, std::string_view name) {
  if (contents_ == Contents::Ignored) throw unsupported(name, "quantized, as an input of the model", {});
  if (!value.args().is(Kind::Tuple) || value.args().items().size() != 7)
    throw malformed(name, "wrong number of arguments");
  const Arguments args = value.args().items();
  std::shared_ptr<const TensorView>& known = tensors_[value.node()];
  if (!known) {
    const Named source = named_storage(args[0], name);
    TensorView view = source.halves ? halves(source, args, name) : strided(args, std::nullopt, nullptr, name);
    if (view.dtype != DType::QUInt8 && view.dtype != DType::QInt8)
      throw unsupported(name, fmt::format("quantized to {}", name_of(view.dtype)), "quantize to quint8 or qint8");
    view.dtype = view.dtype == DType::QUInt8 ? DType::UInt8 : DType::Int8;
    known = std::make_shared<const TensorView>(std::move(view));
  }
  return {known, &args[4]};
}

std::shared_ptr<const TensorView> TensorReader::read(const PickleValue& value, std::string_view name) {
  std::shared_ptr<const TensorView>& known = tensors_[value.node()];
  if (!known) known = std::make_shared<const TensorView>(rebuild(value, name));
  return known;
}

TensorView TensorReader::rebuild(const PickleValue& call, std::string_view name) {
  if (!call.args().is(Kind::Tuple)) throw malformed(name, "it has no arguments");
  const Arguments args = call.args().items();
  const std::string_view function = call.head().name();
  if (function == "_rebuild_tensor_v2") {
    if (args.size() != 6 && args.size() != 7) throw malformed(name, "wrong number of arguments");
    return strided(args, std::nullopt, args.size() == 7 ? &args[6] : nullptr, name);
  }
  if (function == "_rebuild_tensor_v3") {
    if (args.size() != 7 && args.size() != 8) throw malformed(name, "wrong number of arguments");
    const auto dtype = args[6].is(Kind::Global) ? dtype_named(args[6].name()) : std::nullopt;
    if (!dtype) throw unsupported(name, "of an element type that is not known", {});
    return strided(args, dtype, args.size() == 8 ? &args[7] : nullptr, name);
  }
  if (function == "_rebuild_parameter") {
    if (args.size() != 3 || !is_tensor(args[0])) throw malformed(name, "a parameter without its tensor");
    return *read(args[0], name);
  }
  if (function == "_rebuild_qtensor")
    throw unsupported(name, "quantized", "export the model before quantization, and quantize the ONNX model");
  if (function == "_rebuild_sparse_tensor") throw unsupported(name, "sparse", "call .to_dense() on it before saving");
  throw malformed(name, fmt::format("it is made by {}", function));
}

TensorView TensorReader::strided(Arguments args, std::optional<DType> dtype, const PickleValue* flags,
                                 std::string_view name) {
  const Named source = named_storage(args[0], name);
  if (!args[1].is(Kind::Int) || args[1].integer() < 0) throw malformed(name, "its offset is not a natural number");
  TensorView view;
  view.offset = args[1].integer();
  view.sizes = integers(args[2], name);
  view.strides = integers(args[3], name);
  if (view.sizes.size() != view.strides.size()) throw malformed(name, "sizes and strides differ in number");
  const auto element = dtype ? dtype : source.dtype;
  if (!element) throw malformed(name, "its element type is missing");
  view.dtype = *element;

  const auto unit = static_cast<int64_t>(byte_size(source.dtype.value_or(DType::UInt8)));
  if (source.numel > std::numeric_limits<int64_t>::max() / unit) throw bad_tensor(name, "has a storage beyond 64 bits");
  const int64_t bytes = source.numel * unit;
  const auto found = live_ ? live_->find(std::string(name)) : LiveTensors::const_iterator();
  const bool lives = live_ && found != live_->end();
  if (lives && bytes == 0) return live_tensor(found->second, view, name);
  check_extent(view, bytes / static_cast<int64_t>(byte_size(view.dtype)), name);
  if (contents_ == Contents::Ignored) return view;

  view.storage = storage(source.key, name);
  const auto present = static_cast<int64_t>(view.storage->bytes.size());
  if (present == 0 && bytes > 0 && lives) return live_tensor(found->second, view, name);
  if (present == 0 && bytes > 0)
    throw Error(Code::BadTensor, fmt::format("the contents of the tensor '{}' are not in the file", name),
                "the model was saved without weights (on the 'meta' device); load them before saving it");
  if (present < bytes)
    throw bad_tensor(name, fmt::format("needs a storage of {} bytes, but its record has {}", bytes, present));
  if (view.numel() == 0) view.offset = 0;
  const LazyBits bits = flags ? lazy_bits(*flags, name) : LazyBits{};
  return bits.conj || bits.neg ? resolved(view, bits, name) : view;
}

TensorView TensorReader::halves(const Named& source, Arguments args, std::string_view name) {
  TensorView packed;
  packed.dtype = DType::UInt8;
  packed.sizes = integers(args[2], name);
  packed.strides = integers(args[3], name);
  if (packed.sizes.size() != packed.strides.size()) throw malformed(name, "sizes and strides differ in number");
  if (!args[1].is(Kind::Int) || args[1].integer() != 0 || !packed.contiguous() || packed.sizes.empty() ||
      packed.sizes.back() % 2 != 0)
    throw unsupported(name, "a view of elements of 4 bits", {});
  check_extent(packed, source.numel > std::numeric_limits<int64_t>::max() / 2 ? 0 : 2 * source.numel, name);
  const std::shared_ptr<const Storage> bytes = storage(source.key, name);
  const auto count = static_cast<size_t>(packed.numel());
  if (bytes->bytes.size() < count / 2) throw bad_tensor(name, "has a storage whose record is too short");
  std::vector<std::byte> elements(count);
  for (size_t i = 0; i < count; ++i) elements[i] = (bytes->bytes[i / 2] >> (i % 2 * 4)) & std::byte{15};
  TensorView out = TensorView::dense(DType::UInt8, packed.sizes, std::move(elements));
  out.dtype = DType::QUInt8;
  return out;
}

TensorReader::Named TensorReader::named_storage(const PickleValue& id, std::string_view name) {
  if (!id.is(Kind::Persistent) || !id.args().is(Kind::Tuple)) throw malformed(name, "its storage is missing");
  const Arguments parts = id.args().items();
  if (parts.size() < 5 || parts.size() > 6 || !parts[0].is(Kind::String) || parts[0].text() != "storage" ||
      !parts[1].is(Kind::Global) || !parts[2].is(Kind::String) || !parts[4].is(Kind::Int) || parts[4].integer() < 0)
    throw malformed(name, "its storage is not described as one");
  if (!is_plain_key(parts[2].text())) throw malformed(name, "its storage has a key that is not a plain name");
  Named result{std::string(parts[2].text()), std::nullopt, parts[4].integer()};
  if (parts[1].name() == "UntypedStorage") return result;
  result.halves = parts[1].name() == "QUInt4x2Storage";
  result.dtype = result.halves ? DType::QUInt8 : dtype_of_storage(parts[1].name());
  if (!result.dtype)
    throw unsupported(name, fmt::format("of an element type that is not read ({})", parts[1].qualified_name()), {});
  return result;
}

std::shared_ptr<const Storage> TensorReader::storage(const std::string& key, std::string_view name) {
  std::shared_ptr<const Storage>& known = storages_[key];
  if (known) return known;
  const std::string record = fmt::format("{}/{}", folder_, key);
  if (!archive_.has(record)) throw bad_tensor(name, fmt::format("needs the record '{}', which is missing", record));
  archive::Record contents = archive_.read(record, archive::Archive::Check::Later);
  known = std::make_shared<const Storage>(Storage{contents.bytes, std::move(contents.owner)});
  return known;
}

}  // namespace lithify::read
