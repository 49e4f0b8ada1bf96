// The values that the evaluator computes with. Everything but the contents of tensors is known at export.
#pragma once

#include <complex>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "onnx/builder.hpp"
#include "program/program.hpp"
#include "provenance/origin.hpp"

namespace lithify::eval {

class Tensor;
class Value;
struct List;
class Dict;
struct Object;

using TensorPtr = std::shared_ptr<Tensor>;

/// A view of a tensor: how to get it from its base, and how to put a changed view back into the base. `inverse` is
/// empty for views that cannot be written through.
struct View {
  std::function<onnx::Value*(onnx::Builder&, onnx::Value* base)> forward;
  std::function<onnx::Value*(onnx::Builder&, onnx::Value* base, onnx::Value* changed)> inverse;
  std::string name;    ///< of the operator, for messages
  bool dense = false;  ///< of a contiguous base, the view is contiguous too
  std::string key;     ///< the same for views that are the same part of their base; empty when that is not known
};

/// A PyTorch tensor: an identity with contents that can be written, alone or as a view of another tensor.
class Tensor {
 public:
  explicit Tensor(onnx::Value* value);
  /// A view of `base` whose contents are now `value`.
  Tensor(onnx::Value* value, TensorPtr base, View view);

  Tensor(const Tensor&) = default;
  Tensor& operator=(const Tensor&) = default;
  ~Tensor();

  /// The contents now: derived again from the base if that was written to since.
  onnx::Value* read(onnx::Builder& b);
  /// Replaces the contents, of the tensor and of everything that shares memory with it. Throws UnsupportedMutation
  /// when a view in between cannot be written through. dtype and shape must be those of the tensor.
  void write(onnx::Builder& b, onnx::Value* value);
  /// A branch or a loop decides whether this tensor shares memory with another. A write to one cannot be followed to
  /// the other, so reading what such a write may have changed throws UnsupportedMutation.
  void may_share_memory_with(const Tensor& other);
  /// Makes this tensor another one, as in-place transposition and resizing do; its views are left behind.
  void rebind(const Tensor& other);
  bool shares_memory_with(const Tensor& other) const { return cell_ == other.cell_; }
  /// Whether both are the same elements of the same memory.
  bool same_place(const Tensor& other) const;
  /// Whether the elements lie one after the other, as far as is known from the views: where they do not, reshape()
  /// copies.
  bool dense() const;

  const TensorPtr& base() const { return base_; }
  /// What a write changes, of the tensor and its memory; to go back to it later.
  struct State;
  State save() const;
  void restore(const State& state);
  /// What the tensor's memory holds is not known: reading it throws UnsupportedMutation.
  void distrust() { cell_->unsure = true; }

  DType dtype() const { return value_->dtype; }
  const onnx::Shape& shape() const { return value_->shape; }
  onnx::Rank rank() const { return value_->rank(); }

  /// A Python number that was made a 0-d tensor by tracing, or a number known only at run time (the result of item()):
  /// it takes part in type promotion as a number.
  bool is_number = false;

 private:
  void check_readable() const;
  struct Cell {
    uint64_t version = 0;
    bool unsure = false;  // may have been written to through a tensor that was chosen
  };
  onnx::Value* value_;
  uint64_t seen_ = 0;  // version of the cell that value_ belongs to
  std::shared_ptr<Cell> cell_;
  TensorPtr base_;
  std::shared_ptr<const View> view_;
  Vector<std::pair<std::shared_ptr<Cell>, uint64_t>> among_;  // memory it may share, of which version
};

struct Tensor::State {
  Tensor tensor;
  Cell cell;
  onnx::Value* value() const { return tensor.value_; }
  bool unsure() const { return cell.unsure; }
  bool same_memory(const State& other) const { return tensor.cell_ == other.tensor.cell_; }
};

/// A quantized tensor: small integers that stand for (integer - zero_point) * scale. It is not a tensor to anything
/// that does not declare how it handles one (Rule::Quantized).
struct Quantized {
  TensorPtr integers;       ///< uint8 or int8
  onnx::Value* scale;       ///< float64, 0-d; or one for each position of `axis`
  onnx::Value* zero_point;  ///< int64, of the same shape; float64 of tables that only embeddings take
  std::optional<int64_t> axis;

  DType dtype() const { return integers->dtype() == DType::UInt8 ? DType::QUInt8 : DType::QInt8; }
};

struct None {
  bool operator==(const None&) const = default;
};
struct Device {
  std::string name;
  bool operator==(const Device&) const = default;
};
/// Never read in a program that is right.
struct Uninitialized {};
/// The result of something that could not be exported; using it yields another one. The reason has been reported.
struct Poison {};
/// What differs between two paths in a way that ONNX cannot express; only using it is an error.
struct Undecided {
  std::string why;
};
/// A value where `present` holds, and else None. Which one is known only at run time: `present` is a bool of the run.
struct Maybe {
  std::shared_ptr<const Value> present, value;
};
/// A member of a TorchScript enum.
struct Enum {
  const program::Class* type;
  std::string name;
  std::shared_ptr<Value> value;
};
struct Tuple {
  std::shared_ptr<const Vector<Value>> items;
  const program::Class* named = nullptr;  ///< of a NamedTuple
};
struct Closure;
/// A function as a value: of the program, or a closure with the locals of its frame.
struct Function {
  const program::Function* function = nullptr;
  std::shared_ptr<Closure> closure;
};

/// Any value of the program. Integers are symbolic expressions; lists, dicts, objects and tensors have identity.
class Value {
 public:
  using Data = std::variant<None, bool, sym::Expr, double, std::complex<double>, std::string, Device, TensorPtr,
                            Quantized, std::shared_ptr<List>, Tuple, std::shared_ptr<Dict>, std::shared_ptr<Object>,
                            Enum, Function, Uninitialized, Poison, Undecided, Maybe>;
  Value() = default;
  Value(const Value&) = default;
  Value(Value&&) noexcept = default;
  Value& operator=(const Value&) = default;
  Value& operator=(Value&&) noexcept = default;
  ~Value() {
    if (may_nest()) release();
  }
  template <class T>  // NOLINTNEXTLINE(bugprone-forwarding-reference-overload): the constraint excludes Value
  requires std::constructible_from<Data, T> &&(!std::same_as<std::remove_cvref_t<T>, Value>)Value(T&& v)
      : data_(std::forward<T>(v)) {}
  Value(const char* text) : data_(std::string(text)) {}
  /// A new tensor of its own.
  Value(onnx::Value* v) : data_(std::make_shared<Tensor>(v)) {}
  /// Tuples and lists.
  static Value tuple(Vector<Value> items, const program::Class* named = nullptr);
  static Value list(Vector<Value> items);
  static Value list(const Vector<onnx::Value*>& tensors);

  template <class T>
  bool is() const {
    return std::holds_alternative<T>(data_);
  }
  template <class T>
  const T* get_if() const {
    return std::get_if<T>(&data_);
  }
  bool is_none() const { return is<None>(); }
  bool is_tensor() const { return is<TensorPtr>(); }
  bool is_quantized() const { return is<Quantized>(); }
  bool is_int() const { return is<sym::Expr>(); }
  bool is_list() const { return is<std::shared_ptr<List>>(); }
  bool is_open_list() const;
  bool is_poison() const { return is<Poison>(); }
  /// int, float, bool or complex, or a number known only at run time.
  bool is_number() const;
  /// Whether it is of a kind that holds other values.
  bool may_nest() const {
    return is_list() || is<Tuple>() || is<std::shared_ptr<Dict>>() || is<std::shared_ptr<Object>>() || is<Enum>() ||
           is<Maybe>();
  }

  const TensorPtr& tensor() const { return std::get<TensorPtr>(data_); }
  sym::Expr integer() const { return std::get<sym::Expr>(data_); }
  /// The elements of a list or tuple. Throws TypeMismatch for anything else, and UnsupportedControlFlow for a list
  /// whose elements are known only at run time.
  const Vector<Value>& items() const;
  Vector<Value>& list_items() const;

  /// "Tensor", "int", "List", ... for messages.
  std::string kind_name() const;
  const Data& data() const { return data_; }

  provenance::Origin origin = 0;  ///< the numbers of the program that it was computed from

 private:
  void release() noexcept;
  Data data_;
};

/// Counts how deep a walk over values is while it lives. Throws LimitExceeded where they nest too deep to be walked, as
/// lists do that contain themselves.
class Nesting {
 public:
  explicit Nesting(int& depth);
  ~Nesting() { --depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  int& depth_;
};

/// What a call is given.
struct Arguments {
  Vector<Value> positional;
  Vector<std::pair<std::string, Value>> keywords = {};
};

struct List {
  /// Gives the list a head of these contents alone, of numbers or tensors. What was an element may share memory with
  /// it.
  void become(onnx::Value* all, bool are_numbers);
  /// A tensor whose memory the elements may share, as they are laid out again in it.
  void link(Tensor& memory) const;

  Vector<Value> items;  ///< the elements; where there is a head, those behind it
  /// The memory of elements whose number is known only at run time; an element is a view of it. Numbers, and tensors of
  /// one shape, are its rows; where sizes may differ, it holds a sequence.
  TensorPtr head = nullptr;
  bool numbers = false;  ///< the elements of the head are
  bool growing =
      false;  ///< in the body of a loop that only appends to it: what earlier iterations appended is not seen
  std::string unreadable;  ///< why the elements are not known; empty where they are
  bool is_open() const { return head || growing || !unreadable.empty(); }
};
/// Keys are strings, numbers, tensors or enums; order is that of insertion.
class Dict {
 public:
  struct Item {
    Value key, value;
  };
  /// The items by their numbers, which stay when others are removed.
  const std::map<size_t, Item>& items() const { return items_; }
  size_t size() const { return items_.size(); }
  /// Throws UnsupportedControlFlow when they are not known.
  void check() const;

  /// The value of this very key, of the same kind; nullptr when there is none.
  const Value* find(const Value& key) const;
  /// The items whose keys are equal to a key: the one that is, or all of which only the run decides that.
  struct Found {
    Vector<size_t> numbers;
    bool sure = false;
  };
  Found find(sym::Context& sym, const Value& key) const;

  Value& value(size_t number) { return items_.at(number).value; }
  /// Sets the value of the item with this very key, and adds it where there is none.
  void set(Value key, Value value);
  /// Adds an item, whose key is not among them.
  void add(Value key, Value value);
  void erase(size_t number);
  void clear() { *this = {}; }

  std::string unreadable;  ///< why the elements are not known; empty where they are

 private:
  Vector<size_t> candidates(const Value& key) const;
  std::optional<size_t> number_of(const Value& key) const;

  std::map<size_t, Item> items_;
  size_t next_ = 0;
  std::unordered_multimap<size_t, size_t> hashed_;  // numbers of items, by the hash of the key
  std::set<size_t> unhashed_;                       // those of the others
};
/// A module or another object of a TorchScript class.
struct Object {
  const program::Class* type = nullptr;
  std::string class_name;
  std::string path;  ///< from the root module: "encoder.layer.0"; empty for the root
  Vector<std::pair<std::string, Value>> attributes;
  Value* attribute(std::string_view name);
  void set(std::string_view name, Value value);
  size_t last_found = 0;  ///< among the attributes: the next that is asked for is often its neighbor
};

/// A number that is known only at run time: a 0-d tensor that counts as a number.
Value run_time_number(onnx::Value* v);

/// Whether two values are equal as Python's == has it, where that is known at export. Tensors: by identity.
std::optional<bool> equal(sym::Context& sym, const Value& a, const Value& b);

}  // namespace lithify::eval
