// Loops: unrolled where the iterations are known and few, else a Loop whose body is evaluated until what holds at its
// head holds at its end as well.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "base/restored.hpp"
#include "eval/carry.hpp"
#include "eval/elements.hpp"
#include "eval/evaluator.hpp"
#include "eval/join.hpp"

namespace lithify::eval {

namespace {

using onnx::Dim;

/// How a size or an integer changes from iteration to iteration.
struct Progress {
  enum class Kind { Fixed, Stepwise, Free } kind = Kind::Fixed;
  Dim start = {};  ///< before the first iteration
  Dim step = {};   ///< Stepwise: added in every iteration
  int symbol = 0;  ///< Free: equal ones share a symbol
};

/// What is carried from iteration to iteration under one place of the state.
struct Carried {
  bool scanned = false;  ///< a list that is only appended to
  DType type = DType::Undefined;
  Vector<Progress> sizes;
  std::optional<onnx::Shape> element;  ///< of a list that is a sequence, in place of its sizes
  std::optional<Progress> number;      ///< of an integer
};

bool is_integer(const Difference& d) { return d.second.is_int() && (d.first.is_int() || d.first.is<Uninitialized>()); }

const List* list_of(const Value& v) {
  auto* l = v.get_if<std::shared_ptr<List>>();
  return l ? l->get() : nullptr;
}

}  // namespace

/// Finds what a loop carries, by evaluating its body until nothing new shows.
class Evaluator::Repetition {
 public:
  Repetition(Evaluator& evaluator, const program::Stmt& s, std::optional<Dim> count, Frame& frame)
      : e_(evaluator),
        b_(evaluator.builder_),
        attempt_(evaluator.journal_),
        s_(s),
        count_(count),
        frame_(frame),
        before_(frame, evaluator.names_of(s)) {}

  void run() {
    // How many iterations a while loop has shows when it ends.
    const Dim count = count_ ? *count_ : b_.sym.symbol({.name = "iterations", .lower = 0});
    index_ = b_.sym.symbol({.name = count_ ? symbol_name(s_.targets[0]) : "iteration", .lower = 0, .below = count});
    if (!count_) first_condition_ = e_.evaluate(s_.values[0], frame_);
    for (int tries = 0; tries < most_tries; ++tries) {
      attempt_.undo();
      iterate();
      if (settled()) return finish();
    }
    throw Error(Code::UnsupportedControlFlow, "the types that a loop carries do not converge");
  }

 private:
  static constexpr int most_tries = 24;

  /// One iteration from the head, as far as it is known now, in a separate body.
  void iterate() {
    body_ = bodies_.emplace_back(b_.new_body(onnx::Builder::Body::Loop));
    symbols_.clear();
    ends_.clear();
    try {
      const Restored scope(b_.scope);
      Inside inside(b_, *body_);
      run_body();
    } catch (const Error& error) {
      before_.restore(frame_);
      // A list that is read in the body is carried whole.
      bool scans = std::any_of(carried_.begin(), carried_.end(), [](auto& c) { return c.second.scanned; });
      if (error.first().code != Code::UnsupportedControlFlow || !scans || keep_lists_) throw;
      keep_lists_ = true;
      restart();
      attempt_.undo();
      return iterate();
    }
    before_.restore(frame_);
  }

  void run_body() {
    b_.bind(index_, b_.input("iteration", DType::Int64, {}));
    b_.input("condition", DType::Bool, {});
    if (join_) join_->apply(b_, frame_, heads());
    if (count_) frame_.locals[s_.targets[0]] = index_;
    e_.execute(s_.body, frame_);
    if (frame_.returned) throw Error(Code::UnsupportedControlFlow, "a function returns from inside a loop");
    condition_ = count_ ? body_->inputs[1] : as_condition(b_, e_.evaluate(s_.values[0], frame_));
    end_ = std::make_unique<State>(before_.now(frame_));
    next_ = std::make_unique<Join>(before_, before_, *end_);
    for (const Difference& d : next_->differences()) ends_.push_back(end_value(d));
  }

  void restart() {
    carried_.clear();
    join_.reset();
  }

  onnx::Value* end_value(const Difference& d) {
    const List* l = list_of(d.second);
    if (l && l->growing && !l->head && l->items.size() == 1) return b_.real(carried(b_, l->items[0]));
    onnx::Value* v = carried(b_, d.second);
    return v ? b_.real(v) : nullptr;
  }

  Dim symbol_of(int group, const std::string& name, bool size) {
    Dim& symbol = symbols_[group];
    if (!symbol) {
      sym::SymbolInfo info{.name = symbol_name(name)};
      info.lower = size ? std::optional<int64_t>(0) : std::nullopt;
      symbol = b_.sym.symbol(info);
    }
    return symbol;
  }

  Dim at_head(const Progress& p, const std::string& name, bool size) {
    switch (p.kind) {
      case Progress::Kind::Fixed:
        return p.start;
      case Progress::Kind::Stepwise:
        return b_.sym.add(p.start, b_.sym.mul(index_, p.step));
      case Progress::Kind::Free:
        return symbol_of(p.symbol, name, size);
    }
    return p.start;
  }

  /// The values at the head of an iteration, one for each difference of the last one: inputs of the body.
  Vector<Value> heads() {
    Vector<Value> out;
    for (const Difference& d : join_->differences()) {
      Carried& c = carried_.at(d.place);
      if (c.scanned) {
        auto list = std::make_shared<List>();
        list->growing = true;
        out.emplace_back(list);
        continue;
      }
      if (c.element) {
        out.push_back(uncarried(b_, b_.input(d.name, c.type, *c.element, onnx::Value::Form::Sequence), d));
        continue;
      }
      onnx::Shape shape;
      for (size_t i = 0; i < c.sizes.size(); ++i)
        shape.push_back(at_head(c.sizes[i], fmt::format("{}_dim{}", symbol_name(d.name), i), true));
      onnx::Value* v = b_.input(d.name, c.type, shape);
      if (c.number) {
        bool is_new = c.number->kind == Progress::Kind::Free && !symbols_.contains(c.number->symbol);
        Dim number = at_head(*c.number, d.name, false);
        if (is_new) b_.bind(number, v);
        out.emplace_back(number);
      } else {
        out.push_back(uncarried(b_, v, d));
      }
    }
    return out;
  }

  /// Whether the end of the last iteration is covered by its head; where it is not, the head becomes wider.
  bool settled() {
    bool settled = join_ && join_->differences().size() == next_->differences().size();
    std::map<int, Dim> after;  // what each free symbol is at the end of the iteration
    std::map<std::string, Carried> wider;
    const Vector<Difference>& differences = next_->differences();
    for (size_t i = 0; i < differences.size(); ++i) {
      const Difference& d = differences[i];
      const auto known = carried_.find(d.place);
      Carried c = known == carried_.end() ? begin(d, ends_[i]) : known->second;
      settled = settled && known != carried_.end();
      if (c.scanned && !scannable(d, ends_[i])) {
        keep_lists_ = true;
        restart();
        return false;
      }
      if (!c.scanned) settled = widen_to(c, d, ends_[i], after) && settled;
      wider[d.place] = std::move(c);
    }
    if (!settled) {
      carried_ = std::move(wider);
      join_ = std::move(next_);
      head_end_ = std::move(end_);
    }
    return settled;
  }

  /// Makes what is carried as wide as the value at the end of the iteration. Whether it was so before.
  bool widen_to(Carried& c, const Difference& d, const onnx::Value* end, std::map<int, Dim>& after) {
    if (!end) throw Error(Code::UnsupportedControlFlow, fmt::format("'{}' has no type after a loop", d.name));
    const DType type = common_type(d, typed(c.type), end);
    bool covered = std::exchange(c.type, type) == type;
    if (c.element || end->is_sequence()) return cover(c, end) && covered;
    if (end->rank() != c.sizes.size())
      throw Error(Code::UnsupportedControlFlow,
                  fmt::format("'{}' has {} dimensions before an iteration and {} after it", d.name, c.sizes.size(),
                              end->rank()));
    for (size_t axis = 0; axis < c.sizes.size(); ++axis)
      covered = proceed(c.sizes[axis], end->shape[axis], after) && covered;
    if (c.number) covered = proceed(*c.number, d.second.integer(), after) && covered;
    return covered;
  }

  /// A value of a type alone, for comparing.
  const onnx::Value* typed(DType type) {
    like_.dtype = type;
    return &like_;
  }

  Carried begin(const Difference& d, const onnx::Value* end) {
    Carried c;
    if (const List* l = list_of(d.second); l && !keep_lists_ && is_append(d)) {
      c.scanned = true;
      return c;
    }
    onnx::Value* start = carried(b_, d.first);
    c.type = start ? start->dtype : end->dtype;
    if ((start ? start : end)->is_sequence()) {
      const onnx::Shape shape = element_shape(start ? start : end);
      c.element = common_element_shape(b_, shape, shape);
      return c;
    }
    onnx::Shape shape = start ? start->shape : end->shape;
    if (!start && !d.first.is<Uninitialized>()) shape[0] = b_.dim(0);
    for (Dim size : shape) {
      c.sizes.push_back({.start = size});
      if (!b_.computable(size)) make_free(c.sizes.back());
    }
    if (is_integer(d)) {
      c.number = Progress{.start = d.first.is_int() ? d.first.integer() : d.second.integer()};
      if (!b_.computable(c.number->start)) make_free(*c.number);
    }
    return c;
  }

  /// Whether the elements of the sequence at the head have the sizes of those at the end.
  bool cover(Carried& c, const onnx::Value* end) {
    onnx::Shape before;
    for (const Progress& p : c.sizes) before.push_back(p.kind == Progress::Kind::Fixed ? p.start : Dim());
    const bool was_rows = !c.element;
    if (was_rows) c.element.emplace(before.begin() + 1, before.end());
    const onnx::Shape shape = element_shape(end);
    if (shape.size() != c.element->size())
      throw Error(Code::UnsupportedControlFlow, "the elements of a list differ in the number of dimensions");
    onnx::Shape common = common_element_shape(b_, *c.element, shape);
    const bool covered = !was_rows && common == *c.element;
    c.element = std::move(common);
    return covered;
  }

  /// Whether the list at the end is that at the start, and more.
  bool is_append(const Difference& d) const {
    const List *a = list_of(d.first), *b = list_of(d.second);
    if (b && b->growing) return true;
    if (!a || !b || a->head != b->head || a->items.size() > b->items.size()) return false;
    for (size_t i = 0; i < a->items.size(); ++i)
      if (!a->items[i].is_tensor() || !b->items[i].is_tensor() || a->items[i].tensor() != b->items[i].tensor())
        return false;
    return true;
  }

  /// Whether the iterations append the same number of elements, all of one shape.
  bool scannable(const Difference& d, const onnx::Value* end) const {
    const List* l = list_of(d.second);
    if (!l || !end || l->head || end->is_sequence()) return false;
    return std::all_of(end->shape.begin(), end->shape.end(), [&](Dim size) { return b_.computable(size); });
  }

  void make_free(Progress& p) {
    p.kind = Progress::Kind::Free;
    p.symbol = ++last_symbol_;
  }

  /// Whether the size at the end is that at the head of the next iteration.
  bool proceed(Progress& p, Dim end, std::map<int, Dim>& after) {
    Dim next = b_.sym.add(index_, b_.dim(1));
    if (p.kind == Progress::Kind::Fixed) {
      if (end == p.start) return true;
      Dim step = b_.sym.sub(end, p.start);
      if (b_.computable(step)) {
        p.kind = Progress::Kind::Stepwise;
        p.step = step;
        return false;
      }
      widen(p, end);
      return false;
    }
    if (p.kind == Progress::Kind::Stepwise) {
      if (end == b_.sym.add(p.start, b_.sym.mul(next, p.step))) return true;
      widen(p, end);
      return false;
    }
    // Symbols stay equal as long as every iteration makes the same of them.
    auto [first, is_new] = after.try_emplace(p.symbol, end);
    if (is_new || first->second == end) return true;
    widen(p, end);
    return false;
  }

  void widen(Progress& p, Dim end) {
    int& group = groups_[{p.start.node(), end.node()}];
    if (p.kind == Progress::Kind::Free || !group) group = ++last_symbol_;
    p.kind = Progress::Kind::Free;
    p.symbol = group;
  }

  /// A size or integer after the loop.
  Dim after(const Progress& p, const std::string& name, std::map<int, Dim>& symbols) {
    if (p.kind == Progress::Kind::Fixed) return p.start;
    if (p.kind == Progress::Kind::Stepwise && count_) return b_.sym.add(p.start, b_.sym.mul(iterations(), p.step));
    Dim fresh = b_.sym.symbol({.name = symbol_name(name), .lower = 0});
    return p.kind == Progress::Kind::Free ? symbols.try_emplace(p.symbol, fresh).first->second : fresh;
  }

  Dim iterations() {
    if (count_) return b_.sym.max(*count_, b_.dim(0));
    if (!iterations_) iterations_ = b_.sym.symbol({.name = "iterations", .lower = 0});
    return iterations_;
  }

  void finish() {
    if (!count_ && condition_->constant && condition_->constant->integers()[0] != 0)
      throw Error(Code::LimitExceeded, "a loop has no end: its condition is always true");
    onnx::Value* condition = count_ ? nullptr : as_condition(b_, first_condition_);
    onnx::Inputs inputs{count_ ? b_.symbolic(*count_) : nullptr, condition};
    Vector<onnx::Value*> outputs{condition_}, scans;
    Vector<onnx::Builder::Fact> facts, scan_facts;
    std::map<int, Dim> symbols;
    const Vector<Difference>& differences = next_->differences();
    for (size_t i = 0; i < differences.size(); ++i) {
      const Difference& d = differences[i];
      const Carried& c = carried_.at(d.place);
      onnx::Shape shape;
      if (c.scanned) {
        shape = ends_[i]->shape;
        shape.insert(shape.begin(), iterations());
        scans.push_back(ends_[i]);
        scan_facts.push_back({ends_[i]->dtype, shape});
        continue;
      }
      onnx::Value* start = carried(b_, d.first);
      if (!start) start = placeholder(b_, d, ends_[i]);
      if (c.element) {
        inputs.push_back(as_sequence(b_, start));
        outputs.push_back(ends_[i]);
        facts.push_back({c.type, *c.element, onnx::Value::Form::Sequence});
        continue;
      }
      inputs.push_back(b_.cast(start, c.type));
      for (size_t axis = 0; axis < c.sizes.size(); ++axis)
        shape.push_back(after(c.sizes[axis], fmt::format("{}_dim{}", symbol_name(d.name), axis), symbols));
      outputs.push_back(ends_[i]);
      facts.push_back({c.type, shape});
    }
    {
      Inside inside(b_, *body_);
      for (size_t i = 1; i < outputs.size(); ++i)
        outputs[i] = facts[i - 1].form == onnx::Value::Form::Sequence ? as_sequence(b_, outputs[i])
                                                                      : b_.cast(outputs[i], facts[i - 1].dtype);
      outputs.insert(outputs.end(), scans.begin(), scans.end());
      b_.body_outputs(outputs);
    }
    size_t carried_count = facts.size();
    facts.insert(facts.end(), scan_facts.begin(), scan_facts.end());
    if (facts.empty()) return;
    Vector<onnx::Value*> out = b_.control("Loop", inputs, {{"body", body_}}, facts);
    Vector<Value> results;
    size_t value = 0, scan = carried_count;
    for (const Difference& d : differences) {
      const Carried& c = carried_.at(d.place);
      results.push_back(c.scanned ? collected(d, out[scan++]) : result(d, c, out[value++], symbols));
    }
    next_->apply(b_, frame_, results);
  }

  Value result(const Difference& d, const Carried& c, onnx::Value* out, std::map<int, Dim>& symbols) {
    if (!c.number) return uncarried(b_, out, d);
    if (c.number->kind == Progress::Kind::Free) {
      bool is_new = !symbols.contains(c.number->symbol);
      if (!is_new) return symbols.at(c.number->symbol);
    } else if (count_) {
      return after(*c.number, d.name, symbols);
    }
    Dim number = b_.symbol_of(out, symbol_name(d.name));
    if (c.number->kind == Progress::Kind::Free) symbols[c.number->symbol] = number;
    return number;
  }

  /// The list after the loop: what it held before, and what the iterations appended.
  Value collected(const Difference& d, onnx::Value* scanned) {
    const List& appended = *list_of(d.second);
    if (appended.items.size() > 1) {
      onnx::Shape shape(scanned->shape.begin() + 2, scanned->shape.end());
      shape.insert(shape.begin(), b_.sym.mul(scanned->shape[0], scanned->shape[1]));
      scanned = b_.reshape(scanned, shape);
    }
    auto list = std::make_shared<List>();
    list->become(chained(b_, carried(b_, d.first), scanned),
                 !appended.items.empty() && appended.items.back().is_number());
    if (!list->numbers)
      for (const List* l : {list_of(d.first), &appended}) l->link(*list->head);
    return list;
  }

  Evaluator& e_;
  onnx::Builder& b_;
  Journal::Attempt attempt_;
  const program::Stmt& s_;
  std::optional<Dim> count_;
  Frame& frame_;
  const State before_;
  Value first_condition_;
  Dim index_;  // the number of the iteration

  std::map<std::string, Carried> carried_;
  bool keep_lists_ = false;
  std::map<std::pair<const sym::Node*, const sym::Node*>, int> groups_;  // of what starts and ends an iteration alike
  int last_symbol_ = 0;

  Vector<std::shared_ptr<onnx::Graph>> bodies_;  // of all attempts: the last join has values of the one before

  // The last iteration: its head, and what is at its end.
  std::shared_ptr<onnx::Graph> body_;
  std::map<int, Dim> symbols_;
  std::unique_ptr<Join> join_, next_;
  std::unique_ptr<State> head_end_, end_;  // that the joins are of
  Vector<onnx::Value*> ends_;
  onnx::Value* condition_ = nullptr;
  onnx::Value like_;
  Dim iterations_;
};

namespace {

/// Whether a number of iterations is that of the elements of a list, as in the trace, whatever it depends on.
bool counts_elements(const program::Expr& count) {
  if (count.kind != program::Expr::Kind::Operator) return false;
  return count.name == "aten::len" || (count.name == "aten::add" && counts_elements(count.items[0]));
}

}  // namespace

void Evaluator::loop(const program::Stmt& s, Frame& frame) {
  std::optional<Dim> count;
  if (s.kind == program::Stmt::Kind::For) {
    Value n = evaluate(s.values[0], frame);
    if (n.is_poison()) throw Stop{};
    if (n.is_tensor() && n.tensor()->is_number) n = builder_.symbol_of(n.tensor()->read(builder_), "n");
    if (!n.is_int()) throw Error(Code::BadProgram, fmt::format("range of a {}", n.kind_name()));
    count = n.integer();
    if (s.recorded) {
      reporter_.iterations(n, s.pos);
      const std::optional<int64_t> sample = builder_.sym.sample(*count);
      if (sample != s.recorded && (sample || !counts_elements(s.values[0])))
        throw Error(Code::TracesDiverge,
                    fmt::format("a loop has {} iterations in the trace, and not {}", *s.recorded, count->str()));
    }
  }
  if (unroll(s, count ? count->constant() : std::nullopt, frame, options_.most_unrolled)) return;
  pos_ = s.pos;
  const State before(frame, names_of(s));
  Journal::Attempt attempt(journal_);
  try {
    Repetition(*this, s, count, frame).run();
  } catch (const Error& e) {
    // What the body needs to know may differ between iterations, such as the elements of a list.
    if (e.first().code != Code::UnsupportedControlFlow || !count || !count->is_constant()) throw;
    attempt.undo();
    before.restore(frame);
    unroll(s, count->constant(), frame, std::numeric_limits<int64_t>::max());
  }
}

// Runs the iterations one after the other; false when they are too many, or known only at run time.
bool Evaluator::unroll(const program::Stmt& s, const std::optional<int64_t>& count, Frame& frame, int64_t most) {
  if (s.kind == program::Stmt::Kind::For) {
    if (!count || *count > most) return false;
    for (int64_t i = 0; i < *count && !frame.returned; ++i) {
      step();
      frame.locals[s.targets[0]] = builder_.dim(i);
      execute(s.body, frame);
    }
    return true;
  }
  const State before(frame, names_of(s));
  Journal::Attempt attempt(journal_);
  for (int64_t i = 0; i <= most && !frame.returned; ++i) {
    Value again = evaluate(s.values[0], frame);
    if (decided_at_run_time(builder_, again)) break;
    if (!condition(again)) return true;
    step();
    execute(s.body, frame);
  }
  if (frame.returned) return true;
  attempt.undo();
  before.restore(frame);
  return false;
}

}  // namespace lithify::eval
