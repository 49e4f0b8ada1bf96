// The front end for LibTorch: traces models at the sizes that the core asks for, and describes their weights where they
// are. In C++ every size is a plain number, and so in a trace.
#include <ATen/TracerMode.h>
#include <ATen/record_function.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/passes/inliner.h>

#include <algorithm>
#include <lithify/capture.hpp>
#include <lithify/torch.hpp>
#include <set>
#include <sstream>

namespace lithify::capture {
namespace {

using torch::jit::IValue;

// ---- failures --------------------------------------------------------------------------------------------------

/// The text of an exception, without the stack that LibTorch adds to its own.
std::string text_of(const std::exception& e) {
  const auto* error = dynamic_cast<const c10::Error*>(&e);
  return error ? error->what_without_backtrace() : e.what();
}

/// What LibTorch and the model throw is the reason why there is no capture: a sentence of the sample, and at other
/// sizes the end of one.
template <class F>
auto explained(const CaptureRequest& request, F f) -> decltype(f()) {
  const bool of_sample = request.sizes.empty() && !request.vary_contents && request.sample == 0;
  const std::string prefix = of_sample ? "the model cannot be captured: " : "";
  try {
    return f();
  } catch (const std::exception& e) {
    throw CannotCapture(prefix + text_of(e));
  }
}

/// Failures before the core is called are an ExportError as well.
template <class F>
auto guarded(F f) -> decltype(f()) {
  try {
    return f();
  } catch (const ExportError&) {
    throw;
  } catch (const std::exception& e) {
    Message out;
    out.code = "LTH030";
    out.severity = "error";
    out.text = "the model cannot be captured: " + text_of(e);
    out.pretty = out.severity + " " + out.code + ": " + out.text;
    throw ExportError({out});
  }
}

// ---- inputs ----------------------------------------------------------------------------------------------------

/// A name as a program can have it, and none of those before.
std::string identifier(std::string name, const Leaves& before) {
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  auto taken = [&] {
    return std::any_of(before.begin(), before.end(), [&](auto& leaf) { return leaf.first == name; });
  };
  while (taken()) name += "_";
  return name;
}

/// The tensors of the inputs, named "input", or "input_0", "input_1", ...
Leaves leaves_of(const ModuleInputs& inputs, const std::function<std::string(size_t)>& name_of) {
  Leaves found, out;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i].isNone() && !inputs[i].isScalar() && !inputs[i].isString()) add_leaves(name_of(i), inputs[i], found);
  for (auto& [path, tensor] : found) out.emplace_back(identifier(path, out), tensor);
  return out;
}

/// Those of arguments that have no names.
Leaves leaves_of_traced(const ModuleInputs& inputs) {
  return leaves_of(inputs, [&](size_t i) { return inputs.size() == 1 ? "input" : "input_" + std::to_string(i); });
}

/// The tensors of the `number`-th other sample. Throws where they are not as many and of the same types and ranks.
Leaves like(const Leaves& first, Leaves sample, size_t number) {
  const auto same = [](const auto& a, const auto& b) {
    return a.first == b.first && a.second.scalar_type() == b.second.scalar_type() && a.second.dim() == b.second.dim();
  };
  if (!std::equal(first.begin(), first.end(), sample.begin(), sample.end(), same))
    throw std::invalid_argument("samples[" + std::to_string(number) + "] has other tensors than the example inputs");
  return sample;
}

/// The input with `next` for every tensor in it.
IValue replaced(const IValue& value, const std::function<Tensor()>& next) {
  if (value.isTensor()) return value.toTensor().defined() ? next() : Tensor();
  if (value.isTuple()) {
    std::vector<IValue> items;
    for (const IValue& item : value.toTupleRef().elements()) items.push_back(replaced(item, next));
    return c10::ivalue::Tuple::create(std::move(items));
  }
  if (value.isList()) {
    auto list = value.toList().copy();
    for (size_t i = 0; i < list.size(); ++i) list.set(i, replaced(list.get(i), next));
    return list;
  }
  if (value.isGenericDict()) {
    auto dict = value.toGenericDict().copy();
    for (const auto& item : value.toGenericDict()) dict.insert_or_assign(item.key(), replaced(item.value(), next));
    return dict;
  }
  return value;
}

std::string dtype_name(const Tensor& tensor, const std::string& name) {
  static const std::map<at::ScalarType, std::string> names = {{at::kFloat, "float32"},
                                                              {at::kDouble, "float64"},
                                                              {at::kHalf, "float16"},
                                                              {at::kBFloat16, "bfloat16"},
                                                              {at::kLong, "int64"},
                                                              {at::kInt, "int32"},
                                                              {at::kShort, "int16"},
                                                              {at::kChar, "int8"},
                                                              {at::kByte, "uint8"},
                                                              {at::kBool, "bool"},
                                                              {at::kComplexFloat, "complex64"},
                                                              {at::kComplexDouble, "complex128"}};
  const auto found = names.find(tensor.scalar_type());
  if (found == names.end() || tensor.layout() != at::kStrided)
    throw std::invalid_argument("the tensor '" + name + "' is of a type that cannot be exported");
  return found->second;
}

/// "x:float32[2,3]" for each: the inputs, as the exporter takes them.
std::vector<std::string> described(const Leaves& inputs) {
  std::vector<std::string> out;
  for (const auto& [name, tensor] : inputs) {
    std::string sizes;
    for (int64_t size : tensor.sizes()) sizes += (sizes.empty() ? "" : ",") + std::to_string(size);
    out.push_back(name + ":" + dtype_name(tensor, name) + "[" + sizes + "]");
  }
  return out;
}

/// The names of the outputs, where the user gives none: their own.
std::vector<std::string> names_of(const ExportOptions& options, const Leaves& inputs,
                                  const std::vector<std::string>& outputs) {
  auto is_input = [&](const std::string& name) {
    const auto& given = options.input_names;
    return std::find(given.begin(), given.end(), name) != given.end() ||
           std::any_of(inputs.begin(), inputs.end(), [&](auto& in) { return in.first == name; });
  };
  std::vector<std::string> out = options.output_names;
  for (size_t i = out.size(); i < outputs.size(); ++i)
    out.push_back(is_input(outputs[i]) ? outputs[i] + "_out" : outputs[i]);
  return out;
}

// ---- sizes -----------------------------------------------------------------------------------------------------

/// A dimension that was declared dynamic, and the axes that have its name.
struct Dimension {
  std::string name;
  int64_t size = 0;
  std::vector<std::pair<size_t, int64_t>> axes = {};  // number of the input, axis
};

std::vector<Dimension> dimensions_of(const Leaves& inputs, const ExportOptions& options) {
  std::vector<Dimension> out;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto& [path, tensor] = inputs[i];
    auto declared = options.dynamic_axes.find(i < options.input_names.size() ? options.input_names[i] : path);
    if (declared == options.dynamic_axes.end()) declared = options.dynamic_axes.find(path);
    if (declared == options.dynamic_axes.end()) continue;
    for (const auto& [axis, name] : declared->second) {
      if (axis < -tensor.dim() || axis >= tensor.dim()) continue;  // the exporter reports it
      auto found = std::find_if(out.begin(), out.end(), [&, &n = name](const Dimension& d) { return d.name == n; });
      if (found == out.end()) found = out.insert(out.end(), {name, tensor.size(axis)});
      found->axes.emplace_back(i, axis);
    }
  }
  return out;
}

/// The tensor with another size along an axis. Its contents repeat, so that indices, masks and the like stay valid.
Tensor resized(const Tensor& tensor, int64_t axis, int64_t size) {
  const int64_t given = tensor.size(axis);
  if (given == size) return tensor;
  std::vector<int64_t> sizes = tensor.sizes().vec();
  sizes[static_cast<size_t>(axis < 0 ? axis + tensor.dim() : axis)] = size;
  if (given == 0) return torch::zeros(sizes, tensor.options());
  const Tensor index = torch::arange(size, tensor.options().dtype(at::kLong).requires_grad(false)).remainder(given);
  return tensor.index_select(axis, index);
}

/// The sizes of the dimensions, without those whose names are formulas of others.
Sizes free_sizes(const std::vector<Dimension>& dimensions) {
  Sizes out;
  for (const Dimension& d : dimensions) {
    Sizes others;
    for (const Dimension& other : dimensions)
      if (other.name != d.name) others.emplace_back(other.name, other.size);
    if (!tied_size(d.name, others)) out.emplace_back(d.name, d.size);
  }
  return out;
}

/// The inputs at other sizes, by name; as they are when there are none. Contents move by one, if so asked, so that what
/// depends on them differs as well.
Leaves varied(Leaves inputs, const std::vector<Dimension>& dimensions, const Sizes& sizes, bool move) {
  for (const Dimension& d : dimensions) {
    const auto given = std::find_if(sizes.begin(), sizes.end(), [&](auto& size) { return size.first == d.name; });
    const std::optional<int64_t> size = given == sizes.end() ? tied_size(d.name, sizes) : given->second;
    for (const auto& [input, axis] : d.axes)
      if (size) inputs[input].second = resized(inputs[input].second, axis, *size);
  }
  if (move)
    for (auto& input : inputs) input.second = input.second.roll(1);
  return inputs;
}

// ---- the state of the model ------------------------------------------------------------------------------------

/// Puts back, at the end, what a run changes: gradients, random numbers, buffers, and the modes of the modules.
class Restore {
 public:
  explicit Restore(const Leaves& inputs) {
    keep_random(at::kCPU);
    for (const auto& input : inputs) keep_random(input.second.device());
  }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;
  ~Restore() {
    for (auto& put_back : changed_) put_back();
  }

  void evaluate(torch::nn::Module& module) {
    for (const Tensor& buffer : module.buffers()) keep(buffer);
    // Parents come first: train() of one sets its children too.
    for (const auto& m : module.modules()) changed_.push_back([m, on = m->is_training()] { m->train(on); });
    module.eval();
  }
  void evaluate(torch::jit::Module& module) {
    for (torch::jit::Module m : module.modules())
      if (m.hasattr("training"))
        changed_.push_back([m, on = m.attr("training").toBool()]() mutable { m.setattr("training", on); });
    module.eval();
  }

 private:
  void keep(const Tensor& buffer) {
    if (!buffer.defined()) return;
    changed_.push_back([buffer, before = buffer.detach().clone(), version = buffer._version()] {
      if (buffer._version() != version) buffer.detach().copy_(before);
    });
  }
  void keep_random(at::Device device) {
    if (!seen_.insert(device.str()).second || (!device.is_cpu() && !device.is_cuda())) return;
    at::Generator generator = at::globalContext().defaultGenerator(device);
    std::lock_guard<std::mutex> lock(generator.mutex());
    changed_.push_back([generator, state = generator.get_state()]() mutable {
      std::lock_guard<std::mutex> lock(generator.mutex());
      generator.set_state(state);
    });
  }

  torch::NoGradGuard no_grad_;
  std::set<std::string> seen_;
  std::vector<std::function<void()>> changed_;
};

// ---- tracing ---------------------------------------------------------------------------------------------------

/// Watches a run for what its trace does not show: numbers that the code takes out of tensors, and tensors that get
/// other memory. What depends on weights alone does no harm.
class Unseen {
 public:
  Unseen() : outer_(current) {
    current = this;
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&before, &after)
                                             .needsInputs(true)
                                             .needsOutputs(true)
                                             .scopes({at::RecordScope::FUNCTION}));
  }
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
  ~Unseen() {
    at::removeCallback(handle_);
    current = outer_;
  }

  std::set<std::string> reasons;   ///< not to trust the trace
  std::set<std::string> outcomes;  ///< that it assumes

 private:
  struct Comparison : at::ObserverContext {};

  static std::unique_ptr<at::ObserverContext> before(const at::RecordFunction& call) {
    // The tracer is off within an operator that it has recorded: nothing of that reaches the code of the model.
    const auto state = torch::jit::tracer::getTracingState();
    if (!state || !at::tracer::impl::is_dispatch_enabled()) return nullptr;
    const std::string name = call.name();
    if (name == "aten::resize_" || name == "aten::resize_as_")
      current->reasons.insert("its code calls " + name.substr(6) + ", which a trace does not record");
    if (name != "aten::_local_scalar_dense" && name != "aten::equal") return nullptr;
    std::set<torch::jit::Value*> values;
    bool depends = false;
    for (const IValue& argument : call.inputs()) {
      torch::jit::Value* value = argument.isTensor() && state->hasValue(argument) ? state->getValue(argument) : nullptr;
      depends = depends || (value && depends_on_inputs(value));
      values.insert(value);
    }
    if (!depends) return nullptr;
    if (name == "aten::_local_scalar_dense")
      current->reasons.insert(
          "its code reads a number from a tensor that depends on the inputs (item()), and a trace follows only one "
          "outcome of "
          "that");
    else if (values.size() > 1)
      return std::make_unique<Comparison>();
    return nullptr;
  }

  /// That two tensors differ is what all inputs have in common but a few; that they are the same is not.
  static void after(const at::RecordFunction& call, at::ObserverContext* comparison) {
    if (!comparison) return;
    if (call.outputs().size() == 1 && call.outputs()[0].isBool() && !call.outputs()[0].toBool())
      current->outcomes.insert("that two tensors are not the same (torch::equal)");
    else
      current->reasons.insert(
          "its code checks whether two tensors are the same, and a trace follows only one outcome of that");
  }

  static bool depends_on_inputs(torch::jit::Value* value) {
    std::vector<torch::jit::Value*> pending = {value};
    std::set<torch::jit::Value*> seen;
    while (!pending.empty()) {
      torch::jit::Value* v = pending.back();
      pending.pop_back();
      if (!seen.insert(v).second) continue;
      if (v->node()->kind() == c10::prim::Param && v->type()->isSubtypeOf(*c10::TensorType::get())) return true;
      pending.insert(pending.end(), v->node()->inputs().begin(), v->node()->inputs().end());
    }
    return false;
  }

  static thread_local Unseen* current;
  Unseen* outer_;
  at::CallbackHandle handle_ = 0;
};
thread_local Unseen* Unseen::current = nullptr;

/// A program in the bytes of its file, which lacks the contents of the weights, and where these are.
class Program {
 public:
  explicit Program(const torch::jit::Module& module) {
    struct Swapped {
      torch::jit::Module owner;
      std::string name;
      Tensor tensor;
      ~Swapped() { owner.setattr(name, tensor); }
    };
    std::vector<std::unique_ptr<Swapped>> swapped;
    for (const auto& part : module.named_modules()) {
      for (const auto& attribute : part.value.named_attributes(/*recurse=*/false)) {
        if (!attribute.value.isTensor()) continue;
        const Tensor tensor = attribute.value.toTensor();
        if (!tensor.defined() || tensor.layout() != at::kStrided || tensor.is_quantized() || tensor.numel() == 0)
          continue;
        add_weight(part.name.empty() ? attribute.name : part.name + "." + attribute.name, tensor);
        swapped.push_back(std::unique_ptr<Swapped>(new Swapped{part.value, attribute.name, tensor}));
        swapped.back()->owner.setattr(attribute.name, hollow(tensor));
      }
    }
    std::ostringstream file;
    module.save(file);
    bytes_ = file.str();
  }

  ModelSource source() const { return ModelSource(Bytes(bytes_.data(), bytes_.size()), weights_); }

 private:
  /// A tensor of these sizes that has no memory.
  static Tensor hollow(const Tensor& tensor) {
    Tensor out = torch::empty({0}, tensor.options().device(at::kCPU).requires_grad(false));
    out.unsafeGetTensorImpl()->set_sizes_contiguous(tensor.sizes());
    return out;
  }

  void add_weight(const std::string& name, const Tensor& tensor) {
    const Tensor here = tensor.detach().resolve_conj().resolve_neg().cpu();  // itself, where it is plain memory
    kept_.push_back(here);
    weights_[name] = {here.data_ptr(), dtype_name(here, name), here.sizes().vec(), here.strides().vec()};
  }

  std::string bytes_;
  std::map<std::string, LiveTensor> weights_;
  std::vector<Tensor> kept_;
};

/// What the core gets of a module that was captured from these inputs.
Capture captured(const torch::jit::Module& module, const Leaves& inputs, const ExportOptions& options,
                 const std::vector<std::string>& outputs) {
  const auto program = std::make_shared<Program>(module);
  Capture out;
  out.model = program->source();
  out.keep = program;
  out.inputs = described(inputs);
  out.input_names = options.input_names;
  out.output_names = names_of(options, inputs, outputs);
  out.dynamic_axes = options.dynamic_axes;
  return out;
}

/// A torch::jit::Module with the children, parameters and buffers of `module`, under their names: the same tensors.
torch::jit::Module mirror(const torch::nn::Module* module, const std::shared_ptr<torch::jit::CompilationUnit>& unit) {
  torch::jit::Module out(c10::QualifiedName("__torch__.Module"), unit, /*shouldMangle=*/true);
  if (!module) return out;
  for (const auto& p : module->named_parameters(/*recurse=*/false))
    if (p.value().defined()) out.register_parameter(p.key(), p.value(), /*is_buffer=*/false);
  for (const auto& b : module->named_buffers(/*recurse=*/false))
    if (b.value().defined()) out.register_buffer(b.key(), b.value());
  for (const auto& child : module->named_children())
    out.register_module(child.key(), mirror(child.value().get(), unit));
  return out;
}

/// The graph as the module's forward.
void define_forward(torch::jit::Module& module, const std::shared_ptr<torch::jit::Graph>& graph) {
  const c10::QualifiedName name(*module.type()->name(), "forward");
  module.type()->addMethod(module._ivalue()->compilation_unit()->create_function(name, graph));
}

/// A model that can only be traced.
class TracedModel final : public FrontEnd {
 public:
  TracedModel(const Traced& traced, const ModuleInputs& inputs, const ExportOptions& options,
              const std::vector<ModuleInputs>& samples)
      : traced_(traced),
        inputs_(inputs),
        options_(options),
        tensors_(leaves_of_traced(inputs)),
        dimensions_(dimensions_of(tensors_, options)) {
    for (const ModuleInputs& sample : samples) more_.push_back(like(tensors_, leaves_of_traced(sample), more_.size()));
  }

  Sizes sample_sizes() override { return free_sizes(dimensions_); }
  std::vector<Sizes> more_samples() override {
    std::vector<Sizes> out;
    for (const Leaves& sample : more_) out.push_back(free_sizes(dimensions_of(sample, options_)));
    return out;
  }
  bool follows_sizes() const override { return false; }
  std::vector<CaptureKind> other_kinds() const override { return {}; }

  Capture capture(const CaptureRequest& request) override {
    return explained(request, [&] {
      if (request.kind != CaptureKind::Trace) throw CannotCapture("a model of C++ code can only be traced");
      Restore restore(tensors_);
      if (traced_.module) restore.evaluate(*traced_.module);
      if (request.sample > 0) return trace(more_.at(request.sample - 1));
      return trace(varied(tensors_, dimensions_, request.sizes, request.vary_contents));
    });
  }

 private:
  /// One run. Throws what the model throws, and where a trace does not show what it does.
  Capture trace(const Leaves& tensors) {
    auto unit = std::make_shared<torch::jit::CompilationUnit>();
    torch::jit::Module module = mirror(traced_.module.get(), unit);
    torch::jit::Stack stack;
    std::vector<std::string> names, outputs;
    for (const auto& [name, tensor] : tensors) {
      stack.emplace_back(tensor.detach());
      names.push_back(name);
    }
    auto no_name = [](const torch::autograd::Variable&) { return std::string(); };
    Unseen unseen;
    const auto state = torch::jit::tracer::trace(
                           stack, [&](torch::jit::Stack s) { return run(std::move(s), outputs); }, no_name,
                           /*strict=*/false, /*force_outplace=*/false, &module, names)
                           .first;
    if (!unseen.reasons.empty()) throw CannotCapture(*unseen.reasons.begin());
    define_forward(module, state->graph);
    Capture out = captured(module, tensors, options_, outputs);
    out.assumptions.assign(unseen.outcomes.begin(), unseen.outcomes.end());
    return out;
  }

  torch::jit::Stack run(torch::jit::Stack tensors, std::vector<std::string>& outputs) {
    size_t i = 0;
    ModuleInputs inputs;
    for (const IValue& input : inputs_) inputs.push_back(replaced(input, [&] { return tensors.at(i++).toTensor(); }));
    std::vector<IValue> results;
    for (auto& [path, tensor] : traced_.forward(inputs)) {
      results.emplace_back(std::move(tensor));
      const bool unnamed = path.empty() || std::isdigit(static_cast<unsigned char>(path[0]));
      outputs.push_back(path.empty() ? "output" : unnamed ? "output_" + path : path);
    }
    if (results.empty()) throw CannotCapture("it returns no tensor");
    return {c10::ivalue::Tuple::create(std::move(results))};
  }

  const Traced& traced_;
  const ModuleInputs& inputs_;
  const ExportOptions& options_;
  const Leaves tensors_;
  const std::vector<Dimension> dimensions_;
  std::vector<Leaves> more_;  // of the other samples
};

/// A model that TorchScript has.
class ScriptedModel final : public FrontEnd {
 public:
  ScriptedModel(torch::jit::Module module, const ModuleInputs& inputs, const ExportOptions& options)
      : module_(std::move(module)), inputs_(inputs), options_(options) {}

  Sizes sample_sizes() override { return {}; }
  bool follows_sizes() const override { return true; }
  std::vector<CaptureKind> other_kinds() const override { return {}; }

  Capture capture(const CaptureRequest& request) override {
    return explained(request, [&] {
      const auto& schema = module_.get_method("forward").function().getSchema();
      const Leaves tensors = leaves_of(inputs_, [&](size_t i) { return schema.arguments().at(i + 1).name(); });
      Restore restore(tensors);
      restore.evaluate(module_);
      return captured(module_, tensors, options_, {});
    });
  }

 private:
  torch::jit::Module module_;
  const ModuleInputs& inputs_;
  const ExportOptions& options_;
};

}  // namespace

void add_leaves(const std::string& path, const IValue& value, Leaves& out) {
  if (value.isTensor()) {
    add_leaves(path, value.toTensor(), out);
  } else if (value.isTuple()) {
    const auto& items = value.toTupleRef().elements();
    for (size_t i = 0; i < items.size(); ++i) add_leaves(below(path, std::to_string(i)), items[i], out);
  } else if (value.isList()) {
    const auto items = value.toListRef();
    for (size_t i = 0; i < items.size(); ++i) add_leaves(below(path, std::to_string(i)), items[i], out);
  } else if (value.isGenericDict()) {
    for (const auto& item : value.toGenericDict()) {
      const std::string key = item.key().isInt() ? key_name(item.key().toInt()) : item.key().toStringRef();
      add_leaves(below(path, key), item.value(), out);
    }
  } else if (!value.isNone()) {
    throw std::invalid_argument("a " + value.tagKind() + " is where a tensor should be");
  }
}

ExportResult export_traced(const Traced& traced, const ModuleInputs& inputs, const std::string& out,
                           const ExportOptions& options, const std::vector<ModuleInputs>& samples) {
  return guarded([&] {
    TracedModel model(traced, inputs, options, samples);
    return export_live(model, CaptureStrategy::Auto, out, options);
  });
}

ExportResult export_scripted(torch::jit::Module module, const ModuleInputs& inputs, const std::string& out,
                             const ExportOptions& options) {
  return guarded([&] {
    ScriptedModel model(std::move(module), inputs, options);
    return export_live(model, CaptureStrategy::Script, out, options);
  });
}

ExportResult export_function(torch::jit::Function& function, const ModuleInputs& inputs, const std::string& out,
                             const ExportOptions& options) {
  return guarded([&] {
    torch::jit::Module module = mirror(nullptr, std::make_shared<torch::jit::CompilationUnit>());
    const auto graph = torch::jit::toGraphFunction(function).graph()->copy();
    torch::jit::Inline(*graph);  // functions that it calls may have names that a file cannot hold
    graph->insertInput(0, "self")->setType(module._ivalue()->type());
    define_forward(module, graph);
    return export_scripted(module, inputs, out, options);
  });
}

}  // namespace lithify::capture
