// Traces of one model that diverge by a branch, where nothing shows what decides which way it goes: as those in files,
// and of code in which sizes are plain numbers.
//
// The traces themselves show which sizes take which path. If exactly one simple condition on the dynamic dimensions
// separates them, and they leave no other number for it, it becomes the condition of an `if`. That is no proof: such a
// program is claimed to be right at the sizes of the traces only.
#pragma once

#include <string>
#include <vector>

#include "lithify/lithify.hpp"

namespace lithify::driver {

/// A relation of a dimension to a number or to another dimension.
struct Separator {
  enum class Kind {
    Above,       ///< first > number
    Equal,       ///< first == number
    Multiple,    ///< first % number == 0
    AboveOther,  ///< first > second
    EqualOther   ///< first == second
  };
  Kind kind = Kind::Above;
  size_t first = 0, second = 0;  ///< indices of dimensions
  int64_t number = 0;

  bool holds(const Sizes& sizes) const;
  std::string str(const Sizes& names) const;
};

/// Which side of a separator the sizes of a path are on.
struct Side {
  size_t separator = 0;
  bool holds = false;
  bool operator==(const Side&) const = default;
};

struct Separation {
  std::vector<Separator> separators;
  std::vector<std::vector<Side>> paths;  ///< of each path: those that lead to it, in ascending order
};

/// Separates paths that were taken at these sizes. Throws TracesDiverge where no condition does, or several do.
Separation separated(const std::vector<std::vector<Sizes>>& paths);

}  // namespace lithify::driver
