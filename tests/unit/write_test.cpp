// The writer: models built by hand, read back field by field.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <protozero/pbf_reader.hpp>
#include <span>
#include <thread>

#include "base/diagnostic.hpp"
#include "base/half.hpp"
#include "onnx/text.hpp"
#include "write/model.hpp"

using namespace lithify;
using onnx::Attribute;
using onnx::Graph;
using onnx::Model;
using onnx::Tensor;
using onnx::Value;
using write::write_model;
using write::WriteOptions;
using External = WriteOptions::External;
namespace fs = std::filesystem;

namespace {

struct TempDir {
  fs::path path;
  TempDir() {
    std::string name = (fs::temp_directory_path() / "lithify-write-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~TempDir() { fs::remove_all(path); }
  fs::path operator/(const char* name) const { return path / name; }
  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(path), fs::directory_iterator()));
  }
};

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The occurrences of a field in a message: bytes, or the integer of a varint.
std::vector<std::string> all_bytes(const std::string& message, uint32_t tag) {
  std::vector<std::string> found;
  for (protozero::pbf_reader reader(message); reader.next();)
    if (reader.tag() == tag)
      found.push_back(reader.get_bytes());
    else
      reader.skip();
  return found;
}
std::vector<int64_t> all_ints(const std::string& message, uint32_t tag) {
  std::vector<int64_t> found;
  for (protozero::pbf_reader reader(message); reader.next();)
    if (reader.tag() == tag)
      found.push_back(reader.get_int64());
    else
      reader.skip();
  return found;
}
std::vector<float> all_floats(const std::string& message, uint32_t tag) {
  std::vector<float> found;
  for (protozero::pbf_reader reader(message); reader.next();)
    if (reader.tag() == tag)
      found.push_back(reader.get_float());
    else
      reader.skip();
  return found;
}
std::string only(const std::string& message, uint32_t tag) {
  const auto found = all_bytes(message, tag);
  REQUIRE(found.size() == 1);
  return found[0];
}
int64_t only_int(const std::string& message, uint32_t tag) {
  const auto found = all_ints(message, tag);
  REQUIRE(found.size() == 1);
  return found[0];
}
std::vector<uint32_t> tags(const std::string& message) {
  std::vector<uint32_t> found;
  for (protozero::pbf_reader reader(message); reader.next(); reader.skip()) found.push_back(reader.tag());
  return found;
}

using Strings = std::vector<std::string>;
using Ints = std::vector<int64_t>;

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <typename T>
TensorView dense(DType dtype, Ints sizes, const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return TensorView::dense(dtype, std::move(sizes), {bytes.begin(), bytes.end()});
}

std::vector<float> counting(size_t n, float first = 0) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), first);
  return values;
}

TensorView floats(Ints sizes, float first = 0) {
  const auto n = std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
  return dense(DType::Float, std::move(sizes), counting(static_cast<size_t>(n), first));
}

/// A model with one graph and the means to fill it.
struct Fixture {
  sym::Context sizes;
  Model model;

  Fixture() {
    model.graph = std::make_unique<Graph>();
    model.opset = 18;
  }
  Graph& graph() { return *model.graph; }

  sym::Expr symbol(std::string name) {
    sym::SymbolInfo info;
    info.name = std::move(name);
    return sizes.symbol(info);
  }
  onnx::Shape shape(const Ints& values) {
    onnx::Shape result;
    for (const int64_t v : values) result.push_back(sizes.constant(v));
    return result;
  }
  Value* value(Graph& in, std::string name, onnx::Shape shape, DType dtype = DType::Float) {
    Value* v = in.new_value();
    v->name = std::move(name);
    v->dtype = dtype;
    v->shape = std::move(shape);
    return v;
  }
  Value* input(std::string name, onnx::Shape shape, DType dtype = DType::Float) {
    Value* v = value(graph(), std::move(name), std::move(shape), dtype);
    v->kind = Value::Kind::Input;
    graph().inputs.push_back(v);
    return v;
  }
  Value* constant(Graph& in, std::string name, Tensor tensor) {
    Value* v = value(in, std::move(name), shape(tensor.sizes), tensor.dtype);
    v->kind = Value::Kind::Constant;
    v->constant = std::make_shared<Tensor>(std::move(tensor));
    return v;
  }
  Value* constant(std::string name, Tensor tensor) { return constant(graph(), std::move(name), std::move(tensor)); }
  onnx::Node* node(Graph& in, std::string op, std::vector<Value*> inputs, std::vector<Value*> outputs,
                   std::vector<Attribute> attributes = {}) {
    onnx::Node* n = in.new_node();
    n->op_type = std::move(op);
    n->inputs = std::move(inputs);
    n->outputs = std::move(outputs);
    n->attributes = std::move(attributes);
    for (Value* v : n->outputs)
      if (v) v->producer = n;
    in.nodes.push_back(n);
    return n;
  }
  /// A node that uses each constant, so that it is written, and an output.
  void use(std::vector<Value*> constants) {
    Value* y = value(graph(), "y", {});
    node(graph(), "Sum", std::move(constants), {y});
    graph().outputs = {y};
  }
  std::string write(const fs::path& out, External external = External::Auto) {
    write_model(model, out, {.external = external});
    return read_file(out);
  }
};

/// The initializers of a model file, by name.
std::map<std::string, std::string> initializers(const std::string& file) {
  std::map<std::string, std::string> found;
  for (const std::string& tensor : all_bytes(only(file, 7), 5)) found[only(tensor, 8)] = tensor;
  return found;
}

std::map<std::string, std::string> external_entries(const std::string& tensor) {
  std::map<std::string, std::string> found;
  for (const std::string& entry : all_bytes(tensor, 13)) found[only(entry, 1)] = only(entry, 2);
  return found;
}

/// Two large weights, one contiguous and one transposed, and a small one.
struct LargeFixture : Fixture {
  static constexpr int64_t side = 2100;
  LargeFixture() {
    const TensorView square = floats({side, side});
    use({constant("plain", Tensor(floats({side, side}, 1))),
         constant("turned", Tensor(square.permuted(std::vector<int64_t>{1, 0}))),
         constant("small", Tensor(floats({3}))), constant("middle", Tensor(floats({100, 100}, 7)))});
  }
};

template <typename F>
Code code_thrown(F f) {
  try {
    f();
  } catch (const Error& e) {
    return e.first().code;
  }
  FAIL("no error");
  return Code::Internal;
}

}  // namespace

TEST_CASE("a model is written field by field as onnx.proto defines") {
  TempDir dir;
  Fixture f;
  const sym::Expr batch = f.symbol("batch");
  Value* x = f.input("x", {batch, f.sizes.constant(3)});
  Value* w = f.constant("fc.weight", Tensor(floats({2, 3}).permuted(std::vector<int64_t>{1, 0})));
  Value* h = f.value(f.graph(), "h", {batch, f.sizes.constant(2)});
  Value* y = f.value(f.graph(), "y", {f.sizes.add(batch, f.sizes.constant(1))});
  f.node(f.graph(), "MatMul", {x, w}, {h})->name = "fc";
  f.node(f.graph(), "Clip", {h, nullptr, w}, {y})->domain = "custom";
  f.graph().outputs = {y};
  f.model.domains["custom"] = 2;
  f.model.producer_version = "1.0";
  f.model.metadata = {{"b", "1"}, {"a", "2"}};

  const std::string file = f.write(dir / "m.onnx");
  CHECK(tags(file) == std::vector<uint32_t>{1, 2, 3, 7, 8, 8, 14, 14});
  CHECK(only_int(file, 1) == f.model.ir_version());
  CHECK(only(file, 2) == "lithify");
  CHECK(only(file, 3) == "1.0");
  const Strings opsets = all_bytes(file, 8);
  CHECK(only(opsets[0], 1) == "");
  CHECK(only_int(opsets[0], 2) == 18);
  CHECK(only(opsets[1], 1) == "custom");
  CHECK(only(all_bytes(file, 14)[0], 1) == "b");

  const std::string graph = only(file, 7);
  CHECK(tags(graph) == std::vector<uint32_t>{1, 1, 2, 5, 11, 12, 13});
  CHECK(only(graph, 2) == "main_graph");
  const Strings nodes = all_bytes(graph, 1);
  CHECK(tags(nodes[0]) == std::vector<uint32_t>{1, 1, 2, 3, 4});
  CHECK(all_bytes(nodes[0], 1) == Strings{"x", "fc.weight"});
  CHECK(only(nodes[0], 3) == "fc");
  CHECK(only(nodes[0], 4) == "MatMul");
  CHECK(all_bytes(nodes[1], 1) == Strings{"h", "", "fc.weight"});
  CHECK(only(nodes[1], 7) == "custom");

  const std::string tensor = only(graph, 5);
  CHECK(tags(tensor) == std::vector<uint32_t>{1, 1, 2, 8, 9});
  CHECK(all_ints(tensor, 1) == Ints{3, 2});
  CHECK(only_int(tensor, 2) == 1);
  CHECK(only(tensor, 9) == bytes_of<float>({0, 3, 1, 4, 2, 5}));

  const std::string type = only(only(only(graph, 11), 2), 1);
  CHECK(only_int(type, 1) == 1);
  const Strings dims = all_bytes(only(type, 2), 1);
  CHECK(only(dims[0], 2) == "batch");
  CHECK(only_int(dims[1], 1) == 3);
  CHECK(only(only(graph, 13), 1) == "h");
  const std::string out_dim = only(only(only(only(only(graph, 12), 2), 1), 2), 1);
  CHECK(only(out_dim, 2) == "batch + 1");
}

TEST_CASE("a scalar has a shape without dimensions") {
  TempDir dir;
  Fixture f;
  f.graph().outputs = {f.input("x", {})};
  const std::string type = only(only(only(only(f.write(dir / "m.onnx"), 7), 11), 2), 1);
  CHECK(tags(type) == std::vector<uint32_t>{1, 2});
  CHECK(only(type, 2) == "");
}

TEST_CASE("attributes of every kind") {
  TempDir dir;
  Fixture f;
  Value* condition = f.input("c", {}, DType::Bool);
  Value* outer = f.constant("outer", Tensor(floats({2})));
  auto branch = std::make_shared<Graph>(&f.graph());
  Value* inner = f.constant(*branch, "inner", Tensor(floats({2}, 5)));
  Value* sum = f.value(*branch, "sum", f.shape({2}));
  f.node(*branch, "Add", {outer, inner}, {sum});
  branch->outputs = {sum};
  Value* used = f.value(f.graph(), "used", f.shape({2}));
  f.node(f.graph(), "Neg", {outer}, {used});
  Value* y = f.value(f.graph(), "y", f.shape({2}));
  f.node(f.graph(), "If", {condition}, {y},
         {{"i", int64_t{-1}},
          {"f", 0.5f},
          {"s", std::string("same")},
          {"is", Ints{1, 0, -2}},
          {"fs", std::vector<float>{1.5f, 0}},
          {"none", Ints{}},
          {"t", std::make_shared<const Tensor>(dense<int64_t>(DType::Int64, {2}, {7, 8}))},
          {"then_branch", branch}});
  f.graph().outputs = {y};

  const std::string graph = only(f.write(dir / "m.onnx"), 7);
  const Strings attributes = all_bytes(all_bytes(graph, 1)[1], 5);
  REQUIRE(attributes.size() == 8);
  Ints types;
  for (const std::string& a : attributes) types.push_back(only_int(a, 20));
  CHECK(types == Ints{2, 1, 3, 7, 6, 7, 4, 5});
  CHECK(only_int(attributes[0], 3) == -1);
  CHECK(all_floats(attributes[1], 2) == std::vector<float>{0.5f});
  CHECK(only(attributes[2], 4) == "same");
  CHECK(all_ints(attributes[3], 8) == Ints{1, 0, -2});
  CHECK(all_floats(attributes[4], 7) == std::vector<float>{1.5f, 0});
  CHECK(tags(attributes[5]) == std::vector<uint32_t>{1, 20});
  CHECK(only(only(attributes[6], 5), 9) == bytes_of<int64_t>({7, 8}));

  const std::string subgraph = only(attributes[7], 6);
  CHECK(only(subgraph, 2) == "then_branch");
  // Every constant is written once, where all bodies see it.
  CHECK(all_bytes(subgraph, 5).empty());
  const Strings initializers = all_bytes(graph, 5);
  REQUIRE(initializers.size() == 2);
  CHECK(only(initializers[0], 8) == "outer");
  CHECK(only(initializers[1], 8) == "inner");
  CHECK(only(initializers[1], 9) == bytes_of<float>({5, 6}));
}

TEST_CASE("pieces follow one another, scaled row by row") {
  TempDir dir;
  Fixture f;
  const auto scale = std::make_shared<const Vector<float>>(std::vector<float>{2, -0.5f});
  const auto scaled = [&](TensorView view) { return Tensor(view.dtype, view.sizes, {{view, scale}}); };
  std::vector<uint16_t> half, bf16;
  for (const float v : counting(4, 1)) {
    half.push_back(half_from_float(v));
    bf16.push_back(bfloat16_from_float(v));
  }
  const TensorView rows = floats({2, 3});
  f.use({f.constant("f", scaled(rows)),
         f.constant("turned", scaled(floats({3, 2}).permuted(std::vector<int64_t>{1, 0}))),
         f.constant("d", scaled(dense<double>(DType::Double, {2, 1}, {1e300, 4}))),
         f.constant("h", scaled(dense(DType::Half, {2, 2}, half))),
         f.constant("b", scaled(dense(DType::BFloat16, {2, 2}, bf16))),
         f.constant("joined", Tensor(DType::Float, {3, 3}, {{rows.narrowed(0, 1, 1), nullptr}, {rows, scale}})),
         f.constant("flags", Tensor(dense<uint8_t>(DType::Bool, {3}, {1, 0, 1}))),
         f.constant("empty", Tensor(floats({0, 4})))});
  auto tensors = initializers(f.write(dir / "m.onnx"));
  const auto raw = [&](const char* name) { return only(tensors.at(name), 9); };
  CHECK(raw("f") == bytes_of<float>({0, 2, 4, -1.5f, -2, -2.5f}));
  CHECK(raw("turned") == bytes_of<float>({0, 4, 8, -0.5f, -1.5f, -2.5f}));
  CHECK(raw("d") == bytes_of<double>({2e300, -2}));
  CHECK(raw("h") == bytes_of<uint16_t>({half_from_float(2), half_from_float(4), half_from_float(-1.5f),  //
                                        half_from_float(-2)}));
  CHECK(raw("b") == bytes_of<uint16_t>({bfloat16_from_float(2), bfloat16_from_float(4),  //
                                        bfloat16_from_float(-1.5f), bfloat16_from_float(-2)}));
  CHECK(raw("joined") == bytes_of<float>({3, 4, 5, 0, 2, 4, -1.5f, -2, -2.5f}));
  CHECK(raw("flags") == std::string("\1\0\1", 3));
  CHECK(only_int(tensors.at("flags"), 2) == 9);
  CHECK(raw("empty") == "");
  CHECK(all_ints(tensors.at("empty"), 1) == Ints{0, 4});
}

TEST_CASE("large weights are written by several threads, the same each time") {
  TempDir dir;
  LargeFixture f;
  const std::string file = f.write(dir / "m.onnx");
  auto tensors = initializers(file);
  constexpr size_t side = LargeFixture::side;
  CHECK(only(tensors.at("plain"), 9) == bytes_of(counting(side * side, 1)));
  std::vector<float> turned(side * side);
  for (size_t i = 0; i < side; ++i)
    for (size_t j = 0; j < side; ++j) turned[i * side + j] = static_cast<float>(j * side + i);
  CHECK(only(tensors.at("turned"), 9) == bytes_of(turned));
  CHECK(only(tensors.at("small"), 9) == bytes_of(counting(3)));
  CHECK(only(tensors.at("middle"), 9) == bytes_of(counting(10000, 7)));
  CHECK(f.write(dir / "again.onnx") == file);
  CHECK(dir.files() == 2);
}

TEST_CASE("a model in memory has the bytes of the file") {
  TempDir dir;
  LargeFixture f;
  std::string memory;
  const auto allocate = [&](uint64_t size) {
    memory.resize(size);
    return reinterpret_cast<std::byte*>(memory.data());
  };
  const auto result = write_model(f.model, allocate);
  CHECK(result.bytes == memory.size());
  CHECK(memory == f.write(dir / "m.onnx"));
  CHECK(code_thrown([&] { write_model(f.model, allocate, {.external = External::Always}); }) == Code::BadOption);
}

TEST_CASE("a scaled weight larger than a job keeps its rows") {
  TempDir dir;
  Fixture f;
  const int64_t n = 3000;
  const auto factors = std::make_shared<const Vector<float>>(counting(static_cast<size_t>(n), 1));
  const TensorView ones = dense<float>(DType::Float, {1}, {1});
  TensorView expanded = ones;
  expanded.sizes = {n, 2 * n};
  expanded.strides = {0, 0};
  f.use({f.constant("w", Tensor(DType::Float, expanded.sizes, {{expanded, factors}}))});
  const std::string raw = only(initializers(f.write(dir / "m.onnx")).at("w"), 9);
  REQUIRE(raw.size() == static_cast<size_t>(n * 2 * n) * 4);
  bool right = true;
  for (size_t i = 0; i < static_cast<size_t>(n * 2 * n); ++i) {
    float value;
    std::memcpy(&value, &raw[i * 4], 4);
    right = right && value == static_cast<float>(i / static_cast<size_t>(2 * n) + 1);
  }
  CHECK(right);
}

TEST_CASE("external data: aligned regions in one file, equal ones shared") {
  TempDir dir;
  Fixture f;
  const TensorView shared = floats({20, 20}, 3);
  f.use({f.constant("small", Tensor(floats({255}))), f.constant("a", Tensor(shared)),
         f.constant("b", Tensor(*shared.reshaped({400}))),
         f.constant("turned", Tensor(shared.permuted(std::vector<int64_t>{1, 0}))),
         f.constant("big", Tensor(floats({512, 513})))});
  const auto result = write_model(f.model, dir / "m.onnx", {.external = External::Always});
  CHECK(result.external_file == (dir / "m.onnx.data").string());
  CHECK(result.bytes == fs::file_size(dir / "m.onnx") + fs::file_size(dir / "m.onnx.data"));
  CHECK(result.weight_bytes == 255 * 4 + 1600 + 1600 + 512 * 513 * 4);
  CHECK(dir.files() == 2);

  auto tensors = initializers(read_file(dir / "m.onnx"));
  CHECK(only(tensors.at("small"), 9).size() == 255 * 4);
  CHECK(tags(tensors.at("a")) == std::vector<uint32_t>{1, 1, 2, 8, 13, 13, 13, 14});
  CHECK(only_int(tensors.at("a"), 14) == 1);
  CHECK(external_entries(tensors.at("a")) ==
        std::map<std::string, std::string>{{"location", "m.onnx.data"}, {"offset", "0"}, {"length", "1600"}});
  CHECK(external_entries(tensors.at("b"))["offset"] == "0");
  CHECK(external_entries(tensors.at("turned"))["offset"] == "4096");
  CHECK(external_entries(tensors.at("big"))["offset"] == "65536");

  const std::string data = read_file(dir / "m.onnx.data");
  CHECK(data.size() == 65536 + 512 * 513 * 4);
  CHECK(data.substr(0, 1600) == bytes_of(counting(400, 3)));
  CHECK(data.substr(1600, 2496) == std::string(2496, '\0'));
  CHECK(data.substr(65536) == bytes_of(counting(512 * 513)));
}

TEST_CASE("without large tensors there is no external data file") {
  TempDir dir;
  Fixture f;
  f.use({f.constant("w", Tensor(floats({3})))});
  CHECK(write_model(f.model, dir / "m.onnx", {.external = External::Always}).external_file == "");
  CHECK(dir.files() == 1);
}

TEST_CASE("a model above 2 GB does not go into one file") {
  TempDir dir;
  Fixture f;
  TensorView expanded = floats({1});
  expanded.sizes = {600'000'000};
  expanded.strides = {0};
  f.use({f.constant("w", Tensor(expanded))});
  CHECK(code_thrown([&] { f.write(dir / "m.onnx", External::Never); }) == Code::TooLarge);
  CHECK(dir.files() == 0);
}

TEST_CASE("a size that differs from iteration to iteration has no name in the file") {
  TempDir dir;
  Fixture f;
  f.model.graph = onnx::parse(R"(
size i >= 0, < n
size found >= 0
input x : float32[n]
count : int64[]{n} = Size(x)
y : float32[n*n + n] = Loop<body={
input iteration : int64[]{i}
input condition : bool[]
input before : float32[n*i + n]
grown : float32[n*i + 2*n] = Concat<axis=0>(before, x)
same : float32[n] = Relu(x)
nonzero : int64[1, found] = NonZero(grown)
again : bool[] = Identity(condition)
output again : bool[]
output grown : float32[n*i + 2*n]
}>(count, _, x)
output y : float32[n*n + n]
)",
                              f.sizes);
  const std::string graph = only(f.write(dir / "m.onnx"), 7);
  const auto names = [](const std::string& graph) {
    std::map<std::string, Strings> found;
    for (const uint32_t field : {11, 12, 13})
      for (const std::string& info : all_bytes(graph, field))
        for (const std::string& dim : all_bytes(only(only(only(info, 2), 1), 2), 1))
          for (const std::string& name : all_bytes(dim, 2)) found[only(info, 1)].push_back(name);
    return found;
  };
  CHECK(names(graph) == std::map<std::string, Strings>{{"x", {"n"}}, {"y", {"n*n + n"}}});
  const std::string body = only(only(all_bytes(graph, 1)[1], 5), 6);
  CHECK(names(body) == std::map<std::string, Strings>{{"same", {"n"}}});
}

TEST_CASE("what cannot be written is reported, and nothing is left behind") {
  TempDir dir;
  LargeFixture f;
  CHECK(code_thrown([&] { f.write(dir / "no/m.onnx"); }) == Code::CannotWrite);
  CHECK(code_thrown([&] { f.write(dir.path); }) == Code::CannotWrite);
  CHECK(code_thrown([&] { f.write(dir / ""); }) == Code::CannotWrite);
  CHECK(code_thrown([&] { f.write(""); }) == Code::CannotWrite);
  CHECK(code_thrown([&] { f.write(dir / std::string(300, 'x').c_str()); }) == Code::CannotWrite);
  CHECK(code_thrown([&] { f.write("/dev/full"); }) == Code::CannotWrite);
  CHECK(code_thrown([&] { f.write("/dev/null", External::Always); }) == Code::CannotWrite);
  CHECK(dir.files() == 0);

  fs::create_directory(dir / "m.onnx.data");
  CHECK(code_thrown([&] { f.write(dir / "m.onnx", External::Always); }) == Code::CannotWrite);
  CHECK(dir.files() == 1);
}

TEST_CASE("a type that ONNX does not have is refused") {
  TempDir dir;
  Fixture f;
  f.use({f.constant("q", Tensor(dense<uint8_t>(DType::QUInt8, {1}, {1})))});
  CHECK(code_thrown([&] { f.write(dir / "m.onnx"); }) == Code::UnsupportedType);
  CHECK(dir.files() == 0);
}

TEST_CASE("a failure keeps the file that was there") {
  TempDir dir;
  LargeFixture f;
  for (const char* name : {"m.onnx", "m.onnx.data"}) std::ofstream(dir / name) << "old";
  struct Stop {};
  for (const External external : {External::Never, External::Always})
    CHECK_THROWS_AS(
        write_model(f.model, dir / "m.onnx", {.external = external, .progress = [](auto...) { throw Stop(); }}), Stop);
  CHECK(read_file(dir / "m.onnx") == "old");
  CHECK(read_file(dir / "m.onnx.data") == "old");
  CHECK(dir.files() == 2);
}

TEST_CASE("a model and its external data are replaced as one") {
  TempDir dir;
  LargeFixture f;
  for (const char* name : {"m.onnx.data", "m.onnx.1.data", "m.onnx.data"}) {
    const auto result = write_model(f.model, dir / "m.onnx", {.external = External::Always});
    CHECK(result.external_file == (dir / name).string());
    CHECK(read_file(dir / "m.onnx").find(name) != std::string::npos);
    CHECK(dir.files() == 2);
  }
}

TEST_CASE("what killed runs left is removed, and permissions are kept") {
  TempDir dir;
  LargeFixture f;
  const std::string living = ".lithify-" + std::to_string(::getpid()) + "-77.tmp";
  for (const std::string& name : {std::string(".lithify-999999999-0.tmp"), living, std::string("m.onnx")})
    std::ofstream(dir / name.c_str()) << "old";
  fs::permissions(dir / "m.onnx", fs::perms::owner_read | fs::perms::owner_write);
  write_model(f.model, dir / "m.onnx", {});
  CHECK(fs::exists(dir / living.c_str()));
  CHECK(dir.files() == 2);
  CHECK(fs::status(dir / "m.onnx").permissions() == (fs::perms::owner_read | fs::perms::owner_write));
}

TEST_CASE("progress rises to the total") {
  TempDir dir;
  LargeFixture f;
  for (const External external : {External::Never, External::Always}) {
    std::vector<uint64_t> seen;
    uint64_t last_total = 0;
    write_model(f.model, dir / "m.onnx", {.external = external, .progress = [&](uint64_t done, uint64_t total) {
                                            seen.push_back(done);
                                            last_total = total;
                                          }});
    CHECK(std::is_sorted(seen.begin(), seen.end()));
    REQUIRE(!seen.empty());
    CHECK(seen.back() == last_total);
  }
}

TEST_CASE("an existing file is replaced, a symbolic link followed, the mode is the usual one") {
  TempDir dir;
  Fixture f;
  f.use({f.constant("w", Tensor(floats({3})))});
  const std::string file = f.write(dir / "m.onnx");
  std::ofstream(dir / "real.onnx") << std::string(1000, 'x');
  fs::create_symlink("real.onnx", dir / "link.onnx");
  CHECK(f.write(dir / "link.onnx") == file);
  CHECK(fs::is_symlink(dir / "link.onnx"));
  CHECK(read_file(dir / "real.onnx") == file);

  std::ofstream(dir / "plain") << "";
  CHECK(fs::status(dir / "m.onnx").permissions() == fs::status(dir / "plain").permissions());
  const fs::path longest = dir / std::string(255, 'n').c_str();
  CHECK(f.write(longest) == file);
}

TEST_CASE("a pipe is written to in order") {
  TempDir dir;
  LargeFixture f;
  const std::string file = f.write(dir / "m.onnx");
  REQUIRE(::mkfifo((dir / "pipe").c_str(), 0600) == 0);
  const int open = ::open((dir / "pipe").c_str(), O_RDONLY | O_NONBLOCK);  // a pipe that nobody reads is refused
  std::string received;
  std::thread reader([&] { received = read_file(dir / "pipe"); });
  write_model(f.model, dir / "pipe");
  reader.join();
  ::close(open);
  CHECK(received == file);
  CHECK(fs::is_fifo(dir / "pipe"));
}
