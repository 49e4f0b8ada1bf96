// The objects behind the handles of the C ABI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "lithify/lithify.hpp"

namespace lithify::capi {

/// The result of a call; nothing in it changes once it has a handle.
struct Result {
  std::string json;
  std::vector<Message> messages;
  std::vector<std::string> inputs;   ///< "x: float32[batch, 10]"
  std::vector<std::string> outputs;  ///< the same
  std::vector<std::byte> bytes;      ///< the ONNX file, when it was not written to one
  std::optional<Claims> claims;      ///< of a file that was exported or read
};

/// The objects that callers hold handles of. A handle is a number, counted up and never reused, so one that was freed
/// or made up is recognized as invalid.
class Handles {
 public:
  template <class T>
  void* add(T object) {
    std::lock_guard lock(mutex_);
    objects_.emplace(next_, std::move(object));
    return reinterpret_cast<void*>(std::exchange(next_, next_ + 2));
  }

  /// Calls `f` on the object while nobody else can change or free it; false when the handle is not one of a T.
  template <class T, class F>
  bool use(const void* handle, F f) {
    std::lock_guard lock(mutex_);
    auto found = objects_.find(reinterpret_cast<std::uintptr_t>(handle));
    T* object = found == objects_.end() ? nullptr : std::get_if<T>(&found->second);
    if (object) f(*object);
    return object != nullptr;
  }

  template <class T>
  bool remove(const void* handle) {
    std::lock_guard lock(mutex_);
    auto found = objects_.find(reinterpret_cast<std::uintptr_t>(handle));
    if (found == objects_.end() || !std::holds_alternative<T>(found->second)) return false;
    objects_.erase(found);
    return true;
  }

 private:
  std::mutex mutex_;
  std::uintptr_t next_ = 1;  // odd, as no address of an object is
  std::map<std::uintptr_t, std::variant<ExportOptions, Result>> objects_;
};

}  // namespace lithify::capi
