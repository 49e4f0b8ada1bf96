// Windows 10 and later. The kernel's functions take UTF-16; everything above this file is UTF-8.
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>

#include <fcntl.h>
#include <io.h>
#include <shellapi.h>

#include <algorithm>
#include <utility>

#include "platform/file.hpp"
#include "platform/process.hpp"

namespace lithify::platform {
namespace fs = std::filesystem;
namespace {

std::wstring to_utf16(std::string_view text) {
  const int size = static_cast<int>(text.size());
  std::wstring out(static_cast<size_t>(MultiByteToWideChar(CP_UTF8, 0, text.data(), size, nullptr, 0)), L'\0');
  MultiByteToWideChar(CP_UTF8, 0, text.data(), size, out.data(), static_cast<int>(out.size()));
  return out;
}

std::string to_utf8(std::wstring_view text) {
  const int size = static_cast<int>(text.size());
  std::string out(static_cast<size_t>(WideCharToMultiByte(CP_UTF8, 0, text.data(), size, nullptr, 0, nullptr, nullptr)),
                  '\0');
  WideCharToMultiByte(CP_UTF8, 0, text.data(), size, out.data(), static_cast<int>(out.size()), nullptr, nullptr);
  return out;
}

/// The reason of the last call that failed.
std::error_code last_error() {
  const auto is = [error = GetLastError()](auto... codes) { return ((error == static_cast<DWORD>(codes)) || ...); };
  std::errc reason = std::errc::io_error;
  if (is(ERROR_FILE_NOT_FOUND, ERROR_PATH_NOT_FOUND, ERROR_BAD_PATHNAME, ERROR_INVALID_NAME))
    reason = std::errc::no_such_file_or_directory;
  else if (is(ERROR_ACCESS_DENIED, ERROR_SHARING_VIOLATION, ERROR_LOCK_VIOLATION, ERROR_USER_MAPPED_FILE))
    reason = std::errc::permission_denied;
  else if (is(ERROR_FILE_EXISTS, ERROR_ALREADY_EXISTS))
    reason = std::errc::file_exists;
  else if (is(ERROR_DISK_FULL, ERROR_HANDLE_DISK_FULL, ERROR_DISK_QUOTA_EXCEEDED))
    reason = std::errc::no_space_on_device;
  else if (is(ERROR_FILE_TOO_LARGE))
    reason = std::errc::file_too_large;
  else if (is(ERROR_WRITE_PROTECT))
    reason = std::errc::read_only_file_system;
  else if (is(ERROR_NOT_ENOUGH_MEMORY, ERROR_OUTOFMEMORY, ERROR_COMMITMENT_LIMIT))
    reason = std::errc::not_enough_memory;
  else if (is(ERROR_TOO_MANY_OPEN_FILES))
    reason = std::errc::too_many_files_open;
  else if (is(ERROR_NOACCESS))
    reason = std::errc::bad_address;
  else if (is(ERROR_BROKEN_PIPE, ERROR_NO_DATA))
    reason = std::errc::broken_pipe;
  else if (is(ERROR_FILENAME_EXCED_RANGE))
    reason = std::errc::filename_too_long;
  return std::make_error_code(reason);
}

std::error_code result_of(BOOL done) { return done ? std::error_code() : last_error(); }

HANDLE handle_of(intptr_t handle) { return reinterpret_cast<HANDLE>(handle); }
HANDLE handle_of(std::FILE* stream) { return handle_of(_get_osfhandle(_fileno(stream))); }

/// In units of 100 ns.
int64_t change_time(const BY_HANDLE_FILE_INFORMATION& info) {
  return static_cast<int64_t>(uint64_t{info.ftLastWriteTime.dwHighDateTime} << 32 | info.ftLastWriteTime.dwLowDateTime);
}

uint64_t size_of(const BY_HANDLE_FILE_INFORMATION& info) {
  return uint64_t{info.nFileSizeHigh} << 32 | info.nFileSizeLow;
}

/// Writes all bytes: behind each other, or at an offset of a file that several threads may write to.
std::error_code write_all(HANDLE file, std::span<const std::byte> bytes, const uint64_t* offset) {
  constexpr size_t most = size_t{1} << 20;
  uint64_t at = offset ? *offset : 0;
  while (!bytes.empty()) {
    OVERLAPPED place{};
    place.Offset = static_cast<DWORD>(at);
    place.OffsetHigh = static_cast<DWORD>(at >> 32);
    DWORD written = 0;
    if (!WriteFile(file, bytes.data(), static_cast<DWORD>(std::min(bytes.size(), most)), &written,
                   offset ? &place : nullptr))
      return last_error();
    if (written == 0) return std::make_error_code(std::errc::io_error);
    bytes = bytes.subspan(written);
    at += written;
  }
  return {};
}

}  // namespace

fs::path path_of(std::string_view text) { return to_utf16(text); }
std::string text_of(const fs::path& path) { return to_utf8(path.native()); }

FileMapping::~FileMapping() {
  if (!bytes_.empty()) UnmapViewOfFile(bytes_.data());
  if (handle_ != -1) CloseHandle(handle_of(handle_));
}

std::error_code FileMapping::open(const fs::path& path) {
  const HANDLE file = CreateFileW(path.c_str(), GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
                                  nullptr, OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, nullptr);
  handle_ = reinterpret_cast<intptr_t>(file);
  BY_HANDLE_FILE_INFORMATION info{};
  if (file == INVALID_HANDLE_VALUE || !GetFileInformationByHandle(file, &info)) return last_error();
  changed_ = change_time(info);
  if (size_of(info) == 0) return {};
  const HANDLE mapping = CreateFileMappingW(file, nullptr, PAGE_READONLY, 0, 0, nullptr);
  if (!mapping) return last_error();
  const void* address = MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, 0);
  const std::error_code error = result_of(address != nullptr);
  CloseHandle(mapping);  // the view keeps it
  if (address) bytes_ = {static_cast<const std::byte*>(address), static_cast<size_t>(size_of(info))};
  return error;
}

bool FileMapping::unchanged() const {
  BY_HANDLE_FILE_INFORMATION now{};
  return GetFileInformationByHandle(handle_of(handle_), &now) && size_of(now) == bytes_.size() &&
         change_time(now) == changed_;
}

std::error_code WritableFile::create(const fs::path& path) {
  handle_ = reinterpret_cast<intptr_t>(CreateFileW(path.c_str(), GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_DELETE,
                                                   nullptr, CREATE_NEW, FILE_ATTRIBUTE_NORMAL, nullptr));
  return result_of(is_open());
}

std::error_code WritableFile::create_unnamed(const fs::path&) { return std::make_error_code(std::errc::not_supported); }

std::error_code WritableFile::open(const fs::path& path) {
  handle_ = reinterpret_cast<intptr_t>(CreateFileW(path.c_str(), GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE,
                                                   nullptr, OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, nullptr));
  return result_of(is_open());
}

std::error_code WritableFile::link(const fs::path&) const { return std::make_error_code(std::errc::not_supported); }

// A file has the permissions of its directory.
bool WritableFile::copy_permissions(const fs::path& from) const {
  std::error_code ignored;
  return fs::exists(from, ignored);
}

std::error_code WritableFile::reserve(uint64_t size) const {
  FILE_ALLOCATION_INFO room{};
  room.AllocationSize.QuadPart = static_cast<LONGLONG>(size);
  if (size == 0 || SetFileInformationByHandle(handle_of(handle_), FileAllocationInfo, &room, sizeof room)) return {};
  // Any other failure means that the file system has no such thing; writing will show.
  const std::error_code error = last_error();
  return error == std::errc::no_space_on_device || error == std::errc::file_too_large ? error : std::error_code();
}

std::error_code WritableFile::write_at(std::span<const std::byte> bytes, uint64_t offset) const {
  return write_all(handle_of(handle_), bytes, &offset);
}

std::error_code WritableFile::write_next(std::span<const std::byte> bytes) const {
  return write_all(handle_of(handle_), bytes, nullptr);
}

std::error_code WritableFile::sync() const { return result_of(FlushFileBuffers(handle_of(handle_))); }

std::error_code WritableFile::close() {
  return is_open() ? result_of(CloseHandle(handle_of(std::exchange(handle_, -1)))) : std::error_code();
}

std::error_code replace(const fs::path& from, const fs::path& to, bool) {
  std::error_code error;
  fs::rename(from, to, error);
  return error;
}

void sync_directory(const fs::path&) {}

std::vector<std::string> arguments(int, char**) {
  int count = 0;
  wchar_t** words = CommandLineToArgvW(GetCommandLineW(), &count);
  std::vector<std::string> out;
  for (int i = 1; i < count; ++i) out.push_back(to_utf8(words[i]));
  LocalFree(words);
  return out;
}

void prepare_streams() {
  for (std::FILE* stream : {stdin, stdout, stderr}) _setmode(_fileno(stream), _O_BINARY);
  SetConsoleOutputCP(CP_UTF8);
  for (std::FILE* stream : {stdout, stderr}) {
    DWORD mode = 0;
    if (GetConsoleMode(handle_of(stream), &mode))
      SetConsoleMode(handle_of(stream), mode | ENABLE_PROCESSED_OUTPUT | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
  }
}

bool is_terminal(std::FILE* stream) {
  DWORD mode = 0;
  return GetConsoleMode(handle_of(stream), &mode) != 0;
}

size_t terminal_width(std::FILE* stream) {
  CONSOLE_SCREEN_BUFFER_INFO info{};
  if (!GetConsoleScreenBufferInfo(handle_of(stream), &info)) return 0;
  return static_cast<size_t>(std::max(0, info.srWindow.Right - info.srWindow.Left + 1));
}

uintptr_t lowest_stack_address() {
  ULONG_PTR lowest = 0, highest = 0;
  GetCurrentThreadStackLimits(&lowest, &highest);
  return lowest;
}

namespace {

std::string_view lost_mapping_text;
int lost_mapping_code = 0;

LONG WINAPI end_at_lost_mapping(EXCEPTION_POINTERS* exception) {
  if (exception->ExceptionRecord->ExceptionCode != static_cast<DWORD>(EXCEPTION_IN_PAGE_ERROR))
    return EXCEPTION_CONTINUE_SEARCH;
  DWORD written = 0;
  WriteFile(GetStdHandle(STD_ERROR_HANDLE), lost_mapping_text.data(), static_cast<DWORD>(lost_mapping_text.size()),
            &written, nullptr);
  TerminateProcess(GetCurrentProcess(), static_cast<UINT>(lost_mapping_code));
  return EXCEPTION_CONTINUE_SEARCH;
}

}  // namespace

void on_lost_mapping(std::string_view text, int exit_code) {
  lost_mapping_text = text;
  lost_mapping_code = exit_code;
  SetUnhandledExceptionFilter(end_at_lost_mapping);
}

int process_id() { return static_cast<int>(GetCurrentProcessId()); }

bool is_running(int id) {
  const HANDLE process = OpenProcess(SYNCHRONIZE, FALSE, static_cast<DWORD>(id));
  if (!process) return GetLastError() != ERROR_INVALID_PARAMETER;
  const bool running = WaitForSingleObject(process, 0) == WAIT_TIMEOUT;
  CloseHandle(process);
  return running;
}

fs::path program_file() {
  std::wstring name(32768, L'\0');  // longer than any path
  name.resize(GetModuleFileNameW(nullptr, name.data(), static_cast<DWORD>(name.size())));
  return name;
}

const std::string_view python = "python.exe";

namespace {

/// A word of a command line as CommandLineToArgvW reads it: in quotes, with a backslash before each quote inside, and
/// backslashes doubled where they are before a quote.
std::wstring quoted(const std::wstring& word) {
  std::wstring out = L"\"";
  size_t backslashes = 0;
  for (const wchar_t c : word) {
    if (c == L'"') out.append(backslashes + 1, L'\\');
    backslashes = c == L'\\' ? backslashes + 1 : 0;
    out += c;
  }
  return out.append(backslashes, L'\\') + L'"';
}

}  // namespace

std::error_code replace_by(const std::vector<std::string>& words) {
  std::wstring line;
  for (const std::string& word : words) line += (line.empty() ? L"" : L" ") + quoted(to_utf16(word));
  STARTUPINFOW start{};
  start.cb = sizeof start;
  PROCESS_INFORMATION child{};
  if (!CreateProcessW(nullptr, line.data(), nullptr, nullptr, TRUE, 0, nullptr, nullptr, &start, &child))
    return last_error();
  SetConsoleCtrlHandler(nullptr, TRUE);  // an interrupt is for the child
  WaitForSingleObject(child.hProcess, INFINITE);
  DWORD code = 1;
  GetExitCodeProcess(child.hProcess, &code);
  ExitProcess(code);
}

}  // namespace lithify::platform
