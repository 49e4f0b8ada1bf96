// Tensors in pickles: from the record of a rebuilding call to a checked view of a storage.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "archive/pickle.hpp"
#include "archive/zip.hpp"
#include "base/tensor.hpp"

namespace lithify::read {

/// Contents of tensors that the file has not, by the tensor's name: they are in the memory of who made the file.
using LiveTensors = std::unordered_map<std::string, TensorView>;

/// The live tensor, when it has the type and sizes in the file; else throws BadTensor.
TensorView live_tensor(const TensorView& tensor, const TensorView& described, std::string_view name);

/// Throws BadTensor unless every element of the view lies in a storage of `elements` elements, LimitExceeded when it
/// repeats them too often. `name` is for messages.
void check_extent(const TensorView& view, int64_t elements, std::string_view name);

/// Reads the tensors of one pickle. Storages are records of one folder of the archive; views of one storage share it.
class TensorReader {
 public:
  enum class Contents {
    Needed,   ///< a storage whose record is missing or short is an error
    Ignored,  ///< tensors have no storage: the file has only their types and sizes
  };

  TensorReader(archive::Archive archive, std::string folder, Contents contents = Contents::Needed)
      : archive_(std::move(archive)), folder_(std::move(folder)), contents_(contents) {}
  /// A tensor whose storage is empty has the contents of that name in `live`, which must outlive the reader.
  TensorReader(archive::Archive archive, std::string folder, const LiveTensors& live)
      : archive_(std::move(archive)), folder_(std::move(folder)), contents_(Contents::Needed), live_(&live) {}

  /// Whether `value` is the record of a call that makes a tensor.
  static bool is_tensor(const archive::PickleValue& value);

  /// Whether it is a quantized one.
  static bool is_quantized(const archive::PickleValue& value);

  /// The tensor that such a call makes; the same value gives the same pointer. `name` is for messages, and finds it
  /// among live tensors. Throws BadTensor
  /// when the tensor reaches outside its storage or its contents are missing, UnsupportedType when it is quantized,
  /// sparse, or of an element type that is not read. Stored records are left to Archive::verify.
  std::shared_ptr<const TensorView> read(const archive::PickleValue& value, std::string_view name);

  /// The integers of a quantized tensor, and the value with its scale and zero point.
  struct Quantized {
    std::shared_ptr<const TensorView> integers;
    const archive::PickleValue* scheme;
  };
  Quantized read_quantized(const archive::PickleValue& value, std::string_view name);

 private:
  struct Named;  // a storage as a persistent id names it
  using Arguments = std::span<const archive::PickleValue>;

  TensorView rebuild(const archive::PickleValue& call, std::string_view name);
  /// `dtype` is given where the storage has none; `flags` may be null.
  TensorView strided(Arguments args, std::optional<DType> dtype, const archive::PickleValue* flags,
                     std::string_view name);
  /// Elements of 4 bits, each in a byte of its own.
  TensorView halves(const Named& source, Arguments args, std::string_view name);
  Named named_storage(const archive::PickleValue& id, std::string_view name);
  std::shared_ptr<const Storage> storage(const std::string& key, std::string_view name);

  archive::Archive archive_;
  std::string folder_;
  Contents contents_;
  const LiveTensors* live_ = nullptr;
  std::unordered_map<std::string, std::shared_ptr<const Storage>> storages_;  // by key
  std::unordered_map<const archive::PickleNode*, std::shared_ptr<const TensorView>> tensors_;
};

}  // namespace lithify::read
