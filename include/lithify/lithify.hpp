// The public C++ API of Lithify: from a PyTorch model file to an ONNX model file.
//
//   lithify::ExportOptions options;
//   options.dynamic_axes = {{"x", {{0, "batch"}}}};
//   lithify::ExportResult result = lithify::export_file("model.pt", "model.onnx", options);
//
// Failure is an ExportError with all diagnostics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "lithify/api.h"

namespace lithify {

/// One thing that is wrong or worth knowing.
struct Message {
  std::string code;      ///< "LTH040"; stable
  std::string severity;  ///< "error", "warning", "note"
  std::string subject;   ///< the operator or record that it is about; may be empty
  std::string text;      ///< one sentence
  std::string file;      ///< place in the user's Python source; may be empty
  int line = 0;
  std::string function;
  std::string hint;    ///< what to do next; may be empty
  std::string pretty;  ///< all of it, for people
};

class LITHIFY_API ExportError : public std::runtime_error {
 public:
  explicit ExportError(std::vector<Message> all)
      : std::runtime_error(all.empty() ? "export failed" : all.front().pretty), messages(std::move(all)) {}
  std::vector<Message> messages;
};

constexpr int lowest_opset = 9;
constexpr int highest_opset = 26;
constexpr int default_opset = 18;

/// Bytes that somebody else owns: a pointer and a count, or anything that has data() and size().
struct Bytes {
  Bytes() = default;
  Bytes(const void* first, size_t count) : data(static_cast<const std::byte*>(first)), size(count) {}
  template <class Range, class Item = std::remove_pointer_t<decltype(std::declval<const Range&>().data())>>
  Bytes(const Range& range) : Bytes(range.data(), range.size() * sizeof(Item)) {}

  const std::byte* data = nullptr;
  size_t size = 0;
};

/// A tensor in the caller's memory.
struct LiveTensor {
  const void* data = nullptr;
  std::string dtype;  ///< "float32"
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;  ///< in elements, not negative
};

/// Where a model comes from: a file by its path, or a file in memory. One in memory may lack the contents of weights
/// (saved with tensors on the meta device): they are then taken from the live ones of the same name, and written from
/// where they are. All memory must stay as it is during the call.
struct ModelSource {
  ModelSource(std::string file) : path(std::move(file)) {}
  ModelSource(const char* file) : path(file) {}
  explicit ModelSource(Bytes contents, std::map<std::string, LiveTensor> live = {})
      : bytes(contents), weights(std::move(live)) {}

  std::string path;
  Bytes bytes;                                ///< when there is no path
  std::map<std::string, LiveTensor> weights;  ///< by name in the state dict; tied ones have the same memory
  std::vector<std::string> inputs;            ///< of a further capture, as ExportOptions::inputs are of the first
};

/// A runtime, and the newest opset that it loads.
struct Runtime {
  std::string name;  ///< "ort-1.17"
  int opset = 0;
};

/// The runtimes that are known, oldest first.
LITHIFY_API const std::vector<Runtime>& runtimes();

/// The opset to write for a runtime: its newest, as far as it can be written. A release that is not among those known
/// gets the opset of the one before it, which it loads too. Throws ExportError for another name.
LITHIFY_API int opset_for(const std::string& runtime);

/// One call of a custom operator, as its plug-in sees it: the arguments by their names in the schema, and a way to
/// append ONNX nodes. A Tensor is a handle that is good during the call; nullptr stands for None, and for an optional
/// input that is left out.
class LITHIFY_API CustomCall {
 public:
  using Tensor = const void*;
  struct Attribute {
    std::string name;
    std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>> value;
  };
  virtual ~CustomCall() = default;
  virtual int opset() const = 0;
  virtual bool given(const std::string& argument) = 0;  ///< whether it is not None
  virtual Tensor tensor(const std::string& argument) = 0;
  virtual std::vector<Tensor> tensors(const std::string& argument) = 0;
  virtual int64_t integer(const std::string& argument) = 0;
  virtual std::vector<int64_t> integers(const std::string& argument) = 0;
  virtual double real(const std::string& argument) = 0;
  virtual bool flag(const std::string& argument) = 0;
  virtual std::string text(const std::string& argument) = 0;
  /// A 0-d constant of the type of `like`, or of float32.
  virtual Tensor constant(double number, Tensor like = nullptr) = 0;
  /// A 1-d constant of int64: the axes of a reduction, a shape.
  virtual Tensor integers_constant(const std::vector<int64_t>& numbers) = 0;
  /// A node of the standard domain; the types of its outputs follow from its inputs.
  virtual std::vector<Tensor> node(const std::string& op_type, const std::vector<Tensor>& inputs,
                                   const std::vector<Attribute>& attributes = {}, size_t outputs = 1) = 0;
  /// A node of another domain. The type of each output, as in a file of custom operators: "like x", "int64 like x",
  /// "float32[x.0, ?, 10]".
  virtual std::vector<Tensor> node(const std::string& domain, int version, const std::string& op_type,
                                   const std::vector<Tensor>& inputs, const std::vector<Attribute>& attributes,
                                   const std::vector<std::string>& outputs) = 0;
};

/// A plug-in: what an operator becomes.
struct CustomOperator {
  std::string schema;  ///< as PyTorch writes it: "mylib::op(Tensor x, float alpha=1.0) -> Tensor"
  std::function<std::vector<CustomCall::Tensor>(CustomCall&)> run;
};

struct ExportOptions {
  int opset = default_opset;
  /// What the file does not say about its inputs, or something else than it says: "x:float32[batch,3,224,224]". A size
  /// is a number, a name (then it is dynamic), or "name=2", which gives the size in the sample as well.
  std::vector<std::string> inputs;
  /// Dynamic dimensions: name of an input or output, axis, name of the dimension. Equal names are equal sizes.
  std::map<std::string, std::map<int64_t, std::string>> dynamic_axes;
  /// Every further axis that can be dynamic is, under the name "x_0": found by trying.
  bool discover = false;
  std::vector<std::string> input_names;   ///< instead of forward's argument names, in order
  std::vector<std::string> output_names;  ///< in order
  /// Compares the type and sizes of every value with what the file records of them (torch.export does): a difference is
  /// a fault of the exporter and an error.
  bool self_check = false;
  /// Loops of at most this many turns, where that is known, become copies of their bodies; others become Loop.
  int64_t unroll = 128;
  /// What happens to a model whose results depend on what earlier runs left in its buffers or attributes: the export is
  /// refused; these tensors become further inputs, and their new contents further outputs ("hidden", "hidden.next"); or
  /// every run begins with what the file holds.
  enum class State { Refuse, InOut, Frozen };
  State state = State::Refuse;
  /// What happens to numbers that tracing hard-coded and that contradict a dynamic dimension: the export is refused;
  /// they are replaced by formulas of the dimensions, where the program decides which; or where it leaves a choice as
  /// well.
  enum class Recover { Never, Decided, Guess };
  Recover recover = Recover::Decided;
  /// Further captures of the same model, at other sizes: what differs in them was hard-coded.
  std::vector<ModelSource> also;
  /// Of a capture that was watched: the sizes that left it for the language around it, as "int of a size at
  /// model.py:12". They are the last results of the program, and no outputs of the model. Numbers of the program come
  /// from nowhere else: where no dynamic dimension is in what left, none can be one.
  std::optional<std::vector<std::string>> left;
  /// Refuse what is only not known to be wrong: a number equal to a size of the sample that reaches values, or a size
  /// that left.
  bool strict = false;
  enum class ExternalData { Auto, Always, Never };
  ExternalData external_data = ExternalData::Auto;
  std::function<void(uint64_t done, uint64_t total)> progress;  ///< bytes written
  /// Declarations of custom operators, the text of a file as docs/custom-operators.md has it.
  std::string custom_ops;
  std::vector<CustomOperator> plugins;
  /// Versions of domains of operators of one's own; 1 where nothing is said.
  std::map<std::string, int> custom_opsets;
  /// An operator that has no rule becomes a node of its namespace's domain, with all its arguments.
  bool allow_custom = false;
};

/// An input or output of the model.
struct ValueInfo {
  std::string name;
  std::string dtype;               ///< "float32", "sequence of float32"; empty when it is not known
  std::vector<std::string> shape;  ///< numbers and formulas; "?" where the elements of a sequence differ
  bool rank_known = true;
  LITHIFY_API std::string str() const;  ///< "x: float32[batch, 10]"
};

/// What is known of a dimension that was declared dynamic.
struct DimensionClaim {
  std::string name;
  std::vector<std::string> constraints;  ///< "height % 32 == 0"; it is proven for every size when there are none
  int repairs = 0;                       ///< numbers that were replaced by formulas of it
  int unverified = 0;                    ///< numbers equal to its sample size in values, where nothing shows more
  LITHIFY_API std::string str() const;   ///< "proven for every size, 2 numbers repaired"
};

struct ExportResult {
  std::vector<ValueInfo> inputs;
  std::vector<ValueInfo> outputs;
  std::vector<std::pair<std::string, int>> nodes;  ///< operator and count, most frequent first
  std::vector<DimensionClaim> dimensions;          ///< the dynamic ones, by name
  int opset = 0;
  uint64_t weights = 0;       ///< number of initializers
  uint64_t weight_bytes = 0;  ///< of them
  uint64_t file_bytes = 0;
  std::string external_file;
  std::vector<std::pair<std::string, double>> seconds;  ///< per stage
  std::vector<Message> messages;                        ///< warnings and notes
  std::string graph_text;                               ///< one line a node
};

/// Writes `out`, or throws ExportError and leaves nothing behind.
LITHIFY_API ExportResult export_file(const ModelSource& model, const std::string& out,
                                     const ExportOptions& options = {});
/// Writes to memory: `allocate` is called once with the number of bytes, and returns where they go.
LITHIFY_API ExportResult export_bytes(const ModelSource& model,
                                      const std::function<std::byte*(uint64_t size)>& allocate,
                                      const ExportOptions& options = {});

/// The axes of the inputs that can be dynamic, and what is proven of them. Throws ExportError when the model cannot be
/// exported at all.
struct DiscoverResult {
  std::vector<ValueInfo> inputs;
  std::vector<DimensionClaim> dimensions;
};
LITHIFY_API DiscoverResult discover_file(const ModelSource& model, const ExportOptions& options = {});

/// One operator of a program, as `check` sees it.
struct OperatorStatus {
  std::string name;
  int count = 0;
  bool supported = true;
  int since = 0;  ///< lowest opset in which it can be exported
};

/// The model in one opset.
struct OpsetStatus {
  int opset = 0;
  bool exportable = false;
  int nodes = 0;
};

struct CheckResult {
  bool exportable = false;
  int opset = 0;
  std::vector<OperatorStatus> operators;
  std::vector<Message> messages;
  std::vector<OpsetStatus> opsets;  ///< every opset; empty when the model cannot be exported for another reason
  int lowest_opset = 0;             ///< the lowest in which the model can be expressed; 0 when there is none
  int fewest_nodes_opset = 0;       ///< the lowest in which it has the fewest nodes: nothing is decomposed for its sake
};

/// Whether the model can be exported, with every reason why not. Where that cannot be tried, because the file does not
/// say what its inputs are, the operators are those in the code. Throws ExportError only for files that cannot be read.
LITHIFY_API CheckResult check_file(const ModelSource& model, const ExportOptions& options = {});

struct InspectResult {
  std::string kind;     ///< "TorchScript" or "torch.export"
  std::string release;  ///< of PyTorch, where the file says it
  int64_t file_version = 0;
  std::vector<ValueInfo> inputs;
  std::string returns;                                 ///< forward's declared type
  std::vector<std::pair<std::string, int>> operators;  ///< as written in the code, most frequent first
  uint64_t weights = 0;
  uint64_t weight_bytes = 0;
  std::string code;
  std::optional<DiscoverResult> dynamic;  ///< where it was asked for
};

LITHIFY_API InspectResult inspect_file(const ModelSource& model);

/// One operator that can be exported.
struct SupportedOperator {
  std::string name;
  std::vector<std::string> schemas;
  int since = 0;
};

LITHIFY_API std::vector<SupportedOperator> supported_operators();

/// As JSON, for programs. The keys are the names of the members; an opset has the runtimes that load it as well.
LITHIFY_API std::string to_json(const ExportResult& result);
LITHIFY_API std::string to_json(const CheckResult& result);
LITHIFY_API std::string to_json(const InspectResult& result);
LITHIFY_API std::string to_json(const std::vector<SupportedOperator>& operators);
LITHIFY_API std::string to_json(const std::vector<Message>& messages);  ///< {"messages": [...]}

LITHIFY_API const char* version();

}  // namespace lithify
