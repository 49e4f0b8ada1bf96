// What the traces of a model have around their steps, in one program: files, constants, classes and functions.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "merge/straight.hpp"
#include "program/program.hpp"

namespace lithify::merge {

class Definitions {
 public:
  /// Of a trace: the texts of what literals stand for; see Recording::formulas.
  using Formulas = std::map<const program::Expr*, std::string>;

  /// The first trace gives the model and its classes; of the others, what it lacks is added where it is used.
  Definitions(std::vector<const program::Program*> traces, std::span<const Formulas* const> formulas);

  /// An expression of a trace, without its items, as the program has it. Throws TracesDiverge where it refers to
  /// something that the first trace has differently.
  program::Expr adapted(size_t trace, const program::Expr& e);
  program::Pos adapted(size_t trace, program::Pos pos) const;
  /// The number of a constant of a trace in the program. Equal ones have the same.
  int64_t constant(size_t trace, int64_t number) const;
  /// The number of the formula that a literal of a trace stands for, if it does. Equal ones have the same.
  std::optional<uint64_t> formula(size_t trace, const program::Expr& literal) const;
  /// The same for what is written about equal constants with other contents: their kind, type and rank.
  std::string kind_of_constant(size_t trace, int64_t number) const;
  /// Requires that the first trace has an attribute of the model, or a method of a submodule, as well. `path` is a
  /// chain of attributes of self.
  void require_attribute(size_t trace, const Node& path);
  void require_method(size_t trace, const Node& object, const program::Expr& call);

  Place place(size_t trace, program::Pos pos) const { return traces_[trace]->locate(pos); }
  std::unique_ptr<program::Program> take() { return std::move(program_); }

 private:
  void add_constants(size_t trace);
  std::string name(size_t trace, const std::string& name);
  std::string path_name(size_t trace, const std::string& name);
  program::Type adapted(size_t trace, const program::Type& type);
  void adapt(size_t trace, program::Expr& e);
  void adapt(size_t trace, program::Stmt& s);
  void adapt(size_t trace, program::Function& f);
  void adapt(size_t trace, program::Class& c);
  const program::Data* attribute(size_t trace, const Node& path) const;

  std::vector<const program::Program*> traces_;
  std::unique_ptr<program::Program> program_;
  std::vector<int32_t> first_file_;              // of each trace
  std::vector<std::vector<int64_t>> constants_;  // of each trace, in the program
  std::unordered_map<std::string, int64_t> known_constants_;
  std::vector<std::unordered_map<const program::Expr*, uint64_t>> formulas_;  // of each trace: their numbers
  std::map<std::pair<size_t, std::string>, std::string> names_;
  std::multimap<std::string, std::string> unmangled_;  // names of definitions in the program
  std::set<std::pair<size_t, std::string>> required_;
};

/// "self.encoder.layer.0" of a chain of attributes; empty for everything else.
std::string path_of(const Node& node);

}  // namespace lithify::merge
