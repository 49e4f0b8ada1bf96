#include "driver/recover.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/options.hpp"
#include "driver/errors.hpp"
#include "driver/tied_sizes.hpp"
#include "provenance/compare.hpp"

namespace lithify::driver {
namespace {

using provenance::Dimension;
using provenance::Findings;
using provenance::Search;
using provenance::Solution;

/// Throws where sizes of another trace do not agree with the formulas that their names are.
void check_tied(const std::vector<TensorInput>& inputs, const std::vector<TensorInput>& other, const Sizes& sizes) {
  for (size_t n = 0; n < inputs.size() && n < other.size(); ++n) {
    if (!inputs[n].sizes || !other[n].sizes || inputs[n].sizes->size() != other[n].sizes->size()) continue;
    for (size_t i = 0; i < inputs[n].sizes->size(); ++i) {
      const InputSpec::Size& size = (*inputs[n].sizes)[i];
      const std::optional<int64_t> expected = size.tied ? value_of(*size.tied, sizes) : std::nullopt;
      const std::optional<int64_t> found = (*other[n].sizes)[i].value;
      if (expected && found && *expected != *found)
        throw Error(Code::TracesDiverge,
                    fmt::format("the size '{}' of the input '{}' is {} in another trace, and the formula gives {}",
                                size.name, inputs[n].name, *found, *expected),
                    "give a size that does not follow from others its own name");
    }
  }
}

/// Adds the sizes that the declared dimensions have in another trace: the names are those of the first.
void add_sizes(const PreparedModel& model, const Trace& trace, size_t k, std::vector<Dimension>& dimensions) {
  ExportOptions described;
  described.inputs = trace.inputs;
  const std::vector<TensorInput> other = find_inputs(*trace.program, described);
  for (size_t n = 0; n < model.inputs().size() && n < other.size(); ++n) {
    const auto &names = model.inputs()[n].sizes, &sizes = other[n].sizes;
    if (!names || !sizes || names->size() != sizes->size()) continue;
    for (size_t i = 0; i < names->size(); ++i)
      for (Dimension& d : dimensions)
        if ((*names)[i].name == model.sym().info(d.symbol).name && (*sizes)[i].value && d.sizes.size() == k)
          d.sizes.push_back(*(*sizes)[i].value);
  }
  for (const Dimension& d : dimensions)
    if (d.sizes.size() <= k)
      throw Error(Code::TracesDiverge,
                  fmt::format("a trace does not have the size of the dimension '{}'", model.sym().info(d.symbol).name));
  Sizes sizes;
  for (const Dimension& d : dimensions) sizes.emplace_back(model.sym().info(d.symbol).name, d.sizes[k]);
  check_tied(model.inputs(), other, sizes);
}

/// The dimensions whose size in the sample is known, with their sizes in all traces.
std::vector<Dimension> dimensions_of(const PreparedModel& model, const Evaluated& first, const Traces& traces) {
  std::vector<Dimension> out;
  for (auto& [name, symbol] : first.dimensions)
    if (const auto sample = model.sym().info(symbol).sample) out.push_back({symbol, {*sample}});
  for (size_t k = 1; k < traces.size(); ++k) add_sizes(model, traces[k], k, out);
  return out;
}

/// Where it is known which sizes escape, numbers come from their dimensions alone.
void leave_escaped(const std::vector<sym::Expr>& escaped, std::vector<Dimension>& dimensions) {
  std::erase_if(dimensions, [&](const Dimension& d) {
    return std::ranges::none_of(escaped,
                                [&](sym::Expr e) { return std::ranges::count(sym::symbols(e), d.symbol) > 0; });
  });
}

std::map<provenance::Literal, std::vector<int64_t>> differing_numbers(const Traces& traces) {
  std::vector<const program::Program*> programs;
  for (const Trace& trace : traces) programs.push_back(trace.program);
  return provenance::differing_numbers(programs);
}

/// An evaluation for the search: options that do not fit the program are a failure like any other.
std::shared_ptr<Evaluated> attempt(const PreparedModel& model, const Variant& variant,
                                   const std::shared_ptr<sym::Context>& sym) {
  try {
    return model.evaluate(variant);
  } catch (const Error& e) {
    auto out = std::make_shared<Evaluated>(sym);
    out->diagnostics.push_back(e.first());
    return out;
  }
}

/// Sizes that escape the program, and what it does with them: only a second trace shows it.
void report_escaped(const PreparedModel& model, Evaluated& outcome) {
  for (const std::string& what : outcome.escaped)
    outcome.report({Code::UnverifiedSize, model.options().strict ? Severity::Error : Severity::Warning,
                    fmt::format("what the model does with the {} is not known at other sizes", what), Place(),
                    term("second capture"), what});
}

/// Refuses numbers that other traces have differently: where no size is recovered, nothing else looks at them.
void refuse_differing(const program::Program& program, const std::map<provenance::Literal, std::vector<int64_t>>& all) {
  std::vector<Diagnostic> out;
  for (const auto& [literal, values] : all)
    out.push_back({Code::HardCodedSize, Severity::Error,
                   fmt::format("the number {} differs in another trace: tracing hard-coded it", values[0]),
                   program.locate(literal.expr->pos),
                   "make it a formula of the dynamic dimensions by " + option("recover", "decided"), ""});
  if (!out.empty()) throw Error(std::move(out));
}

/// The numbers of elements of the inputs; none where further traces show which numbers come from sizes.
std::vector<sym::Expr> input_counts(const Evaluated& outcome, bool single) {
  std::vector<sym::Expr> out;
  if (!single) return out;
  for (const auto& [path, shape] : outcome.input_shapes) {
    const sym::Expr count = outcome.sym->product(shape);
    if (std::ranges::find(out, count) == out.end()) out.push_back(count);
  }
  return out;
}

Evaluated& evaluated(const Solution& s) { return static_cast<Evaluated&>(*s.outcome); }

/// Moves what was found to the outcome that it is about.
void add_findings(Findings findings, Evaluated& outcome) {
  for (Diagnostic& d : findings.diagnostics) outcome.report(std::move(d));
  outcome.recovered = std::move(findings.recovered);
  outcome.unverified = std::move(findings.unverified);
  outcome.unverified_uses = std::move(findings.uses);
}

}  // namespace

std::vector<Sizes> sizes_of(const PreparedModel& model, const Traces& traces) {
  const std::vector<Dimension> dimensions = dimensions_of(model, *model.evaluate(), traces);
  std::vector<Sizes> out(traces.size());
  for (const Dimension& d : dimensions)
    for (size_t k = 0; k < traces.size(); ++k) out[k].emplace_back(model.sym().info(d.symbol).name, d.sizes[k]);
  return out;
}

Recovered recover(const PreparedModel& model, const Traces& traces, std::optional<int> opset) {
  using Mode = ExportOptions::Recover;
  const program::Program& program = model.program();
  const ExportOptions& options = model.options();
  const std::shared_ptr<Evaluated> first = model.evaluate({.opset = opset});
  const bool single = traces.size() == 1;
  // What is left is a program that could be exported if sizes agreed.
  const bool scripted = !program.traced && program.producer != "torch.export";
  if (single && (scripted || first->dimensions.empty() || !has_only_errors(first->diagnostics, {Code::HardCodedSize})))
    return {first, {}};
  const std::map<provenance::Literal, std::vector<int64_t>> differing = differing_numbers(traces);
  if (options.recover == Mode::Never) refuse_differing(program, differing);
  const bool watched = model.watched();
  std::vector<Dimension> dimensions = dimensions_of(model, *first, traces);
  if (first->escaped_sizes) leave_escaped(*first->escaped_sizes, dimensions);
  Search search({.program = program,
                 .sym = model.sym(),
                 .dimensions = std::move(dimensions),
                 .differing = differing,
                 .escaped = first->escaped_sizes.value_or(std::vector<sym::Expr>()),
                 .accept_all = watched && first->escaped.empty(),
                 .first = first,
                 .evaluate = [&](const provenance::Formulas& f) {
                   return attempt(model, {f, true, opset}, first->sym);
                 }});

  const bool traced = !single || may_hard_code(program);
  auto report = [&](const Solution& s) {
    Evaluated& outcome = evaluated(s);
    Findings findings;
    provenance::report_recovered(program, model.sym(), s, findings);
    const bool nothing_escapes = watched && outcome.escaped.empty();
    if (traced && watched && single) report_escaped(model, outcome);
    if (traced && !nothing_escapes)
      provenance::report_unverified(program, model.sym(), search, s, input_counts(outcome, single), options.strict,
                                    findings);
    if (single && traced && !nothing_escapes && options.recover == Mode::Decided) {
      provenance::report_unrolled(program, model.sym(), s.outcome->record, options.strict, findings);
      provenance::report_limited(program, model.sym(), s.outcome->record, findings);
    }
    add_findings(std::move(findings), outcome);
  };

  if (options.recover == Mode::Never) {
    if (!first->failed()) {
      Solution as_it_is;
      as_it_is.outcome = first;
      report(as_it_is);
    }
    return {first, {}};
  }
  const std::vector<Solution> solutions = search.run();
  if (solutions.empty()) {
    const bool solved = search.solved() && search.solved()->failed();
    const std::shared_ptr<Evaluated> failed = solved ? std::static_pointer_cast<Evaluated>(search.solved()) : first;
    if (search.exhausted()) failed->report(provenance::search_limit(search.evaluations()));
    return {failed, {}};
  }
  const Solution& best = solutions.front();
  const bool exhausted = search.exhausted();
  report(best);
  Evaluated& outcome = evaluated(best);
  if (options.recover == Mode::Decided && !best.formulas.empty()) {
    if (solutions.size() > 1)
      outcome.report(provenance::ambiguity(program, best, solutions.back()));
    else if (exhausted)
      outcome.report(provenance::search_limit(search.evaluations()));
  }
  return {std::static_pointer_cast<Evaluated>(best.outcome), best.formulas};
}

}  // namespace lithify::driver
