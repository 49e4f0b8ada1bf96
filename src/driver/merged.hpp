// Traces of different paths of a model as one program, evaluated.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "driver/convert.hpp"
#include "merge/merge.hpp"

namespace lithify::driver {

/// The program of one path.
struct PathProgram {
  std::shared_ptr<const Opened> opened;
  size_t outputs = 0;                              ///< how many of its results are outputs of the model
  std::vector<merge::Recording::Asked> asked;      ///< the conditions that lead to the path
  const provenance::Formulas* formulas = nullptr;  ///< that stand in the place of its numbers
  const Followed* followed = nullptr;
  const Evaluated* outcome = nullptr;  ///< what it evaluates to by itself
};

/// The program that runs each path where its conditions have the outcomes that lead there. Throws Error where there is
/// none.
Converted merged(std::span<const PathProgram> paths, const ExportOptions& options);

/// Whether the merged program is shown to be each of the paths where the conditions have the outcomes that lead there:
/// both evaluate to the same graph then. False also where conditions ask for data.
bool is_each_path(const Converted& whole, std::span<const PathProgram> paths, const ExportOptions& options);

}  // namespace lithify::driver
