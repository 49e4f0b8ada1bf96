// The JSON form of claims, in the metadata of an ONNX file and in results.
#include <fmt/format.h>

#include <algorithm>

#include "base/diagnostic.hpp"
#include "base/json.hpp"
#include "claims/claims.hpp"

namespace lithify::claims {
namespace {

constexpr int64_t newest_version = 1;
constexpr size_t max_json = size_t{1} << 22;
constexpr size_t max_paths = 1000, max_conditions = 1000;
constexpr std::string_view kind_names[] = {"any size", "recorded path", "checked"};

void write_constraints(JsonWriter& j, std::string_view name, const std::vector<Constraint>& constraints) {
  j.list(name, constraints,
         [&](const Constraint& c) { j.open('{').field("formula", c.formula).field("where", c.where).close('}'); });
}

// ---- reading ------------------------------------------------------------------------------------------------------

/// Calls `f` with each item of a list that may be missing.
template <class F>
void each(const Json& object, std::string_view key, F f) {
  if (const std::optional<Json> list = object.find(key))
    for (const Json& item : list->items()) f(item);
}

std::vector<std::string> texts(const Json& object, std::string_view key) {
  std::vector<std::string> out;
  each(object, key, [&](const Json& item) { out.emplace_back(item.text()); });
  return out;
}

int count_of(const Json& object, std::string_view key) {
  const std::optional<Json> number = object.find(key);
  if (!number) return 0;
  const int64_t value = number->integer();
  if (value < 0 || value > std::numeric_limits<int>::max()) number->fail("is not a count");
  return static_cast<int>(value);
}

ClaimKind kind_of(const Json& name) {
  const auto* found = std::ranges::find(kind_names, name.text());
  if (found == std::end(kind_names)) name.fail(fmt::format("is '{}', which is not known", name.text()));
  return static_cast<ClaimKind>(found - kind_names);
}

DimensionClaim dimension_of(const Json& json) {
  DimensionClaim out;
  out.name = json["name"].text();
  out.kind = kind_of(json["kind"]);
  out.constraints = texts(json, "constraints");
  each(json, "checked", [&](const Json& size) { out.checked.push_back(size.integer()); });
  out.unfollowed = texts(json, "unfollowed");
  out.recovered = count_of(json, "recovered");
  out.unverified = count_of(json, "unverified");
  return out;
}

std::vector<Constraint> constraints_of(const Json& root, std::string_view key) {
  std::vector<Constraint> out;
  each(root, key, [&](const Json& item) {
    const std::optional<Json> where = item.find("where");
    out.push_back({std::string(item["formula"].text()), where ? std::string(where->text()) : ""});
  });
  return out;
}

/// A path has an outcome of each condition.
void check_paths(const Json& root, const Claims& claims) {
  if (claims.paths.size() > max_paths || claims.conditions.size() > max_conditions)
    throw Error(Code::LimitExceeded, "the claims have too many conditions or paths");
  const auto malformed = [&](const std::string& path) {
    return path.size() != claims.conditions.size() || path.find_first_not_of("TF-") != std::string::npos;
  };
  if (std::ranges::any_of(claims.paths, malformed)) root.fail("has a path that does not fit the conditions");
  if (claims.paths.empty() && !claims.conditions.empty()) root.fail("has conditions, and no path");
}

}  // namespace

void write(JsonWriter& j, const DimensionClaim& d) {
  j.open('{').field("name", d.name).field("kind", kind_names[static_cast<size_t>(d.kind)]);
  j.list("constraints", d.constraints);
  j.list("checked", d.checked);
  j.list("unfollowed", d.unfollowed);
  j.field("recovered", d.recovered).field("unverified", d.unverified).close('}');
}

void write(JsonWriter& j, const Claims& claims) {
  j.open('{').field("version", newest_version);
  j.list("dimensions", claims.dimensions, [&](const DimensionClaim& d) { write(j, d); });
  write_constraints(j, "constraints", claims.constraints);
  write_constraints(j, "conditions", claims.conditions);
  j.list("paths", claims.paths);
  j.list("checked", claims.checked, [&](const Sizes& sizes) {
    j.open('{');
    for (const auto& [name, size] : sizes) j.field(name, size);
    j.close('}');
  });
  j.close('}');
}

Claims parse(std::string_view text) {
  if (text.size() > max_json) throw Error(Code::LimitExceeded, "the claims of the file are too long");
  const JsonDocument document(text, std::string(metadata_key), "the metadata of the file");
  const Json root = document.root();
  if (root["version"].integer() > newest_version)
    throw Error(Code::UnsupportedVersion, "the claims of the file were written by a later release of Lithify");
  Claims out;
  for (const Json& d : root["dimensions"].items()) out.dimensions.push_back(dimension_of(d));
  out.constraints = constraints_of(root, "constraints");
  out.conditions = constraints_of(root, "conditions");
  out.paths = texts(root, "paths");
  check_paths(root, out);
  each(root, "checked", [&](const Json& sizes) {
    Sizes& entry = out.checked.emplace_back();
    for (const auto& [name, size] : sizes.members()) entry.emplace_back(name, size.integer());
  });
  return out;
}

}  // namespace lithify::claims
