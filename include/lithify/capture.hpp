// Export of live models, for those who write a front end: a program is captured from a model by running it.
//
// A front end has two jobs: it runs the model at the sizes that it is asked for, and it hands back the program, what
// escaped from it, and where. The core decides which captures are made, what is compared, and what is claimed, for
// every front end alike. C++17.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lithify/lithify.hpp"

namespace lithify {

/// How a program is captured.
enum class CaptureKind {
  Trace,   ///< one run on a sample is recorded
  Script,  ///< TorchScript, with its control flow
  Export   ///< torch.export
};

/// Which captures the core asks for.
enum class CaptureStrategy {
  Auto,    ///< a trace where one shows all that the model does, traces at several sizes, or another kind
  Trace,   ///< one trace, as it is
  Script,  ///< TorchScript
  Export   ///< torch.export
};

/// What a front end is asked for.
struct CaptureRequest {
  CaptureKind kind = CaptureKind::Trace;  ///< of the capture
  Sizes sizes;                            ///< at which the model is to be run; empty for those of the sample
  bool vary_contents = false;             ///< whether the inputs are to hold other values than the sample
  /// The outcomes that questions about what inputs hold are to have, whatever they hold: by Condition::question. A
  /// front end that does not follow contents is not asked for it.
  std::map<std::string, bool> outcomes = {};
  size_t sample = 0;  ///< which sample the inputs are, if no sizes are asked for: 0, or 1 + i of more_samples()[i]
};

/// A question that the code around the program asked as the model ran: about sizes, such as `if x.shape[1] > 5`, or
/// about what inputs hold, such as `if x.max() > 5`.
struct Condition {
  /// Over the numbers s0, s1, ...: "s0 > 5"; docs/sizes.md has the syntax. Empty where it is about numbers that inputs
  /// hold.
  std::string formula;
  bool outcome = false;  ///< of the run
  std::string where;     ///< the line that asked: "model.py:12"
  /// For one about what inputs hold: a text that no other such question of the run has, the same in every run that
  /// comes to it.
  std::optional<std::string> question = {};
  bool other_raises = false;  ///< whether the model is known to fail where the outcome is the other one
};

/// A number that the code around the program took, such as the one of `range(x.shape[1] // 2)`.
struct Escape {
  std::string formula;       ///< over the numbers s0, s1, ...: "s0 // 2"; empty where it is of what inputs hold
  double value = 0;          ///< in the run
  std::string what;          ///< how it was taken: "index", "float", "text", ...
  std::string where;         ///< the line that took it: "model.py:12"
  bool of_contents = false;  ///< whether it may depend on what inputs hold
  bool only_here = false;    ///< whether another kind of capture is likely to follow it
};

/// What the code around a program does with sizes and with what inputs hold. The program returns, after the results of
/// the model, the value of each condition (a bool) and then the numbers s0, s1, ... that formulas are about.
struct Followed {
  /// In the order in which they were asked, each once. Those that the model raises at another outcome of are not here.
  std::vector<Condition> conditions;
  std::vector<Escape> escapes;  ///< numbers of the program come from nowhere else
  size_t sizes = 0;             ///< how many numbers there are
};

/// A program that was captured.
struct Capture {
  ModelSource model = ModelSource(Bytes());  ///< the program and its weights
  std::vector<std::string> inputs;           ///< as ExportOptions::inputs; empty where the program has its sample
  std::vector<std::string> input_names;      ///< as ExportOptions::input_names
  std::vector<std::string> output_names;     ///< as ExportOptions::output_names
  /// As ExportOptions::dynamic_axes, by the names of this capture.
  std::map<std::string, std::map<int64_t, std::string>> dynamic_axes;
  std::optional<Followed> followed;  ///< if the front end followed sizes through the code
  /// Where contents of inputs escape: the program has one outcome of what follows.
  std::vector<std::string> escaped_data;
  std::vector<std::string> state;        ///< numbers of the model that every run changes and that its results depend on
  std::vector<CustomOperator> plugins;   ///< for operators that only this program has
  std::vector<std::string> assumptions;  ///< questions about data of which only the recorded outcome gives results
  std::shared_ptr<const void> keep;      ///< owns the memory that `model` points into
};

/// Thrown by a front end: the model cannot be captured so. The text is the reason.
class LITHIFY_API CannotCapture : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Thrown by a front end: the model itself fails, however it is captured.
class LITHIFY_API CannotRun : public CannotCapture {
 public:
  using CannotCapture::CannotCapture;
};

/// Whether an exported model agrees with the live one.
struct Agreement {
  enum class Kind {
    Agrees,
    Differs,
    NotRun,    ///< the live model does not run at these sizes
    NoRuntime  ///< there is nothing to run exported models with
  };
  Kind kind = Kind::NoRuntime;  ///< of the comparison
  std::string what = {};        ///< what differs, or why it does not run
};

/// A model in memory.
class LITHIFY_API FrontEnd {
 public:
  virtual ~FrontEnd() = default;
  /// The sizes that the dynamic dimensions have in the sample, in the order of the inputs.
  virtual Sizes sample_sizes() = 0;
  /// Those that they have in each of the other samples that the user gave.
  virtual std::vector<Sizes> more_samples() { return {}; }
  /// Whether a trace follows sizes: they are values of the program, and only those that escape are numbers. Where it
  /// does not, every size is a number in it.
  virtual bool follows_sizes() const = 0;
  /// The kinds of captures that there are besides a trace, in the order in which they are tried.
  virtual std::vector<CaptureKind> other_kinds() const = 0;
  /// Bounds of the dynamic dimensions that the user declared, such as "seq <= 512": they limit what is claimed. The
  /// front end neither captures nor checks the model at other sizes.
  virtual std::vector<std::string> bounds() const { return {}; }
  /// Captures the model, and leaves it as it was. Throws CannotCapture. Any other exception ends the export, and its
  /// caller gets it.
  virtual Capture capture(const CaptureRequest& request) = 0;
  /// Runs an exported model and the live one at each of these sizes, then on each of the other samples, and compares
  /// their results.
  virtual std::vector<Agreement> check(Bytes exported, const std::vector<Sizes>& sizes) {
    (void)exported;
    return std::vector<Agreement>(sizes.size());
  }
};

/// Sizes at which a model may run that runs at the sample's, the likeliest first: all differ from the sample's, and by
/// different amounts.
LITHIFY_API std::vector<Sizes> other_sizes(const Sizes& sample);

/// The size, at the given sizes, of a dimension whose name is a formula of others: "past+sequence". Such a dimension is
/// not among those of FrontEnd::sample_sizes. Nothing for a name that is not a formula of the dimensions in `sizes`.
LITHIFY_API std::optional<int64_t> tied_size(const std::string& name, const Sizes& sizes);

/// Exports a live model to the file `out`. Throws ExportError, and then leaves no file behind.
LITHIFY_API ExportResult export_live(FrontEnd& model, CaptureStrategy strategy, const std::string& out,
                                     const ExportOptions& options = {});
/// Exports a live model to memory, as export_bytes does.
LITHIFY_API ExportResult export_live(FrontEnd& model, CaptureStrategy strategy,
                                     const std::function<std::byte*(uint64_t size)>& allocate,
                                     const ExportOptions& options = {});

}  // namespace lithify
