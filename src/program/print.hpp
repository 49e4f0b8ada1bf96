// The printer of the serialized TorchScript text: what parse.hpp reads, as torch's own printer writes it.
//
// Printing what was parsed gives the same text, but for what the Program does not keep: the type of an untyped "self",
// the blank before the colon of an annotated assignment, whole floats from 1e10 (written with a point here, so that
// they stay floats), "import" and "op_version_set" lines.
#pragma once

#include <string>

#include "program/program.hpp"

namespace lithify::program {

/// `program` distinguishes calls of named tuples from calls of functions, which end with a comma; without it, all are
/// functions.
std::string print(const Expr& expr, const Program* program = nullptr);
std::string print(const Function& function, const Program* program = nullptr);
std::string print(const Class& cls, const Program* program = nullptr);

/// The definitions that one record holds, in their order. `file` indexes Program::files; -1 stands for those which no
/// file holds, by name.
std::string print_file(const Program& program, int32_t file);

/// All records, each under a comment with its name.
std::string print(const Program& program);

}  // namespace lithify::program
