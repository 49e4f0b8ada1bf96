// The order of the bytes in stored tensors.
#pragma once

#include "archive/zip.hpp"
#include "base/diagnostic.hpp"

namespace lithify::read {

/// Throws UnsupportedVersion when the archive declares that its tensors are big-endian.
inline void refuse_big_endian(const archive::Archive& archive) {
  const auto order = archive.read_if_present("byteorder");
  if (order && order->text() != "little")
    throw Error(Code::UnsupportedVersion, "the weights were saved on a big-endian machine",
                "load and save the model on a little-endian machine");
}

}  // namespace lithify::read
