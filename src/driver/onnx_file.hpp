// Parts of ONNX files as the API describes them, names made printable.
#pragma once

#include "lithify/lithify.hpp"
#include "onnxfile/model.hpp"

namespace lithify::driver {

ValueInfo info_of(const onnxfile::Value& value);
TensorInfo info_of(const onnxfile::Tensor& tensor);
/// The standard domain has an empty name in files.
std::string domain_name(std::string_view domain);

}  // namespace lithify::driver
