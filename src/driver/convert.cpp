#include "driver/convert.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/options.hpp"
#include "driver/branches.hpp"
#include "driver/discover.hpp"
#include "driver/smaller.hpp"
#include "driver/source.hpp"
#include "merge/reroll.hpp"
#include "provenance/compare.hpp"

namespace lithify::driver {

Opened::Opened(const std::vector<Source>& sources) {
  for (const Source& source : sources) files_.push_back(open_source(source.model));
  for (size_t i = 0; i < files_.size(); ++i) traces_.push_back({files_[i].program.get(), sources[i].inputs});
}

Opened::Opened(std::unique_ptr<program::Program> program, std::vector<std::shared_ptr<const Opened>> of,
               std::vector<std::string> inputs)
    : program_(std::move(program)), of_(std::move(of)), traces_{{program_.get(), std::move(inputs)}} {}

void Opened::check_unchanged() const {
  for (const read::Opened& opened : files_)
    if (opened.file) opened.file->check_unchanged();
  for (const auto& other : of_) other->check_unchanged();
}

std::vector<Source> sources_of(const ModelSource& model, const ExportOptions& options) {
  std::vector<Source> out = {{model, {}}};
  for (const ModelSource& other : options.also) out.push_back({other, {}});
  return out;
}

ExportOptions settled(const Opened& opened, ExportOptions options) {
  if (!options.target.empty() && options.target != onnxruntime_target) {
    if (options.opset)
      throw Error(Code::BadOption, fmt::format("{} and {} both give an opset", option("target", options.target),
                                               option("opset", *options.opset)));
    options.opset = opset_for(options.target);
  }
  if (options.discover) options.dynamic_axes = discover(opened.traces(), options);
  return options;
}

namespace {

Converted converted(const std::shared_ptr<const Opened>& opened, const Traces& traces, const ExportOptions& options,
                    const std::optional<Followed>& followed) {
  const PreparedModel model(opened->program(), options, followed);
  Converted out{opened, recover(model, traces).outcome};
  if (out.evaluated->failed()) throw Error(out.evaluated->diagnostics);
  return out;
}

/// Nothing where there are no loops, or they do not explain the traces.
std::optional<Converted> with_loops(const std::shared_ptr<const Opened>& opened, const ExportOptions& options,
                                    const std::optional<Followed>& followed, merge::Lengths lengths) {
  if (options.recover == ExportOptions::Recover::Never) return std::nullopt;
  std::vector<Unrolled> unrolled;
  for (const Trace& trace : opened->traces()) unrolled.push_back({opened, &trace, &followed});
  const std::vector<std::shared_ptr<const Opened>> loops = rerolled(unrolled, lengths);
  Traces traces;
  for (const auto& o : loops) {
    if (!o || !provenance::differ_in_numbers(loops[0]->program(), o->program())) return std::nullopt;
    traces.push_back(o->traces()[0]);
  }
  try {
    return converted(loops[0], traces, options, followed);
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Throws the reason why there are no branches after that why the traces diverge.
Converted branches(const std::shared_ptr<const Opened>& opened, const ExportOptions& options,
                   const Error& diverge) try {
  return with_branches(opened, options);
} catch (const Error& e) {
  std::vector<Diagnostic> all = diverge.diagnostics();
  std::ranges::copy(e.diagnostics(), std::back_inserter(all));
  throw Error(std::move(all));
}

/// Two of something may be all that a model wants: of such a loop, the size of the trace is known only.
void limit_to_sample(Converted& c) {
  Sizes& sample = c.known_at.emplace_back();
  for (const auto& [name, symbol] : c.evaluated->dimensions)
    sample.emplace_back(name, c.evaluated->sym->info(symbol).sample.value_or(1));
  c.why_known = "the trace has two iterations of a loop, which may be all that there are";
}

bool has_loop(const Converted& c) {
  return std::ranges::any_of(c.evaluated->model.graph->all_nodes(), [](const onnx::Node* n) { return n->is("Loop"); });
}

}  // namespace

std::vector<std::shared_ptr<const Opened>> rerolled(const std::vector<Unrolled>& traces, merge::Lengths lengths) {
  std::vector<merge::Unrolled> programs;
  for (const Unrolled& u : traces) {
    programs.push_back({u.trace->program});
    if (const std::optional<Followed>& f = *u.followed) {
      merge::OtherResults& other = programs.back().other;
      for (const Condition& c : f->conditions) other.decides.push_back(!c.other_raises);
      if (u.counting) other.unneeded = *u.counting;
      other.numbers = f->sizes;
    }
  }
  std::vector<std::unique_ptr<program::Program>> loops = merge::rerolled(programs, lengths);
  std::vector<std::shared_ptr<const Opened>> out;
  for (size_t i = 0; i < traces.size(); ++i)
    out.push_back(loops[i] ? std::make_shared<const Opened>(std::move(loops[i]), std::vector{traces[i].opened},
                                                            traces[i].trace->inputs)
                           : nullptr);
  return out;
}

CaptureFacts facts_of(const Converted& converted) {
  CaptureFacts out = facts_of(converted.opened->program(), *converted.evaluated);
  if (converted.known_at.empty()) return out;
  out.kind = ClaimKind::AnySize;
  out.checked = converted.known_at;
  for (const auto& [name, size] : converted.known_at[0]) out.unfollowed[name].push_back(converted.why_known);
  return out;
}

Converted convert(const std::vector<Source>& sources, const ExportOptions& options,
                  const std::optional<Followed>& followed) {
  const auto opened = std::make_shared<const Opened>(sources);
  const ExportOptions all = settled(*opened, options);
  const bool single = opened->traces().size() == 1 && opened->program().traced;
  try {
    return converted(opened, opened->traces(), all, followed);
  } catch (const Error& e) {
    // Loops of other lengths; in a single trace, elements that are taken one after the other, to the last.
    if (single ? e.first().code == Code::LimitExceeded : e.first().code != Code::TracesDiverge) throw;
    using merge::Lengths;
    std::optional<Converted> loops = with_loops(opened, all, followed, single ? Lengths::Pieces : Lengths::Numbers);
    if (loops && (!single || has_loop(*loops))) return *std::move(loops);
    const bool guesses = single && !all.strict;
    if (guesses) loops = with_loops(opened, all, followed, Lengths::Pairs);
    if (guesses && loops && has_loop(*loops)) {
      limit_to_sample(*loops);
      return *std::move(loops);
    }
    if (single || followed || all.recover == ExportOptions::Recover::Never) throw;
    return branches(opened, all, e);
  }
}

}  // namespace lithify::driver
