// What merging needs to know of operators: which write, which only view, which take numbers that are known at run time.
#pragma once

#include <optional>

#include "merge/straight.hpp"

namespace lithify::merge {

/// The operand that an operation writes to, among its items: of add_, of an operator with out=, of a list's append.
std::optional<size_t> written_operand(const Node& operation);

/// The value whose memory the result of an operation may share: of a view, or of a write, which returns its operand.
const Node* shares_memory_with(const Node& operation);

/// Whether an operator is on sizes alone, and needs no node of the graph where they are known.
bool is_on_sizes(const Node& operation);

/// Whether an operator asks for one size of a tensor.
bool reads_size(const Node& operation);

/// Whether an operator computes a number, or a tensor that stands for one, where its operands are numbers.
bool is_on_numbers(const Node& operation);

/// The same, or whether it asks for a size.
bool is_on_numbers(const program::Expr& operation);

/// Whether an operator gives a list of pieces of a tensor.
bool gives_list(const program::Expr& operation);

/// Whether an operator gives the tensor that it writes to other sizes.
bool changes_sizes(const Node& operation);

/// Whether an integer in this operand need not be known before run time: a size, a bound of a slice, a shift.
bool may_vary(const Node& operation, size_t operand, int64_t integer);

}  // namespace lithify::merge
