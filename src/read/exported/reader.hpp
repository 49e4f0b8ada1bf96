// Archives of torch.export: what torch.export.save wrote, from PyTorch 2.1 on.
#pragma once

#include <memory>

#include "archive/zip.hpp"
#include "program/program.hpp"
#include "read/pickled_tensor.hpp"

namespace lithify::read {

/// Reads the program, its weights and constants, and what is known of its inputs. Weights stay views of the archive.
/// The model is one object with an attribute for each entry of the state dict; forward takes the tensors and symbolic
/// numbers among the inputs, containers taken apart, and returns what the model does. What it writes to its inputs and
/// buffers is not an output. Every checksum of what was read has been compared when this returns.
/// `live` has tensors whose contents are not in the file, by their names in the state dict.
std::unique_ptr<program::Program> read_exported(const archive::Archive& archive, const LiveTensors& live = {});

}  // namespace lithify::read
