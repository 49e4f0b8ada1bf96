// What a file claims: questions about sizes, texts, and the form in the metadata.
#include "claims/claims.hpp"

#include <doctest/doctest.h>

#include "base/diagnostic.hpp"

namespace lithify::claims {
namespace {

DimensionClaim dimension(std::string name, ClaimKind kind = ClaimKind::AnySize) {
  DimensionClaim out;
  out.name = std::move(name);
  out.kind = kind;
  return out;
}

Claims image() {
  Claims out;
  out.dimensions = {dimension("batch"), dimension("height")};
  out.constraints = {{"batch >= 1", ""}, {"height >= 1", ""}, {"height % 32 == 0", "model.py:12"}};
  return out;
}

std::string json_of(const Claims& claims) {
  JsonWriter j;
  write(j, claims);
  return j.text();
}

std::string error_of(const std::string& json) {
  try {
    parse(json);
  } catch (const Error& e) {
    return e.first().message;
  }
  return "";
}

std::vector<std::string> sides(const std::vector<std::string>& conditions, const std::vector<std::string>& paths) {
  Claims claims;
  for (const std::string& c : conditions) claims.conditions.push_back({c, ""});
  claims.paths = paths;
  std::vector<std::string> out;
  for (const Constraint& c : recorded_sides(claims)) out.push_back(c.formula);
  return out;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_SUITE("claims") {
  TEST_CASE("constraints exclude sizes, and the reason names the line") {
    const ClaimAnswer yes = answer(image(), {{"height", 64}, {"batch", 1}});
    CHECK(yes.holds == true);
    const ClaimAnswer no = answer(image(), {{"batch", 2}, {"height", 20}});
    CHECK(no.holds == false);
    CHECK(no.why == "height % 32 == 0 does not hold at height=20 (model.py:12)");
    CHECK(answer(image(), {{"batch", 0}, {"height", 32}}).why == "batch >= 1 does not hold at batch=0");
  }

  TEST_CASE("names are those of the dimensions, each once") {
    const auto error = [](const Sizes& sizes) -> std::string {
      try {
        answer(image(), sizes);
      } catch (const Error& e) {
        return e.first().message + (e.first().hint.empty() ? "" : ". " + e.first().hint);
      }
      return "";
    };
    CHECK(error({{"bach", 1}, {"height", 2}}) ==
          "there is no dimension 'bach'; the dynamic dimensions are batch, height. did you mean 'batch'?");
    CHECK(error({{"b", 1}, {"height", 2}}).ends_with("did you mean 'batch'?"));
    CHECK(error({{"zzz", 1}}) == "there is no dimension 'zzz'; the dynamic dimensions are batch, height");
    CHECK(error({{"batch", 1}}).starts_with("the size of 'height' is missing; "));
    CHECK(error({{"batch", 1}, {"batch", 2}, {"height", 2}}).starts_with("the size of 'batch' is given twice; "));
    CHECK(answer({}, {}).holds == true);
    CHECK_THROWS_AS(answer({}, {{"batch", 1}}), Error);
  }

  TEST_CASE("what sizes do not decide is not claimed") {
    Claims claims = image();
    for (const char* formula : {"u0 <= height", "height % (batch - 1) == 0", "no formula", "str(batch) == 1"}) {
      claims.constraints = {{formula, ""}};
      CAPTURE(formula);
      CHECK(answer(claims, {{"batch", 1}, {"height", 32}}).holds == std::nullopt);
    }
    claims.constraints.push_back({"height % 32 == 0", ""});
    CHECK(answer(claims, {{"batch", 1}, {"height", 31}}).holds == false);
  }

  TEST_CASE("a path that was not recorded is not claimed") {
    Claims claims;
    claims.dimensions = {dimension("batch"), dimension("seq")};
    claims.conditions = {{"batch == 1", "model.py:3"}, {"seq > 5", "model.py:7"}};
    claims.paths = {"F-", "TT"};
    CHECK(answer(claims, {{"batch", 2}, {"seq", 1}}).holds == true);
    CHECK(answer(claims, {{"batch", 1}, {"seq", 6}}).holds == true);
    const ClaimAnswer other = answer(claims, {{"batch", 1}, {"seq", 5}});
    CHECK(other.holds == std::nullopt);
    CHECK(other.why == "the model was recorded only where batch != 1 or seq > 5 (model.py:7)");
    claims.conditions[1].formula = "u0 > 5";
    CHECK(answer(claims, {{"batch", 1}, {"seq", 6}}).why == "the sizes do not decide whether u0 > 5 (model.py:7)");
  }

  TEST_CASE("sides that no sizes can take are not missing") {
    CHECK(sides({"past == 1", "past > 1"}, {"TF", "FT", "FF"}) == Texts());
    CHECK(sides({"seq > 1", "past == 1", "past > 1"}, {"TTF", "TFT", "TFF", "FTF", "FFT", "FFF"}) == Texts());
    CHECK(sides({"past > 2", "past > 1"}, {"TT", "FF"}) == Texts{"past > 2 or past <= 1"});
    CHECK(sides({"past > 2", "past > 3"}, {"TT", "FF"}) == Texts{"past <= 2 or past > 3"});
    CHECK(sides({"past % 4 == 1", "past % 4 > 1"}, {"TF", "FT", "FF"}) == Texts());
    CHECK(sides({"seq > 1", "past == 1", "past > 1"}, {"TTF", "TFT", "FTF", "FFT"}) == Texts{"past >= 1"});
    CHECK(sides({"past > 2", "past < 4"}, {"TF", "FT"}) == Texts{"past <= 2 or past >= 4"});
  }

  TEST_CASE("a dimension that is not followed is claimed where the file was checked, with the others like it") {
    Claims claims;
    claims.dimensions = {dimension("batch"), dimension("seq", ClaimKind::Checked),
                         dimension("past", ClaimKind::Checked)};
    claims.dimensions[1].unfollowed = {"int of a size at model.py:12"};
    claims.checked = {{{"batch", 2}, {"seq", 3}, {"past", 4}}, {{"batch", 2}, {"seq", 5}, {"past", 7}}};
    CHECK(answer(claims, {{"batch", 9}, {"seq", 3}, {"past", 4}}).holds == true);
    const ClaimAnswer other = answer(claims, {{"batch", 2}, {"seq", 3}, {"past", 7}});
    CHECK(other.holds == std::nullopt);
    CHECK(other.why == "the file was not checked at seq=3, past=7, and int of a size at model.py:12 is not followed");
    claims.constraints = {{"seq < 3", ""}};
    CHECK(answer(claims, {{"batch", 2}, {"seq", 3}, {"past", 4}}).holds == false);
  }

  TEST_CASE("a recorded path with uses that are not followed is claimed where it was recorded") {
    Claims claims;
    claims.dimensions = {dimension("seq", ClaimKind::RecordedPath)};
    CHECK(answer(claims, {{"seq", 8}}).holds == true);
    claims.dimensions[0].unfollowed = {"the number 7 at model.py:4"};
    claims.checked = {{{"seq", 7}}};
    CHECK(answer(claims, {{"seq", 7}}).holds == true);
    CHECK(answer(claims, {{"seq", 8}}).holds == std::nullopt);
  }

  TEST_CASE("texts") {
    DimensionClaim d = dimension("height");
    CHECK(d.str() == "any size");
    d.constraints = {"height % 32 == 0", "seq <= 512"};
    d.recovered = 1;
    d.unverified = 2;
    CHECK(d.str() == "any size where height % 32 == 0 and seq <= 512, 1 size recovered, 2 constants unverified");
    d = dimension("height", ClaimKind::RecordedPath);
    CHECK(d.str() == "any size, on the recorded path");
    d = dimension("height", ClaimKind::Checked);
    CHECK(d.str() == "not checked at any size");
    d.checked = {3, 4, 7, 16};
    CHECK(d.str() == "checked at 3, 4, 7, 16");
    CHECK(image().str() == "batch: any size\nheight: any size\nneeds height % 32 == 0 (model.py:12)");
    CHECK(Claims().str() == "no dynamic dimension");
  }

  TEST_CASE("sides of conditions that were recorded") {
    CHECK(sides({"a > 1"}, {"T"}) == Texts{"a > 1"});
    CHECK(sides({"a > 1"}, {"F"}) == Texts{"a <= 1"});
    CHECK(sides({"a > 1"}, {"F", "T"}).empty());
    CHECK(sides({"a > 1", "b > 1"}, {"TT", "FT"}) == Texts{"b > 1"});
    CHECK(sides({"a > 1", "b > 1"}, {"TT", "TF", "F-"}).empty());
    CHECK(sides({"a > 1", "b > 1"}, {"TT", "FF"}) == Texts{"a <= 1 or b > 1", "a > 1 or b <= 1"});
    CHECK(sides({"a > 1", "b > 1", "c > 1"}, {"TT-", "TFT", "F--"}) == Texts{"a <= 1 or b > 1 or c > 1"});
    CHECK(sides({}, {}).empty());
    CHECK(sides({}, {""}).empty());
    CHECK(sides({"a ="}, {"F"}) == Texts{"not (a =)"});
  }

  TEST_CASE("the form in the metadata") {
    Claims claims = image();
    claims.dimensions[1].kind = ClaimKind::Checked;
    claims.dimensions[1].constraints = {"height % 32 == 0"};
    claims.dimensions[1].checked = {32, 64};
    claims.dimensions[1].unfollowed = {"text of a size at \"m\n.py\":1"};
    claims.dimensions[1].recovered = 3;
    claims.conditions = {{"batch > 1", "model.py:3"}};
    claims.paths = {"T", "F"};
    claims.checked = {{{"batch", 2}, {"height", 32}}, {{"batch", 2}, {"height", 64}}};
    const std::string text = json_of(claims);
    CHECK(json_of(parse(text)) == text);
    CHECK(parse(text).dimensions[1].unfollowed == claims.dimensions[1].unfollowed);
    CHECK(json_of(parse(json_of({}))) == json_of({}));
    const Claims later =
        parse(R"({"version": 1, "dimensions": [{"name": "n", "kind": "any size", "new": {}}], "x": 1})");
    CHECK(later.dimensions.size() == 1);
  }

  TEST_CASE("damaged metadata is refused") {
    CHECK(error_of("") != "");
    CHECK(error_of("[1]") == "the metadata of the file is malformed: 'lithify.claims' is not an object");
    CHECK(error_of("{}") == "the metadata of the file is malformed: 'lithify.claims' has no field 'version'");
    CHECK(error_of(R"({"version": 2, "dimensions": []})") ==
          "the claims of the file were written by a later release of Lithify");
    for (const char* json : {R"({"version": "1", "dimensions": []})", R"({"version": 1, "dimensions": {}})",
                             R"({"version": 1, "dimensions": [{"name": 1, "kind": "checked"}]})",
                             R"({"version": 1, "dimensions": [{"name": "n"}]})",
                             R"({"version": 1, "dimensions": [{"name": "n", "kind": "certain"}]})",
                             R"({"version": 1, "dimensions": [{"name": "n", "kind": "checked", "checked": [1.5]}]})",
                             R"({"version": 1, "dimensions": [{"name": "n", "kind": "checked", "recovered": -1}]})",
                             R"({"version": 1, "dimensions": [], "constraints": ["a"]})",
                             R"({"version": 1, "dimensions": [], "conditions": [{"formula": "a"}], "paths": []})",
                             R"({"version": 1, "dimensions": [], "conditions": [{"formula": "a"}], "paths": ["TT"]})",
                             R"({"version": 1, "dimensions": [], "conditions": [{"formula": "a"}], "paths": ["x"]})",
                             R"({"version": 1, "dimensions": [], "checked": [{"n": "2"}]})"}) {
      CAPTURE(json);
      CHECK(error_of(json).starts_with("the metadata of the file is malformed: "));
    }
  }
}

}  // namespace lithify::claims
