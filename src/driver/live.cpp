#include "driver/live.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "base/clock.hpp"
#include "base/options.hpp"
#include "driver/errors.hpp"
#include "driver/explore.hpp"
#include "driver/merged.hpp"
#include "driver/other_sizes.hpp"
#include "provenance/compare.hpp"
#include "write/model.hpp"

namespace lithify::driver {
namespace {

using Captures = std::vector<Capture>;

const char* name_of(CaptureKind kind) {
  switch (kind) {
    case CaptureKind::Script:
      return "TorchScript";
    case CaptureKind::Export:
      return "torch.export";
    default:
      return "a trace";
  }
}

Diagnostic captured(Severity severity, std::string message) {
  return {Code::CannotCapture, severity, std::move(message), {}, "", ""};
}

/// The message, and its line.
std::string located(const Diagnostic& d) {
  return d.place.known() ? fmt::format("{} at {}", d.message, d.place.brief()) : d.message;
}

/// A number in the model's code that every run changes, as a counter does, and that results depend on.
Diagnostic keeps_number(const std::string& name) {
  return {Code::UnsupportedState,
          Severity::Error,
          fmt::format("the results depend on '{}', which every run changes", name),
          {},
          fmt::format("{} resets it in every run; as a tensor in a buffer, it can be an input and an output",
                      option("state", "frozen")),
          name};
}

class LiveExport {
 public:
  LiveExport(FrontEnd& model, const ExportOptions& options) : model_(model), options_(options) {}

  LiveConverted run(CaptureStrategy strategy) {
    if (options_.discover)
      throw Error(Code::BadOption, "axes that can be dynamic are detected for files only",
                  fmt::format("declare them by {}", option("dynamic_axes")));
    LiveConverted out = converted(strategy);
    for (const Capture& c : out.captures) {
      for (const std::string& what : c.assumptions)
        note(captured(Severity::Note,
                      fmt::format("the {} is assumed to have the outcome that it has on the sample", what)));
      for (const std::string& name : c.state) note(is_frozen(name, Place()));
    }
    for (Diagnostic& d : notes_) out.converted.evaluated->report(std::move(d));
    return out;
  }

 private:
  /// For the result, once.
  void note(Diagnostic d) {
    if (std::ranges::find(notes_, d.message, &Diagnostic::message) == notes_.end()) notes_.push_back(std::move(d));
  }

  // ---- strategies -------------------------------------------------------------------------------------------------

  LiveConverted converted(CaptureStrategy strategy) {
    switch (strategy) {
      case CaptureStrategy::Trace:
        return asked(CaptureKind::Trace);
      case CaptureStrategy::Script:
        return asked(CaptureKind::Script);
      case CaptureStrategy::Export:
        return asked(CaptureKind::Export);
      case CaptureStrategy::Auto:
        return model_.follows_sizes() ? followed() : compared();
    }
    throw Error(Code::Internal, "there is no such strategy");
  }

  LiveConverted asked(CaptureKind kind) {
    Captures captures;
    captures.push_back(require({kind, {}, false}));
    for (const std::string& what : captures[0].escaped_data)
      note(captured(Severity::Warning, "the trace follows only one outcome of " + what));
    const std::optional<Followed> followed = captures[0].followed;
    LiveConverted out = convert(std::move(captures), kind, "asked for");
    for (const auto& [escape, what] : out.converted.evaluated->escaped_data)
      note(captured(Severity::Warning, "the trace follows only one outcome of " + what));
    if (followed) out.facts = one_path(*followed, *out.converted.evaluated);
    return out;
  }

  /// What is known of one trace that was not explored: the conditions of its path are constraints.
  CaptureFacts one_path(const Followed& followed, const Evaluated& evaluated) {
    CaptureFacts out;
    out.kind = ClaimKind::AnySize;
    std::string& path = out.paths.emplace_back();
    for (size_t i = 0; i < followed.conditions.size(); ++i) {
      const Condition& c = followed.conditions[i];
      const std::optional<claims::Formula> formula = in_dimensions(c.formula, evaluated);
      if (!formula && !evaluated.decided_conditions[i])
        note(captured(Severity::Warning, "the trace follows only one outcome of the condition on data at " + c.where));
      if (!formula || formula->names().empty() || evaluated.decided_conditions[i]) continue;
      out.conditions.push_back({formula->str(), c.where});
      path += c.outcome ? 'T' : 'F';
    }
    if (path.empty()) out.paths.clear();
    out.unfollowed = evaluated.escaped_dimensions;
    Sizes& sample = out.checked.emplace_back();
    for (const auto& [name, symbol] : evaluated.dimensions)
      sample.emplace_back(name, evaluated.sym->info(symbol).sample.value_or(1));
    return out;
  }

  /// Traces of all paths that conditions on sizes lead to, merged; else a kind of capture that has the branches as
  /// well.
  LiveConverted followed() {
    std::optional<Capture> traced = attempt({}, /*must_run=*/true);
    if (!traced) return other_kind(refused_);
    if (!traced->escaped_data.empty())
      return other_kind("a trace follows only one outcome of " + traced->escaped_data[0]);
    const Sizes sample = model_.sample_sizes();
    // A size of 0 is not among those of the sample, and may be asked about.
    const auto decides = [](const Followed& f) { return !f.conditions.empty() || uses_data(f); };
    if (sample.empty() && !(traced->followed && decides(*traced->followed)))
      return convert({*std::move(traced)}, CaptureKind::Trace, "a trace of one run: no size is dynamic");
    const bool exports = traced->followed && std::ranges::any_of(traced->followed->escapes, &Escape::only_here);
    try {
      LiveConverted out = explored(*std::move(traced), sample);
      if (!exports || out.facts->unfollowed.empty()) return out;
      try {
        return other_kind("a trace does not follow all sizes");
      } catch (const Error&) {
        return out;
      }
    } catch (const Error& error) {
      if (!is_about_sizes(error) && error.first().code != Code::CannotCapture) throw;
      failures_ = error.diagnostics();
    }
    return other_kind("traces at several sizes do not determine what it does at others");
  }

  LiveConverted explored(Capture traced, const Sizes& sample) {
    // A loop that asks a size whether it goes on has as many conditions as iterations.
    if (traced.followed && !counting_conditions(*traced.followed).empty()) try {
        return explored(traced, sample, Counting::Loops);
      } catch (const Error&) {
      }
    return explored(std::move(traced), sample, Counting::Paths);
  }

  LiveConverted explored(Capture traced, const Sizes& sample, Counting counting) {
    Exploration exploration(
        sample,
        [&](const Sizes& sizes, const Outcomes& outcomes, bool vary_contents) {
          return capture({CaptureKind::Trace, sizes, vary_contents, outcomes});
        },
        [&](const std::vector<Recording>& recordings, bool fixes_sizes) { return settled(recordings, fixes_sizes); },
        {options_.capture_runs, options_.capture_seconds}, counting);
    exploration.run(std::move(traced), others());
    if (std::string why = exploration.missing_data(); !why.empty()) throw Error(Code::CannotCapture, why);
    LiveConverted out = merged(exploration);
    out.seconds = seconds_;
    return out;
  }

  /// Traces of the other samples that the user gave.
  std::vector<Recording> others() {
    std::vector<Recording> out;
    const std::vector<Sizes> sizes = model_.more_samples();
    for (size_t i = 0; i < sizes.size(); ++i) try {
        out.push_back({sizes[i], {}, capture({CaptureKind::Trace, {}, false, {}, i + 1})});
      } catch (const CannotCapture& e) {
        throw Error(Code::CannotCapture, fmt::format("{}: {}", name_of_sample(i), e.what()));
      }
    return out;
  }

  static std::string name_of_sample(size_t i) { return fmt::format("samples[{}]", i); }

  /// Evaluates the program of one path. One recording has to show all by itself.
  Recovered settled(const std::vector<Recording>& recordings, bool fixes_sizes) const {
    const Recording& first = recordings[0];
    ExportOptions options = options_for(first.capture);
    if (recordings.size() == 1) {
      options.recover = ExportOptions::Recover::Never;
      options.strict = true;
    }
    PreparedModel model(first.opened->program(), options, first.capture.followed);
    Traces traces;
    for (const Recording& r : recordings) traces.push_back(r.opened->traces()[0]);
    Recovered out = recover(model, traces);
    if (out.outcome->failed()) {
      // What contradicts in general may be right on this path.
      const auto fixes_size = [](const sym::Fact& f) {
        return f.kind == sym::Fact::Kind::Equal && (f.a.is_constant() || f.b.is_constant());
      };
      sym::Facts facts;
      for (size_t i = 0; i < out.outcome->condition_facts.size(); ++i) {
        if (first.counting.contains(i)) continue;
        const bool all = fixes_sizes || !first.capture.followed->conditions[i].other_raises;
        std::ranges::copy_if(out.outcome->condition_facts[i], std::back_inserter(facts),
                             [&](const sym::Fact& f) { return all || !fixes_size(f); });
      }
      if (facts.empty()) throw Error(out.outcome->diagnostics);
      // Of the conditions, what holds without them counts.
      const std::vector<std::optional<bool>> decided = out.outcome->decided_conditions;
      model.give(std::move(facts));
      out = recover(model, traces);
      out.outcome->decided_conditions = decided;
    }
    if (out.outcome->failed()) throw Error(out.outcome->diagnostics);
    for (const auto& [escape, what] : out.outcome->escaped_data)
      if (!is_same_length(recordings, escape) && (!out.formulas.empty() || !is_seen_length(recordings, escape)))
        throw Error(Code::CannotCapture, "a trace follows only one outcome of " + what);
    return out;
  }

  /// Whether a number is that of the pieces of a tensor, and there are always as many. The program takes each of them
  /// by itself, so it is not exported where their number may be another one.
  static bool is_same_length(const std::vector<Recording>& recordings, size_t escape) {
    const Escape& first = recordings[0].capture.followed->escapes[escape];
    return first.what == "length" && std::ranges::all_of(recordings, [&](const Recording& r) {
             return r.capture.followed && std::ranges::all_of(r.capture.followed->escapes, [&](const Escape& e) {
                      return e.where != first.where || e.what != first.what || e.value == first.value;
                    });
           });
  }

  /// Whether a number that depends on data is that of the elements of a list, and the recordings have several such
  /// numbers: what they have in common does not depend on it then.
  static bool is_seen_length(const std::vector<Recording>& recordings, size_t escape) {
    const Escape& first = recordings[0].capture.followed->escapes[escape];
    if (first.what != "tolist" && first.what != "length") return false;
    return std::ranges::any_of(recordings, [&](const Recording& r) {
      return r.capture.followed && std::ranges::any_of(r.capture.followed->escapes, [&](const Escape& e) {
               return e.where == first.where && e.what == first.what && e.value != first.value;
             });
    });
  }

  static bool uses_data(const Followed& followed) {
    return std::ranges::any_of(followed.conditions, [](const Condition& c) { return c.question.has_value(); }) ||
           std::ranges::any_of(followed.escapes, &Escape::of_contents);
  }

  /// The paths as one program. Paths that cannot be merged with the others are left out, never that of the sample.
  LiveConverted merged(const Exploration& exploration) {
    constexpr int most_failures = 3;
    const std::vector<Path>& paths = exploration.paths();
    std::vector<size_t> chosen(paths.size());
    std::iota(chosen.begin(), chosen.end(), size_t{0});
    std::string why;
    std::optional<Converted> whole = merged(exploration, chosen, why);
    if (!whole) {
      const std::vector<size_t> all = std::exchange(chosen, {0});
      whole = merged(exploration, chosen, why);
      int failures = 0;
      for (size_t i = 1; i < all.size() && all.size() > 2 && failures < most_failures; ++i) {
        chosen.push_back(all[i]);
        if (std::optional<Converted> more = merged(exploration, chosen, why))
          whole = std::move(more);
        else
          chosen.pop_back(), ++failures;
      }
    }
    // A claim is about all data.
    const bool asks_data = std::ranges::any_of(exploration.conditions(), [](const auto& c) { return !c.formula; });
    if (asks_data && chosen.size() < paths.size())
      throw Error(Code::CannotCapture, fmt::format("traces of {} paths cannot be merged: {}", paths.size(), why));
    LiveConverted out = described(exploration, chosen, *std::move(whole));
    try {
      check(exploration, chosen, out);
    } catch (const Error& e) {
      if (chosen.size() == 1 || asks_data) throw;
      why = e.first().message;
      chosen = {0};
      out = described(exploration, chosen, *merged(exploration, chosen, why));
      check(exploration, chosen, out);
    }
    if (!why.empty()) {
      out.converted.evaluated->report(captured(
          Severity::Note,
          fmt::format("{} of {} paths that were traced are in the file: {}", chosen.size(), paths.size(), why)));
      warn_of_fixed(exploration, chosen, *out.converted.evaluated);
    }
    return out;
  }

  /// Reports dynamic dimensions that have one size only on these paths, that of the sample.
  static void warn_of_fixed(const Exploration& exploration, const std::vector<size_t>& chosen, Evaluated& evaluated) {
    const Sizes& sample = exploration.paths()[0].recordings[0].sizes;
    for (size_t i = 0; i < sample.size(); ++i) {
      const bool fixed = std::ranges::none_of(many_sizes(sample), [&](const Sizes& s) {
        return s[i].second != sample[i].second &&
               std::ranges::any_of(chosen, [&](size_t p) { return exploration.takes(exploration.paths()[p], s); });
      });
      if (fixed)
        evaluated.report(
            captured(Severity::Warning,
                     fmt::format("the file is right only where '{}' is {}, as in the sample: export the model "
                                 "with a sample of another size",
                                 sample[i].first, sample[i].second)));
    }
  }

  /// Nothing, where these paths cannot be merged: `why` is the reason then.
  std::optional<Converted> merged(const Exploration& exploration, const std::vector<size_t>& chosen,
                                  std::string& why) const {
    const std::vector<Path>& paths = exploration.paths();
    const Recording& first = paths[0].recordings[0];
    if (chosen.size() == 1) return Converted{first.opened, paths[0].recovered.outcome};
    try {
      return driver::merged(programs_of(exploration, chosen), options_for(first.capture));
    } catch (const Error& e) {
      why = located(e.first());
      return std::nullopt;
    }
  }

  static std::vector<PathProgram> programs_of(const Exploration& exploration, const std::vector<size_t>& chosen) {
    std::vector<PathProgram> out;
    for (size_t p : chosen) {
      const Path& path = exploration.paths()[p];
      const Recording& r = path.recordings[0];
      PathProgram& to = out.emplace_back();
      to.opened = r.opened;
      to.outputs = r.capture.output_names.size();
      for (const Answer& a : path.answers) to.asked.push_back({a.condition, a.outcome, a.result});
      to.formulas = &path.recovered.formulas;
      to.followed = r.capture.followed ? &*r.capture.followed : nullptr;
      to.outcome = path.recovered.outcome.get();
    }
    return out;
  }

  /// What is known of the paths, with the program of some.
  static LiveConverted described(const Exploration& exploration, const std::vector<size_t>& chosen, Converted whole) {
    const std::vector<Path>& paths = exploration.paths();
    LiveConverted out;
    out.kind = CaptureKind::Trace;
    out.converted = std::move(whole);
    out.reason = chosen.size() > 1                ? fmt::format("traces of {} paths, merged", chosen.size())
                 : paths[0].recordings.size() > 1 ? fmt::format("traces of {} runs", paths[0].recordings.size())
                                                  : "a trace of one run shows all that it does";
    CaptureFacts& facts = out.facts.emplace();
    facts.kind = ClaimKind::AnySize;
    std::map<size_t, size_t> on_sizes;  // conditions of the exploration that are among the facts
    for (size_t c = 0; c < exploration.conditions().size(); ++c)
      if (const PathCondition& condition = exploration.conditions()[c]; condition.formula) {
        on_sizes[c] = facts.conditions.size();
        facts.conditions.push_back({condition.formula->str(), condition.where});
      }
    for (size_t p : chosen) {
      std::string& outcomes = facts.paths.emplace_back(facts.conditions.size(), '-');
      for (const Answer& a : paths[p].answers)
        if (const auto at = on_sizes.find(a.condition); at != on_sizes.end())
          outcomes[at->second] = a.outcome ? 'T' : 'F';
      facts.unfollowed.merge(unfollowed(paths[p]));
      for (const Recording& r : paths[p].recordings) out.captures.push_back(r.capture);
    }
    for (const auto& [condition, at] : on_sizes)
      for (bool side : {false, true})
        if (std::string why = exploration.why_not(condition, side); !why.empty())
          out.converted.evaluated->report(captured(
              Severity::Note, fmt::format("the side of '{}' at {} that is {} is not in the file: {}",
                                          facts.conditions[at].formula, facts.conditions[at].where, side, why)));
    if (facts.conditions.empty()) facts.paths.clear();
    return out;
  }

  /// Uses of sizes that were not followed, by dimension.
  static std::map<std::string, std::vector<std::string>> unfollowed(const Path& path) {
    const Evaluated& outcome = *path.recovered.outcome;
    std::map<std::string, std::vector<std::string>> out;
    if (path.recordings[0].capture.followed) {
      out = outcome.escaped_dimensions;
      for (const std::string& where : path.unknown)
        for (const auto& [name, symbol] : outcome.dimensions) out[name].push_back("the condition at " + where);
      return out;
    }
    for (const auto& [name, symbol] : outcome.dimensions) out[name] = {"what the code of the model does with sizes"};
    return out;
  }

  /// Runs the exported model and the live one at sizes that were recorded and at others, unless the program shows that
  /// it is what was recorded. Where they differ, nothing is written; where they agree, that is claimed.
  void check(const Exploration& exploration, const std::vector<size_t>& chosen, LiveConverted& out) {
    constexpr size_t others = 2;
    // Paths that do the same are one program, as conditions of attention masks often are.
    const auto is_recorded = [&] {
      const Path& first = exploration.paths()[0];
      return chosen.size() == 1 || out.converted.evaluated->structure() == first.recovered.outcome->structure() ||
             is_each_path(out.converted, programs_of(exploration, chosen), options_for(first.recordings[0].capture));
    };
    if (out.facts->unfollowed.empty() && model_.more_samples().empty() && is_recorded()) return;
    std::vector<Sizes> sizes;
    for (size_t p : chosen) {
      const Path& path = exploration.paths()[p];
      for (const Recording& r : path.recordings) sizes.push_back(r.sizes);
      sizes.insert(sizes.end(), path.other_sizes.begin(), path.other_sizes.end());
    }
    const size_t recorded = sizes.size();
    auto is_taken = [&](const Sizes& s) {
      return std::ranges::any_of(chosen, [&](size_t p) { return exploration.takes(exploration.paths()[p], s); });
    };
    for (const Sizes& s : many_sizes(sizes.front()))
      if (std::ranges::find(sizes, s) == sizes.end() && sizes.size() < recorded + others && is_taken(s))
        sizes.push_back(s);
    // Where nothing is claimed by it, no more is run than the user wants.
    if (out.facts->unfollowed.empty() && captures_ > 0) {
      const double most = options_.capture_seconds * captures_ / std::max(processor_seconds_, 1e-3);
      if (most < static_cast<double>(sizes.size())) {
        const auto left = static_cast<ptrdiff_t>(std::max(most - others, 1.0));
        sizes.erase(sizes.begin() + left, sizes.begin() + static_cast<ptrdiff_t>(recorded));
      }
    }
    const std::optional<std::vector<Sizes>> agreed = agreeing(out.converted, sizes);
    sizes.resize(std::min(recorded, sizes.size()));
    if (!out.facts->unfollowed.empty()) out.facts->checked = agreed.value_or(sizes);
  }

  /// Those of the sizes at which the exported model agrees with the live one; nothing where it cannot be run. Throws
  /// CheckFailed where they differ, also on another sample.
  std::optional<std::vector<Sizes>> agreeing(const Converted& converted, const std::vector<Sizes>& sizes) {
    std::vector<std::byte> file;
    write::write_model(converted.evaluated->model, [&](uint64_t size) {
      file.resize(size);
      return file.data();
    });
    const std::vector<Agreement> agreements = model_.check(Bytes(file.data(), file.size()), sizes);
    std::vector<Sizes> out;
    for (size_t i = 0; i < agreements.size(); ++i) {
      const Agreement& agreement = agreements[i];
      const bool at_sizes = i < sizes.size();
      if (agreement.kind == Agreement::Kind::NoRuntime) return std::nullopt;
      if (agreement.kind == Agreement::Kind::Differs)
        throw Error({Code::CheckFailed, Severity::Error,
                     fmt::format("the exported model differs from the live one {}: {}",
                                 at_sizes ? "at " + text_of(sizes[i]) : "on " + name_of_sample(i - sizes.size()),
                                 agreement.what),
                     Place(), term("script"), ""});
      if (at_sizes && agreement.kind == Agreement::Kind::Agrees) out.push_back(sizes[i]);
    }
    return out;
  }

  /// Whole programs show faults of the exporter where they are run.
  void check_claimed(const LiveConverted& live) {
    constexpr size_t most = 3;
    const program::Program& program = live.converted.opened->program();
    const Claims claims = make_claims(program, *live.converted.evaluated, facts_of(live.converted));
    const Sizes sample = model_.sample_sizes();
    std::vector<Sizes> sizes = {sample};
    if (!sample.empty())
      for (const Sizes& s : many_sizes(sample))
        if (sizes.size() < most && claims.holds(s) == true) sizes.push_back(s);
    agreeing(live.converted, sizes);
  }

  // ---- sizes that are plain numbers -------------------------------------------------------------------------------

  /// Captures, and the sizes of each.
  struct AtSizes {
    Captures captures;
    std::vector<Sizes> sizes;
  };

  /// Every size is a number in a trace: traces at three sizes of each dimension show what it is computed from, and
  /// further ones where the code decides something by it.
  LiveConverted compared() {
    const Sizes sample = model_.sample_sizes();
    AtSizes few{{require({})}, {sample}};
    std::vector<Recording> more = others();
    const auto add_others = [&](AtSizes& to) {
      for (const Recording& r : more) {
        to.captures.push_back(r.capture);
        to.sizes.push_back(r.sizes);
      }
    };
    if (sample.empty()) {
      add_others(few);
      // Contents that the code reads without the tracer show in a second trace.
      if (std::optional<Capture> other = attempt_varied({})) few.captures.push_back(*std::move(other));
      return convert(std::move(few.captures), CaptureKind::Trace, "a trace of one run: no size is dynamic");
    }
    few.sizes.push_back(elsewhere(sample, {}, 1, few.captures));
    few.sizes.push_back(elsewhere(sample, few.sizes[1], 2, few.captures));
    // A size of 1 shows the least about what is hard-coded.
    if (std::ranges::count(sample, 1, &Sizes::value_type::second) > 0) {
      std::rotate(few.captures.begin(), few.captures.begin() + 1, few.captures.end());
      std::rotate(few.sizes.begin(), few.sizes.begin() + 1, few.sizes.end());
    }
    add_others(few);
    AtSizes many = few;
    for (size_t d = 0; d < sample.size(); ++d)
      for (int64_t size : telling_sizes(sample[d].second)) attempt_at(sample, d, size, many);
    try {
      return of_numbers(many);
    } catch (const Error& e) {
      if (e.first().code != Code::TracesDiverge) return of_numbers(few);
    }
    for (size_t d = 0; d < sample.size(); ++d) find_boundaries(sample, d, many);
    try {
      return of_numbers(many);
    } catch (const Error&) {
      return of_numbers(few);
    }
  }

  /// Adds a trace where one dimension has another size than in the sample, if the model runs there.
  bool attempt_at(const Sizes& sample, size_t d, int64_t size, AtSizes& to) {
    Sizes sizes = sample;
    sizes[d].second = size;
    const bool spent = captures_ > options_.capture_runs || processor_seconds_ > options_.capture_seconds;
    if (spent || std::ranges::find(to.sizes, sizes) != to.sizes.end()) return false;
    std::optional<Capture> out = attempt_varied(sizes);
    if (!out) return false;
    to.captures.push_back(*std::move(out));
    to.sizes.push_back(std::move(sizes));
    return true;
  }

  /// Adds traces between sizes of one dimension at which traces diverge.
  void find_boundaries(const Sizes& sample, size_t d, AtSizes& to) {
    std::map<int64_t, std::shared_ptr<const Opened>> opened;
    const auto open = [&](size_t i) {
      Sizes alone = to.sizes[i];
      const int64_t size = std::exchange(alone[d].second, sample[d].second);
      if (alone == sample)
        opened[size] =
            std::make_shared<const Opened>(std::vector<Source>{{to.captures[i].model, to.captures[i].inputs}});
    };
    for (size_t i = 0; i < to.sizes.size(); ++i) open(i);
    for (auto low = opened.begin(); low != opened.end() && std::next(low) != opened.end();) {
      const auto high = std::next(low);
      const int64_t middle = low->first + (high->first - low->first) / 2;
      const bool same = provenance::differ_in_numbers(low->second->program(), high->second->program());
      if (same || middle == low->first || !attempt_at(sample, d, middle, to))
        ++low;
      else
        open(to.sizes.size() - 1);
    }
  }

  /// The code may have taken a size and decided something with it: what is known is what was run.
  LiveConverted of_numbers(const AtSizes& at) {
    LiveConverted out = convert(at.captures, CaptureKind::Trace, fmt::format("traces of {} runs", at.sizes.size()));
    CaptureFacts& facts = out.facts.emplace();
    facts.kind = ClaimKind::AnySize;
    facts.checked = at.sizes;
    for (const auto& [name, size] : at.sizes[0])
      facts.unfollowed[name] = {"sizes are plain numbers in the code of the model"};
    return out;
  }

  /// What a run on one sample does not show, TorchScript has as it is, and torch.export proves or refuses.
  LiveConverted other_kind(const std::string& why) {
    std::vector<Diagnostic> reasons = {captured(Severity::Error, why)};
    for (CaptureKind kind : model_.other_kinds()) try {
        LiveConverted out = convert({require({kind, {}, false})}, kind, why);
        check_claimed(out);
        return out;
      } catch (const Error& error) {
        // The message of a capture that fails names its kind.
        const Diagnostic& first = error.first();
        reasons.push_back(
            first.code == Code::CannotCapture
                ? first
                : captured(Severity::Error, fmt::format("captured by {}: {}", name_of(kind), first.message)));
      }
    reasons.back().hint = term("trace only");
    failures_.insert(failures_.end(), reasons.begin(), reasons.end());
    throw Error(failures_);
  }

  // ---- captures ---------------------------------------------------------------------------------------------------

  Capture capture(const CaptureRequest& request) {
    const auto start = std::chrono::steady_clock::now();
    const double processor_start = thread_seconds();
    auto count = [&] {
      seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      processor_seconds_ += thread_seconds() - processor_start;
      ++captures_;
    };
    std::optional<Capture> out;
    try {
      out = model_.capture(request);
      count();
    } catch (const CannotCapture&) {
      count();
      throw;
    } catch (...) {
      throw FrontEndFailed{std::current_exception()};
    }
    if (!out->state.empty() && options_.state != ExportOptions::State::Frozen) throw Error(keeps_number(out->state[0]));
    return *std::move(out);
  }

  Capture require(const CaptureRequest& request) {
    try {
      return capture(request);
    } catch (const CannotCapture& e) {
      throw Error(Code::CannotCapture, e.what());
    }
  }

  /// Nothing, where the model cannot be captured so. Throws where it does not run, and must.
  std::optional<Capture> attempt(const CaptureRequest& request, bool must_run = false) {
    try {
      return capture(request);
    } catch (const CannotCapture& e) {
      if (must_run && dynamic_cast<const CannotRun*>(&e)) throw Error(Code::CannotCapture, e.what());
      refused_ = e.what();
      return std::nullopt;
    }
  }

  /// With other contents, if it runs with them.
  std::optional<Capture> attempt_varied(const Sizes& sizes) {
    std::optional<Capture> out = attempt({CaptureKind::Trace, sizes, true});
    return out ? std::move(out) : attempt({CaptureKind::Trace, sizes, false});
  }

  /// Adds a trace at other sizes than those of the sample and `before`, and returns them.
  Sizes elsewhere(const Sizes& sample, const Sizes& before, int round, Captures& captures) {
    std::vector<std::vector<int64_t>> candidates;
    Sizes sizes = sample;
    for (size_t d = 0; d < sample.size(); ++d) {
      candidates.push_back(distinguishing_sizes(sample[d].second, d, round));
      if (!before.empty()) std::erase(candidates[d], before[d].second);
      if (!candidates[d].empty()) sizes[d].second = candidates[d].front();
    }
    std::optional<Capture> out = attempt_varied(sizes);
    if (!out) {
      for (size_t d = 0; d < sample.size(); ++d) sizes[d].second = runs_alone(sample, d, candidates[d]);
      out = attempt_varied(sizes);
    }
    if (!out)
      throw Error(Code::CannotCapture,
                  "the model does not run when all dynamic dimensions have other sizes: " + refused_);
    captures.push_back(*std::move(out));
    return sizes;
  }

  /// The first of the candidates for a dimension at which the model runs, when all others have the sample's sizes.
  int64_t runs_alone(const Sizes& sample, size_t d, const std::vector<int64_t>& candidates) {
    for (int64_t size : candidates) {
      Sizes alone = sample;
      alone[d].second = size;
      if (attempt_varied(alone)) return size;
    }
    throw Error(Code::CannotCapture,
                fmt::format("the model runs at too few sizes of the dimension '{}': {}", sample[d].first, refused_));
  }

  // ---- conversion -------------------------------------------------------------------------------------------------

  /// The options of an export of a capture: names and axes are by what it knows of the inputs.
  ExportOptions options_for(const Capture& capture) const {
    ExportOptions options = options_;
    options.inputs = capture.inputs;
    options.input_names = capture.input_names;
    options.output_names = capture.output_names;
    options.dynamic_axes = capture.dynamic_axes;
    options.plugins.insert(options.plugins.end(), capture.plugins.begin(), capture.plugins.end());
    return options;
  }

  LiveConverted convert(Captures captures, CaptureKind kind, std::string reason) {
    const Capture& first = captures[0];
    const ExportOptions options = options_for(first);
    std::vector<Source> sources;
    for (const Capture& c : captures) sources.push_back({c.model, c.inputs});
    LiveConverted out{driver::convert(sources, options, first.followed), kind, std::move(reason), seconds_, {}};
    out.captures = std::move(captures);
    return out;
  }

  FrontEnd& model_;
  const ExportOptions& options_;
  double seconds_ = 0;            // that captures took
  double processor_seconds_ = 0;  // of this thread in them
  int captures_ = 0;
  std::string refused_;               // why the last attempt was
  std::vector<Diagnostic> notes_;     // for the result
  std::vector<Diagnostic> failures_;  // of the traces, where they show what is wrong
};

}  // namespace

LiveConverted convert_live(FrontEnd& model, CaptureStrategy strategy, const ExportOptions& options) {
  return LiveExport(model, options).run(strategy);
}

}  // namespace lithify::driver
