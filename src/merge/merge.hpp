// Traces of one model that took different sides of conditions on sizes become one program with `if`.
//
//   straight.cpp      calls of submodules are replaced by the steps that they run
//   definitions.cpp   constants, classes and functions of all traces
//   columns.cpp       which steps of the traces are the same (align.cpp)
//   partition.cpp     which of these must nevertheless be separate steps
//   branches.cpp      which steps are inside an `if`, and which values are its results
//   check.cpp         whether the program runs, for each trace, what the trace has
//
// reroll.cpp is about one trace: loops that it has unrolled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "program/program.hpp"

namespace lithify::merge {

/// A trace of a model, and the conditions on sizes that its run asked.
struct Recording {
  /// A condition that decided how the run went on. Its value is a 0-d bool among the results of forward.
  struct Asked {
    size_t condition = 0;  ///< the same number for the same formula of the dynamic dimensions, in all recordings
    bool outcome = false;
    size_t result = 0;  ///< the index of its value among the results
  };
  const program::Program* program = nullptr;  ///< forward returns a tuple: the model's outputs, and then other values
  size_t outputs = 0;                         ///< how many results are outputs of the model
  std::vector<Asked> asked;                   ///< in the order in which they were asked, each condition once
  /// What its integers and constants stand for that were computed from sizes: those with equal texts are the same.
  std::map<const program::Expr*, std::string> formulas = {};
};

/// A literal of a recording.
struct Source {
  size_t recording = 0;  ///< the index of the recording
  const program::Expr* literal = nullptr;
  bool operator==(const Source&) const = default;
};

struct Merged {
  std::unique_ptr<program::Program> program;  ///< forward returns the outputs of the model alone
  /// For each integer, float and constant in forward: the literals that it stands for. Their values may differ where
  /// no condition decides between the recordings, since none had been asked yet: the number comes from a size in
  /// another way, and the program has that of the first.
  std::map<const program::Expr*, std::vector<Source>> copied_from;
};

/// Which steps of recordings that took different sides of a condition may be one step of the program.
enum class Sharing : uint8_t {
  Everywhere,       ///< those that are the same, also after they diverged: the program is small
  UntilDivergence,  ///< none after they diverged: what they compute there may have other types and ranks
};

/// The program that runs what each recording did, where the conditions have the outcomes that they had in it. What it
/// runs for other outcomes is what some recording did, or not defined. Of recordings with the same outcomes, the first
/// counts. Throws TracesDiverge, with the place, for recordings that differ where no condition decides between them,
/// or that are not of one model.
Merged merge(std::span<const Recording> recordings, Sharing sharing = Sharing::Everywhere);

}  // namespace lithify::merge
