#include "merge/reroll.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>

#include "merge/merge.hpp"
#include "program/verify.hpp"

namespace lithify::merge {
namespace {

using program::Expr;
using program::Stmt;
using Kind = Expr::Kind;

constexpr size_t longest_body = 4096;  // statements

// ---- making expressions -------------------------------------------------------------------------------------------

Expr name_of(const std::string& name) {
  Expr out;
  out.kind = Kind::Name;
  out.name = name;
  return out;
}

Expr integer(int64_t value, program::Pos pos) {
  Expr out;
  out.kind = Kind::Int;
  out.integer = value;
  out.pos = pos;
  return out;
}

Expr operation(const char* name, std::vector<Expr> items, program::Pos pos) {
  Expr out;
  out.kind = Kind::Operator;
  out.name = name;
  out.items = std::move(items);
  out.pos = pos;
  return out;
}

Expr element(Expr list, Expr index, program::Pos pos) {
  Expr out;
  out.kind = Kind::Subscript;
  out.items = {std::move(list), std::move(index)};
  out.pos = pos;
  return out;
}

bool is_element(const Expr& e) {
  return e.kind == Kind::Subscript && e.items[0].kind == Kind::Name && e.items[1].kind == Kind::Int;
}

Stmt assignment(const std::string& name, Expr value, const Stmt& like) {
  Stmt out;
  out.kind = Stmt::Kind::Assign;
  out.pos = like.pos;
  out.scope = like.scope;
  out.targets = {name};
  out.values.push_back(std::move(value));
  return out;
}

// ---- walking ------------------------------------------------------------------------------------------------------

template <class F>
void for_each_expr(Stmt& s, F f) {
  for (Expr& e : s.values) f(e);
  for (Stmt& inner : s.body) for_each_expr(inner, f);
}

void replace_names(Expr& e, const std::unordered_map<std::string, Expr>& by) {
  if (e.kind == Kind::Name)
    if (const auto found = by.find(e.name); found != by.end()) {
      const program::Pos pos = e.pos;
      e = found->second;
      if (e.kind == Kind::Name) e.pos = pos;
      return;
    }
  for (Expr& item : e.items) replace_names(item, by);
}

/// The names that a statement sets, in order, each once.
void add_targets(const Stmt& s, std::vector<std::string>& out) {
  for (const std::string& t : s.targets)
    if (std::ranges::find(out, t) == out.end()) out.push_back(t);
  for (const Stmt& inner : s.body) add_targets(inner, out);
}

bool same_apart_from_items(const Expr& a, const Expr& b) {
  return a.kind == b.kind && a.name == b.name && a.integer == b.integer && a.integer2 == b.integer2 &&
         a.real == b.real && a.imag == b.imag && a.items.size() == b.items.size() && a.keywords == b.keywords &&
         a.type == b.type;
}

// ---- runs ---------------------------------------------------------------------------------------------------------

/// One run of groups, as a loop.
class Loop {
 public:
  /// Values that each iteration appends to a list, in the order of the statements that make them.
  struct Value {
    size_t statement = 0, target = 0;
    auto operator<=>(const Value&) const = default;
  };
  using Values = std::vector<Value>;
  using NewName = std::function<std::string(const char*)>;

  Loop(const program::Program& program, const std::vector<Stmt>& body, size_t first, size_t period, size_t count,
       NewName new_name)
      : program_(program), body_(body), first_(first), period_(period), count_(count), new_name_(std::move(new_name)) {
    for (size_t at = 0; at < period * count; ++at) {
      std::vector<std::string> targets;
      add_targets(body[first + at], targets);
      for (size_t r = 0; r < targets.size(); ++r) made_.try_emplace(targets[r], Made{at / period, at % period, r});
    }
  }

  /// The statements that stand for the run, and what stands for its values behind it. Nothing where the groups are not
  /// iterations of one loop.
  bool make() {
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

  /// Finds the size along which the iterations take elements or slices one after the other. False where they count
  /// something else, and where they are two: these may be all that the model wants.
  bool find_length() {
    if (counts_ && count_ < 3) return false;
    for (Stmt& s : inner_) for_each_expr(s, [&](Expr& e) { find_length(e); });
    if (!length_) return !counts_;
    // Positions that count down to 0 begin at the last one.
    for (Stmt& s : inner_) for_each_expr(s, [&](Expr& e) { count_from_last(e); });
    return true;
  }

  /// The value of a name behind the loop; nothing for a name that is not of the run.
  std::optional<Expr> after(const Expr& name) {
    const auto found = made_.find(name.name);
    if (found == made_.end()) return std::nullopt;
    const Made& m = found->second;
    if (m.group + 1 == count_)
      for (const Carried& c : carried_)
        if (c.made.statement == m.statement && c.made.target == m.target) return name_of(c.name);
    ++single_uses_;
    return element(name_of(list_of({{m.statement, m.target}})), integer(static_cast<int64_t>(m.group), name.pos),
                   name.pos);
  }

  bool makes(const std::string& name) const { return made_.contains(name); }
  /// How often the value of one iteration is used behind the loop, which is not the last one's of what is carried.
  size_t single_uses() const { return single_uses_; }

  /// The list that has what all iterations make of some values: of the first iteration, of the second, and so on.
  /// Nothing unless the first of these items are that; `taken` is how many then.
  std::optional<std::string> list_at(std::span<const Expr> items, size_t& taken) {
    Values values;
    while (values.size() < items.size()) {
      const Made* m = made(items[values.size()]);
      if (!m || m->group != 0) break;
      values.push_back({m->statement, m->target});
    }
    if (values.empty() || !std::ranges::is_sorted(values, std::less_equal()) || items.size() < values.size() * count_)
      return std::nullopt;
    taken = values.size() * count_;
    for (size_t i = 0; i < taken; ++i) {
      const Made* m = made(items[i]);
      if (!m || m->group != i / values.size() || Value{m->statement, m->target} != values[i % values.size()])
        return std::nullopt;
    }
    return list_of(values);
  }
  const std::map<Values, std::string>& lists() const { return lists_; }
  size_t count() const { return count_; }

  static Stmt append(const std::string& list, const std::string& value, const Stmt& like) {
    Stmt out;
    out.kind = Stmt::Kind::Evaluate;
    out.pos = like.pos;
    out.scope = like.scope;
    out.values.push_back(operation("aten::append", {name_of(list), name_of(value)},
                                   like.values.empty() ? like.pos : like.values[0].pos));
    return out;
  }

  std::vector<Stmt> statements() {
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
          if (v.statement == j) loop.body.push_back(append(list, inner_name(v.statement, v.target), loop.body.back()));
    }
    if (!carried_.empty()) {
      Stmt next = assignment("", Expr(), like);
      next.targets.clear();
      next.values.clear();
      for (const Carried& c : carried_) {
        next.targets.push_back(c.name);
        next.values.push_back(name_of(inner_name(c.made.statement, c.made.target)));
      }
      loop.body.push_back(std::move(next));
    }
    out.push_back(std::move(loop));
    return out;
  }

 private:
  struct Made {
    size_t group = 0, statement = 0, target = 0;
  };
  struct Carried {
    Made made;    ///< what an iteration leaves to the next one
    Expr before;  ///< what the first iteration takes
    std::string name;
  };

  std::string inner_name(size_t statement, size_t target) const {
    std::vector<std::string> targets;
    add_targets(body_[first_ + statement], targets);
    return targets.at(target);
  }

  const std::string& list_of(const Values& values) {
    std::string& out = lists_[values];
    if (out.empty()) out = new_name_("list");
    return out;
  }

  const Made* made(const Expr& e) const {
    const auto found = e.kind == Kind::Name ? made_.find(e.name) : made_.end();
    return found == made_.end() ? nullptr : &found->second;
  }

  /// The statement whose instances in the groups are these.
  std::optional<Stmt> common(const std::vector<const Stmt*>& all) {
    const Stmt& first = *all[0];
    Stmt out = first;
    for (const Stmt* s : all)
      if (s->kind != first.kind || s->targets.size() != first.targets.size() || s->unpack != first.unpack ||
          s->values.size() != first.values.size() || s->body.size() != first.body.size() || !s->orelse.empty())
        return std::nullopt;
    for (size_t v = 0; v < first.values.size(); ++v) {
      std::vector<const Expr*> values;
      for (const Stmt* s : all) values.push_back(&s->values[v]);
      std::optional<Expr> e = common(values);
      if (!e) return std::nullopt;
      out.values[v] = *std::move(e);
    }
    for (size_t b = 0; b < first.body.size(); ++b) {
      std::vector<const Stmt*> inner;
      for (const Stmt* s : all) inner.push_back(&s->body[b]);
      std::optional<Stmt> s = common(inner);
      if (!s) return std::nullopt;
      out.body[b] = *std::move(s);
    }
    return out;
  }

  std::optional<Expr> common(const std::vector<const Expr*>& all) {
    const Expr& first = *all[0];
    if (std::ranges::all_of(all, [](const Expr* e) { return e->kind == Kind::Name; })) return common_name(all);
    if (std::ranges::all_of(all, [](const Expr* e) { return e->kind == Kind::Int; })) return common_integer(all);
    if (std::ranges::all_of(all, [](const Expr* e) { return e->kind == Kind::Constant; })) return common_constant(all);
    for (const Expr* e : all)
      if (!same_apart_from_items(*e, first)) return std::nullopt;
    Expr out = first;
    for (size_t i = 0; i < first.items.size(); ++i) {
      std::vector<const Expr*> items;
      for (const Expr* e : all) items.push_back(&e->items[i]);
      std::optional<Expr> item = common(items);
      if (!item) return std::nullopt;
      out.items[i] = *std::move(item);
    }
    return out;
  }

  /// A number that is `start` in the first iteration, and changes by `step`.
  struct Counting {
    int64_t start = 0, step = 1;
  };

  std::optional<Counting> counting(const Expr& e) const {
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

  /// What has the sizes of a value, and is not made in the run: a slice of all elements has those of what it is of.
  const Expr* around(const Expr& e) const {
    const Made* m = made(e);
    if (!m) return e.kind == Kind::Name ? &e : nullptr;
    const Stmt& s = inner_[m->statement];
    if (s.kind != Stmt::Kind::Assign || s.values.size() != 1) return nullptr;
    const Expr& slice = s.values[0];
    const auto is = [&](size_t i, int64_t n) {
      return slice.items[i].kind == Kind::Int && slice.items[i].integer == n;
    };
    const bool all = slice.kind == Kind::Operator && slice.name == "aten::slice" && slice.items.size() >= 4 &&
                     is(2, 0) && is(3, std::numeric_limits<int64_t>::max()) && (slice.items.size() == 4 || is(4, 1));
    return all ? around(slice.items[0]) : nullptr;
  }

  void find_length(const Expr& e) {
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

  void find_length(Expr size, const std::optional<Counting>& at, program::Pos pos) {
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

  void count_from_last(Expr& e) {
    if (const std::optional<Counting> at = counting(e);
        at && at->step == -1 && at->start + 1 == static_cast<int64_t>(count_)) {
      const program::Pos pos = e.pos;
      e = operation("aten::sub", {operation("aten::sub", {*length_, integer(1, pos)}, pos), name_of(index_)}, pos);
      return;
    }
    for (Expr& item : e.items) count_from_last(item);
  }

  /// A constant that is the same in all groups, or a number that counts.
  std::optional<Expr> common_constant(const std::vector<const Expr*>& all) {
    const Expr& first = *all[0];
    if (std::ranges::all_of(all, [&](const Expr* e) { return e->integer == first.integer; })) return first;
    std::vector<Expr> numbers;
    for (const Expr* e : all) {
      const program::Data& data = program_.constants.at(static_cast<size_t>(e->integer));
      if (!data.tensor || data.tensor->dtype != DType::Int64 || !data.tensor->sizes.empty()) return std::nullopt;
      numbers.push_back(integer(integers_of(*data.tensor)[0], e->pos));
    }
    std::vector<const Expr*> pointers;
    for (const Expr& e : numbers) pointers.push_back(&e);
    std::optional<Expr> number = common_integer(pointers);
    if (!number) return std::nullopt;
    return operation("prim::NumToTensor", {*std::move(number)}, first.pos);
  }

  /// A number that is the same in all groups, or counts up or down.
  std::optional<Expr> common_integer(const std::vector<const Expr*>& all) {
    const Expr& first = *all[0];
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

  /// A value of the same group, of the one before, or of what is around the run.
  std::optional<Expr> common_name(const std::vector<const Expr*>& all) {
    const Expr& first = *all[0];
    const auto made_first = made_.find(first.name);
    const bool outside = made_first == made_.end();
    if (outside && std::ranges::all_of(all, [&](const Expr* e) { return e->name == first.name; })) return first;
    // The group that makes it, relative to the one that takes it.
    const auto made_by = [&](size_t g, size_t back, const Made& like) {
      const auto found = made_.find(all[g]->name);
      return found != made_.end() && found->second.group + back == g && found->second.statement == like.statement &&
             found->second.target == like.target;
    };
    if (!outside) {
      for (size_t g = 0; g < all.size(); ++g)
        if (!made_by(g, 0, made_first->second)) return std::nullopt;
      return first;
    }
    const auto made_second = made_.find(all[1]->name);
    if (made_second == made_.end()) return std::nullopt;
    for (size_t g = 1; g < all.size(); ++g)
      if (!made_by(g, 1, made_second->second)) return std::nullopt;
    for (const Carried& c : carried_)
      if (c.made.statement == made_second->second.statement && c.made.target == made_second->second.target &&
          c.before.name == first.name)
        return name_of(c.name);
    carried_.push_back({made_second->second, first, new_name_("carried")});
    return name_of(carried_.back().name);
  }

  const program::Program& program_;
  const std::vector<Stmt>& body_;
  size_t first_, period_, count_;
  NewName new_name_;
  std::unordered_map<std::string, Made> made_;
  std::string index_;
  std::optional<Expr> length_;  // what says how many iterations there are, where it is no number
  bool counts_ = false;         // whether a number does, from iteration to iteration
  std::vector<Carried> carried_;
  std::map<Values, std::string> lists_;  // of values that are used behind the loop
  size_t single_uses_ = 0;
  std::vector<Stmt> inner_;
};

class Reroller {
 public:
  Reroller(const program::Program& program, std::vector<Stmt> body, size_t outputs, Lengths lengths)
      : program_(program), body_(std::move(body)), outputs_(outputs), kind_of_lengths_(lengths) {
    for (const Stmt& s : body_) used_.insert(s.targets.begin(), s.targets.end());
  }

  /// Pieces of a list are elements of it, and those of a tensor that is split are slices of it: so they count.
  void index_pieces() {
    std::unordered_map<std::string, Expr> pieces;
    std::vector<Stmt> out;
    for (Stmt& s : body_) {
      for_each_expr(s, [&](Expr& e) { replace_names(e, pieces); });
      const bool unpacks = s.kind == Stmt::Kind::Assign && s.unpack && gives_list(s.values[0]);
      if (unpacks && is_split(s.values[0])) {
        for (size_t i = 0; i < s.targets.size(); ++i) pieces[s.targets[i]] = slice_of(s.values[0], i);
        continue;
      }
      if (unpacks) {
        const program::Pos pos = s.values[0].pos;
        const std::string list = new_name("pieces");
        for (size_t i = 0; i < s.targets.size(); ++i)
          pieces[s.targets[i]] = element(name_of(list), integer(static_cast<int64_t>(i), pos), pos);
        s.targets = {list};
        s.target_types.clear();
        s.unpack = s.trailing_comma = false;
      }
      out.push_back(std::move(s));
    }
    body_ = std::move(out);
  }

  /// Rerolls what it can, the runs that cover most first, and then what is inside of them.
  bool run() {
    const bool any = reroll_all(body_);
    for (Stmt& s : body_) for_each_expr(s, [&](Expr& e) { index_last(e); });
    return any;
  }

  const std::vector<Stmt>& body() const { return body_; }

 private:
  static bool gives_list(const Expr& e) {
    static const std::set<std::string_view> operators = {"unbind",           "split",        "chunk",
                                                         "split_with_sizes", "tensor_split", "unsafe_split",
                                                         "unsafe_chunk",     "hsplit",       "unsafe_split_with_sizes",
                                                         "vsplit",           "dsplit",       "split_with_sizes_copy"};
    if (e.kind != Kind::Operator || !e.name.starts_with("aten::")) return false;
    const std::string_view name = std::string_view(e.name).substr(6);
    return operators.contains(name.substr(0, name.find('.')));
  }

  /// Whether an operator splits a tensor into pieces of one known length, the last of which may be shorter.
  static bool is_split(const Expr& e) {
    return (e.name == "aten::split" || e.name == "aten::unsafe_split") && e.items.size() == 3 && e.keywords.empty() &&
           e.items[0].kind == Kind::Name && e.items[1].kind == Kind::Int && e.items[2].kind == Kind::Int;
  }

  static Expr slice_of(const Expr& split, size_t piece) {
    const int64_t length = split.items[1].integer, start = length * static_cast<int64_t>(piece);
    return operation("aten::slice",
                     {split.items[0], split.items[2], integer(start, split.pos), integer(start + length, split.pos)},
                     split.pos);
  }

  std::string new_name(const char* stem) {
    for (;; ++numbers_[stem])
      if (std::string name = fmt::format("{}{}", stem, numbers_[stem]); used_.insert(name).second) return name;
  }

  /// What a statement does, and where, apart from which values and numbers it takes.
  size_t key_of(const Stmt& s) const {
    std::string text;
    append_key(s, text);
    return std::hash<std::string>()(text);
  }

  void append_key(const Stmt& s, std::string& out) const {
    fmt::format_to(std::back_inserter(out), "{}:{}:", static_cast<int>(s.kind), s.targets.size());
    for (const Expr& e : s.values) append_key(e, out);
    if (s.scope) out += *s.scope;
    for (const Stmt& inner : s.body) append_key(inner, out);
  }

  void append_key(const Expr& e, std::string& out) const {
    if (e.kind == Kind::Name || e.kind == Kind::Int || e.kind == Kind::Constant) {
      out += e.kind == Kind::Name ? 'v' : e.kind == Kind::Int ? 'i' : 'c';
      return;
    }
    if (e.kind == Kind::Operator || e.kind == Kind::Method || e.kind == Kind::Call) {
      const Place place = program_.locate(e.pos);
      fmt::format_to(std::back_inserter(out), "@{}:{}", place.file, place.line);
    }
    fmt::format_to(std::back_inserter(out), "{}{}:{}:{}:{}(", static_cast<int>(e.kind), e.name, e.integer, e.integer2,
                   e.real);
    for (const Expr& item : e.items) append_key(item, out);
    out += ')';
  }

  /// Statements of which each is like the one that is a period behind it.
  struct Run {
    size_t first = 0, end = 0, period = 0;
    size_t covered() const { return (end - first) / period * period; }
  };

  /// The runs of a block, those that cover most first, of these the ones with the shortest groups.
  static std::vector<Run> runs_of(const std::vector<size_t>& keys) {
    constexpr size_t most_comparisons = size_t{1} << 28;
    std::vector<Run> out;
    const size_t longest = std::min(longest_body, most_comparisons / (keys.size() + 1));
    for (size_t period = 1; period <= longest && 2 * period <= keys.size(); ++period)
      for (size_t first = 0; first + 2 * period <= keys.size();) {
        size_t same = first;
        while (same + period < keys.size() && keys[same] == keys[same + period]) ++same;
        if (same - first >= period) out.push_back({first, same + period, period});
        first = same + 1;
      }
    std::ranges::stable_sort(out, std::greater(), &Run::covered);
    return out;
  }

  bool reroll_all(std::vector<Stmt>& block) {
    bool any = false;
    std::set<std::tuple<size_t, size_t, size_t>> failed;  // runs, by their ends and periods from the end of the block
    for (bool again = true; again;) {
      again = false;
      std::vector<size_t> keys;
      for (const Stmt& s : block) keys.push_back(key_of(s));
      for (const Run& run : runs_of(keys)) {
        if (!failed.insert({block.size() - run.first, block.size() - run.end, run.period}).second) continue;
        if (!reroll(block, run)) continue;
        any = again = true;
        break;
      }
    }
    return any;
  }

  /// Where the first group begins is not known by its operators. The first iteration may differ from the others.
  bool reroll(std::vector<Stmt>& block, const Run& run) {
    for (size_t first = run.first; first < run.first + 2 * run.period && first + 2 * run.period <= run.end; ++first)
      if (reroll(block, first, run.period, (run.end - first) / run.period)) return true;
    return false;
  }

  bool reroll(std::vector<Stmt>& block, size_t first, size_t period, size_t count) {
    Loop loop(program_, block, first, period, count, [&](const char* stem) { return new_name(stem); });
    if (!loop.make()) return false;
    if (kind_of_lengths_ == Lengths::Pieces && !loop.find_length()) return false;
    const size_t behind = first + period * count;
    std::vector<Stmt> rest(block.begin() + static_cast<std::ptrdiff_t>(behind), block.end());
    drop_results(loop, rest);
    for (Stmt& s : rest) for_each_expr(s, [&](Expr& e) { replace(e, loop); });
    // Two of something are no loop, where each is used for itself.
    if (count == 2 && loop.single_uses() > 0) return false;
    for (const auto& [values, list] : loop.lists())
      if (values.size() == 1) lengths_[list] = count;
    std::vector<Stmt> statements = loop.statements();
    block.resize(first);
    block.insert(block.end(), statements.begin(), statements.end());
    reroll_all(block.back().body);
    block.insert(block.end(), rest.begin(), rest.end());
    return true;
  }

  /// What is returned besides the outputs is None where an iteration makes it.
  void drop_results(const Loop& loop, std::vector<Stmt>& rest) const {
    if (rest.empty() || rest.back().kind != Stmt::Kind::Return) return;
    Expr& returned = rest.back().values[0];
    if (returned.kind != Kind::Tuple) return;
    for (size_t i = outputs_; i < returned.items.size(); ++i)
      if (Expr& e = returned.items[i]; e.kind == Kind::Name && loop.makes(e.name)) e = Expr();
  }

  /// The last element of a list counts from its end.
  void index_last(Expr& e) const {
    for (Expr& item : e.items) index_last(item);
    if (!is_element(e)) return;
    const auto length = lengths_.find(e.items[0].name);
    if (length != lengths_.end() && e.items[1].integer + 1 == static_cast<int64_t>(length->second))
      e.items[1].integer = -1;
  }

  /// Puts what the loop leaves in the place of values of the run.
  void replace(Expr& e, Loop& loop) {
    if (e.kind == Kind::Name) {
      if (std::optional<Expr> value = loop.after(e)) e = *std::move(value);
    } else if (e.kind == Kind::List) {
      replace_list(e, loop);
    } else if (is_reversed(e, loop)) {
      // Stacked from the last to the first.
      std::ranges::reverse(e.items[0].items);
      replace_list(e.items[0], loop);
      Expr axes;
      axes.kind = Kind::List;
      axes.items = {e.items[1]};
      const program::Pos pos = e.pos;
      e = operation("aten::flip", {std::move(e), std::move(axes)}, pos);
    } else {
      for (Expr& item : e.items) replace(item, loop);
    }
  }

  /// What all iterations made of a value is the list that the loop makes.
  void replace_list(Expr& e, Loop& loop) {
    std::vector<Expr> parts;
    Expr single;
    single.kind = Kind::List;
    single.pos = e.pos;
    const auto flush = [&] {
      if (!single.items.empty()) parts.push_back(single);
      single.items.clear();
    };
    for (size_t i = 0, taken = 0; i < e.items.size();) {
      if (const auto list = loop.list_at(std::span(e.items).subspan(i), taken)) {
        flush();
        parts.push_back(name_of(*list));
        i += taken;
        continue;
      }
      replace(e.items[i], loop);
      single.items.push_back(std::move(e.items[i++]));
    }
    flush();
    if (!parts.empty()) e = concatenation(std::move(parts), e.pos);
  }

  static bool is_reversed(const Expr& e, Loop& loop) {
    if (e.kind != Kind::Operator || e.name != "aten::stack" || e.items.size() != 2 || e.items[0].kind != Kind::List)
      return false;
    std::vector<Expr> items(e.items[0].items.rbegin(), e.items[0].items.rend());
    size_t taken = 0;
    return loop.list_at(items, taken) && taken == items.size();
  }

  static Expr concatenation(std::vector<Expr> parts, program::Pos pos) {
    Expr out = std::move(parts[0]);
    for (size_t i = 1; i < parts.size(); ++i)
      out = operation("aten::add.t", {std::move(out), std::move(parts[i])}, pos);
    return out;
  }

  const program::Program& program_;
  std::vector<Stmt> body_;
  size_t outputs_;
  Lengths kind_of_lengths_;
  std::unordered_map<std::string, size_t> lengths_;  // of lists that loops make
  std::set<std::string> used_;
  std::map<std::string, int> numbers_;
};

// ---- checking -----------------------------------------------------------------------------------------------------

/// The operations that statements run, one after the other, as texts: loops unrolled, numbers computed, lists taken
/// apart, values called by the operation that makes them.
class Operations {
 public:
  Operations(const program::Program& program, const std::vector<Stmt>& body) : program_(program) { run(body); }
  std::vector<std::string> all;

 private:
  struct Value {
    std::string text;
    std::optional<int64_t> number;
    std::shared_ptr<std::vector<Value>> list;
    std::string str() const {
      if (number) return std::to_string(*number);
      if (!list) return text;
      std::string out = "[";
      for (const Value& v : *list) out += v.str() + ",";
      return out + "]";
    }
  };

  void run(const std::vector<Stmt>& body) {
    for (const Stmt& s : body) run(s);
  }

  void run(const Stmt& s) {
    if (s.kind == Stmt::Kind::For) {
      const int64_t count = s.recorded.value();
      counts_[s.targets[0]] = count;
      for (int64_t i = 0; i < count; ++i) {
        names_[s.targets[0]] = {"", i, nullptr};
        run(s.body);
      }
      return;
    }
    std::vector<Value> values;
    for (const Expr& e : s.values) values.push_back(value(e));
    if (s.kind == Stmt::Kind::Evaluate && values[0].text == "appended") return;
    if (s.kind == Stmt::Kind::Assign && !s.unpack) {
      for (size_t i = 0; i < s.targets.size(); ++i) names_[s.targets[i]] = values[i];
      return;
    }
    std::string text = std::to_string(static_cast<int>(s.kind));
    for (const Value& v : values) text += v.str();
    all.push_back(std::move(text));
    for (size_t i = 0; i < s.targets.size(); ++i)
      names_[s.targets[i]] = {fmt::format("%{}.{}", all.size(), i), {}, nullptr};
  }

  Value value(const Expr& e) {
    if (e.kind == Kind::Name) {
      const auto found = names_.find(e.name);
      return found == names_.end() ? Value{e.name, {}, nullptr} : found->second;
    }
    if (e.kind == Kind::Int) return {"", e.integer, nullptr};
    if (e.kind == Kind::Annotate) return value(e.items[0]);
    if (e.kind == Kind::Constant)
      if (const program::Data& data = program_.constants.at(static_cast<size_t>(e.integer));
          data.tensor && data.tensor->dtype == DType::Int64 && data.tensor->sizes.empty())
        return tensor_of(integers_of(*data.tensor)[0]);
    const auto is_nested = [&](const char* outer, const char* inner) {
      return e.kind == Kind::Operator && e.name == outer && e.items.size() == 2 && e.items[0].kind == Kind::Operator &&
             e.items[0].name == inner;
    };
    if (is_nested("aten::sub", "aten::sub") && counts_.contains(e.items[1].name)) {
      // A position that counts down from the last one.
      const std::string& index = e.items[1].name;
      return {"", counts_.at(index) - 1 - names_.at(index).number.value(), nullptr};
    }
    if (is_nested("aten::flip", "aten::stack")) {
      // A list that is stacked from its end.
      const Expr& stack = e.items[0];
      Value list = value(stack.items[0]);
      list.list = std::make_shared<std::vector<Value>>(list.list->rbegin(), list.list->rend());
      return result(stack, {std::move(list), value(stack.items[1])});
    }
    std::vector<Value> items;
    for (const Expr& item : e.items) items.push_back(value(item));
    return result(e, std::move(items));
  }

  Value result(const Expr& e, std::vector<Value> items) {
    if (e.kind == Kind::List) return {"", {}, std::make_shared<std::vector<Value>>(std::move(items))};
    if (e.kind == Kind::Subscript && items[0].list && items[1].number) {
      const std::vector<Value>& list = *items[0].list;
      const int64_t at = *items[1].number;
      return list.at(static_cast<size_t>(at < 0 ? at + static_cast<int64_t>(list.size()) : at));
    }
    if (e.kind == Kind::Operator)
      if (std::optional<Value> known = computed(e, items)) return *std::move(known);
    std::string text = fmt::format("{}{}:{}:{}:{}(", static_cast<int>(e.kind), e.name, e.integer, e.integer2, e.real);
    for (const Value& v : items) text += v.str() + ",";
    for (const std::string& keyword : e.keywords) text += keyword;
    text += ")";
    const bool is_operation = e.kind == Kind::Operator || e.kind == Kind::Method || e.kind == Kind::Call;
    if (!is_operation) return {std::move(text), {}, nullptr};
    all.push_back(std::move(text));
    return {fmt::format("%{}", all.size()), {}, nullptr};
  }

  static Value tensor_of(int64_t number) { return {fmt::format("tensor({})", number), {}, nullptr}; }

  /// What rerolling added: numbers of iterations, and lists of what they make.
  static std::optional<Value> computed(const Expr& e, std::vector<Value>& items) {
    const bool numbers = items.size() == 2 && items[0].number && items[1].number;
    if (numbers && e.name == "aten::add") return Value{"", *items[0].number + *items[1].number, nullptr};
    if (numbers && e.name == "aten::mul") return Value{"", *items[0].number * *items[1].number, nullptr};
    if (e.name == "prim::NumToTensor" && items[0].number) return tensor_of(*items[0].number);
    if (items.empty() || !items[0].list) return std::nullopt;
    std::vector<Value>& list = *items[0].list;
    if (e.name == "aten::append") {
      list.push_back(items[1]);
      return Value{"appended", {}, nullptr};
    }
    if (e.name == "aten::add.t") {
      auto both = std::make_shared<std::vector<Value>>(list);
      both->insert(both->end(), items[1].list->begin(), items[1].list->end());
      return Value{"", {}, std::move(both)};
    }
    return std::nullopt;
  }

  const program::Program& program_;
  std::unordered_map<std::string, Value> names_;
  std::unordered_map<std::string, int64_t> counts_;  // of the loops, by the names of their indices
};

/// Leaves of the methods those that forward still calls, by name: the others are part of it now.
void leave_called(program::Program& p) {
  std::set<std::string> called = {"forward"};
  const std::function<void(const Expr&)> visit = [&](const Expr& e) {
    if (e.kind == Kind::Method) called.insert(e.name);
    for (const Expr& item : e.items) visit(item);
  };
  const program::Function& forward = p.forward();
  std::vector<Stmt> body = forward.body;
  for (Stmt& s : body) for_each_expr(s, visit);
  for (auto& [name, c] : p.classes)
    std::erase_if(c.methods, [&](const program::Function& f) {
      return !called.contains(f.name) || (called.size() == 1 && &f != &forward);
    });
}

}  // namespace

std::unique_ptr<program::Program> rerolled(const program::Program& trace, size_t other_results, Lengths lengths) {
  const program::Type& returns = trace.forward().returns;
  const size_t results = returns.name == "Tuple" ? returns.args.size() : 1;
  const Recording whole{&trace, results, {}};
  std::unique_ptr<program::Program> out;
  try {
    out = merge(std::span(&whole, 1)).program;
  } catch (const Error& e) {
    if (e.first().code != Code::TracesDiverge) throw;
    return nullptr;
  }
  program::Class& root = out->classes.at(out->root->class_name);
  program::Function& forward = *std::ranges::find(root.methods, "forward", &program::Function::name);
  Reroller reroller(*out, std::move(forward.body), results - std::min(results, other_results), lengths);
  reroller.index_pieces();
  const std::vector<std::string> before = Operations(*out, reroller.body()).all;
  if (!reroller.run()) return nullptr;
  forward.body = reroller.body();
  leave_called(*out);
  // Results that were dropped are no operations.
  std::vector<std::string> after = Operations(*out, forward.body).all, expected = before;
  after.pop_back(), expected.pop_back();
  if (after != expected) throw Error(Code::Internal, "a loop does not give what it was made of");
  program::verify(*out);
  return out;
}

}  // namespace lithify::merge
