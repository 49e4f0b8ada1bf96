#include "read/weights.hpp"

#include <algorithm>

#include "base/checked.hpp"
#include "base/diagnostic.hpp"
#include "base/json.hpp"
#include "read/pickled_tensor.hpp"

namespace lithify::read {
namespace {

using archive::PickleValue;

constexpr size_t most_tensors = 1'000'000;

/// Collects the tensors of dictionaries inside each other. A node is visited once: it may be shared many times over.
class TensorLister {
 public:
  explicit TensorLister(const archive::Archive& archive) : reader_(archive, "data/", TensorReader::Contents::Ignored) {}

  void add_dict(const PickleValue& dict, const std::string& prefix) {
    if (std::ranges::find(open_, dict.node()) != open_.end() || open_.size() > 8) return;
    open_.push_back(dict.node());
    for (size_t i = 0; i + 1 < dict.items().size() && found.size() < most_tensors; i += 2) {
      const PickleValue &key = dict.items()[i], &value = dict.items()[i + 1];
      if (!key.is(PickleValue::Kind::String)) continue;
      const std::string name = prefix + std::string(key.text());
      if (TensorReader::is_tensor(value) && !TensorReader::is_quantized(value))
        add_tensor(value, name);
      else if (is_dict(value))
        add_dict(value, name + ".");
    }
    open_.pop_back();
  }

  std::vector<WeightFile::Tensor> found;

 private:
  void add_tensor(const PickleValue& value, const std::string& name) {
    const std::shared_ptr<const TensorView> tensor = reader_.read(value, name);
    found.push_back({name, std::string(name_of(tensor->dtype)), tensor->sizes, tensor->nbytes()});
  }

  TensorReader reader_;
  std::vector<const archive::PickleNode*> open_;
};

std::optional<WeightFile> read_state_dict(const archive::Archive& archive) {
  if (!archive.has("data.pkl")) return std::nullopt;
  const archive::Pickle pickle(archive.read("data.pkl"));
  if (!is_dict(pickle.root())) return std::nullopt;
  TensorLister lister(archive);
  lister.add_dict(pickle.root(), "");
  return WeightFile{"state dict", std::move(lister.found)};
}

/// "F32" as the name that PyTorch has for it.
std::string dtype_of_safetensors(std::string_view name) {
  constexpr std::pair<std::string_view, DType> table[] = {
      {"F64", DType::Double},         {"F32", DType::Float},        {"F16", DType::Half},
      {"BF16", DType::BFloat16},      {"I64", DType::Int64},        {"I32", DType::Int32},
      {"I16", DType::Int16},          {"I8", DType::Int8},          {"U64", DType::UInt64},
      {"U32", DType::UInt32},         {"U16", DType::UInt16},       {"U8", DType::UInt8},
      {"BOOL", DType::Bool},          {"C64", DType::ComplexFloat}, {"F8_E4M3", DType::Float8E4M3FN},
      {"F8_E5M2", DType::Float8E5M2},
  };
  for (const auto& [short_name, dtype] : table)
    if (short_name == name) return std::string(name_of(dtype));
  return std::string(name);
}

/// The length of a JSON text, the text, and then the contents.
std::optional<WeightFile> read_safetensors(std::span<const std::byte> bytes) {
  if (bytes.size() < 10) return std::nullopt;
  const auto length = archive::load_le<uint64_t>(bytes, 0);
  if (length < 2 || length > bytes.size() - 8 || archive::as_text(bytes)[8] != '{') return std::nullopt;
  const JsonDocument header(archive::as_text(bytes).substr(8, length), "header", "the safetensors file");
  WeightFile out{"safetensors", {}};
  for (const auto& [name, entry] : header.root().members()) {
    if (name == "__metadata__") continue;
    WeightFile::Tensor& tensor = out.tensors.emplace_back();
    tensor.name = name;
    tensor.dtype = dtype_of_safetensors(entry["dtype"].text());
    for (const Json& size : entry["shape"].items()) tensor.sizes.push_back(size.integer());
    const std::vector<Json> offsets = entry["data_offsets"].items();
    if (offsets.size() != 2 || offsets[0].integer() < 0 || offsets[1].integer() < offsets[0].integer())
      entry.fail("has offsets that are not a range");
    tensor.bytes = static_cast<uint64_t>(offsets[1].integer() - offsets[0].integer());
  }
  std::ranges::stable_sort(out.tensors, {}, &WeightFile::Tensor::name);
  return out;
}

}  // namespace

bool is_dict(const PickleValue& value) {
  return value.is(PickleValue::Kind::Dict) || value.calls("collections", "OrderedDict");
}

std::optional<WeightFile> read_weights(const archive::Record& contents) try {
  const bool is_zip = archive::as_text(contents.bytes).starts_with("PK\x03\x04");
  std::optional<WeightFile> found =
      is_zip ? read_state_dict(archive::Archive(contents)) : read_safetensors(contents.bytes);
  return found && !found->tensors.empty() ? found : std::nullopt;
} catch (const Error&) {
  return std::nullopt;
}

}  // namespace lithify::read
