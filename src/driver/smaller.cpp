#include "driver/smaller.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "base/options.hpp"
#include "onnx/opdef.hpp"
#include "onnx/verify.hpp"
#include "rewrite/precision.hpp"
#include "rewrite/weights.hpp"

namespace lithify::driver {
namespace {

DType stored_as(ExportOptions::Weights weights) {
  switch (weights) {
    case ExportOptions::Weights::Int8:
      return DType::Int8;
    case ExportOptions::Weights::UInt8:
      return DType::UInt8;
    case ExportOptions::Weights::Int4:
      return DType::Int4;
    case ExportOptions::Weights::UInt4:
      return DType::UInt4;
    default:
      return DType::Undefined;
  }
}

DType computed_in(ExportOptions::Precision precision) {
  switch (precision) {
    case ExportOptions::Precision::Float16:
      return DType::Half;
    case ExportOptions::Precision::BFloat16:
      return DType::BFloat16;
    default:
      return DType::Undefined;
  }
}

Vector<std::string> kept(const ExportOptions& options) {
  return {options.keep_weights.begin(), options.keep_weights.end()};
}

void report(Evaluated& evaluated, Code code, bool is_empty, std::string message) {
  if (onnx::verification()) onnx::verify(evaluated.model, code_text(code));
  evaluated.report({code, is_empty ? Severity::Warning : Severity::Note, std::move(message), {}, "", ""});
}

void quantize_weights(Evaluated& evaluated, const ExportOptions& options) {
  const DType integers = stored_as(options.weights);
  if (integers == DType::Undefined) return;
  const rewrite::Smaller done = rewrite::quantize_weights(evaluated.model, *evaluated.sym,
                                                          {.integers = integers,
                                                           .block = options.weights_block,
                                                           .keep = kept(options),
                                                           .ort = options.target == onnxruntime_target});
  std::string message = fmt::format("{} weight{} stored as {} in blocks of {}, which changes results", done.quantized,
                                    done.quantized == 1 ? " is" : "s are", name_of(integers), options.weights_block);
  if (!done.whole.empty())
    message += fmt::format("; {} not, of which {} is the first: its sizes have no whole blocks, or it is not finite",
                           done.whole.size() == 1 ? "one is" : fmt::format("{} are", done.whole.size()),
                           printable(done.whole.front()));
  report(evaluated, Code::QuantizedWeights, done.quantized == 0, std::move(message));
}

/// "3 Pow, 2 ReduceMean"
std::string counted(const std::map<std::string, int>& counts) {
  std::vector<std::pair<std::string, int>> sorted(counts.begin(), counts.end());
  std::ranges::stable_sort(sorted, std::greater(), &std::pair<std::string, int>::second);
  std::vector<std::string> parts;
  for (const auto& [name, count] : sorted) parts.push_back(fmt::format("{} {}", count, printable(name)));
  return fmt::format("{}", fmt::join(parts, ", "));
}

void lower_precision(Evaluated& evaluated, const ExportOptions& options) {
  const DType type = computed_in(options.precision);
  if (type == DType::Undefined) return;
  const rewrite::Lowered done = rewrite::lower_precision(evaluated.model, {.type = type, .keep = kept(options)});
  std::string message = fmt::format("{} weight{} stored as {}, and {} node{} in it, which changes results",
                                    done.weights, done.weights == 1 ? " is" : "s are", name_of(type), done.nodes,
                                    done.nodes == 1 ? " computes" : "s compute");
  if (done.widened)
    message += fmt::format("; {} in float32, since ONNX Runtime has no kernels for {}", done.widened, name_of(type));
  if (!done.left.empty()) message += fmt::format("; in float32, since values need it: {}", counted(done.left));
  if (!done.beyond.empty()) {
    std::vector<std::string> names;
    for (const std::string& name : done.beyond) names.push_back(printable(name));
    message += fmt::format("; beyond the range of {}: {}", name_of(type), fmt::join(names, ", "));
  }
  report(evaluated, Code::LowerPrecision, done.weights + done.nodes == 0, std::move(message));
}

}  // namespace

void check_smaller(const ExportOptions& options) {
  const int64_t block = options.weights_block;
  if (block < 16 || block > 256 || !std::has_single_bit(static_cast<uint64_t>(block)))
    throw Error(Code::BadOption, fmt::format("{} cannot be written", option("weights_block", block)),
                "give 16, 32, 64, 128 or 256");
  const int since = first_opset_of_smaller(options);
  if (options.opset.value_or(highest_opset) < since)
    throw Error(Code::NeedsOpset,
                fmt::format("ONNX has {} from opset {} on, and the target is opset {}",
                            stored_as(options.weights) != DType::Undefined ? "weights in blocks" : "bfloat16", since,
                            *options.opset),
                fmt::format("export with {} or higher", option("opset", since)));
}

int first_opset_of_smaller(const ExportOptions& options) {
  if (stored_as(options.weights) != DType::Undefined) return rewrite::first_opset_of_blocks;
  const DType type = computed_in(options.precision);
  return type == DType::Undefined ? lowest_opset : onnx::first_opset(type);
}

void make_smaller(Evaluated& evaluated, const ExportOptions& options) {
  quantize_weights(evaluated, options);
  lower_precision(evaluated, options);
}

}  // namespace lithify::driver
