// Which captures the core asks a front end for, with front ends whose programs are texts.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "lithify/capture.hpp"
#include "model_bytes.hpp"

namespace lithify {
namespace {

using namespace test;

/// A model of float32[batch, seq, 4] that returns what `returned` says for its sizes.
class TextModel final : public FrontEnd {
 public:
  std::function<std::string(int64_t batch, int64_t seq)> returned;
  bool follows = true;
  std::vector<std::string> escaped_data = {};
  bool escapes = false;                  ///< the number batch*seq, at model.py:3
  std::optional<int64_t> at_least = {};  ///< asked at model.py:5: whether seq >= this
  int64_t most = 1000;                   ///< it does not run at larger sizes
  std::function<void()> fails = {};      ///< called when it is traced
  std::vector<std::string> asked = {};   ///< "trace batch=3, seq=5"

  Sizes sample_sizes() override { return {{"batch", 5}, {"seq", 7}}; }
  bool follows_sizes() const override { return follows; }
  std::vector<CaptureKind> other_kinds() const override { return {CaptureKind::Script}; }

  Capture capture(const CaptureRequest& request) override {
    std::string text = request.kind == CaptureKind::Script ? "script" : "trace";
    int64_t sizes[] = {5, 7};
    for (size_t i = 0; i < request.sizes.size(); ++i) {
      sizes[i] = request.sizes[i].second;
      text += " " + request.sizes[i].first + "=" + std::to_string(sizes[i]);
    }
    asked.push_back(text);
    if (request.kind == CaptureKind::Script) throw CannotCapture("TorchScript cannot capture the model");
    if (fails) fails();
    if (std::max(sizes[0], sizes[1]) > most) throw CannotCapture("the model does not run");
    auto bytes = std::make_shared<std::string>(program(sizes[0], sizes[1]));
    Capture out;
    out.model = ModelSource(Bytes(bytes->data(), bytes->size()));
    out.keep = bytes;
    out.dynamic_axes["x"] = {{0, "batch"}, {1, "seq"}};
    if (follows) out.followed = followed(sizes[1]);
    if (at_least || escapes) out.output_names = {"output_0"};
    out.escaped_data = escaped_data;
    return out;
  }

 private:
  Followed followed(int64_t seq) const {
    Followed out;
    if (at_least) out.conditions.push_back({"s0 >= " + std::to_string(*at_least), seq >= *at_least, "model.py:5"});
    if (escapes) out.escapes.push_back({"s0 * s1", 0, "int", "model.py:3"});
    out.sizes = at_least || escapes ? 2 : 0;
    return out;
  }

  /// What is followed are further results.
  std::string program(int64_t batch, int64_t seq) const {
    std::string more, types;
    if (follows && at_least) {
      more += ", torch.ge(torch.size(x, 1), " + std::to_string(*at_least) + ")";
      types += ", bool";
    }
    if (follows && (at_least || escapes)) {
      more += ", torch.size(x, 1), torch.size(x, 0)";
      types += ", int, int";
    }
    if (more.empty()) return traced(batch, seq, returned(batch, seq));
    return traced(batch, seq, "(" + returned(batch, seq) + more + ")", "", "Tuple[Tensor" + types + "]");
  }
};

ExportResult exported(TextModel& model, const ExportOptions& options = {}) {
  std::vector<std::byte> out;
  return export_live(
      model, CaptureStrategy::Auto,
      [&](uint64_t size) {
        out.resize(size);
        return out.data();
      },
      options);
}

std::string flat(int64_t batch, int64_t seq) { return "torch.view(x, [" + std::to_string(batch * seq) + ", 4])"; }

}  // namespace

TEST_CASE("one trace is enough where no size escapes") {
  TextModel model;
  model.returned = [](int64_t, int64_t) { return "torch.relu(x)"; };
  CHECK(exported(model).capture_reason == "a trace of one run shows all that it does");
  CHECK(model.asked == std::vector<std::string>{"trace"});
}

TEST_CASE("where sizes escape, traces at other sizes show what numbers are") {
  TextModel model;
  model.returned = flat;
  model.escapes = true;
  const ExportResult r = exported(model);
  CHECK(r.outputs[0].str() == "output_0: float32[batch*seq, 4]");
  CHECK(r.capture_reason == "traces of 4 runs");
  CHECK(model.asked.size() == 4);
  CHECK(r.claims.holds({{"batch", 5}, {"seq", 7}}) == true);
  CHECK_FALSE(r.claims.holds({{"batch", 50}, {"seq", 70}}).has_value());
}

TEST_CASE("sizes at which the model does not run are followed by others") {
  TextModel model;
  model.returned = flat;
  model.escapes = true;
  model.most = 7;
  CHECK(exported(model).outputs[0].str() == "output_0: float32[batch*seq, 4]");
  CHECK(model.asked.size() > 2);
}

TEST_CASE("both sides of a condition are traced and merged") {
  TextModel model;
  model.at_least = 10;
  model.returned = [](int64_t, int64_t seq) { return seq >= 10 ? "torch.relu(x)" : "torch.neg(x)"; };
  const ExportResult r = exported(model);
  CHECK(r.capture_reason == "traces of 2 paths, merged");
  CHECK(r.claims.holds({{"batch", 1}, {"seq", 9}}) == true);
  CHECK(r.claims.holds({{"batch", 1}, {"seq", 10}}) == true);
}

TEST_CASE("a side at which the model does not run is a constraint") {
  TextModel model;
  model.at_least = 10;
  model.most = 9;
  model.returned = [](int64_t, int64_t) { return "torch.neg(x)"; };
  const ExportResult r = exported(model);
  CHECK(r.claims.holds({{"batch", 1}, {"seq", 9}}) == true);
  CHECK(r.claims.holds({{"batch", 1}, {"seq", 10}}) == false);
}

TEST_CASE("runs at other sizes are bounded, and what is left out is a constraint") {
  TextModel model;
  model.at_least = 10;
  model.returned = [](int64_t, int64_t seq) { return seq >= 10 ? "torch.relu(x)" : "torch.neg(x)"; };
  ExportOptions options;
  options.capture_runs = 0;
  CHECK(exported(model, options).claims.holds({{"batch", 1}, {"seq", 10}}) == false);
  options = {};
  options.capture_seconds = 0;
  CHECK(exported(model, options).claims.holds({{"batch", 1}, {"seq", 10}}) == false);
  CHECK(model.asked.size() == 2);
}

TEST_CASE("contents that escape need another kind of capture, and all reasons are reported") {
  TextModel model;
  model.returned = flat;
  model.escaped_data = {"bool of a tensor at model.py:4"};
  try {
    exported(model);
    FAIL("nothing is wrong");
  } catch (const ExportError& e) {
    REQUIRE(e.messages.size() == 2);
    CHECK(e.messages[0].text == "a trace follows only one outcome of bool of a tensor at model.py:4");
    CHECK(e.messages[1].text == "TorchScript cannot capture the model");
  }
  CHECK(model.asked == std::vector<std::string>{"trace", "script"});
}

TEST_CASE("what cannot be traced is captured otherwise, unless the model itself fails") {
  TextModel model;
  model.returned = flat;
  model.fails = [] { throw CannotCapture("the tracer fails"); };
  CHECK_THROWS_WITH_AS(exported(model), doctest::Contains("the tracer fails"), ExportError);
  CHECK(model.asked == std::vector<std::string>{"trace", "script"});
  model.asked.clear();
  model.fails = [] { throw CannotRun("the model fails"); };
  CHECK_THROWS_WITH_AS(exported(model), doctest::Contains("the model fails"), ExportError);
  CHECK(model.asked == std::vector<std::string>{"trace"});
}

TEST_CASE("other sizes keep the equalities and sums of the sample first") {
  const std::vector<Sizes> tried = other_sizes({{"past", 5}, {"sequence", 3}, {"total", 8}, {"other", 3}});
  REQUIRE(tried.size() >= 4);
  CHECK(tried[0] == Sizes{{"past", 6}, {"sequence", 7}, {"total", 13}, {"other", 7}});
  CHECK(tried[1] == Sizes{{"past", 6}, {"sequence", 7}, {"total", 13}, {"other", 9}});
}

TEST_CASE("where sizes are not followed, traces at three sizes and at those that tend to matter show what they are") {
  TextModel model;
  model.returned = flat;
  model.follows = false;
  CHECK(exported(model).outputs[0].str() == "output: float32[batch*seq, 4]");
  REQUIRE(model.asked.size() > 3);
  CHECK(model.asked[0] == "trace");
  CHECK(model.asked[1] == "trace batch=11 seq=18");
  CHECK(model.asked[2] == "trace batch=18 seq=28");
  CHECK(std::ranges::count(model.asked, "trace batch=1 seq=7") == 1);
}

TEST_CASE("any other exception of a front end reaches the caller") {
  TextModel model;
  model.returned = [](int64_t, int64_t) -> std::string { throw std::out_of_range("mine"); };
  CHECK_THROWS_AS(exported(model), std::out_of_range);
}

}  // namespace lithify
