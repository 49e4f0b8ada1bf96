// The archives of torch.export: three layouts, one content.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "archive/pickle.hpp"
#include "archive/zip.hpp"
#include "base/json.hpp"
#include "base/tensor.hpp"
#include "read/pickled_tensor.hpp"

namespace lithify::read {

/// PyTorch's element type by its number in an exported program, which is not the number in TorchScript code; Undefined
/// where there is no such type here.
DType dtype_of_export(int64_t number);

/// Tensors by their names: the state dict of an exported program, or its constants.
class TensorTable {
 public:
  virtual ~TensorTable() = default;
  /// The tensor of that name; nullptr when the table has no such entry. Names that share memory share a Storage. Throws
  /// UnsupportedType for what is not a plain tensor, BadTensor when its contents are missing or too short.
  virtual std::shared_ptr<const TensorView> find(std::string_view name) = 0;
};

/// A tensor that torch.save wrote, in base64: release 2.1 has constants so in the program itself.
std::shared_ptr<const TensorView> decode_tensor(std::string_view base64, std::string_view name);

/// What an archive holds, whichever release wrote it.
struct ExportedArchive {
  std::string program_name;  ///< of the record
  archive::Record program;   ///< JSON
  std::unique_ptr<TensorTable> weights;
  std::unique_ptr<TensorTable> constants;
};

/// Layout A (torch 2.1 to 2.7) has plain names and nested torch.save files, layout B (2.8) folders and nested files,
/// layout C (since 2.9) folders and raw storages. Stored records of weights are left to Archive::verify.
/// `live` has tensors whose contents are not in the archive; it must outlive the result.
ExportedArchive open_exported(const archive::Archive& archive, const LiveTensors& live);

}  // namespace lithify::read
