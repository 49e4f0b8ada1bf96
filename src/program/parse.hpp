// The parser of the serialized TorchScript text: the text form of a Program.
//
// It takes what torch's printer has emitted since 1.4 (print.hpp writes the same): classes, functions, and statements
// without infix operators. Text is untrusted: everything else ends in an Error with the code BadCode (or LimitExceeded)
// that names the record, the line and the column.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "program/program.hpp"

namespace lithify::program {

/// Parses one code record and adds its text, classes and functions to the program. The record's name gives the
/// qualified names: "code/__torch__/a/b.py" defines "__torch__.a.b.X". Defining a name twice is an error.
/// `locate` goes from a byte of the text to the user's source; it may be empty.
void parse_file(Program& program, std::string record_name, std::string text, std::function<Place(uint32_t)> locate);

/// One "def", not part of any file: positions have file -1, the qualified name is the name.
Function parse_function(std::string_view text);

/// One type, as in annotations and in the type tags of pickles.
Type parse_type(std::string_view text);

}  // namespace lithify::program
