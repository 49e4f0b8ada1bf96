#include "merge/loop.hpp"

#include <algorithm>
#include <limits>
#include <ranges>

#include "merge/expressions.hpp"

namespace lithify::merge {

using program::Expr;
using program::Stmt;
using Kind = Expr::Kind;

Loop::Loop(const program::Program& program, const std::vector<Stmt>& body, size_t first, size_t period, size_t count,
           NewName new_name)
    : program_(program), body_(body), first_(first), period_(period), count_(count), new_name_(std::move(new_name)) {
  for (size_t at = 0; at < period * count; ++at) {
    std::vector<std::string> targets;
    add_targets(body[first + at], targets);
    for (size_t r = 0; r < targets.size(); ++r) made_.try_emplace(targets[r], Made{at / period, {at % period, r}});
  }
}

bool Loop::make() {
  index_ = new_name_("i");
  for (size_t j = 0; j < period_; ++j) {
    std::vector<const Stmt*> all;
    for (size_t g = 0; g < count_; ++g) all.push_back(&body_[first_ + g * period_ + j]);
    std::optional<Stmt> s = common(all);
    if (!s) return false;
    inner_.push_back(*std::move(s));
  }
  return counts_ || !carried_.empty();
}

bool Loop::find_length() {
  for (Stmt& s : inner_) for_each_expr(s, [&](Expr& e) { find_length(e); });
  if (!length_) return false;
  count_from_last();
  return true;
}

void Loop::find_taken() {
  for (Stmt& s : inner_) for_each_expr(s, [&](Expr& e) { find_taken(e); });
}

void Loop::find_taken(const Expr& e) {
  for (const Expr& item : e.items) find_taken(item);
  const Expr* of = takes_position(e) ? around(e.items[0]) : nullptr;
  for (size_t i = 2; of && i < e.items.size(); ++i) {
    const std::optional<Counting> at = counting(e.items[i]);
    if (!at) continue;
    Expr next = operation("aten::mul", {*length_, integer(at->step, e.pos)}, e.pos);
    next = operation("aten::add", {std::move(next), integer(at->start, e.pos)}, e.pos);
    taken_.push_back({e.name, of->name, e.items[1].integer, i, at->start + at->step * static_cast<int64_t>(count_),
                      std::move(next)});
  }
}

bool Loop::is_position(const Expr& e, const Expr& of, size_t operand, const Position& p) {
  return takes_position(e) && e.name == p.operation && of.name == p.value && e.items[1].integer == p.axis &&
         operand == p.operand && e.items[operand].kind == Kind::Int && e.items[operand].integer == p.index;
}

bool Loop::is_next(const Expr& e, const Expr& of, size_t operand) const {
  if (!length_ || length_->name != "aten::size" || !takes_position(e) || operand != 2) return false;
  return of.name == length_->items[0].name && e.items[1].integer == length_->items[1].integer &&
         e.items[2].kind == Kind::Int && e.items[2].integer == static_cast<int64_t>(count_);
}

bool Loop::takes_position(const Expr& e) {
  return e.kind == Kind::Operator && e.items.size() > 2 && e.items[1].kind == Kind::Int &&
         (e.name == "aten::select" || e.name == "aten::slice");
}

std::vector<Loop::Position> Loop::leave_last() {
  length_ = operation("aten::sub", {*length_, integer(1, length_->pos)}, length_->pos);
  find_taken();
  return taken_;
}

void Loop::find_list(const std::unordered_map<std::string, size_t>& lengths) {
  for (Stmt& s : inner_) for_each_expr(s, [&](Expr& e) { find_list(e, lengths); });
  if (length_) count_from_last();
}

std::optional<Expr> Loop::after(const Expr& name) {
  const Made* m = made(name);
  if (!m) return std::nullopt;
  // Where those before are elements of a list, so is the last: what is behind may take one after the other.
  if (m->group + 1 == count_ && !lists_.contains({m->value}))
    for (const Carried& c : carried_)
      if (c.made == m->value) return name_of(c.name);
  ++single_uses_;
  return element(name_of(list_of({m->value})), integer(static_cast<int64_t>(m->group), name.pos), name.pos);
}

std::optional<std::string> Loop::list_at(std::span<const Expr> items, size_t& taken) {
  Values values;
  while (values.size() < items.size()) {
    const Made* m = made(items[values.size()]);
    if (!m || m->group != 0) break;
    values.push_back(m->value);
  }
  if (values.empty() || !std::ranges::is_sorted(values, std::less_equal()) || items.size() < values.size() * count_)
    return std::nullopt;
  taken = values.size() * count_;
  for (size_t i = 0; i < taken; ++i) {
    const Made* m = made(items[i]);
    if (!m || m->group != i / values.size() || m->value != values[i % values.size()]) return std::nullopt;
  }
  return list_of(values);
}

Stmt Loop::append(const std::string& list, const std::string& value, const Stmt& like) {
  Stmt out;
  out.kind = Stmt::Kind::Evaluate;
  out.pos = like.pos;
  out.scope = like.scope;
  out.values.push_back(
      operation("aten::append", {name_of(list), name_of(value)}, like.values.empty() ? like.pos : like.values[0].pos));
  return out;
}

std::vector<Stmt> Loop::statements() {
  const Stmt& like = body_[first_];
  std::vector<Stmt> out;
  for (const Carried& c : carried_) out.push_back(assignment(c.name, c.before, like));
  for (const auto& [key, list] : lists_) {
    Expr empty;
    empty.kind = Kind::List;
    Expr annotated;
    annotated.kind = Kind::Annotate;
    annotated.type = {"List", {{"Tensor", {}}}};
    annotated.items.push_back(std::move(empty));
    out.push_back(assignment(list, std::move(annotated), like));
  }
  Stmt loop;
  loop.kind = Stmt::Kind::For;
  loop.pos = like.pos;
  loop.scope = like.scope;
  loop.targets = {index_};
  const auto count = static_cast<int64_t>(count_);
  loop.values.push_back(length_ ? *length_ : integer(count, like.values.empty() ? like.pos : like.values[0].pos));
  loop.recorded = count;
  for (size_t j = 0; j < period_; ++j) {
    loop.body.push_back(std::move(inner_[j]));
    for (const auto& [values, list] : lists_)
      for (const Value& v : values)
        if (v.statement == j) loop.body.push_back(append(list, inner_name(v), loop.body.back()));
  }
  if (!carried_.empty()) {
    Stmt next = assignment("", Expr(), like);
    next.targets.clear();
    next.values.clear();
    for (const Carried& c : carried_) {
      next.targets.push_back(c.name);
      next.values.push_back(name_of(inner_name(c.made)));
    }
    loop.body.push_back(std::move(next));
  }
  out.push_back(std::move(loop));
  return out;
}

std::string Loop::inner_name(const Value& value) const {
  std::vector<std::string> targets;
  add_targets(body_[first_ + value.statement], targets);
  return targets.at(value.target);
}

const std::string& Loop::list_of(const Values& values) {
  std::string& out = lists_[values];
  if (out.empty()) out = new_name_("list");
  return out;
}

const Loop::Made* Loop::made(const Expr& e) const {
  const auto found = e.kind == Kind::Name ? made_.find(e.name) : made_.end();
  return found == made_.end() ? nullptr : &found->second;
}

template <class Whole, class Part>
bool Loop::common(const std::vector<const Whole*>& all, std::vector<Part> Whole::*member, Whole& out) {
  for (size_t i = 0; i < (out.*member).size(); ++i) {
    std::vector<const Part*> parts;
    for (const Whole* whole : all) parts.push_back(&(whole->*member)[i]);
    std::optional<Part> part = common(parts);
    if (!part) return false;
    (out.*member)[i] = *std::move(part);
  }
  return true;
}

std::optional<Stmt> Loop::common(const std::vector<const Stmt*>& all) {
  const Stmt& first = *all[0];
  Stmt out = first;
  for (const Stmt* s : all)
    if (s->kind != first.kind || s->targets.size() != first.targets.size() || s->unpack != first.unpack ||
        s->values.size() != first.values.size() || s->body.size() != first.body.size() || !s->orelse.empty())
      return std::nullopt;
  if (!common(all, &Stmt::values, out) || !common(all, &Stmt::body, out)) return std::nullopt;
  return out;
}

std::optional<Expr> Loop::common(const std::vector<const Expr*>& all) {
  const Expr& first = *all[0];
  const auto is_name = [](const Expr* e) { return e->kind == Kind::Name; };
  if (std::all_of(all.begin() + 1, all.end(), is_name) && (is_name(&first) || is_element(first)))
    return common_name(all);
  if (std::ranges::all_of(all, [](const Expr* e) { return e->kind == Kind::Int; })) return common_integer(all);
  if (std::ranges::all_of(all, [](const Expr* e) { return e->kind == Kind::Constant; })) return common_constant(all);
  for (const Expr* e : all)
    if (!same_apart_from_items(*e, first)) return std::nullopt;
  Expr out = first;
  if (!common(all, &Expr::items, out)) return std::nullopt;
  return out;
}

std::optional<Loop::Counting> Loop::counting(const Expr& e) const {
  if (e.kind == Kind::Name && e.name == index_) return Counting{};
  if (e.kind != Kind::Operator || e.items.size() != 2 || e.items[1].kind != Kind::Int) return std::nullopt;
  if (e.name != "aten::add" && e.name != "aten::mul") return std::nullopt;
  std::optional<Counting> inner = counting(e.items[0]);
  if (!inner) return std::nullopt;
  if (e.name == "aten::add")
    inner->start += e.items[1].integer;
  else
    inner->start *= e.items[1].integer, inner->step *= e.items[1].integer;
  return inner;
}

const Expr* Loop::around(const Expr& e) const {
  const Made* m = made(e);
  if (!m) return e.kind == Kind::Name ? &e : nullptr;
  const Stmt& s = inner_[m->value.statement];
  if (s.kind != Stmt::Kind::Assign || s.values.size() != 1) return nullptr;
  return is_slice_of_all(s.values[0]) ? around(s.values[0].items[0]) : nullptr;
}

void Loop::find_length(const Expr& e) {
  for (const Expr& item : e.items) find_length(item);
  if (length_) return;
  const Expr* of = e.items.empty() ? nullptr : around(e.items[0]);
  if (!of) return;
  const bool is_operator = e.kind == Kind::Operator && e.items.size() > 2 && e.items[1].kind == Kind::Int;
  if (is_operator && e.name == "aten::select" && e.items.size() == 3) {
    find_length(operation("aten::size", {*of, e.items[1]}, e.pos), counting(e.items[2]), e.pos);
  } else if (is_operator && e.name == "aten::slice" && e.items.size() >= 4) {
    // Slices that follow one another.
    const std::optional<Counting> from = counting(e.items[2]), to = counting(e.items[3]);
    if (from && to && from->step == to->step && from->start + from->step == to->start)
      find_length(operation("aten::size", {*of, e.items[1]}, e.pos), from, e.pos);
  } else if (e.kind == Kind::Subscript) {
    find_length(operation("aten::len", {*of}, e.pos), counting(e.items[1]), e.pos);
  }
}

void Loop::find_length(Expr size, const std::optional<Counting>& at, program::Pos pos) {
  if (!at) return;
  const auto plus = [&](Expr e, int64_t n) {
    return n == 0 ? std::move(e) : operation("aten::add", {std::move(e), integer(n, pos)}, pos);
  };
  if (at->step == -1 && at->start + 1 == static_cast<int64_t>(count_)) {
    length_ = std::move(size);
  } else if (at->step == 1 && at->start >= 0) {
    length_ = plus(std::move(size), -at->start);
  } else if (at->step > 1 && at->start >= 0) {
    length_ =
        operation("aten::floordiv", {plus(std::move(size), at->step - 1 - at->start), integer(at->step, pos)}, pos);
  }
}

void Loop::find_list(const Expr& e, const std::unordered_map<std::string, size_t>& lengths) {
  for (const Expr& item : e.items) find_list(item, lengths);
  if (length_ || e.kind != Kind::Subscript || e.items[0].kind != Kind::Name) return;
  const auto length = lengths.find(e.items[0].name);
  const std::optional<Counting> at = counting(e.items[1]);
  if (length == lengths.end() || !at) return;
  const auto last = static_cast<int64_t>(length->second) - 1, steps = static_cast<int64_t>(count_) - 1;
  const bool is_up = at->step == 1 && at->start >= 0 && at->start + steps == last;
  const bool is_down = at->step == -1 && at->start == last && steps == last;
  if (is_up || is_down) find_length(operation("aten::len", {e.items[0]}, e.pos), at, e.pos);
}

/// Positions that count down to 0 begin at the last one.
void Loop::count_from_last() {
  for (Stmt& s : inner_) for_each_expr(s, [&](Expr& e) { count_from_last(e); });
}

void Loop::count_from_last(Expr& e) {
  if (const std::optional<Counting> at = counting(e);
      at && at->step == -1 && at->start + 1 == static_cast<int64_t>(count_)) {
    const program::Pos pos = e.pos;
    e = operation("aten::sub", {operation("aten::sub", {*length_, integer(1, pos)}, pos), name_of(index_)}, pos);
    return;
  }
  for (Expr& item : e.items) count_from_last(item);
}

std::optional<Expr> Loop::common_constant(const std::vector<const Expr*>& all) {
  const Expr& first = *all[0];
  if (std::ranges::all_of(all, [&](const Expr* e) { return e->integer == first.integer; })) return first;
  std::vector<Expr> numbers;
  for (const Expr* e : all) {
    const std::optional<int64_t> number = number_of(program_, *e);
    if (!number) return std::nullopt;
    numbers.push_back(integer(*number, e->pos));
  }
  std::vector<const Expr*> pointers;
  for (const Expr& e : numbers) pointers.push_back(&e);
  std::optional<Expr> number = common_integer(pointers);
  if (!number) return std::nullopt;
  return operation("prim::NumToTensor", {*std::move(number)}, first.pos);
}

std::optional<Expr> Loop::common_integer(const std::vector<const Expr*>& all) {
  const Expr& first = *all[0];
  const auto is_end = [](const Expr* e) { return e->integer == std::numeric_limits<int64_t>::max(); };
  if (std::ranges::any_of(all, is_end))  // of a slice: it does not count
    return std::ranges::all_of(all, is_end) ? std::optional(first) : std::nullopt;
  const int64_t step = all[1]->integer - first.integer;
  for (size_t g = 1; g < all.size(); ++g)
    if (all[g]->integer - all[g - 1]->integer != step) return std::nullopt;
  if (step == 0) return first;
  counts_ = true;
  Expr out = name_of(index_);
  out.pos = first.pos;
  if (step != 1) out = operation("aten::mul", {std::move(out), integer(step, first.pos)}, first.pos);
  if (first.integer != 0) out = operation("aten::add", {std::move(out), first}, first.pos);
  return out;
}

std::optional<Expr> Loop::common_name(const std::vector<const Expr*>& all) {
  const Expr& first = *all[0];
  // Whether each group from `from` on takes what the group so many before it makes of a value.
  const auto made_by = [&](size_t from, size_t back, const Value& value) {
    for (size_t g = from; g < all.size(); ++g) {
      const Made* m = made(*all[g]);
      if (!m || m->group + back != g || m->value != value) return false;
    }
    return true;
  };
  if (const Made* m = made(first)) return made_by(0, 0, m->value) ? std::optional(first) : std::nullopt;
  if (first.kind == Kind::Name && std::ranges::all_of(all, [&](const Expr* e) { return e->name == first.name; }))
    return first;
  const Made* second = made(*all[1]);
  if (!second || !made_by(1, 1, second->value)) return std::nullopt;
  for (const Carried& c : carried_)
    if (c.made == second->value && same(c.before, first)) return name_of(c.name);
  carried_.push_back({second->value, first, new_name_("carried")});
  return name_of(carried_.back().name);
}

}  // namespace lithify::merge
