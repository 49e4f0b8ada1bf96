// From a model, open files of it or captures, to a graph that can be written.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "driver/claim.hpp"
#include "driver/recover.hpp"
#include "merge/reroll.hpp"
#include "read/open.hpp"

namespace lithify::driver {

/// Where a program comes from, and what is known of it besides.
struct Source {
  ModelSource model;
  std::vector<std::string> inputs;  ///< what the program does not have of its inputs, where the options have nothing
};

/// A model and its other traces, open for as long as they are used.
class Opened {
 public:
  explicit Opened(const std::vector<Source>& sources);
  /// A program that was made of others, which keep the memory of its weights.
  Opened(std::unique_ptr<program::Program> program, std::vector<std::shared_ptr<const Opened>> of,
         std::vector<std::string> inputs = {});
  const Traces& traces() const { return traces_; }
  const program::Program& program() const { return *traces_[0].program; }
  /// Throws CannotOpen when a file was written to since it was opened.
  void check_unchanged() const;

 private:
  std::vector<read::Opened> files_;
  std::unique_ptr<program::Program> program_;
  std::vector<std::shared_ptr<const Opened>> of_;
  Traces traces_;
};

/// A program, and the graph that was made of it.
struct Converted {
  std::shared_ptr<const Opened> opened;
  std::shared_ptr<Evaluated> evaluated;
  /// Of traces that diverge by branches, and of a trace with two iterations of a loop: the sizes at which it is known
  /// what the model does, and why it is not at others.
  std::vector<Sizes> known_at = {};
  std::string why_known = {};
};

/// One trace of what is open, and what the code around it does.
struct Unrolled {
  std::shared_ptr<const Opened> opened;
  const Trace* trace;
  const std::optional<Followed>* followed;
  const std::set<size_t>* counting = nullptr;  ///< conditions that are not needed: see counting.hpp
};

/// The traces with their loops rerolled; nullptr in the place of one that has none.
std::vector<std::shared_ptr<const Opened>> rerolled(const std::vector<Unrolled>& traces, merge::Lengths lengths);

/// What the program shows of its captures.
CaptureFacts facts_of(const Converted& converted);

/// The sources of a model file: itself, and the files of ExportOptions::also.
std::vector<Source> sources_of(const ModelSource& model, const ExportOptions& options);

/// All options settled, those that are detected automatically too.
ExportOptions settled(const Opened& opened, ExportOptions options);

/// Converts the model. Throws Error with all diagnostics when it cannot be exported.
Converted convert(const std::vector<Source>& sources, const ExportOptions& options,
                  const std::optional<Followed>& followed = {});

}  // namespace lithify::driver
