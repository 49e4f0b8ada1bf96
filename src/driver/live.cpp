#include "driver/live.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/options.hpp"
#include "driver/errors.hpp"
#include "driver/other_sizes.hpp"

namespace lithify::driver {
namespace {

using Captures = std::vector<Capture>;

const char* text_of(CaptureKind kind) {
  switch (kind) {
    case CaptureKind::Script:
      return "TorchScript";
    case CaptureKind::Export:
      return "torch.export";
    default:
      return "a trace";
  }
}

std::string text_of(const Sizes& sizes) {
  std::string out;
  for (auto& [name, size] : sizes) out += fmt::format("{}{}={}", out.empty() ? "" : ", ", name, size);
  return out;
}

/// Whether all that is wrong is sizes, of which another capture may show more.
bool is_about_sizes(const Error& error) {
  return has_only_errors(error.diagnostics(), {Code::HardCodedSize, Code::AmbiguousSize, Code::UnverifiedSize,
                                               Code::TracesDiverge, Code::SearchLimit});
}

Diagnostic captured(Severity severity, std::string message) {
  return {Code::CannotCapture, severity, std::move(message), {}, "", ""};
}

class LiveExport {
 public:
  LiveExport(FrontEnd& model, const ExportOptions& options) : model_(model), options_(options) {}

  LiveConverted run(CaptureStrategy strategy) {
    if (options_.discover)
      throw Error(Code::BadOption, "axes that can be dynamic are detected for files only",
                  fmt::format("declare them by {}", option("dynamic_axes")));
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

 private:
  // ---- strategies -------------------------------------------------------------------------------------------------

  LiveConverted asked(CaptureKind kind) {
    Captures captures;
    captures.push_back(require({kind, {}, false}));
    for (const std::string& what : captures[0].escaped_data)
      notes_.push_back(captured(Severity::Warning, "the trace follows only one outcome of " + what));
    return convert(std::move(captures), kind, "asked for");
  }

  /// A trace, where one shows all; two at different sizes, where they agree; else a kind that has the branches as well.
  LiveConverted followed() {
    const std::optional<Capture> recorded = attempt({}, /*must_run=*/true);
    if (!recorded) return other_kind(refused_);
    const Capture& traced = *recorded;
    if (!traced.escaped_data.empty())
      return other_kind("a trace follows only one outcome of " + traced.escaped_data[0]);
    const Sizes sample = model_.sample_sizes();
    if (sample.empty()) return convert({traced}, CaptureKind::Trace, "a trace of one run: no size is dynamic");
    try {
      return convert({traced}, CaptureKind::Trace, "a trace of one run shows all that it does", /*proven=*/true);
    } catch (const Error& error) {
      if (!is_about_sizes(error)) throw;
    }
    try {
      for (const Sizes& sizes : aligned_sizes(sample))
        if (std::optional<LiveConverted> made = with_second(traced, sizes)) return *std::move(made);
      if (!failures_.empty()) throw Error(failures_);
      notes_.push_back(
          captured(Severity::Note,
                   "the model does not run at any other size that was tried: the sample alone shows what it does"));
      return convert({traced}, CaptureKind::Trace, "a trace of one run");
    } catch (const Error& error) {
      if (!is_about_sizes(error)) throw;
      failures_ = error.diagnostics();
    }
    return other_kind("traces at several sizes do not determine what it does at others");
  }

  /// From two traces. Nothing where the model does not run at the sizes, or their relations leave a choice: others may
  /// decide it.
  std::optional<LiveConverted> with_second(const Capture& traced, const Sizes& sizes) {
    std::optional<Capture> other = attempt({CaptureKind::Trace, sizes, false});
    if (!other) return std::nullopt;
    try {
      return convert({traced, *std::move(other)}, CaptureKind::Trace,
                     fmt::format("traces of two runs, at the sample's sizes and at {}", text_of(sizes)));
    } catch (const Error& error) {
      if (!has_only_errors(error.diagnostics(), {Code::AmbiguousSize})) throw;
      failures_ = error.diagnostics();
      return std::nullopt;
    }
  }

  /// Every size is a number in a trace: traces at three sizes of each dimension show what it is computed from.
  LiveConverted compared() {
    const Sizes sample = model_.sample_sizes();
    Captures captures = {require({})};
    if (sample.empty()) {
      // Contents that the code reads without the tracer show in a second trace.
      if (std::optional<Capture> other = attempt_varied({})) captures.push_back(*std::move(other));
      return convert(std::move(captures), CaptureKind::Trace, "a trace of one run: no size is dynamic");
    }
    const Sizes second = elsewhere(sample, {}, 1, captures);
    const Sizes third = elsewhere(sample, second, 2, captures);
    // A size of 1 shows the least about what is hard-coded.
    if (std::ranges::count(sample, 1, &Sizes::value_type::second) > 0)
      std::rotate(captures.begin(), captures.begin() + 1, captures.end());
    return convert(
        std::move(captures), CaptureKind::Trace,
        fmt::format("traces of three runs, at the sample's sizes, at {} and at {}", text_of(second), text_of(third)));
  }

  /// What a run on one sample does not show, TorchScript has as it is, and torch.export proves or refuses.
  LiveConverted other_kind(const std::string& why) {
    std::vector<Diagnostic> reasons = {captured(Severity::Error, why)};
    for (CaptureKind kind : model_.other_kinds()) try {
        return convert({require({kind, {}, false})}, kind, why);
      } catch (const Error& error) {
        // The message of a capture that fails names its kind.
        const Diagnostic& first = error.first();
        reasons.push_back(
            first.code == Code::CannotCapture
                ? first
                : captured(Severity::Error, fmt::format("captured by {}: {}", text_of(kind), first.message)));
      }
    reasons.back().hint = term("trace only");
    failures_.insert(failures_.end(), reasons.begin(), reasons.end());
    throw Error(failures_);
  }

  // ---- captures ---------------------------------------------------------------------------------------------------

  Capture capture(const CaptureRequest& request) {
    const auto start = std::chrono::steady_clock::now();
    auto count = [&] { seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
    try {
      Capture out = model_.capture(request);
      count();
      return out;
    } catch (const CannotCapture&) {
      count();
      throw;
    } catch (...) {
      throw FrontEndFailed{std::current_exception()};
    }
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

  /// `proven`: refuses all numbers that were hard-coded, or may have been.
  LiveConverted convert(Captures captures, CaptureKind kind, std::string reason, bool proven = false) {
    const Capture& first = captures[0];
    ExportOptions options = options_;
    options.inputs = first.inputs;
    options.input_names = first.input_names;
    options.output_names = first.output_names;
    options.dynamic_axes = first.dynamic_axes;
    options.plugins.insert(options.plugins.end(), first.plugins.begin(), first.plugins.end());
    if (proven) {
      options.recover = ExportOptions::Recover::Never;
      options.strict = true;
    }
    std::vector<Source> sources;
    for (const Capture& c : captures) sources.push_back({c.model, c.inputs});
    LiveConverted out{driver::convert(sources, options, first.escaped_sizes), kind, std::move(reason), seconds_, {}};
    for (Diagnostic& d : notes_) out.converted.evaluated->report(std::move(d));
    for (const Capture& c : captures)
      for (const std::string& what : c.assumptions)
        out.converted.evaluated->report(
            captured(Severity::Warning, fmt::format("it is assumed {}, as in the sample", what)));
    out.captures = std::move(captures);
    return out;
  }

  FrontEnd& model_;
  const ExportOptions& options_;
  double seconds_ = 0;
  std::string refused_;               // why the last attempt was
  std::vector<Diagnostic> notes_;     // for the result
  std::vector<Diagnostic> failures_;  // of the traces, where they show what is wrong
};

}  // namespace

LiveConverted convert_live(FrontEnd& model, CaptureStrategy strategy, const ExportOptions& options) {
  return LiveExport(model, options).run(strategy);
}

}  // namespace lithify::driver
