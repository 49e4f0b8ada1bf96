#include "provenance/findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "base/options.hpp"

namespace lithify::provenance {
namespace {

int64_t number_at(const program::Program& program, const Literal& literal) {
  if (literal.expr->kind == program::Expr::Kind::Int) return literal.expr->integer;
  const program::Data& data = program.constants.at(static_cast<size_t>(literal.expr->integer));
  if (literal.element == Literal::length) return data.tensor->numel();
  return integers_of(*data.tensor).at(literal.element);
}

/// Whether a number that is used so may be the size of a dimension, or one off. One that is 0 or 1 may be anything: it
/// is suspected only where the dimension has the size 1, and a 0 only as a position in that dimension.
bool may_be(const NumberUse& use, const Dimension& d) {
  const bool near = std::ranges::all_of(d.sizes, [&](int64_t size) {
    return use.number == size || (use.role == Role::Position && std::abs(use.number - size) == 1);
  });
  if (!near || use.number > 1) return near;
  if (d.sizes[0] != 1 || (use.role == Role::Operand && use.literal.element == Literal::fixed)) return false;
  if (use.number == 1 && (use.role != Role::Size || !use.size)) return true;
  return use.size && std::ranges::count(sym::symbols(use.size), d.symbol) > 0;
}

/// The number as the program has it: a float, where one was computed from a size.
std::string text_of(const program::Program& program, const NumberUse& use) {
  const program::Expr& e = *use.literal.expr;
  std::vector<double> real;
  if (use.literal.element == Literal::fixed && e.kind == program::Expr::Kind::Float) real.push_back(e.real);
  if (use.literal.element == Literal::fixed && e.kind == program::Expr::Kind::Constant) {
    const TensorView& tensor = *program.constants.at(static_cast<size_t>(e.integer)).tensor;
    if (tensor.sizes.empty()) append_elements(tensor, real);
  }
  return real.empty() ? fmt::format("{}", use.number) : fmt::format("{:.6g}", real[0]);
}

/// A number that may come from sizes: that it may is counted for each of their dimensions.
void count_use(const program::Program& program, const sym::Context& sym, const NumberUse& use, sym::Expr size,
               std::set<std::pair<Literal, std::string>>& counted, Findings& out) {
  const Place place = program.locate(use.pos);
  for (sym::Expr symbol : sym::symbols(size)) {
    const std::string& name = sym.info(symbol).name;
    if (!counted.emplace(use.literal, name).second) continue;
    ++out.unverified[name];
    out.uses[name].push_back(
        fmt::format("the number {}{}", text_of(program, use), place.known() ? " at " + place.brief() : ""));
  }
}

/// Whether a number that is computed with is the number of elements of an input.
bool may_be_count(const NumberUse& use, sym::Expr count, const sym::Context& sym) {
  const bool computed = use.role == Role::Operand || use.role == Role::Divisor;
  return computed && use.number > 1 && !count.is_constant() && !count.is_symbol() && sym.sample(count) == use.number;
}

/// Whether a tensor that the model holds has a dimension of this size.
bool is_size_of_weight(const program::Object& object, int64_t size) {
  return std::ranges::any_of(object.attributes, [&](const auto& attribute) {
    const program::Data& held = attribute.second;
    if (held.object) return is_size_of_weight(*held.object, size);
    return held.tensor && std::ranges::find(held.tensor->sizes, size) != held.tensor->sizes.end();
  });
}

}  // namespace

void report_recovered(const program::Program& program, const sym::Context& sym, const Solution& solution,
                      Findings& out) {
  for (auto& [literal, formula] : solution.formulas) {
    for (sym::Expr d : sym::symbols(formula)) ++out.recovered[sym.info(d).name];
    out.diagnostics.push_back(
        {Code::RecoveredSize, Severity::Note,
         fmt::format("the number {}, hard-coded by tracing, stands for {}", number_at(program, literal), formula.str()),
         program.locate(literal.expr->pos), "", formula.str()});
  }
}

void report_unverified(const program::Program& program, const sym::Context& sym, Search& search,
                       const Solution& solution, const std::vector<sym::Expr>& counts, bool strict, Findings& out) {
  std::set<std::pair<Literal, std::string>> counted;
  for (const NumberUse& use : solution.outcome->record.uses) {
    if (solution.formulas.contains(use.literal)) continue;
    for (const Dimension& d : search.dimensions()) {
      if (!may_be(use, d)) continue;
      const std::string& name = sym.info(d.symbol).name;
      const bool is_size = use.role == Role::Size || use.role == Role::Fill;
      const bool hard_coded_elsewhere = is_size && out.recovered[name] > 0;
      if (hard_coded_elsewhere && !strict && !search.matters(solution, use, d)) continue;
      count_use(program, sym, use, d.symbol, counted, out);
      out.diagnostics.push_back(
          {Code::UnverifiedSize, hard_coded_elsewhere || strict ? Severity::Error : Severity::Warning,
           fmt::format("the number {} may come from the size of '{}' in the sample, and nothing shows whether it does",
                       text_of(program, use), name),
           program.locate(use.pos), term("second capture"), name});
    }
    for (sym::Expr count : counts) {
      if (!may_be_count(use, count, sym)) continue;
      count_use(program, sym, use, count, counted, out);
      out.diagnostics.push_back(
          {Code::UnverifiedSize, strict ? Severity::Error : Severity::Warning,
           fmt::format("the number {} may be {}, the number of elements of an input of the sample, and nothing shows "
                       "whether it is",
                       use.number, count.str()),
           program.locate(use.pos), term("second capture"), count.str()});
    }
  }
}

void report_unrolled(const program::Program& program, const sym::Context& sym, const Record& record, bool strict,
                     Findings& out) {
  std::set<std::pair<Literal, std::string>> counted;
  std::map<std::tuple<std::string, int, const sym::Node*>, std::set<int64_t>> taken;
  std::map<const sym::Node*, int> lines;  // that take all elements along a size
  for (const NumberUse& use : record.uses) {
    if (use.role != Role::Position || !use.size || use.size.is_constant()) continue;
    const std::optional<int64_t> size = sym.sample(use.size);
    if (!size || *size < 2 || use.number >= *size) continue;
    const Place place = program.locate(use.pos);
    std::set<int64_t>& positions = taken[{place.file, place.line, use.size.node()}];
    if (!positions.insert(use.number).second || positions.size() != static_cast<size_t>(*size)) continue;
    const bool may_be_intended = ++lines[use.size.node()] != 2 && *size == 2;
    if (may_be_intended) count_use(program, sym, use, use.size, counted, out);
    out.diagnostics.push_back(
        {may_be_intended ? Code::UnverifiedSize : Code::HardCodedSize,
         may_be_intended && !strict ? Severity::Warning : Severity::Error,
         fmt::format(
             "each of the {} elements along a dimension of size {} is used separately: tracing {} a loop of the "
             "model over them",
             *size, use.size.str(), may_be_intended ? "may have unrolled" : "unrolled"),
         place, term("script") + ", or compute on the whole dimension at once", ""});
  }
}

void report_limited(const program::Program& program, const sym::Context& sym, const Record& record, Findings& out) {
  auto is_suspected = [&](sym::Expr d) { return out.unverified[sym.info(d).name] > 0; };
  for (const Assumed& assumed : record.assumptions) {
    const sym::Expr size = assumed.assumption.a;
    const std::optional<int64_t> sample = sym.sample(size), most = assumed.assumption.b.constant();
    if (assumed.assumption.kind != sym::Assumption::Kind::AtMost || !sample || !most || *most > 2 * *sample) continue;
    const std::vector<sym::Expr> within = sym::symbols(size);
    if (std::ranges::any_of(within, is_suspected) && !is_size_of_weight(*program.root, *most))
      out.diagnostics.push_back(
          {Code::HardCodedSize, Severity::Error,
           fmt::format("{} would be at most {}, a limit that seems to come from the sample's size", size.str(), *most),
           Place(), term("second capture"), ""});
  }
}

Diagnostic ambiguity(const program::Program& program, const Solution& best, const Solution& other) {
  auto differs = [&](auto& known) {
    auto found = other.formulas.find(known.first);
    return found == other.formulas.end() || found->second != known.second;
  };
  auto number = std::ranges::find_if(best.formulas, differs);
  if (number == best.formulas.end()) number = best.formulas.begin();
  const auto otherwise = other.formulas.find(number->first);
  const std::string alternative = otherwise == other.formulas.end()     ? "for itself"
                                  : otherwise->second != number->second ? "for " + otherwise->second.str()
                                                                        : "not";
  return {
      Code::AmbiguousSize,
      Severity::Error,
      fmt::format("the number {} may stand for {} or {}, and nothing in the program decides which",
                  number_at(program, number->first), number->second.str(), alternative),
      program.locate(number->first.expr->pos),
      fmt::format("capture the model at sizes that differ from each other and from other numbers in it, give a second "
                  "capture by {}, or select the first formula by {}",
                  option("also"), option("recover", "guess")),
      ""};
}

Diagnostic search_limit(int evaluations) {
  return {Code::SearchLimit,
          Severity::Error,
          fmt::format("the search for what the hard-coded sizes stand for ended at its limit, after {} evaluations of "
                      "the program",
                      evaluations),
          Place(),
          term("second capture"),
          ""};
}

}  // namespace lithify::provenance
