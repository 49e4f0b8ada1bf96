#include "read/exported/archive.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/diagnostic.hpp"

namespace lithify::read {
namespace {

using archive::Archive;
using archive::PickleValue;
using Kind = PickleValue::Kind;

Error not_plain(std::string_view name) {
  return Error(
      Code::UnsupportedType,
      fmt::format("'{}' in the exported program is not a plain tensor, but an object or a tensor subclass", name),
      "replace it by a plain tensor (for quantized weights: dequantize them) before torch.export");
}

/// The one value of a torch.save file; a tensor subclass mostly.
std::shared_ptr<const TensorView> saved_tensor(const archive::Record& file, std::string_view name) {
  if (!file.text().starts_with("PK")) throw not_plain(name);
  const Archive archive(file);
  if (!archive.has("data.pkl") || archive.has("constants.pkl")) throw not_plain(name);
  const archive::Pickle pickle(archive.read("data.pkl"));
  if (!TensorReader::is_tensor(pickle.root())) throw not_plain(name);
  return TensorReader(archive, "data").read(pickle.root(), name);
}

/// No entries: an empty file, or a model without constants.
class EmptyTable : public TensorTable {
 public:
  std::shared_ptr<const TensorView> find(std::string_view) override { return nullptr; }
};

/// The dictionary that torch.save wrote, a zip inside the archive.
class SavedTable : public TensorTable {
 public:
  explicit SavedTable(archive::Record file) : SavedTable(Archive(std::move(file))) {}

  std::shared_ptr<const TensorView> find(std::string_view name) override {
    const auto found = entries_.find(name);
    if (found == entries_.end()) return nullptr;
    if (!TensorReader::is_tensor(*found->second)) throw not_plain(name);
    return tensors_.read(*found->second, name);
  }

 private:
  explicit SavedTable(const Archive& archive) : pickle_(archive.read("data.pkl")), tensors_(archive, "data") {
    const PickleValue& root = pickle_.root();
    const bool ordered = root.calls("collections", "OrderedDict");
    if (!root.is(Kind::Dict) && !ordered)
      throw Error(Code::BadPickle, "the weights in the exported program are not a dictionary");
    for (size_t i = 0; i + 1 < root.items().size(); i += 2)
      if (root.items()[i].is(Kind::String)) entries_.try_emplace(root.items()[i].text(), &root.items()[i + 1]);
  }

  archive::Pickle pickle_;
  TensorReader tensors_;
  std::unordered_map<std::string_view, const PickleValue*> entries_;
};

/// Raw storages, and a JSON text that describes their views.
class RawTable : public TensorTable {
 public:
  RawTable(const Archive& archive, std::string folder, const std::string& config, const LiveTensors& live)
      : archive_(archive),
        live_(live),
        folder_(std::move(folder)),
        text_(archive.read(config)),
        config_(text_.text(), config) {
    for (const auto& [name, entry] : config_.root()["config"].members()) entries_.try_emplace(name, entry);
  }

  std::shared_ptr<const TensorView> find(std::string_view name) override {
    const auto found = entries_.find(name);
    return found == entries_.end() ? nullptr : read(found->second, name);
  }

 private:
  std::shared_ptr<const TensorView> read(const Json& entry, std::string_view name) {
    const std::string record = fmt::format("{}{}", folder_, entry["path_name"].text());
    if (!archive_.has(record))
      throw Error(Code::BadTensor,
                  fmt::format("the tensor '{}' needs the record '{}', which is missing", name, record));
    const std::optional<Json> meta = entry.find("tensor_meta");
    if (entry["use_pickle"].boolean() || !meta) return saved_tensor(archive_.read(record), name);

    TensorView view;
    view.dtype = dtype_of_export((*meta)["dtype"].integer());
    if (byte_size(view.dtype) == 0)
      throw Error(Code::UnsupportedType, fmt::format("the tensor '{}' is of an element type that is not read", name));
    if ((*meta)["layout"].integer() != strided)
      throw Error(Code::UnsupportedType, fmt::format("the tensor '{}' is sparse", name),
                  "call .to_dense() on it before torch.export");
    view.sizes = integers((*meta)["sizes"]);
    view.strides = integers((*meta)["strides"]);
    view.offset = natural((*meta)["storage_offset"]);
    if (view.sizes.size() != view.strides.size()) (*meta)["strides"].fail("has another length than the sizes");
    view.storage = storage(record);
    const size_t bytes = view.storage->bytes.size();
    if (bytes == 0 && std::ranges::find(view.sizes, 0) == view.sizes.end()) {
      if (const auto found = live_.find(std::string(name)); found != live_.end())
        return std::make_shared<const TensorView>(live_tensor(found->second, view, name));
      throw Error(Code::BadTensor, fmt::format("the contents of the tensor '{}' are not in the file", name),
                  "the model was exported without weights (with fake tensors); load them before torch.export");
    }
    check_extent(view, static_cast<int64_t>(bytes / byte_size(view.dtype)), name);
    if (view.numel() == 0) view.offset = 0;
    return std::make_shared<const TensorView>(std::move(view));
  }

  std::shared_ptr<const Storage> storage(const std::string& record) {
    std::shared_ptr<const Storage>& known = storages_[record];
    if (!known) {
      archive::Record contents = archive_.read(record, Archive::Check::Later);
      known = std::make_shared<const Storage>(Storage{contents.bytes, std::move(contents.owner)});
    }
    return known;
  }

  static int64_t natural(const Json& size) {
    const Json number = size.is_integer() ? size : size["as_int"];
    if (number.integer() < 0) number.fail("is negative");
    return number.integer();
  }
  static std::vector<int64_t> integers(const Json& sizes) {
    std::vector<int64_t> out;
    for (const Json& size : sizes.items()) out.push_back(natural(size));
    return out;
  }

  static constexpr int64_t strided = 7;

  Archive archive_;
  const LiveTensors& live_;
  std::string folder_;
  archive::Record text_;
  JsonDocument config_;
  std::unordered_map<std::string_view, Json> entries_;
  std::unordered_map<std::string, std::shared_ptr<const Storage>> storages_;
};

/// A table in the first of these records that there is.
std::unique_ptr<TensorTable> saved_table(const Archive& archive, std::initializer_list<std::string> records) {
  for (const std::string& record : records) {
    const Archive::Entry* entry = archive.find(record);
    if (entry && entry->size > 0) return std::make_unique<SavedTable>(archive.read(record, Archive::Check::Later));
  }
  return std::make_unique<EmptyTable>();
}

std::unique_ptr<TensorTable> table(const Archive& archive, const std::string& kind, const std::string& model,
                                   const LiveTensors& live) {
  const std::string folder = fmt::format("data/{}/", kind);
  const std::string config = fmt::format("{}{}_{}_config.json", folder, model, kind);
  if (archive.has(config)) return std::make_unique<RawTable>(archive, folder, config, live);
  return saved_table(archive, {folder + model + ".pt"});
}

std::string only_model(const Archive& archive) {
  constexpr std::string_view prefix = "models/", suffix = ".json";
  std::vector<std::string> names;
  for (const Archive::Entry& e : archive.entries_under(prefix))
    if (e.name.ends_with(suffix))
      names.push_back(e.name.substr(prefix.size(), e.name.size() - prefix.size() - suffix.size()));
  if (names.size() != 1)
    throw Error(Code::NotAModel,
                fmt::format("the archive holds {} models, and one is exported at a time", names.size()),
                "save the model alone, with torch.export.save");
  return names[0];
}

}  // namespace

DType dtype_of_export(int64_t number) {
  constexpr DType table[] = {DType::Undefined, DType::UInt8,       DType::Int8,         DType::Int16,
                             DType::Int32,     DType::Int64,       DType::Half,         DType::Float,
                             DType::Double,    DType::ComplexHalf, DType::ComplexFloat, DType::ComplexDouble,
                             DType::Bool,      DType::BFloat16};
  constexpr std::pair<int64_t, DType> later[] = {
      {28, DType::UInt16},         {29, DType::Float8E4M3FN},  {30, DType::Float8E5M2}, {31, DType::Float8E4M3FNUZ},
      {32, DType::Float8E5M2FNUZ}, {33, DType::Float8E8M0FNU}, {34, DType::UInt32},     {35, DType::UInt64}};
  if (number >= 0 && static_cast<size_t>(number) < std::size(table)) return table[number];
  for (const auto& [value, dtype] : later)
    if (value == number) return dtype;
  return DType::Undefined;
}

std::shared_ptr<const TensorView> decode_tensor(std::string_view base64, std::string_view name) {
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  auto bytes = std::make_shared<std::vector<std::byte>>();
  bytes->reserve(base64.size() / 4 * 3);
  uint32_t bits = 0;
  int count = 0;
  for (const char c : base64.substr(0, base64.find('='))) {
    const size_t digit = letters.find(c);
    if (digit == std::string_view::npos)
      throw Error(Code::BadCode, fmt::format("the constant '{}' is not in base64", name));
    bits = (bits << 6 | static_cast<uint32_t>(digit)) & 0xffffff;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes->push_back(static_cast<std::byte>(bits >> count & 0xff));
  }
  return saved_tensor({*bytes, bytes}, name);
}

ExportedArchive open_exported(const Archive& archive, const LiveTensors& live) {
  ExportedArchive out;
  out.program_name = "serialized_exported_program.json";
  if (archive.has(out.program_name)) {
    out.weights = saved_table(archive, {"serialized_state_dict.pt", "serialized_state_dict.json"});
    out.constants = saved_table(archive, {"serialized_constants.pt", "serialized_constants.json"});
  } else {
    const std::string model = only_model(archive);
    out.program_name = fmt::format("models/{}.json", model);
    out.weights = table(archive, "weights", model, live);
    out.constants = table(archive, "constants", model, live);
  }
  out.program = archive.read(out.program_name);
  return out;
}

}  // namespace lithify::read
