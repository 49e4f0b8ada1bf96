// Export of LibTorch modules, in process. C++17; the target is lithify::torch, which brings lithify::lithify and Torch.
//
//   lithify::ExportOptions options;
//   options.input_names = {"x"};
//   options.dynamic_axes = {{"x", {{0, "batch"}, {3, "width"}}}};
//   lithify::ExportResult r = lithify::export_module(net, {torch::randn({2, 3, 16, 12})}, "net.onnx", options);
//
// Failure is a lithify::ExportError with all diagnostics. docs/cpp.md is the guide.
#pragma once

#include <torch/script.h>
#include <torch/torch.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lithify/lithify.hpp"

namespace lithify {

/// Example inputs: tensors, and tuples, lists, dicts and optionals of them. Anything else (a number, a bool, None) is a
/// constant of the model.
using ModuleInputs = std::vector<c10::IValue>;

/// How export_module calls what it is given; not for users of the library.
namespace capture {

using torch::Tensor;

/// The tensors of a result, each with the way to it: "", "0", "hidden_1".
using Leaves = std::vector<std::pair<std::string, Tensor>>;

/// What is traced: a function, and the module whose parameters and buffers it uses, if there is one.
struct Traced {
  std::function<Leaves(const ModuleInputs&)> forward;
  std::shared_ptr<torch::nn::Module> module;
};

/// Exports what can only be traced.
ExportResult export_traced(const Traced& traced, const ModuleInputs& inputs, const std::string& out,
                           const ExportOptions& options, const std::vector<ModuleInputs>& samples);
/// Exports a TorchScript module as it is.
ExportResult export_scripted(torch::jit::Module module, const ModuleInputs& inputs, const std::string& out,
                             const ExportOptions& options);
/// Exports a TorchScript function as it is.
ExportResult export_function(torch::jit::Function& function, const ModuleInputs& inputs, const std::string& out,
                             const ExportOptions& options);

// ---- from an example input to an argument ----------------------------------------------------------------------

/// How an argument of type T is read. A type that has no Read is left to its default value.
template <class T, class = void>
struct Read;
template <class T, class = void>
struct IsReadable : std::false_type {};
template <class T>
struct IsReadable<T, std::void_t<decltype(Read<T>::from(std::declval<const c10::IValue&>()))>> : std::true_type {};

template <>
struct Read<c10::IValue> {
  static c10::IValue from(const c10::IValue& v) { return v; }
};
template <>
struct Read<Tensor> {
  static Tensor from(const c10::IValue& v) { return v.isNone() ? Tensor() : v.toTensor(); }
};
template <>
struct Read<std::string> {
  static std::string from(const c10::IValue& v) { return v.toStringRef(); }
};
template <class T>
struct Read<T, std::enable_if_t<std::is_arithmetic_v<T>>> {
  static T from(const c10::IValue& v) {
    if constexpr (std::is_same_v<T, bool>)
      return v.toBool();
    else if constexpr (std::is_floating_point_v<T>)
      return static_cast<T>(v.toScalar().toDouble());
    else
      return static_cast<T>(v.toInt());
  }
};
template <class Optional>
struct ReadOptional {
  static Optional from(const c10::IValue& v) {
    return v.isNone() ? Optional() : Optional(Read<typename Optional::value_type>::from(v));
  }
};
template <class T>
struct Read<std::optional<T>, std::enable_if_t<IsReadable<T>::value>> : ReadOptional<std::optional<T>> {};
#if TORCH_VERSION_MAJOR < 2  // since then they are one
template <class T>
struct Read<c10::optional<T>, std::enable_if_t<IsReadable<T>::value>> : ReadOptional<c10::optional<T>> {};
#endif
template <class T>
struct Read<std::vector<T>, std::enable_if_t<IsReadable<T>::value>> {
  static std::vector<T> from(const c10::IValue& v) {
    std::vector<T> out;
    for (const c10::IValue& item : v.toList().vec()) out.push_back(Read<T>::from(item));
    return out;
  }
};
template <class Map>
struct ReadMap {
  static Map from(const c10::IValue& v) {
    Map out;
    for (const auto& item : v.toGenericDict())
      out.emplace(Read<typename Map::key_type>::from(item.key()), Read<typename Map::mapped_type>::from(item.value()));
    return out;
  }
};
template <class K, class T>
struct Read<std::map<K, T>, std::enable_if_t<IsReadable<T>::value>> : ReadMap<std::map<K, T>> {};
template <class K, class T>
struct Read<std::unordered_map<K, T>, std::enable_if_t<IsReadable<T>::value>> : ReadMap<std::unordered_map<K, T>> {};
template <class Tuple, class... T>
struct ReadTuple {
  template <size_t... I>
  static Tuple items(const c10::IValue& v, std::index_sequence<I...>) {
    return Tuple(Read<T>::from(v.toTupleRef().elements().at(I))...);
  }
  static Tuple from(const c10::IValue& v) { return items(v, std::index_sequence_for<T...>()); }
};
template <class... T>
struct Read<std::tuple<T...>, std::enable_if_t<(IsReadable<T>::value && ...)>> : ReadTuple<std::tuple<T...>, T...> {};
template <class A, class B>
struct Read<std::pair<A, B>, std::enable_if_t<IsReadable<A>::value && IsReadable<B>::value>>
    : ReadTuple<std::pair<A, B>, A, B> {};

// ---- from a result to its tensors ------------------------------------------------------------------------------

/// The way to a part of what `path` leads to.
inline std::string below(const std::string& path, const std::string& part) {
  return path.empty() ? part : path + "_" + part;
}
inline std::string key_name(const std::string& key) { return key; }
inline std::string key_name(int64_t key) { return std::to_string(key); }

void add_leaves(const std::string& path, const c10::IValue& value, Leaves& out);
inline void add_leaves(const std::string& path, const Tensor& tensor, Leaves& out) {
  if (tensor.defined()) out.emplace_back(path, tensor);
}
template <class T>
void add_leaves(const std::string& path, const std::vector<T>& list, Leaves& out);
template <class K, class T>
void add_leaves(const std::string& path, const std::map<K, T>& map, Leaves& out);
template <class... T>
void add_leaves(const std::string& path, const std::tuple<T...>& tuple, Leaves& out);
template <class A, class B>
void add_leaves(const std::string& path, const std::pair<A, B>& pair, Leaves& out);
template <class T>
void add_leaves(const std::string& path, const std::optional<T>& maybe, Leaves& out) {
  if (maybe) add_leaves(path, *maybe, out);
}

template <class T>
void add_leaves(const std::string& path, const std::vector<T>& list, Leaves& out) {
  for (size_t i = 0; i < list.size(); ++i) add_leaves(below(path, std::to_string(i)), list[i], out);
}
template <class K, class T>
void add_leaves(const std::string& path, const std::map<K, T>& map, Leaves& out) {
  for (const auto& [key, value] : map) add_leaves(below(path, key_name(key)), value, out);
}
template <class... T>
void add_leaves(const std::string& path, const std::tuple<T...>& tuple, Leaves& out) {
  size_t i = 0;
  std::apply([&](const T&... item) { (add_leaves(below(path, std::to_string(i++)), item, out), ...); }, tuple);
}
template <class A, class B>
void add_leaves(const std::string& path, const std::pair<A, B>& pair, Leaves& out) {
  add_leaves(below(path, "0"), pair.first, out);
  add_leaves(below(path, "1"), pair.second, out);
}

// ---- calling what is traced ------------------------------------------------------------------------------------

template <class... T>
struct List {};

/// The types of a function's arguments; Unknown for one that is overloaded or a template.
struct Unknown {};
template <class R, class M, class... A>
List<std::decay_t<A>...> arguments(R (M::*)(A...));
template <class R, class M, class... A>
List<std::decay_t<A>...> arguments(R (M::*)(A...) const);
template <class R, class... A>
List<std::decay_t<A>...> arguments(R (*)(A...));

template <class T>
struct Exists {
  using Type = void;  // as std::void_t, of which clang before 16 takes all uses for the same
};
template <class F, class = void>
struct ArgumentsOf {
  using Type = Unknown;
};
template <class F>
struct ArgumentsOf<F, typename Exists<decltype(arguments(&F::forward))>::Type> {
  using Type = decltype(arguments(&F::forward));
};
template <class F>
struct ArgumentsOf<F, typename Exists<decltype(arguments(&F::operator()))>::Type> {
  using Type = decltype(arguments(&F::operator()));
};
template <class R, class... A>
struct ArgumentsOf<R (*)(A...), void> {
  using Type = List<std::decay_t<A>...>;
};

/// Whether `f` can be called with values of these types.
template <class F, class... T>
constexpr bool takes() {
  if constexpr ((IsReadable<T>::value && ...))
    return std::is_invocable_v<F&, T&...>;
  else
    return false;
}

/// Calls `f` with the inputs as its first arguments, the others left to their defaults.
template <class F, class... T, size_t... I>
Leaves call_with(F& f, const ModuleInputs& inputs, List<T...> types, std::index_sequence<I...>) {
  using All = std::tuple<T...>;
  if constexpr (takes<F, std::tuple_element_t<I, All>...>()) {
    if (inputs.size() == sizeof...(I)) {
      auto given = std::tuple<std::tuple_element_t<I, All>...>(Read<std::tuple_element_t<I, All>>::from(inputs[I])...);
      Leaves out;
      add_leaves("", std::apply(f, given), out);
      return out;
    }
  }
  if constexpr (sizeof...(I) > 0) return call_with(f, inputs, types, std::make_index_sequence<sizeof...(I) - 1>());
  throw std::invalid_argument("forward cannot be called with " + std::to_string(inputs.size()) + " inputs");
}

template <class F, class... T>
Leaves call(F& f, const ModuleInputs& inputs, List<T...> types) {
  return call_with(f, inputs, types, std::index_sequence_for<T...>());
}
template <class F>
Leaves call(F& f, const ModuleInputs& inputs, Unknown) {
  return call(f, inputs, List<Tensor, Tensor, Tensor, Tensor>());
}

/// A module as a callable: what `forward` takes, it takes.
template <class M>
struct Forward {
  std::shared_ptr<M> module;
  template <class... A>
  auto operator()(A&&... a) const -> decltype(std::declval<M&>().forward(std::forward<A>(a)...)) {
    return module->forward(std::forward<A>(a)...);
  }
};

template <class T>
std::shared_ptr<T> module_of(const torch::nn::ModuleHolder<T>& holder) {
  return holder.ptr();
}
template <class T, class = std::enable_if_t<std::is_base_of_v<torch::nn::Module, T>>>
std::shared_ptr<T> module_of(const std::shared_ptr<T>& module) {
  return module;
}
template <class T, class = void>
struct IsModule : std::false_type {};
template <class T>
struct IsModule<T, std::void_t<decltype(module_of(std::declval<const T&>()))>> : std::true_type {};

template <class M>
Traced of_module(std::shared_ptr<M> module) {
  Forward<M> forward{module};
  return {[forward](const ModuleInputs& in) { return call(forward, in, typename ArgumentsOf<M>::Type()); }, module};
}
template <class F>
Traced of_callable(F f, std::shared_ptr<torch::nn::Module> module = nullptr) {
  return {[f](const ModuleInputs& in) mutable { return call(f, in, typename ArgumentsOf<F>::Type()); }, module};
}

}  // namespace capture

/// A callable for export_module that uses the parameters and buffers of `net`, a module holder or a shared pointer to a
/// module: in the ONNX file they have the names that they have in `net`.
///
///   export_module(with_weights(net, [&](torch::Tensor x) { return net->forward(x).softmax(-1); }), {x}, "net.onnx");
template <class Net, class F>
capture::Traced with_weights(const Net& net, F&& f) {
  return capture::of_callable<std::decay_t<F>>(std::forward<F>(f), capture::module_of(net));
}

/// Exports a LibTorch model to the file `out`. Throws ExportError, and then leaves no file behind.
///
/// What is not TorchScript is traced with PyTorch's own tracer, in evaluation mode and without gradients, at the sizes
/// of the example and at two others of every dynamic axis: a size is a plain number in C++, and what it stands for
/// shows in what changes. Weights are written without a copy from the module's tensors. Modes, buffers and the states
/// of random generators are restored. No other thread may use the module meanwhile.
///
/// @param net      a module holder (TORCH_MODULE), a std::shared_ptr to a module, a torch::jit::Module, a
///                 torch::jit::Function, or any callable; its arguments and results are tensors, and std::tuple, pair,
///                 vector, map and optional of them
/// @param inputs   example arguments
/// @param out      the ONNX file to write
/// @param options  `inputs` and `also` are ignored, since the example has types and sizes and other sizes are captured
///                 where they are needed; `discover` is refused
/// @param samples  other example arguments, which show what depends on contents; what is TorchScript needs none
template <class Net>
ExportResult export_module(Net&& net, const ModuleInputs& inputs, const std::string& out,
                           const ExportOptions& options = {}, const std::vector<ModuleInputs>& samples = {}) {
  using N = std::decay_t<Net>;
  static_assert(!std::is_base_of_v<torch::nn::Module, N>, "give the module's holder, or a std::shared_ptr to it");
  if constexpr (std::is_base_of_v<torch::jit::Function, std::remove_reference_t<Net>>)
    return capture::export_function(net, inputs, out, options);
  else if constexpr (std::is_convertible_v<const N&, torch::jit::Module>)
    return capture::export_scripted(net, inputs, out, options);
  else if constexpr (std::is_same_v<N, capture::Traced>)
    return capture::export_traced(net, inputs, out, options, samples);
  else if constexpr (capture::IsModule<N>::value)
    return capture::export_traced(capture::of_module(capture::module_of(net)), inputs, out, options, samples);
  else
    return capture::export_traced(capture::of_callable<N>(std::forward<Net>(net)), inputs, out, options, samples);
}

}  // namespace lithify
