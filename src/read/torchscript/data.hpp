// Values of a TorchScript pickle as data of the Program.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "archive/pickle.hpp"
#include "program/program.hpp"
#include "read/pickled_tensor.hpp"

namespace lithify::read {

/// Reads the values of one pickle. What is one value in the pickle is one container, object or tensor in the Program.
/// Only the calls that TorchScript writes are understood, and only classes that the program defines; anything else is
/// BadPickle or BadProgram.
class DataReader {
 public:
  /// `program` has its classes already: they define how an object's state is read.
  DataReader(const program::Program& program, TensorReader tensors) : program_(program), tensors_(std::move(tensors)) {}

  /// `name` is how messages call the value; what is inside is named after it ("name.attribute").
  program::Data read(const archive::PickleValue& value, std::string_view name);

 private:
  program::Data convert(const archive::PickleValue& value);
  program::Data convert_node(const archive::PickleValue& value);
  program::Data sequence(program::Data::Kind kind, const archive::PickleValue& value);
  program::Data call(const archive::PickleValue& value);
  program::Data typed_list(const archive::PickleValue& call, std::string_view element);
  program::Data tagged(const archive::PickleValue& call);
  program::Data object(const archive::PickleValue& value);
  program::Data enumerator(const archive::PickleValue& call);
  program::Data quantized(const archive::PickleValue& call);
  program::Data text(program::Data::Kind kind, std::string_view text);

  std::string path() const;
  Error bad(std::string_view what) const;
  void spend_text(size_t bytes);

  const program::Program& program_;
  TensorReader tensors_;
  std::unordered_map<const archive::PickleNode*, program::Data> known_;
  std::vector<std::string> path_;
  size_t values_ = 0;
  size_t text_bytes_ = 0;
};

}  // namespace lithify::read
