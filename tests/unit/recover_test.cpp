// Sizes that tracing hard-coded, through the API, with models in memory.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <utility>

#include "lithify/lithify.hpp"
#include "model_bytes.hpp"

namespace lithify {
namespace {

using namespace test;

ModelSource source(const std::string& bytes) { return ModelSource(Bytes(bytes.data(), bytes.size())); }

ExportOptions dynamic() {
  ExportOptions options;
  options.dynamic_axes["x"] = {{0, "batch"}, {1, "seq"}};
  return options;
}

ExportResult exported(const std::string& model, const ExportOptions& options) {
  std::vector<std::byte> out;
  return export_bytes(
      source(model),
      [&](uint64_t size) {
        out.resize(size);
        return out.data();
      },
      options);
}

std::string error_of(const std::string& model, const ExportOptions& options) {
  try {
    exported(model, options);
    return "";
  } catch (const ExportError& e) {
    for (const Message& m : e.messages)
      if (m.severity == "error") return m.code;
    return "no error";
  }
}

}  // namespace

TEST_CASE("a hard-coded size becomes a formula of the dimensions, and is reported") {
  const ExportResult r = exported(traced(5, 7, "torch.view(x, [35, 4])"), dynamic());
  CHECK(r.outputs[0].str() == "output: float32[batch*seq, 4]");
  REQUIRE(r.dimensions.size() == 2);
  CHECK(r.dimensions[0].str() == "any size, on the recorded path, 1 size recovered");
  REQUIRE(r.messages.size() == 1);
  CHECK(r.messages[0].code == "LTH062");
}

TEST_CASE("a hard-coded size is refused on request") {
  ExportOptions options = dynamic();
  options.recover = ExportOptions::Recover::Never;
  CHECK(error_of(traced(5, 7, "torch.view(x, [35, 4])"), options) == "LTH061");
}

TEST_CASE("a number that keeps the place of a dimension stands for it, where nothing contradicts it too") {
  CHECK(exported(traced(2, 7, "torch.reshape(x, [2, -1])"), dynamic()).outputs[0].str() ==
        "output: float32[batch, 4*seq]");
}

TEST_CASE("a 1 that may be a dimension is refused, or guessed on request") {
  const std::string model = traced(1, 7, "torch.reshape(x, [1, -1])");
  ExportOptions options = dynamic();
  CHECK(error_of(model, options) == "LTH063");
  options.recover = ExportOptions::Recover::Guess;
  CHECK(exported(model, options).outputs[0].str() == "output: float32[batch, 4*seq]");
}

TEST_CASE("a 1 that is broadcast to a dimension of size 1 may be that dimension, where its elements would differ") {
  const std::string model = traced(5, 1, "torch.add(x, torch.unsqueeze(torch.arange(1), 1))");
  ExportOptions options = dynamic();
  CHECK(error_of(model, options) == "LTH063");
  options.recover = ExportOptions::Recover::Guess;
  CHECK(exported(model, options).dimensions[1].str() == "any size, on the recorded path, 1 size recovered");
}

TEST_CASE("a division by 1 is reported as unverified, where a dimension has the size 1") {
  CHECK(exported(traced(5, 1, "torch.div(torch.sum(x, [1]), 1)"), dynamic()).dimensions[1].unverified == 1);
  CHECK(exported(traced(5, 1, "torch.div(torch.sum(x, [1]), 1.)"), dynamic()).dimensions[1].unverified == 1);
  CHECK(exported(traced(5, 7, "torch.div(torch.sum(x, [1]), 7.)"), dynamic()).dimensions[1].unverified == 1);
  CHECK(exported(traced(5, 7, "torch.div(torch.sum(x, [1]), 1.)"), dynamic()).dimensions[1].unverified == 0);
}

TEST_CASE("what differs between captures in memory is solved for, in values too") {
  const std::string other = traced(3, 10, "torch.div(torch.sum(x, [1]), 10)");
  ExportOptions options = dynamic();
  options.also.push_back(source(other));
  const ExportResult r = exported(traced(5, 7, "torch.div(torch.sum(x, [1]), 7)"), options);
  CHECK(r.dimensions[1].str() == "any size, on the recorded path, 1 size recovered");
}

TEST_CASE("captures may write a value in place or in a statement of its own") {
  ExportOptions options = dynamic();
  const std::string other =
      traced(31, 107, "torch.mul(_1, 2)", "    _0 = torch.sum(x, [1])\n    _1 = torch.div(_0, 107)\n");
  options.also.push_back(source(other));
  const ExportResult r = exported(traced(5, 7, "torch.mul(torch.div(torch.sum(x, [1]), 7), 2)"), options);
  CHECK(r.dimensions[1].str() == "any size, on the recorded path, 1 size recovered");
}

TEST_CASE("a number in a value is reported as unverified, and refused if asked") {
  const std::string model = traced(5, 7, "torch.div(torch.sum(x, [1]), 7)");
  ExportOptions options = dynamic();
  CHECK(exported(model, options).dimensions[1].unverified == 1);
  options.strict = true;
  CHECK(error_of(model, options) == "LTH064");
}

TEST_CASE("a number that was computed from sizes is reported as unverified") {
  auto unverified = [](int64_t batch, int64_t seq, const std::string& value) {
    const ExportResult r = exported(traced(batch, seq, value), dynamic());
    return std::pair(r.dimensions[0].unverified, r.dimensions[1].unverified);
  };
  CHECK(unverified(5, 7, "torch.mul(x, 140)") == std::pair(1, 1));  // the number of elements
  CHECK(unverified(5, 7, "torch.full([1], 140.)") == std::pair(1, 1));
  CHECK(unverified(5, 7, "torch.mul(x, 141)") == std::pair(0, 0));
  for (const char* number : {"0.14285714285714285", "2.6457513110645907", "0.3779644730092272", "1.9459101490553132"})
    CHECK(unverified(5, 7, fmt::format("torch.mul(x, {})", number)) == std::pair(0, 1));  // 1/7, sqrt(7), ...
  CHECK(unverified(5, 8, "torch.mul(x, 0.2)") == std::pair(0, 0));                        // may well be written so
  CHECK(unverified(5, 8, "torch.mul(x, 0.125)") == std::pair(0, 0));
  CHECK(unverified(5, 7, "torch.abs(torch.fft_rfft(x, 8, 1))") == std::pair(0, 1));
  CHECK(unverified(5, 7, "torch.upsample_nearest1d(x, [7], None)") == std::pair(0, 1));
  CHECK(unverified(5, 7, "torch.upsample_nearest1d(x, [9], None)") == std::pair(0, 0));
}

TEST_CASE("what an operator does on one side only of a relation of sizes is a side of the recorded path") {
  auto claim = [](const std::string& value) { return exported(traced(5, 7, value), dynamic()).dimensions[1].str(); };
  CHECK(claim("torch.constant_pad_nd(x, [0, 0, 0, torch.sub(16, torch.size(x, 1))])") ==
        "any size where seq <= 16, on the recorded path");
  CHECK(claim("torch.constant_pad_nd(x, [0, 0, 0, torch.size(x, 1)])") == "any size, on the recorded path");
  CHECK(claim("torch.instance_norm(torch.transpose(x, 1, 2), None, None, None, None, True, 0.1, 1e-05, True)") ==
        "any size where seq >= 2, on the recorded path");
}

TEST_CASE("two elements that one line takes may be all of a dimension of size 2") {
  const std::string model = traced(2, 7, "torch.stack([torch.select(x, 0, 0), torch.select(x, 0, 1)])");
  ExportOptions options = dynamic();
  const ExportResult r = exported(model, options);
  CHECK(r.dimensions[0].str() == "any size where batch >= 2, on the recorded path, 1 constant unverified");
  CHECK(r.claims.holds({{"batch", 3}, {"seq", 7}}) == std::nullopt);
  options.strict = true;
  CHECK(error_of(model, options) == "LTH064");
}

TEST_CASE("captures that differ in more than numbers are refused") {
  const std::string other = traced(3, 10, "torch.relu(x)");
  ExportOptions options = dynamic();
  options.also.push_back(source(other));
  CHECK(error_of(traced(5, 7, "torch.tanh(x)"), options) == "LTH065");
}

}  // namespace lithify
