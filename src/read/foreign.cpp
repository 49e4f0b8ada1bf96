#include "read/foreign.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "archive/pickle.hpp"
#include "read/weights.hpp"

namespace lithify::read {
namespace {

using archive::Archive;
using archive::as_text;
using archive::Pickle;
using archive::PickleValue;
using archive::Record;
using Kind = PickleValue::Kind;

constexpr std::string_view save_hint = "torch.jit.trace(model, example).save(\"model.pt\")";

Error not_a_model(std::string message, std::string hint) {
  return Error(Code::NotAModel, std::move(message), std::move(hint));
}

std::string load_weights_hint() {
  return fmt::format("build the model in Python, load these weights into it, and save it: {}", save_hint);
}
std::string load_model_hint() { return fmt::format("load the model in Python and save it: {}", save_hint); }
std::string download_hint() { return "get the file itself; this one was not downloaded"; }

// ---- what torch.save wrote ----------------------------------------------------------------------------------------

bool is_tensor(const PickleValue& v) {
  return v.is(Kind::Reduce) && v.head().name().starts_with("_rebuild_") && v.head().module().starts_with("torch.");
}

bool is_object(const PickleValue& v) {
  return v.is(Kind::Object) || (v.is(Kind::Reduce) && !is_tensor(v) && !is_dict(v));
}

/// "copyreg._reconstructor" and its like take the class as their first argument.
std::string class_of(const PickleValue& v) {
  if (v.is(Kind::Reduce) && v.args().is(Kind::Tuple) && !v.args().items().empty() &&
      v.args().items()[0].is(Kind::Global))
    return v.args().items()[0].qualified_name();
  return v.head().qualified_name();
}

struct Contents {
  std::vector<std::string> keys;
  size_t tensors = 0;
};

Contents contents_of(const PickleValue& dict) {
  Contents result;
  for (size_t i = 0; i + 1 < dict.items().size(); i += 2) {
    const PickleValue& key = dict.items()[i];
    result.keys.push_back(key.is(Kind::String) ? std::string(key.text()) : "?");
    result.tensors += is_tensor(dict.items()[i + 1]);
  }
  return result;
}

std::string first_keys(const std::vector<std::string>& keys) {
  constexpr size_t shown = 4, longest = 80;
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(keys.size(), shown); ++i) names.push_back(keys[i].substr(0, longest));
  return fmt::format("{}{}", fmt::join(names, ", "), keys.size() > shown ? ", ..." : "");
}

std::string checkpoint_hint(std::string_view key) {
  return fmt::format(
      "build the model in Python, load the weights with model.load_state_dict(torch.load(path)[\"{}\"]), and save it: "
      "{}",
      key, save_hint);
}

Error pickled_module(const std::string& what, const std::string& class_name) {
  return not_a_model(
      fmt::format("{} the pickled Python object {}, and needs its Python class to run", what, class_name),
      load_model_hint());
}

Error describe_dict(const PickleValue& root) {
  const Contents top = contents_of(root);
  if (top.keys.empty()) return not_a_model("the file holds an empty dictionary", load_model_hint());
  if (top.tensors > 0 && 2 * top.tensors >= top.keys.size())
    return not_a_model(
        fmt::format("the file holds only weights (a state dict of {} tensors: {})", top.tensors, first_keys(top.keys)),
        load_weights_hint());
  for (size_t i = 0; i < top.keys.size(); ++i) {
    const PickleValue& value = root.items()[2 * i + 1];
    if (is_dict(value) && contents_of(value).tensors > 0)
      return not_a_model(fmt::format("the file is a checkpoint ({}); its weights are under the key '{}'",
                                     first_keys(top.keys), top.keys[i]),
                         checkpoint_hint(top.keys[i]));
  }
  for (size_t i = 0; i < top.keys.size(); ++i)
    if (const PickleValue& value = root.items()[2 * i + 1];
        is_object(value) && top.keys[i].find("model") != top.keys[i].npos)
      return pickled_module(fmt::format("the file is a checkpoint whose key '{}' holds", top.keys[i]), class_of(value));
  return not_a_model(fmt::format("the file holds a dictionary without weights ({})", first_keys(top.keys)),
                     load_model_hint());
}

Error describe_saved_value(const PickleValue& root) {
  if (is_dict(root)) return describe_dict(root);
  if (is_tensor(root)) return not_a_model("the file holds a single tensor, not a model", load_model_hint());
  if (is_object(root)) return pickled_module("the file holds", class_of(root));
  return not_a_model("the file holds a Python value that is not a model", load_model_hint());
}

/// A pickle that is not built (another protocol, or values that contain themselves) is named by its classes.
Error describe_globals(std::span<const std::byte> bytes) {
  const std::vector<std::string> names = archive::pickled_globals(bytes);
  const auto is_library = [](std::string_view name) {
    return name.starts_with("torch._utils.") || name.starts_with("collections.") ||
           name.starts_with("torch.storage.") || name.starts_with("builtins.") || name.starts_with("__builtin__.") ||
           name.starts_with("_codecs.") || name.starts_with("copyreg.") || name.starts_with("copy_reg.") ||
           (name.starts_with("torch.") && name.ends_with("Storage"));
  };
  const auto own = std::ranges::find_if_not(names, is_library);
  if (own != names.end()) return pickled_module("the file holds", *own);
  if (std::ranges::any_of(names, [](std::string_view n) { return n.starts_with("torch."); }))
    return not_a_model("the file holds only weights", load_weights_hint());
  return not_a_model("the file is a Python pickle, not a model", load_model_hint());
}

Error describe_pickle(const Record& record) {
  try {
    return describe_saved_value(Pickle(record).root());
  } catch (const Error&) {
    return describe_globals(record.bytes);
  }
}

constexpr std::string_view legacy_magic("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e", 15);

/// Three pickles go before the object: magic number, protocol, and a description of the machine.
Error describe_legacy_stream(std::span<const std::byte> bytes) {
  Record rest{bytes, nullptr};
  try {
    for (int i = 0; i < 3; ++i) rest.bytes = rest.bytes.subspan(Pickle(rest).size());
  } catch (const Error&) {
    return not_a_model("the file was saved by torch.save before PyTorch 1.6, and is damaged", load_model_hint());
  }
  Diagnostic d = describe_pickle(rest).first();
  d.message += " (saved by torch.save in the format before PyTorch 1.6)";
  return Error(std::move(d));
}

// ---- other files ----------------------------------------------------------------------------------------------------

struct Magic {
  size_t offset;
  std::string_view bytes;
  std::string_view message;
  std::string (*hint)();
};

std::string resave_zip_hint() {
  return "load the model in Python and save it in the zip format: torch.jit.save(torch.jit.load(path), \"model.pt\")";
}
std::string original_model_hint() { return fmt::format("start from the PyTorch model: {}", save_hint); }
std::string unpack_hint() { return "unpack it and give the model file inside"; }
std::string no_hint() { return {}; }

constexpr Magic magics[] = {
    {4, "PTMF", "the file is a TorchScript model for mobile in the flatbuffer format", resave_zip_hint},
    {257, "ustar", "the file is a tar archive: torch.save of PyTorch 0.1, or a packed model", load_model_hint},
    {0, "PYTORCH1", "the file was written by the preview release of PyTorch 1.0", load_model_hint},
    {0, "GGUF", "the file is a GGUF model (llama.cpp)", original_model_hint},
    {0, "\x89HDF", "the file is HDF5 (Keras)", no_hint},
    {4, "ET12", "the file is an ExecuTorch program: compiled, without the PyTorch graph", original_model_hint},
    {4, "PTE", "the file is an ExecuTorch program: compiled, without the PyTorch graph", original_model_hint},
    {4, "TFL3", "the file is a TensorFlow Lite model", no_hint},
    {0, "version https://git-lfs", "the file is a git-lfs pointer, not the model itself",
     [] { return std::string("run git lfs pull"); }},
    {0, "\x1f\x8b", "the file is compressed by gzip", unpack_hint},
    {0, "\x28\xb5\x2f\xfd", "the file is compressed by zstd", unpack_hint},
    {0,
     "\xfd"
     "7zXZ",
     "the file is compressed by xz", unpack_hint},
    {0, "BZh", "the file is compressed by bzip2", unpack_hint},
    {0, "7z\xbc\xaf", "the file is a 7z archive", unpack_hint},
    {0, "Rar!", "the file is a RAR archive", unpack_hint},
    {0, "PK\x05\x06", "the file is an empty zip archive", no_hint},
    {0, "\x93NUMPY", "the file is a NumPy array, not a model", load_model_hint},
    {0,
     "\x7f"
     "ELF",
     "the file is a compiled library or program, not a model", original_model_hint},
};

bool is_safetensors(std::span<const std::byte> bytes) {
  if (bytes.size() < 10) return false;
  const auto header = archive::load_le<uint64_t>(bytes, 0);
  return header >= 2 && header <= bytes.size() - 8 && as_text(bytes)[8] == '{';
}

/// A ModelProto begins with its IR version and goes on with a producer, a graph, or another field of its own.
bool is_onnx(std::string_view text) {
  if (text.size() < 8 || text[0] != 0x08 || text[1] < 1 || text[1] > 30) return false;
  return text[2] == 0x12 || text[2] == 0x1a || text[2] == 0x22 || text[2] == 0x3a || text[2] == 0x42;
}

bool is_html(std::string_view text) {
  std::string head(text.substr(0, 256));
  std::ranges::transform(head, head.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  const size_t begin = head.find_first_not_of(" \t\r\n");
  return begin != head.npos && (head.compare(begin, 9, "<!doctype") == 0 || head.compare(begin, 5, "<html") == 0);
}

bool is_pickle(std::string_view text) { return text.size() >= 2 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5; }

}  // namespace

Error describe_foreign_file(std::span<const std::byte> bytes) {
  const std::string_view text = as_text(bytes);
  if (text.starts_with(legacy_magic)) return describe_legacy_stream(bytes);
  if (is_pickle(text)) return describe_pickle({bytes, nullptr});
  for (const Magic& magic : magics)
    if (text.size() >= magic.offset && text.substr(magic.offset).starts_with(magic.bytes))
      return not_a_model(std::string(magic.message), magic.hint());
  if (is_safetensors(bytes)) return not_a_model("the file holds only weights (safetensors)", load_weights_hint());
  if (is_html(text)) return not_a_model("the file is a web page, perhaps of a failed download", download_hint());
  if (is_onnx(text)) return not_a_model("the file is an ONNX model already", {});
  if (text.front() == '{') {
    if (text.substr(0, 1 << 20).find("\"weight_map\"") != text.npos)
      return not_a_model("the file is the index of weights that are split over several files", load_weights_hint());
    return not_a_model("the file is JSON, not a model", load_model_hint());
  }
  return not_a_model("the file is not of a kind that is known", load_model_hint());
}

Error describe_foreign_archive(const Archive& archive) {
  if (archive.has("constants.pkl"))
    return not_a_model("the file holds a TorchScript model for mobile without its code",
                       "save it again with torch.jit.save from the PyTorch model");
  if (archive.has("model.json") && !archive.entries_under("code/").empty())
    return not_a_model(
        "the file was saved by torch.jit of a PyTorch older than 1.4",
        "load it with PyTorch 1.4 to 1.13 and save it again: torch.jit.save(torch.jit.load(path), \"model.pt\")");
  if (archive.has(".data/extern_modules") || !archive.entries_under(".data/ts_code/").empty())
    return not_a_model("the file is a torch.package, which needs Python to run", load_model_hint());
  if (archive.has("MAR-INF/MANIFEST.json") || (archive.top() == "MAR-INF" && archive.has("MANIFEST.json")))
    return not_a_model("the file is a TorchServe archive (.mar)", unpack_hint());
  if (!archive.entries_under("data/aotinductor/").empty())
    return not_a_model("the file is an AOTInductor package: compiled, without the PyTorch graph",
                       original_model_hint());
  if (archive.has("data.pkl")) return describe_pickle(archive.read("data.pkl"));
  std::vector<std::string> names;
  bool holds_files = false;
  for (const Archive::Entry& e : archive.entries()) {
    names.push_back(e.name);
    for (std::string_view ending : {".pt", ".pth", ".pt2", ".ts", ".torchscript"})
      holds_files |= e.name.ends_with(ending);
  }
  return not_a_model(fmt::format("the file is a zip archive that does not contain a model ({})", first_keys(names)),
                     holds_files ? unpack_hint() : load_model_hint());
}

}  // namespace lithify::read
