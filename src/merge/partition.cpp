#include "merge/partition.hpp"

#include <algorithm>
#include <functional>
#include <map>

#include "merge/operators.hpp"

namespace lithify::merge {
namespace {

/// The operand of an operation that each of its literals is in.
std::vector<size_t> operands_of_literals(const Node& operation) {
  std::vector<size_t> out;
  for (size_t i = 0; i < operation.items.size(); ++i)
    for_each_literal(operation.items[i], [&](const Node&) { out.push_back(i); });
  if (operation.is_literal()) out.push_back(0);
  return out;
}

class Partition {
 public:
  Partition(std::vector<Column> columns, const std::vector<Trace>& traces, const Definitions& definitions)
      : traces_(traces), definitions_(definitions), parts_(columns.size()) {
    out_.columns = std::move(columns);
    for (std::vector<uint32_t>& part : parts_) part.resize(traces.size());
    locate();
  }

  Layout run() {
    for (size_t c = 1; c < out_.columns.size(); ++c) separate_literals(c);
    while (separate_writes()) continue;
    expand();
    locate();
    for (size_t c = 0; c < out_.columns.size(); ++c) {
      out_.runs.push_back(closure(c));
      std::vector<uint8_t>& of = out_.literals_of.emplace_back(traces_.size());
      for (size_t t : Members(out_.columns[c].present)) of[t] = static_cast<uint8_t>(representative(c, t));
    }
    return std::move(out_);
  }

 private:
  const Step& step(size_t column, size_t trace) const {
    return traces_[trace].code.steps[out_.columns[column].steps[trace]];
  }

  /// Where the steps are, and where the traces part.
  void locate() {
    out_.column_of.clear();
    for (const Trace& t : traces_) out_.column_of.emplace_back(t.code.steps.size());
    for (uint32_t c = 0; c < out_.columns.size(); ++c)
      for (size_t t : Members(out_.columns[c].present)) out_.column_of[t][out_.columns[c].steps[t]] = c;
    out_.parted_at.assign(traces_.size(), std::vector<uint32_t>(traces_.size()));
    for (size_t a = 0; a < traces_.size(); ++a)
      for (size_t b = 0; b < a; ++b) {
        const size_t at = parting(traces_[a], traces_[b]).value();
        const uint32_t x = out_.column_of[a][traces_[a].asked[at].value->step];
        const uint32_t y = out_.column_of[b][traces_[b].asked[at].value->step];
        out_.parted_at[a][b] = out_.parted_at[b][a] = std::max(x, y);
      }
  }

  /// The first trace of a column that has not parted from `trace`.
  size_t representative(size_t column, size_t trace) const {
    for (size_t t : Members(out_.columns[column].present))
      if (!out_.parted(t, trace, column)) return t;
    return trace;
  }

  Set closure(size_t column) const {
    Set out = out_.columns[column].present;
    for (size_t t = 0; t < traces_.size(); ++t)
      for (size_t other : Members(out_.columns[column].present))
        if (!out_.parted(t, other, column)) out |= set_of(t);
    return out;
  }

  /// Gives the traces of a column with different values of `kind` different parts. Returns whether that is new.
  template <class F>
  bool separate(size_t column, F kind) {
    std::vector<uint32_t>& parts = parts_[column];
    using Key = std::pair<uint32_t, decltype(kind(size_t{}))>;
    std::map<Key, uint32_t> numbers;
    std::vector<uint32_t> refined(parts.size());
    for (size_t t : Members(out_.columns[column].present))
      refined[t] = numbers.try_emplace(Key(parts[t], kind(t)), static_cast<uint32_t>(numbers.size())).first->second;
    const bool is_new = refined != parts;
    for (size_t a : Members(out_.columns[column].present))
      for (size_t b : Members(out_.columns[column].present))
        if (refined[a] != refined[b] && !out_.parted(a, b, column))
          diverge(traces_[a], a, out_.columns[column].steps[a], definitions_, "different values are written to");
    parts = std::move(refined);
    return is_new;
  }

  /// Steps with different literals are separate, unless these may be results of an if.
  void separate_literals(size_t column) {
    const Set present = out_.columns[column].present;
    const size_t some = *Members(present).begin();
    const std::vector<size_t> operands = operands_of_literals(step(column, some).operation);
    std::vector<size_t> separating;
    for (size_t i = 0; i < operands.size(); ++i) {
      bool differ = false, vary = true;
      for (size_t t : Members(present)) {
        const uint64_t mine = literal(column, t, i);
        differ = differ || mine != literal(column, some, i);
        vary = vary && literal_may_vary(column, t, i, operands[i]);
      }
      if (differ && !vary) separating.push_back(i);
    }
    if (separating.empty()) return;
    separate(column, [&](size_t t) {
      std::vector<uint64_t> out;
      for (const size_t i : separating) out.push_back(literal(column, t, i));
      return out;
    });
  }

  uint64_t literal(size_t column, size_t trace, size_t i) const {
    const size_t t = representative(column, trace);
    return traces_[t].literals[out_.columns[column].steps[t]][i];
  }

  bool literal_may_vary(size_t column, size_t trace, size_t i, size_t operand) const {
    const Node& operation = step(column, representative(column, trace)).operation;
    bool out = false;
    size_t n = 0;
    for_each_literal(operation, [&](const Node& l) {
      if (n++ == i)
        out = l.expr->kind == program::Expr::Kind::Constant || may_vary(operation, operand, l.expr->integer);
    });
    return out;
  }

  /// What a value is among those of all traces.
  using Ref = std::tuple<uint32_t, uint32_t, uint32_t>;
  Ref ref(size_t trace, ValueRef v) const {
    const uint32_t c = out_.column_of[trace][v.step];
    return {c, parts_[c][trace], v.result};
  }

  /// A write to a value that an if chooses would not reach what it chose from: such writes, and the views that lead to
  /// them, are separate steps inside of the if. Returns whether there was one.
  bool separate_writes() {
    bool any = false;
    for (size_t c = 1; c < out_.columns.size(); ++c) {
      if (!written_operand(step(c, *Members(out_.columns[c].present).begin()).operation)) continue;
      std::map<uint32_t, Set> parts;
      for (size_t t : Members(out_.columns[c].present)) parts[parts_[c][t]] |= set_of(t);
      for (const auto& [part, traces] : parts) any = separate_write(c, traces) || any;
    }
    return any;
  }

  bool separate_write(size_t column, Set traces) {
    const size_t some = *Members(traces).begin();
    const size_t written = *written_operand(step(column, some).operation);
    std::vector<size_t> chain = {column};
    const Node* operand = &step(column, some).operation.items[written];
    while (operand && operand->value) {
      // The value that each trace has in this place.
      const size_t at = chain.back();
      auto value = [&](size_t t) {
        const Node& operation = step(at, t).operation;
        return *(at == column ? operation.items[written] : *shares_memory_with(operation)).value;
      };
      const Ref first = ref(some, value(some));
      if (std::ranges::any_of(members(traces), [&](size_t t) { return ref(t, value(t)) != first; })) {
        std::map<size_t, Ref> refs;
        for (size_t t : Members(traces)) refs[t] = ref(t, value(t));
        bool any = false;
        for (const size_t c : chain) any = separate(c, [&](size_t t) { return ref_like(refs, c, t); }) || any;
        return any;
      }
      const uint32_t next = std::get<0>(first);
      if (next == 0) return false;
      chain.push_back(next);
      operand = shares_memory_with(step(next, some).operation);
    }
    return false;
  }

  /// That of a trace itself, or of one that it has not parted from.
  Ref ref_like(const std::map<size_t, Ref>& refs, size_t column, size_t trace) const {
    if (const auto own = refs.find(trace); own != refs.end()) return own->second;
    for (const auto& [t, found] : refs)
      if (!out_.parted(t, trace, column)) return found;
    return {};
  }

  static std::vector<size_t> members(Set set) {
    std::vector<size_t> out;
    for (size_t t : Members(set)) out.push_back(t);
    return out;
  }

  /// Each part becomes a column.
  void expand() {
    std::vector<Column> out;
    for (size_t c = 0; c < out_.columns.size(); ++c) {
      std::map<uint32_t, Column> parts;
      for (size_t t : Members(out_.columns[c].present)) {
        Column& part = parts[parts_[c][t]];
        part.steps.resize(traces_.size(), no_step);
        part.steps[t] = out_.columns[c].steps[t];
        part.present |= set_of(t);
      }
      for (auto& [number, part] : parts) out.push_back(std::move(part));
    }
    out_.columns = std::move(out);
  }

  const std::vector<Trace>& traces_;
  const Definitions& definitions_;
  std::vector<std::vector<uint32_t>> parts_;  // of each column, of each trace
  Layout out_;
};

}  // namespace

Layout layout_of(std::vector<Column> columns, const std::vector<Trace>& traces, const Definitions& definitions) {
  return Partition(std::move(columns), traces, definitions).run();
}

ValueRef base_of(const Trace& trace, ValueRef value) {
  while (value.step != 0) {
    const Node* of = shares_memory_with(trace.code.steps[value.step].operation);
    if (!of || !of->value) break;
    value = *of->value;
  }
  return value;
}

}  // namespace lithify::merge
