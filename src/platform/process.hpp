// The process: its command line, its streams and terminals, its stack, and other programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace lithify::platform {

/// The words behind the program's name, in UTF-8, from the arguments of `main`.
std::vector<std::string> arguments(int argc, char** argv);
/// From now on the standard streams carry bytes as they are, and terminals take UTF-8 and escape sequences.
void prepare_streams();
bool is_terminal(std::FILE* stream);
/// The columns of a terminal; 0 where the stream is not one, or its width is not known.
size_t terminal_width(std::FILE* stream);

/// The lowest address of the calling thread's stack; 0 where the system does not know.
uintptr_t lowest_stack_address();
/// From now on, a read of what a mapped file no longer has writes the text to standard error and ends the process. The
/// text must live as long as the process.
void on_lost_mapping(std::string_view text, int exit_code);

int process_id();
/// Whether there is a process with this number. Where this cannot be found out, there is one.
bool is_running(int id);

/// This program's file, with links followed; empty where the system does not know.
std::filesystem::path program_file();
/// The name of Python's interpreter, in virtual environments and on the path.
extern const std::string_view python;
/// Replaces this process by a program, which is looked for on the path, with its arguments. Returns only when it
/// cannot be run. On Windows it becomes a child process, and this one ends with its exit code.
std::error_code replace_by(const std::vector<std::string>& words);

}  // namespace lithify::platform
