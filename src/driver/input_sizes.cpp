#include "driver/input_sizes.hpp"

#include <fmt/format.h>

#include <set>

#include "base/checked.hpp"
#include "driver/tied_sizes.hpp"
#include "program/print.hpp"

namespace lithify::driver {
namespace {

/// A formula that is factor * symbol + offset.
struct Linear {
  std::string symbol;
  int64_t factor = 1;
  int64_t offset = 0;
};

std::optional<Linear> linear(const program::Expr& e) {
  using Kind = program::Expr::Kind;
  if (e.kind == Kind::Name) return Linear{e.name};
  if (e.kind != Kind::Operator || e.items.size() != 2) return std::nullopt;
  const bool swapped = e.items[0].kind == Kind::Int;
  const program::Expr& number = e.items[swapped ? 0 : 1];
  std::optional<Linear> inner = number.kind == Kind::Int ? linear(e.items[swapped ? 1 : 0]) : std::nullopt;
  if (!inner) return std::nullopt;
  if (e.name == "aten::add") {
    inner->offset = checked_add(inner->offset, number.integer);
  } else if (e.name == "aten::mul" && number.integer >= 1) {
    inner->factor = checked_mul(inner->factor, number.integer);
    inner->offset = checked_mul(inner->offset, number.integer);
  } else {
    return std::nullopt;
  }
  return inner;
}

bool is_symbol(const program::Expr& formula) { return formula.kind == program::Expr::Kind::Name; }

/// Calls `f` with each size that the file leaves open, its input and its axis.
template <class Inputs, class F>
void each_open_size(Inputs& inputs, F f) {
  for (auto& in : inputs)
    for (size_t i = 0; in.sizes && i < in.sizes->size(); ++i)
      if ((*in.sizes)[i].formula) f(in, i, (*in.sizes)[i]);
}

std::string name_of_axis(const TensorInput& in, size_t axis) { return fmt::format("{}_dim{}", in.name, axis); }

Diagnostic renamed(std::string what) { return {Code::BadOption, Severity::Warning, std::move(what), {}, "", ""}; }

/// The size that each symbol of the file has on the first axis that is only this symbol; axes that the user names go
/// first.
std::map<std::string, InputSpec::Size> named_symbols(const std::vector<TensorInput>& inputs,
                                                     std::vector<Diagnostic>& warnings) {
  std::map<std::string, InputSpec::Size> symbols;
  for (bool given : {true, false})
    each_open_size(inputs, [&](const TensorInput& in, size_t axis, InputSpec::Size size) {
      if (size.given != given || !is_symbol(*size.formula)) return;
      if (!given) size.name = name_of_axis(in, axis);
      const auto [known, first] = symbols.try_emplace(size.formula->name, size);
      if (given && !first && known->second.name != size.name)
        warnings.push_back(
            renamed(fmt::format("axis {} of '{}' is the same size as another input's, and is called '{}'", axis,
                                in.name, known->second.name)));
    });
  return symbols;
}

/// What a name stands for, where it is a formula of other dimensions.
std::optional<sym::Expr> value_by_names(sym::Context& context, const std::string& name,
                                        const eval::SymbolTable& dimensions) {
  std::set<std::string> names;
  for (const auto& [dimension, symbol] : dimensions) names.insert(dimension);
  const std::optional<program::Expr> formula = formula_of(name, names);
  return formula ? eval::evaluate_formula(context, *formula, dimensions) : std::nullopt;
}

}  // namespace

std::vector<Diagnostic> name_open_sizes(std::vector<TensorInput>& inputs) {
  std::vector<Diagnostic> warnings;
  const std::map<std::string, InputSpec::Size> symbols = named_symbols(inputs, warnings);
  sym::Context context;
  eval::SymbolTable table;
  for (const auto& [symbol, size] : symbols)
    table.emplace(symbol, size.name.empty() ? context.constant(*size.value) : context.symbol({.name = size.name}));
  eval::SymbolTable by_name;
  for (const auto& [symbol, size] : symbols)
    if (!size.name.empty()) by_name.emplace(size.name, table.at(symbol));
  each_open_size(inputs, [&](const TensorInput& in, size_t axis, InputSpec::Size& size) {
    if (is_symbol(*size.formula)) {
      const InputSpec::Size& symbol = symbols.at(size.formula->name);
      size.name = symbol.name;
      if (symbol.name.empty()) size.value = symbol.value;
      return;
    }
    if (const auto line = linear(*size.formula); line && !table.contains(line->symbol)) {
      if (!size.given) size.name = name_of_axis(in, axis);
      table.emplace(line->symbol, context.symbol({.name = line->symbol}));
      return;
    }
    const std::optional<sym::Expr> known = eval::evaluate_formula(context, *size.formula, table);
    const std::string formula = known ? known->str() : program::print(*size.formula);
    if (size.given && value_by_names(context, size.name, by_name) != known)
      warnings.push_back(renamed(fmt::format("axis {} of '{}' is {} in the file, and is called so instead of '{}'",
                                             axis, in.name, formula, size.name)));
    size.name = formula;
  });
  return warnings;
}

void InputSizes::define(const std::vector<TensorInput>& inputs) {
  // Dimensions that names of others are formulas of come first, wherever they stand.
  for (const TensorInput& in : inputs)
    for (size_t i = 0; in.sizes && i < in.sizes->size(); ++i)
      if (const InputSpec::Size& size = (*in.sizes)[i]; !size.name.empty() && !size.formula && !size.tied)
        named(in, size, {});
  for (bool tied : {false, true})
    for (bool derived : {false, true})
      each_open_size(inputs, [&](const TensorInput& in, size_t, const InputSpec::Size& size) {
        if (size.tied.has_value() == tied) define(in, size, derived);
      });
}

/// A size that is only a symbol defines it. For a symbol that never stands alone, the first size that is linear in it
/// does: a `derived` one.
void InputSizes::define(const TensorInput& in, const InputSpec::Size& size, bool derived) {
  const std::optional<Linear> line = linear(*size.formula);
  if (!line || symbols.contains(line->symbol) || derived == is_symbol(*size.formula)) return;
  sym::SymbolInfo info = range_of(line->symbol);
  const bool specialized = info.lower.value_or(0) < 2;
  for (std::optional<int64_t>* bound : {&info.lower, &info.upper})
    if (*bound) *bound = checked_add(checked_mul(**bound, line->factor), line->offset);
  if (line->offset == 0) info.divisor = line->factor;
  const onnx::Dim whole = named(in, size, info);
  const onnx::Dim multiple = builder_.sym.sub(whole, builder_.dim(line->offset)), factor = builder_.dim(line->factor);
  const onnx::Dim symbol = symbols[line->symbol] = builder_.sym.floor_div(multiple, factor);
  using Kind = sym::Assumption::Kind;
  if (!whole.is_constant() && line->factor > 1) assumed.required.push_back({Kind::Multiple, multiple, factor});
  if (!whole.is_constant() && specialized) assumed.specialized.push_back({Kind::AtMost, builder_.dim(2), symbol});
  known_[size.formula] = whole;
}

onnx::Dim InputSizes::dim(const TensorInput& in, const InputSpec::Size& size) {
  if (!size.formula) return named(in, size, {});
  if (const auto own = known_.find(size.formula); own != known_.end()) return own->second;
  const auto known = eval::evaluate_formula(builder_.sym, *size.formula, symbols);
  if (!known)
    throw Error(Code::MissingInputInfo, fmt::format("the size {} of the input '{}' does not follow from other sizes",
                                                    program::print(*size.formula), in.name));
  return *known;
}

onnx::Dim InputSizes::integer(const TensorInput& in, onnx::Value* value) {
  const std::string& symbol = in.integer->name;
  if (is_symbol(*in.integer) && !symbols.contains(symbol)) {
    sym::SymbolInfo info = range_of(symbol);
    info.name = in.name;
    symbols[symbol] = builder_.symbol_of(value, info);
  }
  return dim(in, {.formula = in.integer});
}

/// The bounds that the file has of a symbol.
sym::SymbolInfo InputSizes::range_of(const std::string& symbol) const {
  sym::SymbolInfo info;
  for (const program::Symbol& s : program_.symbols) {
    if (s.name != symbol) continue;
    if (s.lower) info.lower = s.lower;
    info.upper = s.upper;
  }
  return info;
}

/// The dimension that a size names, or its number.
onnx::Dim InputSizes::named(const TensorInput& in, const InputSpec::Size& size, sym::SymbolInfo info) {
  if (size.name.empty()) return builder_.dim(*size.value);
  if (size.tied) return tied(in, size);
  Dimension& known = dimensions_[size.name];
  if (!known.symbol) {
    info.name = size.name;
    info.sample = size.value;
    if (size.value == 0) info.lower = 0;
    known = {builder_.sym.symbol(info), size.value, in.name};
  } else if (known.sample && size.value && *known.sample != *size.value) {
    throw Error(Code::BadOption,
                fmt::format("the dimension '{}' is {} in the sample of '{}' and {} in that of '{}'", size.name,
                            *known.sample, known.input, *size.value, in.name),
                "sizes that differ need different names");
  }
  return known.symbol;
}

/// The size that is a formula of other dimensions.
onnx::Dim InputSizes::tied(const TensorInput& in, const InputSpec::Size& size) {
  eval::SymbolTable table;
  for (const auto& [name, dimension] : dimensions_) table.emplace(name, dimension.symbol);
  const std::optional<sym::Expr> known = eval::evaluate_formula(builder_.sym, *size.tied, table);
  if (!known)
    throw Error(Code::MissingInputInfo,
                fmt::format("the size '{}' of the input '{}' does not follow from other sizes", size.name, in.name));
  const std::optional<int64_t> sample = builder_.sym.sample(*known);
  if (sample && size.value && *sample != *size.value)
    throw Error(Code::BadOption,
                fmt::format("the size '{}' of the input '{}' is {} in the sample, and the formula gives {}", size.name,
                            in.name, *size.value, *sample),
                "give a size that does not follow from others its own name");
  return *known;
}

}  // namespace lithify::driver
