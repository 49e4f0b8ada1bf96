// Writes an ONNX model to a file: protobuf with the weights streamed from where they are mapped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "onnx/graph.hpp"

namespace lithify::write {

struct WriteOptions {
  /// Where tensors of 1 KiB and more go: into the model file, or into "<out>.data" beside it.
  enum class External {
    Auto,    ///< beside it when the model file would otherwise be larger than protobuf allows, 2 GB
    Always,  ///< beside it
    Never,   ///< into the model file; one that would be too large is an error
  };
  External external = External::Auto;
  bool sync = true;  ///< waits until the output is on the disk, and only then gives it its name
  /// Called now and then with the bytes written so far, on the thread that called write_model, and once at the end with
  /// `done == total`. An exception thrown from it stops the writing.
  std::function<void(uint64_t done, uint64_t total)> progress = {};
  /// Called when all weights have been read, before the output gets its name. An exception thrown from it stops that.
  std::function<void()> before_commit = [] {};
};

struct WriteResult {
  uint64_t bytes = 0;              ///< of all that was written, the external data among it
  uint64_t weight_bytes = 0;       ///< of these, the contents of tensors
  std::string external_file = {};  ///< path of the external data; empty when there is none
};

/// Writes the model. The same model gives the same bytes.
///
/// The output appears under its name only when it is whole, and replaces what was there; on any failure nothing is left
/// behind and what was there stays. What is not a regular file (a pipe, a device, "/dev/stdout") is written to
/// directly. Throws Error: CannotWrite with the reason of the system, TooLarge, UnsupportedType.
WriteResult write_model(const onnx::Model& model, const std::filesystem::path& out, const WriteOptions& options = {});

/// Writes the model to memory of which `allocate` returns as many bytes as it is asked for, once. There is no place for
/// external data: a model that needs it is TooLarge.
WriteResult write_model(const onnx::Model& model, const std::function<std::byte*(uint64_t size)>& allocate,
                        const WriteOptions& options = {});

}  // namespace lithify::write
