// Dimensions whose names are formulas of others.
#include "driver/tied_sizes.hpp"

#include <doctest/doctest.h>

#include "model_bytes.hpp"

namespace lithify {
namespace {

using namespace test;

ExportResult exported(const std::string& model, const std::string& second_axis,
                      const std::vector<std::string>& also = {}) {
  ExportOptions options;
  options.dynamic_axes["x"] = {{0, "batch"}, {1, second_axis}};
  for (const std::string& other : also) options.also.emplace_back(Bytes(other.data(), other.size()));
  std::vector<std::byte> out;
  return export_bytes(
      ModelSource(Bytes(model.data(), model.size())),
      [&](uint64_t size) {
        out.resize(size);
        return out.data();
      },
      options);
}

std::string error_of(const std::string& model, const std::string& second_axis,
                     const std::vector<std::string>& also = {}) {
  try {
    exported(model, second_axis, also);
    return "";
  } catch (const ExportError& e) {
    return e.messages[0].text;
  }
}

}  // namespace

TEST_CASE("the size of a dimension that is a formula of others") {
  const Sizes sizes = {{"past", 5}, {"sequence", 3}};
  CHECK(tied_size("past+sequence", sizes) == 8);
  CHECK(tied_size("Min(past, 3)", sizes) == 3);
  CHECK(tied_size(" past + 2 * sequence", sizes) == 11);
  CHECK(tied_size("(past - 1) // 2", sizes) == 2);
  CHECK(tied_size("past*sequence", sizes) == 15);
  for (const char* name : {"past", "total", "past+len", "seq-len", "8", "past+", "", "past sequence", "past//0"})
    CHECK_FALSE(tied_size(name, sizes));
}

TEST_CASE("a size that is a formula follows from others in the graph") {
  const ExportResult r = exported(traced(3, 6, "torch.relu(x)"), "2*batch");
  CHECK(r.inputs[0].str() == "x: float32[batch, 2*batch, 4]");
  CHECK(r.outputs[0].str() == "output: float32[batch, 2*batch, 4]");
  REQUIRE(r.dimensions.size() == 1);
  CHECK(r.dimensions[0].name == "batch");
  CHECK(exported(traced(3, 6, "torch.relu(x)"), "batch+3").inputs[0].str() == "x: float32[batch, batch + 3, 4]");
}

TEST_CASE("a hard-coded size is a formula of the dimensions that are free") {
  const std::string first = traced(3, 6, "torch.view(x, [18, 4])"), second = traced(5, 10, "torch.view(x, [50, 4])");
  CHECK(exported(first, "2*batch", {second}).outputs[0].str() == "output: float32[2*batch*batch, 4]");
}

TEST_CASE("samples that contradict a formula are refused") {
  CHECK(error_of(traced(3, 7, "torch.relu(x)"), "2*batch") ==
        "the size '2*batch' of the input 'x' is 7 in the sample, and the formula gives 6");
  CHECK(error_of(traced(3, 6, "torch.relu(x)"), "2*batch", {traced(4, 9, "torch.relu(x)")}) ==
        "the size '2*batch' of the input 'x' is 9 in another trace, and the formula gives 8");
}

TEST_CASE("a name that is not a formula stays a name, with a warning where it is nearly one") {
  const ExportResult plain = exported(traced(3, 6, "torch.relu(x)"), "seq-len");
  CHECK(plain.inputs[0].str() == "x: float32[batch, seq-len, 4]");
  CHECK(plain.messages.empty());
  const ExportResult nearly = exported(traced(3, 6, "torch.relu(x)"), "batch+more");
  CHECK(nearly.inputs[0].str() == "x: float32[batch, batch+more, 4]");
  REQUIRE(nearly.messages.size() == 1);
  CHECK(nearly.messages[0].text ==
        "the size 'batch+more' of the input 'x' is a name and not a formula, since no size of an input is called "
        "'more'");
}

TEST_CASE("a described input may have sizes that are formulas") {
  const driver::InputSpec spec = driver::parse_input_spec("x:float32[batch=3, 2*batch=6, batch + 1]");
  REQUIRE(spec.sizes.size() == 3);
  CHECK(spec.sizes[1].name == "2*batch");
  CHECK(spec.sizes[1].value == 6);
  CHECK(spec.sizes[2].name == "batch + 1");
  CHECK(code_of([] { driver::parse_input_spec("x:float32[a b]"); }) == Code::BadOption);
  CHECK(code_of([] { driver::parse_input_spec("x:float32[a+b=]"); }) == Code::BadOption);
}

}  // namespace lithify
