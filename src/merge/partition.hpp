// Which columns are one step of the program, and which traces run it.
#pragma once

#include <vector>

#include "merge/columns.hpp"

namespace lithify::merge {

/// The steps of the program, in order.
struct Layout {
  std::vector<Column> columns;
  /// The traces at whose outcomes each column runs: those that have it, and those that had not parted from them yet.
  /// These did the same, though nothing of it is left in the trace, since it has no use there.
  std::vector<Set> runs;
  std::vector<std::vector<uint32_t>> column_of;  ///< of each trace, of each step
  /// The trace whose literals stand for those of a trace: [column][trace]. It is another one only where no condition
  /// had been asked yet that decides between them.
  std::vector<std::vector<uint8_t>> literals_of;
  /// Of each two traces, the column after which a condition decides between them.
  std::vector<std::vector<uint32_t>> parted_at;

  bool parted(size_t a, size_t b, size_t column) const { return a != b && column > parted_at[a][b]; }
};

/// Separates the steps of a column that cannot be one: where literals differ that must be known at export, and where a
/// write goes to different values.
Layout layout_of(std::vector<Column> columns, const std::vector<Trace>& traces, const Definitions& definitions);

/// The value at the root of the memory that a value may share.
ValueRef base_of(const Trace& trace, ValueRef value);

}  // namespace lithify::merge
