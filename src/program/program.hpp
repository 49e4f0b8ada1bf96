// The Program: what every reader produces and the evaluator runs. Functions made of statements on names, classes,
// and the model's data (weights, attributes, constants) as inert values. The serialized TorchScript text is its text
// form; see parse.hpp and print.hpp.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/diagnostic.hpp"
#include "base/tensor.hpp"

namespace lithify::program {

// ---- types ------------------------------------------------------------------------------------------------------

/// A type as it is written: "Tensor", "int", "List[T]", "Optional[T]", "Dict[K, V]", "Tuple[A, B]", "Union[A, B]",
/// "__torch__.a.Cls". `name` is the head ("List"), `args` what is in the brackets.
struct Type {
  std::string name;
  std::vector<Type> args;
  std::string str() const;
  bool operator==(const Type&) const = default;
};

// ---- expressions and statements -----------------------------------------------------------------------------------

/// A byte position in one of the program's texts. `file` indexes Program::files.
struct Pos {
  int32_t file = -1;
  uint32_t offset = 0;
};

struct Expr {
  enum class Kind {
    Name,           ///< name
    Int,            ///< integer
    Float,          ///< real
    Complex,        ///< real, imag
    Bool,           ///< integer (0 or 1)
    None,           ///<
    String,         ///< name holds the text, unescaped
    Constant,       ///< CONSTANTS.cN; integer is N
    List,           ///< items
    Tuple,          ///< items
    Dict,           ///< items: key, value, key, value, ...
    Attribute,      ///< items[0].name; also getattr(items[0], "name"); integer is 1 for (items[0]).name, an enum's
    Subscript,      ///< items[0][items[1]]; integer is 1 for (items[0])[items[1]], always so written for tuples
    Slice,          ///< items[0][integer:integer2], on tuples
    Operator,       ///< an operator of a namespace; name is "aten::add" or, with the overload known, "aten::add.Tensor"
    Call,           ///< a function or class by its full name "__torch__.a.f", or a local name that holds a function
    Method,         ///< (items[0]).name(items[1], ...)
    Annotate,       ///< annotate(type, items[0])
    UncheckedCast,  ///< unchecked_cast(type, items[0])
    Uninitialized,  ///< uninitialized(type)
    IsInstance,     ///< isinstance(items[0], type); integer is 1 for several types, the args of a Tuple type
    New,            ///< C.__new__(C); name is the class
    Path,           ///< a dotted "__torch__." path that is not called: an enum member or a function value
  };
  Kind kind = Kind::None;
  Pos pos;  ///< of the operator, method or name; of the bracket of a Call or Subscript, as in debug records
  std::string name;
  int64_t integer = 0;
  int64_t integer2 = 0;
  double real = 0;
  double imag = 0;
  std::vector<Expr> items;
  std::vector<std::string> keywords;  ///< names of the last keywords.size() items of a call
  Type type;
};

struct Stmt {
  enum class Kind {
    Assign,        ///< targets = values (parallel); one value for several targets is unpacked
    SetAttribute,  ///< values[0].name = values[1]
    Evaluate,      ///< values[0], for its effect
    If,            ///< if values[0]: body else: orelse
    For,           ///< for targets[0] in range(values[0]): body
    While,         ///< while values[0]: body
    With,          ///< with values[0] [as targets[0]]: body
    Closure,       ///< def targets[0](): body (captures the locals)
    Return,        ///< return values[0]
    Pass,
  };
  Kind kind = Kind::Pass;
  Pos pos;
  std::vector<std::string> targets;
  std::vector<std::optional<Type>> target_types;  ///< empty, or one per target (annotated assignment)
  bool unpack = false;                            ///< "a, = v" or "a, b = v": values[0] is a sequence of targets.size()
  bool trailing_comma = false;                    ///< "a, b, = v": a tuple or list, not the results of an operator
  std::string name;                               ///< attribute of SetAttribute
  /// In the trace that it was made of: how many iterations a For has, or elements a list that is taken as a whole.
  std::optional<int64_t> recorded;
  std::optional<std::string> scope;  ///< the module it belongs to, where the file has it: "encoder.layer.0"
  std::vector<Expr> values;
  std::vector<Stmt> body;
  std::vector<Stmt> orelse;
};

struct Parameter {
  std::string name;
  Type type;  ///< "Tensor" where nothing is written
  std::optional<Expr> default_value;
};

/// What a file records of a value: what its capture saw.
struct Fact {
  DType dtype = DType::Undefined;  ///< Undefined for an integer
  std::vector<Expr> sizes;         ///< formulas over Program::symbols; of an integer, the one that it is
};

struct Function {
  std::string name;  ///< unqualified
  std::string qualified_name;
  std::vector<Parameter> parameters;  ///< with self for methods
  Type returns;
  std::vector<Stmt> body;
  Pos pos;
  std::unordered_map<std::string, Fact> facts;  ///< of names that the function sets, where the file has them
};

struct Class {
  enum class Kind { Module, Plain, NamedTuple, Enum, Interface };
  Kind kind = Kind::Module;
  bool module_interface = false;  ///< an Interface that modules implement
  std::string qualified_name;
  std::vector<std::string> parameters;  ///< __parameters__
  std::vector<std::string> buffers;     ///< __buffers__
  std::vector<std::string> forward_pre_hooks;
  std::vector<std::string> forward_hooks;
  std::vector<std::pair<std::string, Type>> attributes;  ///< in declaration order; fields of a NamedTuple
  std::vector<std::pair<std::string, Expr>> constants;   ///< Final[Expr::type] class constants; members of an Enum
  std::vector<Function> methods;
  Pos pos;

  const Function* method(std::string_view name) const;
  const Expr* constant(std::string_view name) const;
};

// ---- data -----------------------------------------------------------------------------------------------------------

struct Object;

/// An inert value of the model file: what attributes and constants hold. Containers and objects have identity.
struct Data {
  enum class Kind {
    None,
    Bool,
    Int,
    Float,
    Complex,
    String,
    Device,
    Tensor,
    List,
    Tuple,
    Dict,
    Object,
    Enum,
    Quantized
  };
  struct Container;
  Kind kind = Kind::None;
  int64_t integer = 0;  ///< Bool, Int
  double real = 0;      ///< Float, Complex
  double imag = 0;
  std::string text;                          ///< String, Device; for Enum the qualified class name
  std::shared_ptr<const TensorView> tensor;  ///< identity is that of the tensor in the file
  std::shared_ptr<Container> container;      ///< List, Tuple, Dict (key, value, ...); Enum: items[0] is the value;
                                             ///< Quantized: integers, scale, zero point, axis
  std::shared_ptr<Object> object;
  bool operator==(const Data&) const = delete;
};
struct Data::Container {
  std::vector<Data> items;
  std::optional<Type> type;  ///< the type tag, if the file has one
};

struct Object {
  std::string class_name;  ///< qualified; a class of the Program, or a C++ class ("__torch__.torch.classes....")
  std::vector<std::pair<std::string, Data>> attributes;  ///< state, in order
  std::optional<Data> state;  ///< for classes with __setstate__: the argument to give it; attributes are then empty

  const Data* attribute(std::string_view name) const;
};

/// A sample input that the file holds: dtype and sizes of tensors, no contents.
struct SampleInput {
  Data value;                  ///< tensors have sizes and dtype and no storage
  std::vector<Expr> formulas;  ///< of a tensor's sizes, or of an integer, over Program::symbols; empty: just the sample
};

/// An integer of the program that inputs determine: the size of an axis, or a number. Formulas call it by its name.
struct Symbol {
  std::string name;
  std::optional<int64_t> lower;
  std::optional<int64_t> upper;
};

/// A condition on sizes under which a capture is the model: torch.export has one side of each branch on sizes.
struct Guard {
  std::string text;  ///< in the syntax of Python, with size_0, size_1, ... in the place of sizes: "size_0 > 5"
  std::vector<std::pair<std::string, size_t>> sizes;  ///< that these are: a parameter of forward, and the axis
};

/// Text of one code file, and how to get from a byte of it to the user's source.
struct SourceFile {
  std::string name;  ///< record name
  std::string text;
  std::function<Place(uint32_t offset)> locate;  ///< may be empty
};

struct Program {
  std::string producer;      ///< "TorchScript" or "torch.export"
  std::string release;       ///< of PyTorch, which wrote the file; may be empty
  int64_t file_version = 0;  ///< decides which old meaning an operator has
  std::vector<SourceFile> files;
  std::unordered_map<std::string, Class> classes;       ///< by qualified name
  std::unordered_map<std::string, Function> functions;  ///< free functions by qualified name
  std::shared_ptr<Object> root;                         ///< the model
  std::vector<Data> constants;                          ///< CONSTANTS.cN
  std::optional<std::vector<SampleInput>> samples;      ///< one per parameter of forward, self excluded
  std::vector<Symbol> symbols;                          ///< of the formulas, where something is known of them
  /// Whether it is a trace, or has one in it: of the branches in the model's code, only those that one run took.
  bool traced = false;
  std::optional<std::vector<Guard>> guards;  ///< of torch.export, which writes them since 2.9

  const Class* find_class(std::string_view qualified_name) const;
  const Function* find_function(std::string_view qualified_name) const;
  /// The root's forward. Throws when there is none.
  const Function& forward() const;
  Place locate(Pos pos) const;
};

}  // namespace lithify::program
