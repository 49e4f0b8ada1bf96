// The public C++ API of Lithify: from a PyTorch model file to an ONNX model file.
//
//   lithify::ExportOptions options;
//   options.dynamic_axes = {{"x", {{0, "batch"}}}};
//   lithify::ExportResult result = lithify::export_file("model.pt", "model.onnx", options);
//
// Failure is an ExportError with all diagnostics. docs/cpp.md is the guide for models that are in memory.
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

/// An error, a warning or a note. Control characters in its texts are escaped.
struct Message {
  std::string code;      ///< "LTH040"; stable
  std::string severity;  ///< "error", "warning" or "note"
  std::string subject;   ///< the name of the operator or record in question; may be empty
  std::string text;      ///< one sentence
  std::string file;      ///< place in the source of the model; may be empty
  int line = 0;          ///< in `file`, from 1 on
  std::string function;  ///< the function or method; may be empty
  std::string hint;      ///< what to do next; may be empty
  std::string pretty;    ///< all of the above, for people
};

/// What every function of the API throws; what() is the first of the messages.
class LITHIFY_API ExportError : public std::runtime_error {
 public:
  explicit ExportError(std::vector<Message> all)
      : std::runtime_error(all.empty() ? "export failed" : all.front().pretty), messages(std::move(all)) {}
  std::vector<Message> messages;  ///< every reason
};

constexpr int lowest_opset = 9;    ///< the lowest ONNX opset that can be written
constexpr int highest_opset = 26;  ///< the highest one
constexpr int default_opset = 18;  ///< the lowest one that is chosen where the options have none

/// An interface of Lithify. Messages name options as it spells them.
enum class Interface { Cpp, C, Python, CommandLine };

/// Bytes that the caller owns.
struct Bytes {
  Bytes() = default;
  /// `count` bytes from `first` on.
  Bytes(const void* first, size_t count) : data(static_cast<const std::byte*>(first)), size(count) {}
  /// The bytes of a std::vector, std::string or anything else that has data() and size().
  template <class Range, class Item = std::remove_pointer_t<decltype(std::declval<const Range&>().data())>>
  Bytes(const Range& range) : Bytes(range.data(), range.size() * sizeof(Item)) {}

  const std::byte* data = nullptr;  ///< the first byte
  size_t size = 0;                  ///< how many there are
};

/// A tensor in the caller's memory.
struct LiveTensor {
  const void* data = nullptr;    ///< its first element
  std::string dtype;             ///< "float32"
  std::vector<int64_t> sizes;    ///< of the dimensions
  std::vector<int64_t> strides;  ///< in elements, not negative
};

/// Where a model comes from: a file by its path, or a file in memory. A file in memory may lack the contents of weights
/// (saved with tensors on the meta device): they are then taken from the live tensors of the same names, and written
/// without a copy. All memory must stay as it is during the call.
struct ModelSource {
  /// A file of torch.jit.save or torch.export.save.
  ModelSource(std::string file) : path(std::move(file)) {}
  ModelSource(const char* file) : path(file) {}
  /// The contents of such a file, and the weights that it lacks.
  explicit ModelSource(Bytes contents, std::map<std::string, LiveTensor> live = {})
      : bytes(contents), weights(std::move(live)) {}

  std::string path;                           ///< of the file; empty for one in memory
  Bytes bytes;                                ///< the file in memory, when there is no path
  std::map<std::string, LiveTensor> weights;  ///< by name in the state dict; tied ones have the same memory
};

/// A release of a runtime or converter, and the newest opset that it loads.
struct Runtime {
  std::string name;    ///< "ort-1.17"
  int opset = 0;       ///< the newest that it loads; 0 when it loads no ONNX file
  std::string source;  ///< where that is documented
};

/// The known releases, by runtime and the oldest first: ONNX Runtime (ort), TensorRT (tensorrt), OpenVINO (openvino),
/// Core ML Tools (coremltools).
LITHIFY_API const std::vector<Runtime>& runtimes();

/// What to write for a release of a runtime.
struct Target {
  int opset = 0;      ///< its newest, at most highest_opset
  Runtime known;      ///< the release of the table that decides: the same one, or the last before it
  bool exact = true;  ///< whether the release is in the table; else it loads `opset`, and perhaps newer ones
};

/// What to write for a runtime. Throws ExportError for a name that is not one, and for a release that loads none of the
/// opsets that can be written.
LITHIFY_API Target target_for(const std::string& runtime);
/// The opset of it.
LITHIFY_API int opset_for(const std::string& runtime);

/// One call of a custom operator, as its plug-in sees it: the arguments by their names in the schema, and functions
/// that append ONNX nodes. An argument that the schema does not have or that is of another type is an ExportError.
class LITHIFY_API CustomCall {
 public:
  /// A handle of a value of the graph, valid during the call. nullptr is None, and an optional input that is left out.
  using Tensor = const void*;
  /// An attribute of a node.
  struct Attribute {
    std::string name;  ///< as the ONNX operator calls it
    /// Its value.
    std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>, std::vector<std::string>> value;
  };
  virtual ~CustomCall() = default;
  virtual int opset() const = 0;                                           ///< of the standard domain
  virtual bool given(const std::string& argument) = 0;                     ///< whether it is not None
  virtual Tensor tensor(const std::string& argument) = 0;                  ///< of `Tensor` and `Tensor?`
  virtual std::vector<Tensor> tensors(const std::string& argument) = 0;    ///< of `Tensor[]`
  virtual int64_t integer(const std::string& argument) = 0;                ///< of `int`
  virtual std::vector<int64_t> integers(const std::string& argument) = 0;  ///< of `int[]`
  virtual double real(const std::string& argument) = 0;                    ///< of `float`
  virtual bool flag(const std::string& argument) = 0;                      ///< of `bool`
  virtual std::string text(const std::string& argument) = 0;               ///< of `str`
  /// A 0-d constant of the type of `like`, or of float32.
  virtual Tensor constant(double number, Tensor like = nullptr) = 0;
  /// A 1-d constant of int64, such as the axes of a reduction or a shape.
  virtual Tensor integers_constant(const std::vector<int64_t>& numbers) = 0;
  /// A constant of an element type such as float32, whose elements lie one after the other in `bytes`.
  virtual Tensor tensor_constant(const std::string& type, const std::vector<int64_t>& sizes,
                                 std::string_view bytes) = 0;
  /// Appends a node of the standard domain and returns its outputs, whose types follow from its inputs.
  virtual std::vector<Tensor> node(const std::string& op_type, const std::vector<Tensor>& inputs,
                                   const std::vector<Attribute>& attributes = {}, size_t outputs = 1) = 0;
  /// Appends a node of another domain. `outputs` has the type of each output as docs/custom-operators.md describes it:
  /// "like x", "int64 like x", "float32[x.0, ?, 10]".
  virtual std::vector<Tensor> node(const std::string& domain, int version, const std::string& op_type,
                                   const std::vector<Tensor>& inputs, const std::vector<Attribute>& attributes,
                                   const std::vector<std::string>& outputs) = 0;
};

/// A plug-in: a custom operator, and a function that appends the nodes of one call and returns the operator's results.
struct CustomOperator {
  std::string schema;  ///< as PyTorch writes it: "mylib::op(Tensor x, float alpha=1.0) -> Tensor"
  /// Appends the nodes of one call.
  std::function<std::vector<CustomCall::Tensor>(CustomCall&)> run;
};

/// The options of an export. Every interface has them; src/base/options.def is the table of their spellings.
struct ExportOptions {
  /// ONNX opset, lowest_opset to highest_opset. Without it, the lowest from default_opset on that can express the
  /// model.
  std::optional<int> opset;
  /// Instead of an opset: the release of a runtime, whose newest one is taken ("ort-1.17"). Or "ort": where they are
  /// faster, operators are used that only ONNX Runtime has (of the domain com.microsoft), in any opset.
  std::string target;
  /// Types and sizes of inputs that the file does not have, or others than it has: "x:float32[batch,3,224,224]". A size
  /// is a number, a name (then it is dynamic), or "name=2", which gives the size in the sample as well.
  std::vector<std::string> inputs;
  /// Dynamic dimensions: name of an input or output, axis, name of the dimension. Equal names are equal sizes; a name
  /// may be a formula of others, such as "past+sequence".
  std::map<std::string, std::map<int64_t, std::string>> dynamic_axes;
  /// Makes every further axis dynamic that can be, detected automatically. Axis 0 of x gets the name "x_0".
  bool discover = false;
  std::vector<std::string> input_names;   ///< instead of the names of forward's parameters, in order
  std::vector<std::string> output_names;  ///< of the outputs, in order

  /// Which hard-coded sizes become formulas of the dynamic dimensions again.
  enum class Recover {
    Never,    ///< none: a contradiction to a dynamic dimension is an error
    Decided,  ///< those whose formula the program decides
    Guess     ///< also those for which the program leaves a choice
  };
  Recover recover = Recover::Decided;  ///< which hard-coded sizes become formulas again
  /// Further captures of the same model at other sizes: what differs in them was hard-coded.
  std::vector<ModelSource> also;
  /// Refuses constants that may be sizes of the sample, and sizes that escape to Python, where nothing verifies them.
  /// The default warns.
  bool strict = false;

  /// What happens to a model whose results depend on what earlier runs left in its buffers or attributes.
  enum class State {
    Refuse,  ///< the export fails
    InOut,   ///< the tensors become further inputs and outputs, "hidden" and "hidden.next"
    Frozen   ///< every run starts from what the file holds
  };
  State state = State::Refuse;  ///< what happens to buffers that the model changes
  /// Loops of at most this many iterations, where that is known, are unrolled; others become Loop.
  int64_t unroll = 128;
  /// A program may take this many times the default work and memory at export, from 1 to 1000.
  int64_t budget = 1;
  /// Live models are run at most this many times at other sizes, to capture what they do there. What is left out limits
  /// the claims.
  int64_t capture_runs = 24;
  double capture_seconds = 5;  ///< of processor time in runs at other sizes, after which no further one begins

  std::string custom_ops;               ///< declarations of custom operators, as in docs/custom-operators.md
  std::vector<CustomOperator> plugins;  ///< custom operators by functions
  /// Versions of the domains of custom operators; 1 by default.
  std::map<std::string, int> custom_opsets;
  /// Keeps an unknown operator as a node of the domain that its namespace names, with all its arguments.
  bool allow_custom = false;

  /// Whether weights go to a separate file.
  enum class ExternalData {
    Auto,    ///< above 2 GB
    Always,  ///< however small
    Never    ///< a model above 2 GB is an error
  };
  ExternalData external_data = ExternalData::Auto;  ///< whether weights go to a separate file
  /// What large weights of matrix products and tables are stored as. Integers have a scale for each block, and unsigned
  /// ones a zero point; they change the results. From opset 21 on.
  enum class Weights {
    Unchanged,  ///< as the model has them
    Int8,       ///< a quarter of float32
    UInt8,
    Int4,  ///< an eighth; tables have 8 bits
    UInt4
  };
  Weights weights = Weights::Unchanged;  ///< what large weights are stored as
  int64_t weights_block = 32;            ///< so many elements have one scale: 16, 32, 64, 128 or 256
  /// What weights are stored in and nodes compute in, where float32 is not needed. Inputs and outputs stay as they are.
  enum class Precision {
    Unchanged,  ///< as the model has them
    Float16,    ///< up to 65504; what may be larger stays float32
    BFloat16    ///< from opset 13 on
  };
  Precision precision = Precision::Unchanged;  ///< of weights and computation
  /// Weights or modules that `weights` and `precision` leave as they are: "lm_head", "layers.*.mlp".
  std::vector<std::string> keep_weights;
  /// Does not wait until the output is on the disk (fsync): faster, and it may be incomplete after a power failure.
  bool skip_sync = false;
  std::function<void(uint64_t done, uint64_t total)> progress;  ///< called with the bytes written so far and in all
  /// Compares every value with the type and sizes that torch.export recorded of it. A difference is a fault of the
  /// exporter and an error.
  bool self_check = false;

  /// The interface whose users read the messages.
  Interface interface = Interface::Cpp;
};

/// Sets an option that is an enum by the name that its choice has in Python and on the command line:
/// set_choice(options, "state", "io"). Throws std::invalid_argument with the names that there are.
LITHIFY_API void set_choice(ExportOptions& options, const std::string& option, const std::string& name);
/// The names that set_choice takes for an option.
LITHIFY_API std::vector<std::string> choices(const std::string& option);

/// An input or output of the model.
struct ValueInfo {
  std::string name;                     ///< in the ONNX file
  std::string dtype;                    ///< "float32", "sequence of float32"; empty when it is not known
  std::vector<std::string> shape;       ///< numbers and formulas; "?" where the elements of a sequence differ
  bool rank_known = true;               ///< whether `shape` is known
  LITHIFY_API std::string str() const;  ///< "x: float32[batch, 10]"
};

/// Sizes of the dynamic dimensions by name.
using Sizes = std::vector<std::pair<std::string, int64_t>>;

/// At which sizes of a dimension a file is claimed to be right.
enum class ClaimKind {
  AnySize,       ///< at all that the constraints allow: the program has everything that the model does with the size
  RecordedPath,  ///< the same, as long as the model's code takes the path that was recorded; a trace has no other
  Checked        ///< at those where the file was run and agreed with the model: some use of the size was not followed
};

/// A condition on sizes, and the line of the model that it comes from.
struct Constraint {
  std::string formula;                  ///< in the syntax of Python: "height % 32 == 0"
  std::string where;                    ///< "model.py:12"; empty when it is not known
  LITHIFY_API std::string str() const;  ///< "height % 32 == 0 (model.py:12)"
};

/// What is claimed of a dynamic dimension.
struct DimensionClaim {
  std::string name;                      ///< of the dimension
  ClaimKind kind = ClaimKind::AnySize;   ///< at which sizes the file is claimed to be right
  std::vector<std::string> constraints;  ///< on it, as formulas: "height % 32 == 0"
  std::vector<int64_t> checked;          ///< sizes of it at which the file was run and agreed with the model
  std::vector<std::string> unfollowed;   ///< uses of it that were not followed: "int of a size at model.py:12"
  int recovered = 0;                     ///< hard-coded sizes that became formulas of it
  int unverified = 0;                    ///< constants equal to its sample size that nothing verifies
  LITHIFY_API std::string str() const;   ///< "any size where height % 32 == 0, 2 sizes recovered"
};

/// Whether a file is claimed to be right at some sizes.
struct ClaimAnswer {
  /// true; false where a constraint excludes the sizes; nothing where that is not known, since the model was not
  /// recorded or checked so
  std::optional<bool> holds;
  std::string why;  ///< the reason: "height % 32 == 0 does not hold at height=20 (model.py:12)"
};

/// What is claimed of a file: at which sizes its results are those of the model.
struct Claims {
  std::vector<DimensionClaim> dimensions;  ///< the dynamic ones, by name
  std::vector<Constraint> constraints;     ///< each must hold
  std::vector<Constraint> conditions;      ///< of which the path through the model's code depends
  /// The paths that were recorded: for each condition T (true), F (false) or - (not asked). One at least, where there
  /// are conditions.
  std::vector<std::string> paths;
  std::vector<Sizes> checked;  ///< sizes of all dimensions at which the file was run and agreed with the model

  /// Whether the file is claimed to be right at these sizes, one for each dimension, and why. Throws ExportError for
  /// names that are not those of the dimensions.
  LITHIFY_API ClaimAnswer ask(const Sizes& sizes) const;
  /// The answer alone.
  LITHIFY_API std::optional<bool> holds(const Sizes& sizes) const;
  LITHIFY_API std::string str() const;  ///< one line a dimension, constraint and condition
};

/// Reads the claims of an ONNX file that Lithify wrote. Throws ExportError for other files.
LITHIFY_API Claims read_claims(const std::string& file);
/// The same of a file in memory.
LITHIFY_API Claims read_claims(Bytes file);

/// A weight that is stored in blocks of integers.
struct QuantizedWeight {
  std::string name;   ///< in the model
  std::string dtype;  ///< "int4"
  double error = 0;   ///< the root mean square of what its elements changed by, as a part of that of the elements
};

/// What an export wrote.
struct ExportResult {
  std::vector<ValueInfo> inputs;                        ///< of the ONNX model
  std::vector<ValueInfo> outputs;                       ///< of the ONNX model
  std::vector<std::pair<std::string, int>> nodes;       ///< operator and count, most frequent first
  std::vector<DimensionClaim> dimensions;               ///< those of `claims`
  Claims claims;                                        ///< at which sizes the file is right; also in its metadata
  int opset = 0;                                        ///< of the standard domain
  uint64_t weights = 0;                                 ///< number of initializers
  uint64_t weight_bytes = 0;                            ///< size of all initializers
  uint64_t file_bytes = 0;                              ///< size of the ONNX file
  std::vector<QuantizedWeight> quantized;               ///< with ExportOptions::weights, in the order of the graph
  std::string external_file;                            ///< the file of the weights; empty when they are in the model
  std::vector<std::pair<std::string, double>> seconds;  ///< by stage
  std::vector<Message> messages;                        ///< warnings and notes
  std::string graph_text;                               ///< one line a node
  std::string capture;                                  ///< of a live model: "trace", "script" or "export"
  std::string capture_reason;                           ///< of a live model: why it was captured so
};

/// Exports a model to the file `out`. Throws ExportError, and then leaves no file behind.
LITHIFY_API ExportResult export_file(const ModelSource& model, const std::string& out,
                                     const ExportOptions& options = {});
/// Exports a model to memory: `allocate` is called once with the number of bytes, and returns where they go.
LITHIFY_API ExportResult export_bytes(const ModelSource& model,
                                      const std::function<std::byte*(uint64_t size)>& allocate,
                                      const ExportOptions& options = {});

/// The axes that can be dynamic.
struct DiscoverResult {
  std::vector<ValueInfo> inputs;           ///< with a name for each such axis
  std::vector<DimensionClaim> dimensions;  ///< what would be claimed of them
};
/// Detects the axes of the inputs that can be dynamic. Throws ExportError when the model cannot be exported at all.
LITHIFY_API DiscoverResult discover_file(const ModelSource& model, const ExportOptions& options = {});

/// One operator of a program that was checked.
struct OperatorStatus {
  std::string name;       ///< "aten::relu"
  int count = 0;          ///< how often it is called
  bool supported = true;  ///< whether all its calls can be exported
  int since = 0;          ///< lowest opset in which it can be exported
};

/// A model in one opset.
struct OpsetStatus {
  int opset = 0;            ///< of the standard domain
  bool exportable = false;  ///< whether it can express the model
  int nodes = 0;            ///< how many the model has in it
};

/// Whether a model can be exported.
struct CheckResult {
  bool exportable = false;                ///< to `opset`
  int opset = 0;                          ///< the one of the options, or the one that was chosen
  std::vector<OperatorStatus> operators;  ///< of the program
  std::vector<Message> messages;          ///< every reason why not, warnings and notes
  std::vector<OpsetStatus> opsets;        ///< every opset; empty when something else is wrong with the model
  int lowest_opset = 0;                   ///< the lowest that can express the model; 0 when there is none
  int fewest_nodes_opset = 0;             ///< the lowest in which the model has the fewest nodes
};

/// Checks whether the model can be exported, and finds every reason why not. Where the types of the inputs are not
/// known, the operators are those in the code. Throws ExportError only for files that cannot be read.
LITHIFY_API CheckResult check_file(const ModelSource& model, const ExportOptions& options = {});

/// A tensor of a file.
struct TensorInfo {
  std::string name;            ///< in the file
  std::string dtype;           ///< "float32"
  std::vector<int64_t> shape;  ///< its sizes
  uint64_t bytes = 0;          ///< of its elements
};

/// The contents of a model file.
struct InspectResult {
  std::string kind;                                    ///< "TorchScript", "torch.export", "state dict", "safetensors"
  std::string release;                                 ///< of PyTorch, where the file has it
  int64_t file_version = 0;                            ///< of the file format
  std::vector<ValueInfo> inputs;                       ///< of forward, as far as the file has their types
  std::string returns;                                 ///< forward's declared type
  std::vector<std::pair<std::string, int>> operators;  ///< as written in the code, most frequent first
  uint64_t weights = 0;                                ///< number of tensors
  uint64_t weight_bytes = 0;                           ///< size of all of them
  std::string code;                                    ///< the program, as TorchScript prints it
  std::vector<TensorInfo> tensors;                     ///< of a state dict, by name
  std::optional<DiscoverResult> dynamic;               ///< what discover_file found, where the caller put it here
};

/// Reads a model file without exporting it, or the names and sizes of a file that has only weights. Throws ExportError
/// for files that cannot be read.
LITHIFY_API InspectResult inspect_file(const ModelSource& model);

/// What is in an ONNX file, whatever wrote it.
struct OnnxSummary {
  int64_t ir_version = 0;                               ///< of the file format
  std::string producer;                                 ///< name and version, where the file has them
  std::vector<std::pair<std::string, int64_t>> opsets;  ///< domain and version; the standard domain is "ai.onnx"
  std::vector<ValueInfo> inputs;                        ///< without those that are initializers
  std::vector<ValueInfo> outputs;                       ///< of the graph
  std::vector<std::pair<std::string, int>> nodes;       ///< operator and count, most frequent first; bodies included
  std::vector<std::pair<std::string, int>> modules;     ///< nodes by module, "encoder.layers.0", in the file's order
  std::vector<std::string> functions;                   ///< functions that the file defines
  uint64_t weights = 0;                                 ///< number of initializers
  uint64_t weight_bytes = 0;                            ///< size of all initializers
  std::vector<TensorInfo> largest;                      ///< the largest initializers
  std::vector<std::string> external_files;              ///< files that have the contents of initializers
  std::vector<std::pair<std::string, std::string>> metadata;  ///< keys and texts
  uint64_t file_bytes = 0;                                    ///< size of the file
};

/// Summarizes an ONNX file. Reads it once, front to back; contents of weights are skipped. Throws ExportError for a
/// file that is damaged or not ONNX.
LITHIFY_API OnnxSummary show_file(const std::string& model);
/// The same of a file in memory.
LITHIFY_API OnnxSummary show_file(Bytes model);

/// A weight that two ONNX files have with other contents.
struct WeightChange {
  std::string name;      ///< in the first file
  std::string other;     ///< in the second file
  std::string what;      ///< "contents", "type" or "renamed"
  TensorInfo before;     ///< in the first file
  TensorInfo after;      ///< in the second file
  uint64_t changed = 0;  ///< how many elements differ; of "contents" only
  double largest = 0;    ///< the largest difference of two elements; of "contents" only
};

/// Two ONNX files beside each other. Lines of texts begin with "- " for the first file and "+ " for the second one.
struct DiffResult {
  std::vector<std::string> interface;  ///< inputs, outputs, opsets and metadata that differ
  std::vector<std::string> operators;  ///< counts of operators that differ: "- 3 Reshape", "+ 2 Reshape"
  std::vector<std::string> modules;    ///< the same by module
  bool same_graph = true;              ///< whether nodes compute the same from inputs and weights; names do not matter
  std::vector<WeightChange> weights;   ///< those with other contents, another type or another name
  std::vector<TensorInfo> removed;     ///< weights of the first file only
  std::vector<TensorInfo> added;       ///< weights of the second file only
  uint64_t equal_weights = 0;          ///< how many are equal
  /// Whether nothing differs.
  LITHIFY_API bool same() const;
};

/// Compares two ONNX files: interface, operators, structure by module, and weights with their contents. Throws
/// ExportError for a file that is damaged or not ONNX, and for external data that is missing.
LITHIFY_API DiffResult diff_files(const std::string& before, const std::string& after);

/// One operator that can be exported.
struct SupportedOperator {
  std::string name;                  ///< "aten::relu"
  std::vector<std::string> schemas;  ///< of its overloads; empty for one that follows from another, such as aten::relu_
  int since = 0;                     ///< lowest opset in which it can be exported
};

/// All operators that can be exported, by name.
LITHIFY_API std::vector<SupportedOperator> supported_operators();

/// How a result is written for people.
struct TextStyle {
  size_t width = 0;    ///< columns to wrap lines to; 0 for as long as they are
  bool color = false;  ///< whether to color them by escape codes of terminals
  bool whole = false;  ///< whether to list everything, however long that is
};

/// A result for people: lines that end in a line feed.
LITHIFY_API std::string to_text(const ExportResult& result, const TextStyle& style = {});
LITHIFY_API std::string to_text(const CheckResult& result, const TextStyle& style = {});
LITHIFY_API std::string to_text(const InspectResult& result, const TextStyle& style = {});
LITHIFY_API std::string to_text(const OnnxSummary& summary, const TextStyle& style = {});
LITHIFY_API std::string to_text(const DiffResult& result, const TextStyle& style = {});
LITHIFY_API std::string to_text(const std::vector<Message>& messages, const TextStyle& style = {});

/// A result as JSON, which docs/lithify.schema.json describes. The keys are the names of the members; a size of a shape
/// is a number, a name or formula, or null where it is not known; an opset has the runtimes that load it as well.
LITHIFY_API std::string to_json(const ExportResult& result);
LITHIFY_API std::string to_json(const Claims& claims);
LITHIFY_API std::string to_json(const ClaimAnswer& answer);
LITHIFY_API std::string to_json(const CheckResult& result);
LITHIFY_API std::string to_json(const InspectResult& result);
LITHIFY_API std::string to_json(const OnnxSummary& summary);
LITHIFY_API std::string to_json(const DiffResult& result);
LITHIFY_API std::string to_json(const std::vector<SupportedOperator>& operators);
LITHIFY_API std::string to_json(const std::vector<Message>& messages);  ///< {"messages": [...]}

/// The version of the library: "0.1.0".
LITHIFY_API const char* version();

}  // namespace lithify
