// TorchScript archives: what torch.jit.save wrote, from PyTorch 1.4 on.
#pragma once

#include <memory>

#include "archive/zip.hpp"
#include "program/program.hpp"
#include "read/pickled_tensor.hpp"

namespace lithify::read {

/// Reads code, attributes, weights, constants and the sample inputs of a trace. Weights stay views of the archive.
/// Every checksum of what was read has been compared when this returns.
std::unique_ptr<program::Program> read_torchscript(const archive::Archive& archive, const LiveTensors& live = {});

}  // namespace lithify::read
