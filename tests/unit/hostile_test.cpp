// Programs that no model has: well-formed calls with arguments that do not fit, values at the edges, values that
// contain themselves, and work without end. Each has an answer, and none takes long.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lithify/lithify.hpp"
#include "model_bytes.hpp"
#include "module.hpp"

namespace lithify {
namespace {

std::string indented(const std::string& body) {
  std::string out;
  for (size_t at = 0; at < body.size();) {
    const size_t end = std::min(body.find('\n', at), body.size());
    out += "    " + body.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return out;
}

std::vector<Diagnostic> answer(const std::string& body, const std::string& input, int opset = 18) {
  ExportOptions options;
  options.inputs = {input};
  options.opset = opset;
  return test::diagnostics_of(indented(body), options);
}

bool has(const std::vector<Diagnostic>& all, Code code) {
  return std::ranges::any_of(all, [&](const Diagnostic& d) { return d.code == code; });
}

TEST_CASE("arguments that do not fit are refused") {
  // Each is a call whose result is dropped.
  const std::vector<std::string> calls = {
      "torch.conv_transpose3d(w, w, x)",
      "torch.conv_transpose3d(b, w)",
      "torch.conv3d(x, b, b, [-3, -3, s0], x, x, 0)",
      "torch.conv_tbc(x, x, x, s0)",
      "torch.convolution(b, w, b, [], [6, -1, 2, 5, 6], [], True, [0], 2)",
      "torch.convolution(torch.to(w, 4), torch.to(w, 4), None, [1, 1], [0, 0, 0], [1, 1, 1], True, [0, 0, 0], 1)",
      "torch.max_pool3d(x, [s0, 2, 2])",
      "torch.max_pool2d_with_indices(torch.select(b, 0, 0), [], [5, 6, 1, 4, 6])",
      "torch.max_pool2d_with_indices_backward(b, w, [100], [3, 6], [5, 0, s0], [-2, -3, 5, 4], True, x)",
      "torch.max_pool3d_with_indices_backward(x, x, [-3, -2, 1], [2, -3, s0], [-2, 4], [1], False, x)",
      "torch.adaptive_avg_pool3d(w, -3)",
      "torch.adaptive_max_pool2d(b, 1)",
      "torch.fractional_max_pool3d(x, [-2, s0, 2, 4, -2], [-1, 6, s0], w)",
      "torch._native_batch_norm_legit(b, x, x, x, x, True, 1., 1e308)",
      "torch.native_layer_norm(x, [6, 1, 0], x, w, -inf)",
      "torch.upsample_nearest2d(torch.select(b, 0, 0), None, [1e-10])",
      "torch._upsample_nearest_exact3d(torch.zeros([0, 0, 1]), None, [1e308, inf])",
      "torch._upsample_bicubic2d_aa(w, [], True)",
      "torch._upsample_bicubic2d_aa(w, [s0], True, None)",
      "torch.scaled_dot_product_attention(w, torch.zeros([]), b, enable_gqa=True)",
      "torch._fft_c2r(b, [], 4, s0)",
      "torch.fft_fft2(b, None, [0, 6, 1000000, -3, 2])",
      "torch.linalg_tensorsolve(torch.select(b, 0, 0), x)",
      "torch.cumulative_trapezoid(torch.zeros([3, 0, 1]), torch.zeros([]))",
      "torch.arange(0, inf, dtype=12)",
      "torch.logspace(s0, inf, dtype=4)",
      "torch.randperm(-3)",
      "torch.eye(-3, 5)",
      "torch.new_ones(w, [-2, -1, -2, -2, s0], dtype=None)",
      "torch.gradient(w, spacing=[x, x, x], dim=s0)",
      "torch.fft_irfftn(w, [-3], [1], None)",
      "torch.fft_hfft(b, -3, -1)",
      "torch.as_strided(b, [1000, -3], [7, 5], 0)",
      "torch.max_unpool3d(x, torch.to(x, 4), [1000, 3, -3], [1, 2, 3], [0, 0, 0])",
      "torch._upsample_nearest_exact2d(x, [2, 100], 2.5, 2.5)",
      "torch._upsample_nearest_exact2d(w, [2, 100], 2.5, 2.5)",
      "torch.lstm_cell(x, [x, b], w, w)",
      "torch.special_polygamma(123456789, b)",
      "torch.narrow(x, -1, -2, torch.size(x, 0))",
      "torch.narrow(x, 1, 3, 6)",
      "torch.narrow(x, 0, -1, 100)",
      "torch.slice_scatter(x, torch.ones([3]), 0, 63, 0)",
      "torch.upsample_nearest1d(torch.ones([1, 1, 4]), [123456789])",
      "torch.adaptive_avg_pool1d(torch.ones([2, 3, 4]), [1, 9223372036854775807])",
      "torch.index_add(w, -1, torch.to(w, 4), w)",
      "torch.diff(x, 123456789)",
      "torch.upsample_nearest2d(x, [2, 2], -0., 1e-05)",
      "torch.linalg_solve_triangular(torch.ones([4, 4]), torch.ones([1, 3]), upper=True)",
      "torch.combinations(b, 1000, True)",
      "torch.select(torch.zeros([0, 2]), 0, -1)",
      "torch.permute(w, [2147483647, 2])",
      "torch.tensor([[1, 2, 3], 9223372036854775807])",
      "torch.tensor([1, [2, 3]])",
      "torch.special_round(w, decimals=9223372036854775807)",
      "torch.gcd(-9223372036854775807, -9223372036854775807)",
      "torch.narrow(x, 0, 9223372036854775807, 9223372036854775807)",
      "torch.unfold(x, 0, -1, 0)",
      "torch.replication_pad1d(torch.ones([0]), [8, -2])",
      "torch.kaiser_window(6, False, -inf)",
      "torch.kaiser_window(6, False, 1e308)",
      "torch.pixel_shuffle(b, 0)",
      "torch.masked_scatter(w, torch.gt(w, -1), b)",
      "torch.put(w, torch.to(w, 4), b)",
      "torch.bitwise_left_shift(b, -9223372036854775807)",
      "ops.quantized.conv_transpose2d_prepack(x, None, [], [], [], [], -1)",
  };
  for (const std::string& call : calls)
    for (const char* input : {"x:float32[2,3,8,8]", "x:float32[batch=2,3,8,8]", "x:int64[]"})
      for (const int opset : {9, 18}) {
        CAPTURE(call);
        CAPTURE(input);
        const auto all =
            answer("w = self.w\nb = self.b\ns0 = torch.len([1, 2])\nv = " + call + "\nreturn x", input, opset);
        CHECK(!has(all, Code::Internal));
      }
}

TEST_CASE("numbers that are no integers raise") {
  for (const char* number : {"int(inf)", "int(nan)", "int(1e300)", "torch.ceil(inf)", "torch.floor(1e300)",
                             "int(\"nine\")", "float(\"nine\")"}) {
    CAPTURE(number);
    CHECK(has(answer(std::string("z = ") + number + "\nreturn torch.add(x, z)", "x:float32[2]"), Code::ProgramRaises));
  }
}

TEST_CASE("work without end is refused before it is done") {
  for (const char* work : {
           "torch.mul([1], 1000000000)",
           "torch.tolist(torch.zeros([1000000000], dtype=4))",
           "torch.unbind(torch.zeros([1000000000]))",
           "torch.chunk(torch.zeros([1000000000]), 1000000000)",
           "torch.split(torch.zeros([1000000000]), 1)",
           "torch.linspace(0., 1., 2000000000)",
           "torch.tril_indices(20000, 20000)",
           "torch.eye(100000, 100000)",
           "torch.hann_window(2000000000)",
           "torch.histogramdd(torch.reshape(x, [1, 2]), [5, 1000000000])",
           "torch.arange(0., 1e12, 0.5)",
           "torch.fft_fft(x, 9223372036854775807)",
           "torch.pixel_unshuffle(torch.zeros([1, 1, 0, 0]), 1000000)",
           "torch.channel_shuffle(torch.zeros([1, 1000000000, 0]), 10)",
           "torch.repeat_interleave(torch.tensor([1000000000, 1000000000]))",
           "torch.unfold(torch.zeros([1000000000]), 0, 3, 1)",
           "ops.torchvision.ps_roi_align(torch.zeros([1, 0, 4, 4]), torch.zeros([1, 5]), 1., 100000, 100000, 1)",
       }) {
    CAPTURE(work);
    CHECK(has(answer(std::string("y = ") + work + "\nreturn x", "x:float32[2]"), Code::LimitExceeded));
  }
  CHECK(
      has(answer("for i in range(100):\n  for j in range(100):\n    z = torch.mul([1], 100)\nreturn x", "x:float32[2]"),
          Code::LimitExceeded));
}

std::string doubled(const std::string& first) {
  std::string out = "t = " + first + "\n";
  for (int i = 0; i < 60; ++i) out += "t = (t, t)\n";
  return out;
}

TEST_CASE("values that share others are walked once") {
  CHECK(answer(doubled("(1, 1)") + "a = t\n" + doubled("(1, 1)") + "c = torch.eq(a, t)\nreturn x", "x:float32[2]")
            .empty());
  const auto branches = answer(
      doubled("(x, x)") + "if bool(torch.sum(x)):\n  u = x\nelse:\n  u = torch.neg(x)\nreturn u", "x:float32[2]");
  CHECK(branches.empty());
  CHECK(has(answer(doubled("(x, x)") + "return t", "x:float32[2]"), Code::LimitExceeded));
}

/// What comes of a whole trace, of which loops may be rerolled.
std::vector<std::string> codes_of_export(const std::string& file) {
  std::vector<std::string> out;
  std::vector<std::byte> written;
  const auto allocate = [&](uint64_t size) {
    written.resize(size);
    return written.data();
  };
  try {
    export_bytes(ModelSource(Bytes(file.data(), file.size())), allocate);
  } catch (const ExportError& e) {
    for (const Message& m : e.messages) out.push_back(m.code);
  }
  return out;
}

TEST_CASE("traces whose tuples share others, and whose lists contain themselves, are refused") {
  const std::string tuples = indented(doubled("(x, x)"));
  CHECK(codes_of_export(test::traced(2, 3, "t", tuples, "Any")) == std::vector<std::string>{"LTH010"});
  const std::string itself = indented("q = [[1]]\na = torch.append(q, q)\nz = torch.eq(q, q)");
  for (const std::string& code : codes_of_export(test::traced(2, 3, "x", itself))) CHECK(code != "LTH099");
}

TEST_CASE("values that contain themselves are refused where they are walked, and freed") {
  const std::string itself = "q = [[1]]\na = torch.append(q, q)\np = [[1]]\nc = torch.append(p, p)\n";
  CHECK(has(answer(itself + "z = torch.eq(q, p)\nreturn x", "x:float32[2]"), Code::LimitExceeded));
  CHECK(has(answer(itself + "return q", "x:float32[2]"), Code::LimitExceeded));
  CHECK(!has(answer(itself + "z = torch.__contains__(q, q)\nreturn x", "x:float32[2]"), Code::Internal));
  CHECK(!has(answer(itself + "z = str(q)\nreturn x", "x:float32[2]"), Code::Internal));
  CHECK(answer(itself + "return torch.relu(x)", "x:float32[2]").empty());
  CHECK(answer("d = annotate(Dict[int, Any], {})\nl = [d]\ntorch._set_item(d, 1, l)\nreturn torch.relu(x)",
               "x:float32[2]")
            .empty());
  CHECK(!has(answer("self.w = [self]\nreturn torch.relu(x)", "x:float32[2]"), Code::Internal));
}

TEST_CASE("a closure is called only while the frame is there that it captures") {
  const std::string made = "def c():\n  return x\n";
  CHECK(answer(made + "return fork(c)", "x:float32[2]").empty());
  const auto calls_itself = answer("def c():\n  return fork(c)\nreturn fork(c)", "x:float32[2]");
  CHECK(!calls_itself.empty());
  CHECK(!has(calls_itself, Code::Internal));
  ExportOptions options;
  options.inputs = {"x:float32[2]"};
  const auto escaped = test::diagnostics_of(
      "    c = (self).made()\n    return fork(c)\n"
      "  def made(self: __torch__.M) -> Any:\n    y = [1, 2, 3]\n    def c():\n      return y\n    return c\n",
      options);
  CHECK(has(escaped, Code::BadProgram));
}

TEST_CASE("deep values and long chains of views need no deep stack") {
  const std::string loops = "for i in range(100):\n  for j in range(100):\n    ";
  CHECK(answer("y = [1]\n" + loops + "y = [y]\nreturn torch.relu(x)", "x:float32[2]").empty());
  CHECK(answer("y = torch.clone(x)\nv = y\n" + loops + "v = torch.view(v, [2])\nz = torch.add_(y, 1)\nreturn v",
               "x:float32[2]")
            .empty());
  CHECK(answer("y = x\n" + loops + "y = torch.neg(torch.relu(y))\nreturn y", "x:float32[2]").empty());
}

TEST_CASE("an operator that fails inside of the loop that it makes leaves nothing of it") {
  // Before opset 10 there is no Mod, and after the first failure others are tried.
  for (const int opset : {9, 18}) {
    const auto all =
        answer("b = self.b\ny = torch.gcd(x, b)\nz = torch.gcd(x, b)\nreturn (y, z)", "x:float32[n=4,3]", opset);
    CHECK(!has(all, Code::Internal));
  }
}

TEST_CASE("state that leaves a run with sizes of its own is refused") {
  ExportOptions options;
  options.inputs = {"x:float32[2]"};
  options.state = ExportOptions::State::InOut;
  const auto all = test::diagnostics_of(
      "    b = self.b\n    self.b = torch.masked_select(b, torch.gt(b, -1e9))\n    return torch.add(x, torch.sum(b))\n",
      options);
  CHECK(has(all, Code::UnsupportedState));
  CHECK(!has(all, Code::Internal));
}

TEST_CASE("a number of the run has an absolute value") {
  CHECK(answer("s0 = torch.size(x, 0)\nv = torch.fabs(s0)\nreturn torch.mul(x, v)", "x:float32[batch=2,3]").empty());
}

}  // namespace
}  // namespace lithify
