#include <doctest/doctest.h>

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "model_bytes.hpp"
#include "read/open.hpp"
#include "read/torchscript/reader.hpp"

using namespace lithify;
using namespace lithify::test;
using namespace std::string_literals;
using program::Data;

namespace {

/// The records of a TorchScript file with one module; tests replace what they are about.
struct Model {
  std::map<std::string, std::string> records;

  explicit Model(const std::string& attributes = "") {
    records["version"] = "3\n";
    records["byteorder"] = "little";
    records["constants.pkl"] = "\x80\x02).";
    records["data/0"] = std::string(24, '\0');
    records["code/__torch__.py"] =
        "class Net(Module):\n"
        "  __parameters__ = []\n"
        "  __buffers__ = []\n"
        "  w : Tensor\n"
        "  def forward(self: __torch__.Net,\n"
        "    x: Tensor) -> Tensor:\n"
        "    return torch.relu(x)\n"
        "class Kept(Module):\n"
        "  __parameters__ = []\n"
        "  __buffers__ = []\n"
        "  def __setstate__(self: __torch__.Kept,\n"
        "    state: int) -> NoneType:\n"
        "    return None\n"
        "class Color(Enum):\n"
        "  RED = 1\n";
    records["data.pkl"] = pickle::whole(pickle::object("__torch__", "Net", pickle::dict(attributes)));
  }

  std::string bytes() const {
    std::vector<ZipEntry> entries;
    for (const auto& [name, data] : records)
      entries.push_back({.name = "net/" + name, .data = data, .deflate = name.starts_with("code/")});
    return zip_of(entries);
  }

  std::unique_ptr<program::Program> read() const {
    return read::read_torchscript(archive::Archive(record_of(bytes())));
  }
};

std::string attribute(std::string_view name, std::string_view value) { return pickle::text(name) + std::string(value); }

/// Floats in the record data/0, which has six of them.
std::string floats(int64_t offset, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                   int64_t numel = 6, std::string_view key = "0") {
  return attribute("w", pickle::tensor(pickle::storage("FloatStorage", key, numel), offset, sizes, strides));
}

std::optional<Code> code_of_reading(const Model& model) {
  return code_of([&] { model.read(); });
}
std::optional<Code> code_of_attribute(std::string_view value) { return code_of_reading(Model(attribute("a", value))); }

/// A file with these bytes, gone at the end of the test.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string_view bytes)
      : path_((std::filesystem::temp_directory_path() / ("lithify_open_test_" + std::to_string(::getpid()))).string()) {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Diagnostic diagnostic_of_opening(std::string_view bytes) {
  const TemporaryFile file(bytes);
  try {
    read::open_model(file.path());
  } catch (const Error& e) {
    return e.first();
  }
  return {};
}

/// The message about a file that is not a model.
std::string message_about(std::string_view bytes) {
  const Diagnostic d = diagnostic_of_opening(bytes);
  CHECK(d.code == Code::NotAModel);
  return d.message;
}

bool mentions(const std::string& message, std::string_view words) {
  INFO(message);
  const bool found = message.find(words) != std::string::npos;
  CHECK(found);
  return found;
}

std::string saved(std::string_view value) {
  return zip_of(
      {{.name = "archive/data.pkl", .data = pickle::whole(value)}, {.name = "archive/version", .data = "3\n"}});
}

std::string any_tensor() { return pickle::tensor(pickle::storage("FloatStorage", "0", 1), 0, {1}, {1}); }

}  // namespace

TEST_CASE("a TorchScript file is read from its path") {
  const TemporaryFile file(Model(floats(0, {2, 3}, {3, 1})).bytes());
  const read::Opened opened = read::open_model(file.path());
  CHECK(opened.kind == read::Opened::Kind::TorchScript);
  CHECK(opened.program->file_version == 3);
  CHECK(opened.program->root->class_name == "__torch__.Net");
  CHECK(opened.program->forward().name == "forward");
}

TEST_CASE("weights are views of the file") {
  Model model(floats(1, {2, 2}, {1, 3}));
  const float values[6] = {0, 1, 2, 3, 4, 5};
  std::memcpy(model.records["data/0"].data(), values, sizeof values);
  const auto program = model.read();
  const TensorView& w = *program->root->attribute("w")->tensor;
  CHECK(w.dtype == DType::Float);
  CHECK(w.sizes == std::vector<int64_t>{2, 2});
  float element;
  std::memcpy(&element, w.element(3), sizeof element);
  CHECK(element == 4);
}

TEST_CASE("contents that the file has not come from live tensors of the same name") {
  Model model(floats(0, {2, 3}, {3, 1}));
  model.records["data/0"].clear();
  CHECK(code_of_reading(model) == Code::BadTensor);
  const float values[6] = {0, 1, 2, 3, 4, 5};
  const TensorView live{
      DType::Float, {2, 3}, {1, 2}, 0, std::make_shared<Storage>(Storage{std::as_bytes(std::span(values)), nullptr})};
  const auto read_with = [&](const read::LiveTensors& tensors) {
    return read::open_model(record_of(model.bytes()), tensors).program;
  };
  const auto program = read_with({{"w", live}});
  const TensorView& w = *program->root->attribute("w")->tensor;
  CHECK(w.strides == live.strides);
  CHECK(static_cast<const void*>(w.element(0)) == values);
  CHECK(code_of([&] { read_with({{"v", live}}); }) == Code::BadTensor);
  TensorView other = live;
  other.dtype = DType::Int32;
  CHECK(code_of([&] { read_with({{"w", other}}); }) == Code::BadTensor);
}

TEST_CASE("what is one value in the file is one value in the program") {
  const std::string tensor = pickle::tensor("j" + le(7, 4), 0, {1}, {1});
  const std::string storage = pickle::storage("FloatStorage", "0", 6) + "r" + le(7, 4);
  const auto program =
      Model(attribute("a", pickle::tensor(storage, 0, {6}, {1})) + attribute("b", tensor + "r" + le(8, 4)) +
            attribute("c", "j" + le(8, 4)) + attribute("l", "]r" + le(9, 4)) + attribute("m", "j" + le(9, 4)))
          .read();
  const program::Object& root = *program->root;
  CHECK(root.attribute("a")->tensor->storage == root.attribute("b")->tensor->storage);
  CHECK(root.attribute("a")->tensor != root.attribute("b")->tensor);
  CHECK(root.attribute("b")->tensor == root.attribute("c")->tensor);
  CHECK(root.attribute("l")->container == root.attribute("m")->container);
}

TEST_CASE("attributes of every kind") {
  const auto program =
      Model(attribute("list", pickle::call(pickle::global("torch.jit._pickle", "build_intlist"),
                                           pickle::list(pickle::integer(1) + pickle::integer(2)))) +
            attribute("dict", pickle::call(pickle::global("torch.jit._pickle", "restore_type_tag"),
                                           pickle::dict("") + pickle::text("Dict[str, int]"))) +
            attribute("device", pickle::call(pickle::global("torch", "device"), pickle::text("cuda:0"))) +
            attribute("complex", pickle::call(pickle::global("builtins", "complex"),
                                              "G\x3f\xf0\0\0\0\0\0\0G\xbf\xf0\0\0\0\0\0\0"s)) +
            attribute("color", pickle::global("__torch__", "Color") + pickle::integer(1) + "R") +
            attribute("kept", pickle::object("__torch__", "Kept", pickle::integer(5))) + attribute("none", "N"))
          .read();
  const program::Object& root = *program->root;
  CHECK(root.attribute("list")->container->items.size() == 2);
  CHECK(root.attribute("list")->container->type->str() == "List[int]");
  CHECK(root.attribute("dict")->container->type->str() == "Dict[str, int]");
  CHECK(root.attribute("device")->text == "cuda:0");
  CHECK(root.attribute("complex")->imag == -1);
  CHECK(root.attribute("color")->kind == Data::Kind::Enum);
  CHECK(root.attribute("color")->container->items[0].integer == 1);
  CHECK(root.attribute("kept")->object->state->integer == 5);
  CHECK(root.attribute("kept")->object->attributes.empty());
  CHECK(root.attribute("none")->kind == Data::Kind::None);
}

TEST_CASE("constants and sample inputs") {
  Model model;
  model.records["constants.pkl"] = pickle::whole(
      pickle::tuple(pickle::tensor(pickle::storage("LongStorage", "0", 1), 0, {}, {}) + pickle::text("s")));
  model.records["constants/0"] = le(7, 8);
  model.records["traced_inputs/0"] = "";
  model.records["traced_inputs.pkl"] = pickle::whole(pickle::dict(attribute(
      "forward", pickle::list(pickle::tensor(pickle::storage("FloatStorage", "0", 6), 0, {2, 3}, {3, 1}) + "\x88"))));
  const auto program = model.read();
  REQUIRE(program->constants.size() == 2);
  CHECK(program->constants[0].tensor->dtype == DType::Int64);
  CHECK(program->constants[1].text == "s");
  REQUIRE(program->samples);
  REQUIRE(program->samples->size() == 2);
  const TensorView& x = *(*program->samples)[0].value.tensor;
  CHECK(x.sizes == std::vector<int64_t>{2, 3});
  CHECK_FALSE(x.storage);
}

TEST_CASE("tensors that are conjugated or negated lazily are resolved") {
  const auto flagged = [](std::string_view type, int64_t numel, std::string_view flag) {
    std::string tensor = pickle::tensor(pickle::storage(type, "0", numel), 0, {numel}, {1});
    tensor.resize(tensor.size() - 2);
    return attribute("w", tensor + pickle::dict(pickle::text(flag) + "\x88") + "tR");
  };
  const float values[6] = {1, 2, 3, 4, 5, 6};
  const auto read = [&](const std::string& attributes) {
    Model model(attributes);
    std::memcpy(model.records["data/0"].data(), values, sizeof values);
    const std::vector<std::byte> bytes = model.read()->root->attribute("w")->tensor->dense_bytes();
    std::vector<float> result(bytes.size() / sizeof(float));
    std::memcpy(result.data(), bytes.data(), bytes.size());
    return result;
  };
  CHECK(read(flagged("ComplexFloatStorage", 3, "conj")) == std::vector<float>{1, -2, 3, -4, 5, -6});
  CHECK(read(flagged("FloatStorage", 6, "neg")) == std::vector<float>{-1, -2, -3, -4, -5, -6});
  CHECK(code_of_reading(Model(flagged("LongStorage", 3, "neg"))) == Code::BadPickle);
}

TEST_CASE("tensors that reach outside their storage are refused") {
  constexpr int64_t huge = int64_t{1} << 62;
  CHECK(code_of_reading(Model(floats(0, {6}, {1}))) == std::nullopt);
  CHECK(code_of_reading(Model(floats(6, {0}, {1}))) == std::nullopt);
  CHECK(code_of_reading(Model(floats(huge, {0, 5}, {huge, huge}))) == std::nullopt);
  CHECK(code_of_reading(Model(floats(1, {6}, {1}))) == Code::BadTensor);
  CHECK(code_of_reading(Model(floats(6, {}, {}))) == Code::BadTensor);
  CHECK(code_of_reading(Model(floats(0, {2, 2}, {5, 2}))) == Code::BadTensor);
  CHECK(code_of_reading(Model(floats(0, {3}, {huge}))) == Code::BadTensor);
  CHECK(code_of_reading(Model(floats(INT64_MAX, {2}, {1}))) == Code::BadTensor);
  CHECK(code_of_reading(Model(floats(0, {huge, huge}, {0, 0}))) == Code::BadTensor);
  CHECK(code_of_reading(Model(floats(0, {0, huge, huge}, {0, 0, 0}))) == Code::BadTensor);
  CHECK(code_of_reading(Model(floats(-1, {1}, {1}))) == Code::BadPickle);
  CHECK(code_of_reading(Model(floats(0, {-1}, {1}))) == Code::BadPickle);
  CHECK(code_of_reading(Model(floats(0, {1}, {-1}))) == Code::BadPickle);
  CHECK(code_of_reading(Model(floats(0, {1, 1}, {1}))) == Code::BadPickle);
}

TEST_CASE("an expanded tensor may be large, but not without bound") {
  CHECK(code_of_reading(Model(floats(0, {1000, 1000}, {0, 0}))) == std::nullopt);
  CHECK(code_of_reading(Model(floats(0, {int64_t{1} << 60}, {0}))) == Code::LimitExceeded);
}

TEST_CASE("storages that are missing, short or misnamed are refused") {
  CHECK(code_of_reading(Model(floats(0, {7}, {1}, 7))) == Code::BadTensor);
  CHECK(code_of_reading(Model(floats(0, {1}, {1}, INT64_MAX))) == Code::BadTensor);
  CHECK(code_of_reading(Model(floats(0, {1}, {1}, 6, "1"))) == Code::BadTensor);
  for (const char* key : {"../constants.pkl", "a/b", "", "..", "0\n"})
    CHECK(code_of_reading(Model(floats(0, {1}, {1}, 6, key))) == Code::BadPickle);
  Model meta(floats(0, {6}, {1}));
  meta.records["data/0"] = "";
  CHECK(code_of_reading(meta) == Code::BadTensor);
  Model unused;
  unused.records["data/0"] = "";
  CHECK(code_of_reading(unused) == std::nullopt);
}

TEST_CASE("what a TorchScript file never holds is refused") {
  CHECK(code_of_attribute(pickle::call(pickle::global("os", "system"), pickle::text("id"))) == Code::BadPickle);
  CHECK(code_of_attribute(pickle::call(pickle::global("builtins", "eval"), pickle::text("1"))) == Code::BadPickle);
  CHECK(code_of_attribute(pickle::object("os", "system", pickle::dict(""))) == Code::BadPickle);
  CHECK(code_of_attribute(pickle::object("__torch__", "Missing", pickle::dict(""))) == Code::BadProgram);
  CHECK(code_of_attribute(pickle::object("__torch__", "Net", pickle::list(""))) == Code::BadPickle);
  CHECK(code_of_attribute(pickle::global("__torch__", "Net") + pickle::integer(1) + "R") == Code::BadProgram);
  CHECK(code_of_attribute(pickle::global("os", "system")) == Code::BadPickle);
  CHECK(code_of_attribute(pickle::storage("FloatStorage", "0", 1)) == Code::BadPickle);
  CHECK(code_of_attribute("N" + attribute("a", "N")) == Code::BadPickle);
  CHECK(code_of_attribute(pickle::call(pickle::global("torch._utils", "_rebuild_sparse_tensor"), "")) ==
        Code::UnsupportedType);
}

TEST_CASE("quantized tensors") {
  const std::string hooks = pickle::call(pickle::global("collections", "OrderedDict"), "");
  const std::string by_tensor = pickle::global("torch", "per_tensor_affine") + "G" + std::string(8, '\0');
  const std::string by_channel = pickle::global("torch", "per_channel_affine");
  const auto code = [&](const std::string& scheme, const std::string& type = "QInt8Storage", int64_t numel = 4) {
    Model model(
        attribute("a", pickle::call(pickle::global("torch._utils", "_rebuild_qtensor"),
                                    pickle::storage(type, "0", numel) + pickle::integer(0) + pickle::integers({2, 2}) +
                                        pickle::integers({2, 1}) + pickle::tuple(scheme) + "\x89" + hooks)));
    model.records["data/0"] = std::string(64, '\1');
    model.records["data/1"] = std::string(64, '\0');
    return code_of_reading(model);
  };
  const auto tensor = [](const std::string& type, int64_t size) {
    return pickle::tensor(pickle::storage(type, "1", size), 0, {size}, {1});
  };
  const std::string scales = tensor("DoubleStorage", 2), zeros = tensor("LongStorage", 2);
  CHECK(code(by_tensor + pickle::integer(3)) == std::nullopt);
  CHECK(code(by_tensor + pickle::integer(3), "QUInt8Storage") == std::nullopt);
  CHECK(code(by_channel + scales + zeros + pickle::integer(1)) == std::nullopt);
  CHECK(code(by_tensor + pickle::integer(3), "QInt32Storage") == Code::UnsupportedType);
  const std::string by_row = pickle::global("torch", "per_channel_affine_float_qparams");
  CHECK(code(by_row + scales + scales + pickle::integer(1)) == std::nullopt);
  CHECK(code(by_row + scales + zeros + pickle::integer(1)) == Code::BadPickle);
  CHECK(code(by_tensor + pickle::integer(3), "QInt8Storage", 3) == Code::BadTensor);
  CHECK(code("") == Code::BadPickle);
  CHECK(code(by_tensor) == Code::BadPickle);
  CHECK(code(by_tensor + "N") == Code::BadPickle);
  CHECK(code(pickle::global("os", "per_tensor_affine") + "NN") == Code::BadPickle);
  CHECK(code(by_channel + scales + zeros + pickle::integer(2)) == Code::BadPickle);
  CHECK(code(by_channel + scales + zeros + pickle::integer(-1)) == Code::BadPickle);
  CHECK(code(by_channel + scales + tensor("LongStorage", 3) + pickle::integer(0)) == Code::BadPickle);
  CHECK(code(by_channel + zeros + zeros + pickle::integer(0)) == Code::BadPickle);
  CHECK(code_of_attribute(pickle::call(pickle::global("torch._utils", "_rebuild_qtensor"), "")) == Code::BadPickle);
}

TEST_CASE("attributes may nest as deep as a pickle may") {
  std::string nested = "N";
  for (int i = 0; i < 990; ++i) nested += "\x85";
  CHECK(code_of_attribute(nested) == std::nullopt);
}

TEST_CASE("references to a long text do not multiply it") {
  std::string items = pickle::text(std::string(1 << 20, 'x')) + "q\x09";
  for (int i = 0; i < 1000; ++i) items += "h\x09";
  CHECK(code_of_attribute(pickle::list(items)) == Code::LimitExceeded);
}

TEST_CASE("versions and byte orders that are not read") {
  const auto with = [](const std::string& record, const std::string& data) {
    Model model;
    model.records[record] = data;
    return code_of_reading(model);
  };
  CHECK(with("version", "10\n") == std::nullopt);
  CHECK(with(".data/version", "11\n") == Code::UnsupportedVersion);
  CHECK(with("version", "99999999999999999999") == Code::BadArchive);
  CHECK(with("version", "") == Code::BadArchive);
  CHECK(with("version", "-1") == Code::BadArchive);
  CHECK(with("byteorder", "big") == Code::UnsupportedVersion);
  CHECK(with("constants.pkl", "\x80\x02N.") == Code::BadPickle);
  CHECK(with("data.pkl", "\x80\x02N.") == Code::BadPickle);
}

TEST_CASE("damage ends in a diagnostic") {
  Model model(floats(0, {2, 3}, {3, 1}));
  model.records["traced_inputs.pkl"] = pickle::whole(pickle::dict(attribute("forward", pickle::list("N"))));
  const std::string bytes = model.bytes();
  for (size_t n = 0; n < bytes.size(); n += 7)
    CHECK(code_of([&] { read::read_torchscript(archive::Archive(record_of(bytes.substr(0, n)))); }));
  // Checksums would hide what comes after them.
  for (const char* name : {"data.pkl", "code/__torch__.py", "traced_inputs.pkl"})
    for (size_t bit = 0; bit < 8 * model.records[name].size(); bit += 3) {
      Model damaged = model;
      damaged.records[name][bit / 8] = static_cast<char>(damaged.records[name][bit / 8] ^ (1 << bit % 8));
      code_of_reading(damaged);
    }
}

TEST_CASE("places in the user's source, from scripted and traced code, in both forms") {
  const std::string scripted = "    def forward(self, x):\n        return x.relu()\n";
  const std::string traced =
      "/v/lib/python3.11/site-packages/torch/nn/functional.py(12): relu\n/home/torch/net.py(34): forward\n";
  const auto relu = [](const Model& m) {
    const auto program = m.read();
    const auto offset = static_cast<uint32_t>(program->files[0].text.find("torch.relu"));
    return program->files[0].locate(offset);
  };
  Model model;
  const auto offset = static_cast<int64_t>(model.records["code/__torch__.py"].find("torch.relu"));
  const auto number = [](int64_t n) { return pickle::integer(n); };
  const auto with = [&](const std::string& root) {
    Model m = model;
    m.records["code/__torch__.py.debug_pkl"] = pickle::whole(root);
    return relu(m);
  };
  const auto range = [&](const std::string& source, int64_t start) {
    const std::string nothing = pickle::tuple(
        number(0) + pickle::tuple(pickle::tuple(pickle::list("") + number(0) + number(0)) + number(0) + number(0)));
    return pickle::tuple(nothing +
                         pickle::tuple(number(offset) + pickle::tuple(source + number(start) + number(start + 1))));
  };
  const std::string table_source =
      pickle::tuple(pickle::call(pickle::global("torch.jit._pickle", "build_intlist"), pickle::list(number(1))) +
                    number(2) + number(10));
  const auto table = [&](const std::string& text) {
    return pickle::tuple(
        pickle::text("FORMAT_WITH_STRING_TABLE") +
        pickle::tuple(pickle::text("") + pickle::text(text) + pickle::text("net.py")) +
        range(table_source, static_cast<int64_t>(text.find("x.relu") == text.npos ? 0 : text.find("x.relu"))));
  };

  CHECK(with(table(scripted)) == Place{"net.py", 11, "forward", "return x.relu()"});
  CHECK(with(table(traced)) == Place{"/home/torch/net.py", 34, "forward", ""});
  // What the Python package calls for the user, and what called the model.
  const std::string followed = "/v/lithify/_numbers.py(7): tensor\n/v/lithify/_follow.py(5): call\n" + traced +
                               "/v/lithify/_capture.py(9): forward\n";
  CHECK(with(table(followed)) == Place{"/home/torch/net.py", 34, "forward", ""});
  const std::string old = pickle::tuple(pickle::text(scripted) + pickle::text("net.py") + number(10));
  CHECK(with(range(old, 40)) == Place{"net.py", 11, "forward", "return x.relu()"});
  CHECK_FALSE(with("N").known());
  CHECK_FALSE(with("\xff").known());
}

TEST_CASE("what torch.save wrote is named") {
  mentions(
      message_about(saved(pickle::dict(attribute("fc.weight", any_tensor()) + attribute("fc.bias", any_tensor())))),
      "only weights (a state dict of 2 tensors: fc.weight, fc.bias)");
  mentions(
      message_about(saved(pickle::global("collections", "OrderedDict") + ")R(" + attribute("w", any_tensor()) + "u")),
      "a state dict of 1 tensors: w");
  mentions(message_about(saved(pickle::dict(attribute("epoch", pickle::integer(3)) +
                                            attribute("model", pickle::dict(attribute("w", any_tensor())))))),
           "checkpoint (epoch, model); its weights are under the key 'model'");
  mentions(message_about(saved(pickle::object("torchvision.models.resnet", "ResNet", pickle::dict("")))),
           "the pickled Python object torchvision.models.resnet.ResNet");
  mentions(message_about(saved(pickle::dict(attribute("model", pickle::object("__main__", "Net", pickle::dict("")))))),
           "key 'model' holds the pickled Python object __main__.Net");
  mentions(message_about(saved(any_tensor())), "a single tensor");
  mentions(message_about(saved(pickle::list("N"))), "a Python value that is not a model");
  // Not built: a module that contains itself, and protocol 4.
  mentions(message_about(saved(pickle::global("net", "Net") + ")\x81q\x01h\x01"
                                                              "b")),
           "net.Net");
  mentions(message_about("\x80\x04\x8c\x03net\x8c\x03Net\x93)\x81."), "net.Net");
  mentions(message_about("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.\x80\x02}." +
                         pickle::whole(pickle::dict(attribute("w", any_tensor())))),
           "before PyTorch 1.6");
}

TEST_CASE("other files are named") {
  mentions(message_about(le(2, 8) + "{}"), "safetensors");
  mentions(message_about("{\"metadata\": {}, \"weight_map\": {}}"), "split over several files");
  mentions(message_about("{\"a\": 1}"), "JSON");
  mentions(message_about("\x20\0\0\0PTMF"s), "flatbuffer");
  mentions(message_about("\x20\0\0\0ET12"s), "ExecuTorch");
  mentions(message_about(std::string(257, '\0') + "ustar"), "tar");
  mentions(message_about("GGUF"), "GGUF");
  mentions(message_about("\x89HDF\r\n"), "HDF5");
  mentions(message_about("version https://git-lfs.github.com/spec/v1\n"), "git-lfs");
  mentions(message_about("\n<!DOCTYPE html>"), "web page");
  mentions(message_about("<HTML>"), "web page");
  mentions(message_about("\x1f\x8b\x08"), "gzip");
  mentions(message_about("\x08\x08\x12\x07pytorch"), "ONNX");
  mentions(message_about("?"), "not of a kind");
  mentions(message_about(zip_of({{.name = "MAR-INF/MANIFEST.json", .data = "{}"}, {.name = "m.py", .data = ""}})),
           ".mar");
  mentions(message_about(zip_of({{.name = "MAR-INF/MANIFEST.json", .data = "{}"}})), ".mar");
  mentions(message_about(zip_of({{.name = "p/.data/extern_modules", .data = ""}})), "torch.package");
  mentions(message_about(zip_of({{.name = "p/model.json", .data = "{}"}, {.name = "p/code/a.py", .data = ""}})),
           "older than 1.4");
  mentions(message_about(zip_of(
               {{.name = "p/archive_format", .data = "pt2"}, {.name = "p/data/aotinductor/model/a.so", .data = ""}})),
           "AOTInductor");
  mentions(message_about(
               zip_of({{.name = "p/constants.pkl", .data = "\x80\x02)."}, {.name = "p/bytecode.pkl", .data = ""}})),
           "without its code");
  mentions(message_about(zip_of({{.name = "word/document.xml", .data = ""}})), "does not contain a model");
  CHECK(diagnostic_of_opening("PK\x03\x04half a file").code == Code::BadArchive);
  CHECK(diagnostic_of_opening("").code == Code::CannotOpen);
  CHECK(diagnostic_of_opening(
            zip_of({{.name = "p/archive_format", .data = "pt2"}, {.name = "p/models/m.json", .data = "{}"}}))
            .code == Code::BadCode);
}

TEST_CASE("a description never fails, whatever the bytes") {
  const std::string bytes = pickle::whole(pickle::dict(attribute("w", any_tensor())));
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x15);
    CHECK(diagnostic_of_opening(damaged).code == Code::NotAModel);
    CHECK(diagnostic_of_opening(bytes.substr(0, i + 1)).code == Code::NotAModel);
  }
}
