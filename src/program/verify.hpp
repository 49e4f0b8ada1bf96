// The one verifier of a Program: what the evaluator may take for granted.
#pragma once

#include "program/program.hpp"

namespace lithify::program {

/// Checks every function and method:
/// - expressions and statements have the parts that their kind asks for, and nest at most as deep as parsed ones;
/// - a name is read only after a parameter or a statement on some path before has set it;
/// - functions, classes and enum members that the code refers to are defined, and so are the methods called on values
///   whose class is declared;
/// - CONSTANTS.cN is one of the program's constants;
/// - a function ends with its only return.
/// Throws an Error with the code BadProgram: the first fault of each function, with the record, line and column, and
/// the place in the user's source.
void verify(const Program& program);

}  // namespace lithify::program
