// From a path or bytes to a Program: the contents determine the format.
#pragma once

#include <memory>
#include <string>

#include "archive/mapped_file.hpp"
#include "archive/zip.hpp"
#include "program/program.hpp"
#include "read/pickled_tensor.hpp"

namespace lithify::read {

struct Opened {
  enum class Kind {
    TorchScript,  ///< torch.jit.save
    Exported,     ///< torch.export.save
  };
  Kind kind = Kind::TorchScript;
  std::unique_ptr<program::Program> program;                  ///< keeps the file mapped for as long as it has weights
  std::shared_ptr<const archive::MappedFile> file = nullptr;  ///< that it was read from, if any
};

/// Reads the model in a file. The contents determine its format, not its name. A file of another kind is NotAModel,
/// with a message that names its format and a hint how to get a model file from it.
Opened open_model(const std::string& path);

/// The same of a file that is in memory. `live` has what tensors hold whose contents are not in it, by their names in
/// the state dict.
Opened open_model(const archive::Record& contents, const LiveTensors& live = {});

}  // namespace lithify::read
