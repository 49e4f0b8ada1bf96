// One run of equal groups of statements, as a loop.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "program/program.hpp"

namespace lithify::merge {

/// Groups of statements of a block that may be the iterations of one loop. First make(), which says whether they are;
/// then what is behind the run asks for values of it by after() and list_at(); then statements().
class Loop {
 public:
  /// Values that each iteration appends to a list, in the order of the statements that make them.
  struct Value {
    size_t statement = 0, target = 0;
    auto operator<=>(const Value&) const = default;
  };
  using Values = std::vector<Value>;
  using NewName = std::function<std::string(const char*)>;

  /// `count` groups of `period` statements each, from the statement `first` of a block on.
  Loop(const program::Program& program, const std::vector<program::Stmt>& body, size_t first, size_t period,
       size_t count, NewName new_name);

  /// Whether the groups are iterations of one loop: each takes what the others take, or what it makes itself, or what
  /// the one before makes, or numbers that count.
  bool make();
  /// Finds the size along which the iterations take elements or slices one after the other. False where they do not.
  bool find_length();
  /// A position that an operator takes of a value along a dimension, where another iteration would take it.
  struct Position {
    std::string operation, value;
    int64_t axis = 0;
    size_t operand = 0;  ///< that is the position
    int64_t index = 0;   ///< in the trace
    program::Expr next;  ///< by the number of iterations
  };
  static bool takes_position(const program::Expr& e);
  /// Whether an operand of an expression, which takes it of `of`, is this position.
  static bool is_position(const program::Expr& e, const program::Expr& of, size_t operand, const Position& p);
  /// Whether an operand is the position behind those that the iterations take, along the dimension whose size says how
  /// many they are.
  bool is_next(const program::Expr& e, const program::Expr& of, size_t operand) const;
  /// Gives the loop one iteration less than there are positions, as what is behind it takes the last ones: these.
  std::vector<Position> leave_last();
  /// Finds a list of which the iterations take all elements, from one on to the last or down to the first: its length
  /// says how many there are. `lengths` are those of lists in the trace.
  void find_list(const std::unordered_map<std::string, size_t>& lengths);

  bool makes(const std::string& name) const { return made_.contains(name); }
  /// The value of a name behind the loop; nothing for a name that is not of the run.
  std::optional<program::Expr> after(const program::Expr& name);
  /// How often the value of one iteration is used behind the loop, which is not the last one's of what is carried.
  size_t single_uses() const { return single_uses_; }
  /// The list that has what all iterations make of some values: of the first iteration, of the second, and so on.
  /// Nothing unless the first of these items are that; `taken` is how many then.
  std::optional<std::string> list_at(std::span<const program::Expr> items, size_t& taken);
  const std::map<Values, std::string>& lists() const { return lists_; }
  size_t count() const { return count_; }
  size_t carried() const { return carried_.size(); }

  /// The loop, after the statements that give what it carries and the lists their first values.
  std::vector<program::Stmt> statements();

 private:
  /// Where a value is made: by which target of a statement of a group.
  struct Made {
    size_t group = 0;
    Value value;
  };
  struct Carried {
    Value made;            ///< what an iteration leaves to the next one
    program::Expr before;  ///< what the first iteration takes
    std::string name;
  };

  static program::Stmt append(const std::string& list, const std::string& value, const program::Stmt& like);
  std::string inner_name(const Value& value) const;
  const std::string& list_of(const Values& values);
  const Made* made(const program::Expr& e) const;

  /// The parts of statements or expressions that a member has, each one common to all; false where one is not.
  template <class Whole, class Part>
  bool common(const std::vector<const Whole*>& all, std::vector<Part> Whole::*member, Whole& out);
  /// The statement whose instances in the groups are these.
  std::optional<program::Stmt> common(const std::vector<const program::Stmt*>& all);
  std::optional<program::Expr> common(const std::vector<const program::Expr*>& all);
  /// A constant that is the same in all groups, or a number that counts.
  std::optional<program::Expr> common_constant(const std::vector<const program::Expr*>& all);
  /// A number that is the same in all groups, or counts up or down.
  std::optional<program::Expr> common_integer(const std::vector<const program::Expr*>& all);
  /// A value of the same group, of the one before, or of what is around the run.
  std::optional<program::Expr> common_name(const std::vector<const program::Expr*>& all);

  /// A number that is `start` in the first iteration, and changes by `step`.
  struct Counting {
    int64_t start = 0, step = 1;
  };

  std::optional<Counting> counting(const program::Expr& e) const;
  /// What has the sizes of a value, and is not made in the run: a slice of all elements has those of what it is of.
  const program::Expr* around(const program::Expr& e) const;

  void find_length(const program::Expr& e);
  void find_length(program::Expr size, const std::optional<Counting>& at, program::Pos pos);
  void find_taken();
  void find_taken(const program::Expr& e);
  void find_list(const program::Expr& e, const std::unordered_map<std::string, size_t>& lengths);
  void count_from_last();
  void count_from_last(program::Expr& e);

  const program::Program& program_;
  const std::vector<program::Stmt>& body_;
  size_t first_, period_, count_;
  NewName new_name_;
  std::unordered_map<std::string, Made> made_;
  std::string index_;
  std::optional<program::Expr> length_;  // what says how many iterations there are, where it is no number
  std::vector<Position> taken_;
  bool counts_ = false;  // whether a number does, from iteration to iteration
  std::vector<Carried> carried_;
  std::map<Values, std::string> lists_;  // of values that are used behind the loop
  size_t single_uses_ = 0;
  std::vector<program::Stmt> inner_;
};

}  // namespace lithify::merge
