// The rules: one per operator overload, registered by its schema.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "eval/call.hpp"
#include "provenance/role.hpp"

namespace lithify::eval {

using RuleFunction = std::function<Value(Call&)>;
using provenance::NumberArguments;
using provenance::Role;

struct Rule {
  Schema schema;
  int since = 0;  ///< first opset in which the rule can be used
  RuleFunction run;
  bool derived = false;  ///< op_, .out and op_copy forms, made from the plain rule
  /// For operands of which one is complex; a rule that does not declare this is not called with them.
  enum class Complex { No, Also, Only } complex = Complex::No;
  /// For operands of which one is quantized; a rule that does not declare this is not called with them.
  enum class Quantized {
    No,
    Only,      ///< the rule takes eval::Quantized
    Moved,     ///< what it does to the elements, it does to the integers: the scheme stays
    Computed,  ///< computes with the dequantized values, and rounds what it gives to the scheme of the first
  } quantized = Quantized::No;
  NumberArguments numbers = {};  ///< what its number arguments are
  bool varies = false;           ///< elements that are all the same differ after it, by where they are
};

/// What a unary or binary operator does with types before it computes.
enum class Promote {
  Keep,        ///< computes in the promoted type of its operands
  IntToFloat,  ///< integers and bools become float32
  Compare,     ///< as Keep, the result is bool
};

/// The rules are kept as they were declared, and parsed when their operator is first asked for: a model uses few.
class Registry {
  struct Declared;

 public:
  /// More of a rule that was just added, where it is registered: ops.add(...).numbers({{"index", Role::Position}}).
  class Added {
   public:
    explicit Added(Declared& rule) : rule_(rule) {}
    Added& numbers(NumberArguments arguments);
    Added& varies();

   private:
    Declared& rule_;
  };

  /// Adds a rule. For a schema whose first argument is a tensor "self", the in-place form `op_` (result cast to the
  /// type of self and written to it) and the `.out` form follow, unless they are registered themselves; from a view of
  /// "self", `op_copy` follows.
  Added add(std::string_view schema, RuleFunction rule, int since = 0);
  /// As `add`: a rule for operands of which one is complex, beside that for real ones.
  void add_complex(std::string_view schema, RuleFunction rule);
  /// The rules that these operators have now are right for complex operands as well.
  void allow_complex(std::initializer_list<std::string_view> names);
  /// As `add`: a rule for operands of which one is quantized, beside that for plain ones.
  void add_quantized(std::string_view schema, RuleFunction rule);
  /// What the rules that these operators have now are for quantized operands.
  void allow_quantized(Rule::Quantized how, std::initializer_list<std::string_view> names);
  /// One ONNX operator on "self".
  void unary(std::string_view schema, std::string_view onnx_op, Promote promote, int since = 0);
  /// One ONNX operator on "self" and "other", promoted and broadcast.
  void binary(std::string_view schema, std::string_view onnx_op, Promote promote, int since = 0);

  /// All overloads of a name ("aten::add"), in the order in which they are tried; empty when there is none. May be
  /// called by many threads; throws Internal when a schema of that name is none, or has two rules.
  const Vector<Rule>& overloads(std::string_view name) const;
  /// The names of all operators, derived forms included, in alphabetical order.
  Vector<std::string> names() const;

 private:
  struct Declared {
    std::string schema = {};
    int since = 0;
    RuleFunction run;
    Rule::Complex complex = Rule::Complex::No;
    Rule::Quantized quantized = Rule::Quantized::No;
    NumberArguments numbers = {};
    bool varies = false;
  };
  const Vector<Declared>& declared(const std::string& name) const;
  Declared& declare(std::string_view schema, Declared d);
  static Rule rule_of(const Declared& d);
  /// The declared rules of these operators, and of their other forms.
  Vector<Declared*> forms(std::initializer_list<std::string_view> names);
  Vector<Rule> parse(const std::string& name) const;

  std::unordered_map<std::string, Vector<Declared>> declared_;  ///< by name, in order of registration
  mutable std::mutex mutex_;                                    ///< of what follows
  mutable std::unordered_map<std::string, Vector<Rule>> parsed_;
};

}  // namespace lithify::eval
