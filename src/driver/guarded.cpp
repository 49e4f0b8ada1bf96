#include "driver/guarded.hpp"

#include <new>
#include <stdexcept>

#include "base/options.hpp"
#include "driver/live.hpp"

namespace lithify::driver {

std::vector<Message> to_messages(const std::vector<Diagnostic>& all, Interface interface) {
  constexpr const char* severities[] = {"note", "warning", "error"};
  std::vector<Message> out;
  for (const Diagnostic& d : all)
    out.push_back({code_text(d.code), severities[static_cast<int>(d.severity)], printable(d.subject),
                   spelled(d.message, interface), printable(d.place.file), d.place.line, printable(d.place.function),
                   spelled(d.hint, interface), d.str(interface)});
  return out;
}

void rethrow_as_export_error(Interface interface) {
  auto as_export_error = [&](const Error& e) { return ExportError(to_messages(e.diagnostics(), interface)); };
  try {
    throw;
  } catch (const Error& e) {
    throw as_export_error(e);
  } catch (const std::length_error&) {
    throw as_export_error(Error(Code::LimitExceeded, "the program needs more memory than there can be"));
  } catch (const std::bad_alloc&) {
    throw as_export_error(Error(Code::LimitExceeded, "there is not enough memory"));
  } catch (const ExportError&) {
    throw;
  } catch (const FrontEndFailed& failed) {
    std::rethrow_exception(failed.exception);
  } catch (const std::exception& e) {
    throw as_export_error(Error(Code::Internal, e.what()));
  }
}

}  // namespace lithify::driver
