// What is claimed of a file: from what the evaluation of its program assumed, and what is known of the capture.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "driver/evaluate.hpp"
#include "lithify/lithify.hpp"

namespace lithify::driver {

/// What is known of a capture besides its program. Formulas are of the dynamic dimensions, by their names.
struct CaptureFacts {
  /// AnySize: the program has all that the model does, on the paths that were recorded. RecordedPath: it has one path,
  /// and it is not known on which conditions.
  ClaimKind kind = ClaimKind::RecordedPath;
  std::vector<Constraint> conditions;  ///< on sizes that the model's code asked, each once
  std::vector<std::string> paths;      ///< see Claims::paths
  std::vector<std::string> bounds;     ///< of sizes that the user declared
  std::vector<Sizes> checked;          ///< at which the file was run and agreed with the model
  /// Uses of each dimension that were not followed: "int of a size at model.py:12". Where the kind is AnySize, these
  /// dimensions are claimed as Checked.
  std::map<std::string, std::vector<std::string>> unfollowed;
};

/// What a program shows of its capture: whether it is a trace, and at which sizes it was made.
CaptureFacts facts_of(const program::Program& program, const Evaluated& evaluated);

/// What may be claimed of the graph. Throws ShapeMismatch where a constraint does not hold for the sample itself.
Claims make_claims(const program::Program& program, const Evaluated& evaluated, const CaptureFacts& facts);

}  // namespace lithify::driver
