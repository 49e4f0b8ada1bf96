#include "cli/ask.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/diagnostic.hpp"
#include "base/json_writer.hpp"
#include "cli/options.hpp"

namespace lithify::cli {
namespace {

struct Asked {
  std::string at;
  ClaimAnswer answer;
};

void print_json(const Claims& claims, const std::vector<Asked>& all) {
  JsonWriter j;
  j.open('{').key("claims").json(to_json(claims)).key("at").open('{');
  for (const Asked& a : all) j.key(a.at).json(to_json(a.answer));
  fmt::print("{}\n", j.close('}').close('}').text());
}

void print(const Asked& a) {
  const char* verdict = !a.answer.holds ? "not claimed" : *a.answer.holds ? "claimed" : "excluded";
  fmt::print("{}: {}: {}\n", printable(a.at), verdict, printable(a.answer.why));
}

}  // namespace

int answer(const std::string& model, const std::vector<std::string>& at, bool json) {
  std::vector<Sizes> sizes;
  for (const std::string& text : at) sizes.push_back(parse_sizes(text));
  const Claims claims = read_claims(model);
  std::vector<Asked> all;
  for (size_t i = 0; i < at.size(); ++i) all.push_back({at[i], claims.ask(sizes[i])});
  if (json)
    print_json(claims, all);
  else
    std::ranges::for_each(all, print);
  return std::ranges::all_of(all, [](const Asked& a) { return a.answer.holds == true; }) ? 0 : 1;
}

}  // namespace lithify::cli
