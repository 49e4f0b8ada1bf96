#include "merge/reroll.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "merge/expressions.hpp"
#include "merge/loop.hpp"
#include "merge/merge.hpp"
#include "merge/numbers.hpp"
#include "merge/operators.hpp"
#include "merge/unrolled.hpp"
#include "program/verify.hpp"

namespace lithify::merge {
namespace {

using program::Expr;
using program::Stmt;
using Kind = Expr::Kind;

constexpr size_t longest_body = 4096;                // statements
constexpr size_t most_statements = size_t{1} << 23;  // that are looked at, in all groups that are tried

/// Statements, by what they are.
using Keys = std::unordered_set<size_t>;
using Counts = std::unordered_map<size_t, size_t>;

class Reroller {
 public:
  Reroller(const program::Program& program, std::vector<Stmt> body, const OtherResults& other, Lengths lengths)
      : program_(program), body_(std::move(body)), other_(other), kind_of_lengths_(lengths) {
    share_numbers(body_);
    for (const Stmt& s : body_) used_.insert(s.targets.begin(), s.targets.end());
    drop_unneeded();
  }

  /// Pieces of a list are elements of it, and those of a tensor that is split are slices of it: so they count.
  void index_pieces() {
    inline_lists();
    std::unordered_map<std::string, Expr> pieces;
    std::vector<Stmt> out;
    for (Stmt& s : body_) {
      for_each_expr(s, [&](Expr& e) { replace_names(e, pieces); });
      const bool unpacks = s.kind == Stmt::Kind::Assign && s.unpack && gives_list(s.values[0]);
      const bool evenly = unpacks && kind_of_lengths_ == Lengths::Pairs && split_evenly(s.values[0]);
      if (unpacks && !evenly && is_split(s.values[0])) {
        for (size_t i = 0; i < s.targets.size(); ++i) pieces[s.targets[i]] = slice_of(s.values[0], i);
        continue;
      }
      if (unpacks && is_split_by_values(s)) {
        split_by_values(s, pieces, out);
        continue;
      }
      if (unpacks) {
        const program::Pos pos = s.values[0].pos;
        const std::string list = new_name("pieces");
        for (size_t i = 0; i < s.targets.size(); ++i)
          pieces[s.targets[i]] = element(name_of(list), integer(static_cast<int64_t>(i), pos), pos);
        pieces_[list] = s.targets.size();
        s.targets = {list};
        s.target_types.clear();
        s.unpack = s.trailing_comma = false;
      }
      out.push_back(std::move(s));
    }
    body_ = std::move(out);
    take_whole_lists();
  }

  /// How often there is a statement like it.
  Counts counts() const {
    Counts out;
    for (const Stmt& s : body_) ++out[key_of(s)];
    return out;
  }

  /// Rerolls what it can, the runs that cover most first, and then what is inside of them. `fixed` are statements that
  /// no loop has, where other traces show them.
  bool run(const std::optional<Keys>& fixed) {
    fixed_ = fixed;
    const bool any = reroll_all(body_);
    drop_results_of_elements();
    for (Stmt& s : body_) for_each_expr(s, [&](Expr& e) { index_last(e); });
    return any || !whole_.empty();
  }

  const std::vector<Stmt>& body() const { return body_; }

  /// Statements in which what is behind a loop takes positions by its number of iterations, where it goes on with them.
  std::vector<Stmt> with_last_positions() const {
    std::vector<Stmt> out = body_;
    for_each_position(out, [&](Expr& e, const Expr& of, size_t i) {
      for (const Loop::Position& p : last_)
        if (Loop::is_position(e, of, i, p)) e.items[i] = p.next;
    });
    return out;
  }

 private:
  /// A list of pieces that has a name, and is only unpacked, stands where that is; so does a list of values that only
  /// the operator behind it takes.
  void inline_lists() {
    std::unordered_map<std::string, size_t> uses;
    const std::function<void(const Expr&)> count = [&](const Expr& e) {
      if (e.kind == Kind::Name) ++uses[e.name];
      for (const Expr& item : e.items) count(item);
    };
    for (const Stmt& s : body_) for_each_expr(s, count);
    std::vector<Stmt> out;
    const auto is_named = [&](const Expr& e) {
      return e.kind == Kind::Name && uses[e.name] == 1 && !out.empty() && out.back().kind == Stmt::Kind::Assign &&
             !out.back().unpack && out.back().targets == std::vector{e.name};
    };
    const auto put = [&](Expr& name) {
      name = std::move(out.back().values[0]);
      out.pop_back();
    };
    for (Stmt& s : body_) {
      if (s.kind == Stmt::Kind::Assign) {
        Expr& e = s.values[0];
        if (s.unpack && is_named(e) && gives_list(out.back().values[0])) put(e);
        if (e.kind == Kind::Operator)
          for (Expr& item : e.items)
            if (is_named(item) && out.back().values[0].kind == Kind::List) put(item);
      }
      out.push_back(std::move(s));
    }
    body_ = std::move(out);
  }

  /// All pieces, one after the other, are the list of them.
  void take_whole_lists() {
    for (Stmt& s : body_) for_each_expr(s, [&](Expr& e) { take_whole_list(e); });
    for (Stmt& s : body_)
      if (s.targets.size() == 1 && whole_.contains(s.targets[0]))
        s.recorded = static_cast<int64_t>(pieces_.at(s.targets[0]));
  }

  void take_whole_list(Expr& e) {
    for (Expr& item : e.items) take_whole_list(item);
    if (e.kind != Kind::List || e.items.empty() || !is_element(e.items[0])) return;
    const std::string& list = e.items[0].items[0].name;
    const auto length = pieces_.find(list);
    // Two may be all that the model wants.
    if (length == pieces_.end() || length->second != e.items.size() ||
        (kind_of_lengths_ != Lengths::Numbers && length->second < 3))
      return;
    for (size_t i = 0; i < e.items.size(); ++i)
      if (!same(e.items[i], element(name_of(list), integer(static_cast<int64_t>(i), e.items[i].pos), e.items[i].pos)))
        return;
    whole_.insert(list);
    e = name_of(list);
  }

  /// Whether an operator splits a tensor into pieces of one known length, the last of which may be shorter.
  static bool is_split(const Expr& e) {
    return (e.name == "aten::split" || e.name == "aten::unsafe_split") && e.items.size() == 3 && e.keywords.empty() &&
           is_value(e.items[0]) && e.items[1].kind == Kind::Int && e.items[2].kind == Kind::Int;
  }

  /// Pieces of a tensor whose lengths are all the same number are the rows of it, where it is seen as rows of that
  /// many.
  static bool split_evenly(Expr& e) {
    if ((e.name != "aten::split_with_sizes" && e.name != "aten::unsafe_split_with_sizes") || !e.keywords.empty())
      return false;
    if (e.items.size() < 2 || !is_value(e.items[0]) || e.items[1].kind != Kind::List || e.items[1].items.size() < 2)
      return false;
    const std::vector<Expr>& lengths = e.items[1].items;
    const auto is_same = [&](const Expr& n) { return n.kind == Kind::Int && n.integer == lengths[0].integer; };
    if (!std::ranges::all_of(lengths, is_same) || lengths[0].integer < 1) return false;
    const Expr axis = e.items.size() > 2 ? e.items[2] : integer(0, e.pos);
    Expr sizes;
    sizes.kind = Kind::List;
    sizes.pos = e.pos;
    sizes.items = {integer(-1, e.pos), lengths[0]};
    e = operation("aten::unbind", {operation("aten::unflatten", {e.items[0], axis, std::move(sizes)}, e.pos), axis},
                  e.pos);
    return true;
  }

  static Expr slice_of(const Expr& split, size_t piece) {
    const int64_t length = split.items[1].integer, start = length * static_cast<int64_t>(piece);
    return operation("aten::slice",
                     {split.items[0], split.items[2], integer(start, split.pos), integer(start + length, split.pos)},
                     split.pos);
  }

  static bool is_value(const Expr& e) { return e.kind == Kind::Name || is_element(e); }

  /// Whether an operator splits a tensor into pieces whose lengths are values.
  static bool is_split_by_values(const Stmt& s) {
    const Expr& e = s.values[0];
    const bool splits =
        e.name == "aten::split_with_sizes" || e.name == "aten::unsafe_split_with_sizes" || e.name == "aten::split";
    return splits && e.items.size() >= 2 && e.keywords.empty() && is_value(e.items[0]) &&
           e.items[1].kind == Kind::List && e.items[1].items.size() == s.targets.size() &&
           std::ranges::all_of(e.items[1].items, is_value);
  }

  /// Each piece is the slice before the sum of all lengths so far.
  void split_by_values(const Stmt& s, std::unordered_map<std::string, Expr>& pieces, std::vector<Stmt>& out) {
    const Expr& split = s.values[0];
    const Expr axis = split.items.size() > 2 ? split.items[2] : integer(0, split.pos);
    std::string end = new_name("end");
    out.push_back(assignment(end, integer(0, split.pos), s));
    for (size_t i = 0; i < s.targets.size(); ++i) {
      const Expr& length = split.items[1].items[i];
      Expr sum = operation("aten::add", {name_of(end), length}, split.pos);
      end = new_name("end");
      out.push_back(assignment(end, std::move(sum), s));
      Expr start = operation("aten::sub", {name_of(end), length}, split.pos);
      pieces[s.targets[i]] =
          operation("aten::slice", {split.items[0], axis, std::move(start), name_of(end)}, split.pos);
    }
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
    const bool is_name = e.kind == Kind::Name || is_element(e);
    if (is_name || e.kind == Kind::Int || e.kind == Kind::Constant) {
      out += is_name ? 'v' : e.kind == Kind::Int ? 'i' : 'c';
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
  std::vector<Run> runs_of(const std::vector<size_t>& keys) const {
    constexpr size_t most_comparisons = size_t{1} << 28;
    std::vector<Run> out;
    const size_t longest = std::min(longest_body, most_comparisons / (keys.size() + 1));
    for (size_t period = 1; period <= longest && 2 * period <= keys.size(); ++period)
      for (size_t first = 0; first + 2 * period <= keys.size();) {
        size_t same = first;
        while (same + period < keys.size() && keys[same] == keys[same + period] && !is_fixed(keys[same])) ++same;
        if (same - first >= period) out.push_back({first, same + period, period});
        first = same + 1;
      }
    std::ranges::stable_sort(out, std::greater(), &Run::covered);
    return out;
  }

  bool is_fixed(size_t key) const { return fixed_ && fixed_->contains(key); }

  bool reroll_all(std::vector<Stmt>& block) {
    bool any = false;
    std::set<std::tuple<size_t, size_t, size_t>> failed;  // runs, by their ends and periods from the end of the block
    for (bool again = true; again;) {
      again = false;
      std::vector<size_t> keys;
      for (const Stmt& s : block) keys.push_back(key_of(s));
      for (const Run& run : runs_of(keys)) {
        if (!failed.insert({block.size() - run.first, block.size() - run.end, run.period}).second) continue;
        const size_t behind = block.size() - run.end;
        if (!reroll(block, run)) continue;
        any = again = true;
        // What is behind may take elements of lists now.
        std::erase_if(failed, [&](const auto& other) { return std::get<0>(other) <= behind; });
        break;
      }
    }
    return any;
  }

  /// Calls f with each operator outside of loops that takes positions, what it takes them of, and the operand.
  template <class Statements, class F>
  static void for_each_position(Statements& statements, F f) {
    std::unordered_map<std::string, const Expr*> values;
    const auto value_of = [&](const Expr& name) {
      const auto found = values.find(name.name);
      return found == values.end() ? nullptr : found->second;
    };
    const auto visit = [&](const auto& self, auto& e) -> void {
      for (auto& item : e.items) self(self, item);
      for (size_t i = 2; Loop::takes_position(e) && i < e.items.size(); ++i) f(e, whole_of(e.items[0], value_of), i);
    };
    for (auto& s : statements) {
      if (s.kind == Stmt::Kind::For) continue;
      for (auto& e : s.values) visit(visit, e);
      if (s.kind == Stmt::Kind::Assign && !s.unpack && s.targets.size() == 1) values[s.targets[0]] = &s.values[0];
    }
  }

  /// Whether what is behind a loop takes the next of the positions that say how many iterations there are.
  static bool leaves_last(const Loop& loop, const std::vector<Stmt>& rest) {
    bool out = false;
    for_each_position(rest, [&](const Expr& e, const Expr& of, size_t i) { out = out || loop.is_next(e, of, i); });
    return out;
  }

  /// Where the first group begins is not known by its operators. The first iteration may differ from the others.
  bool reroll(std::vector<Stmt>& block, const Run& run) {
    // An iteration that begins in the middle of one leaves more to the next.
    const size_t last = run.first + (run.end - run.first) % run.period;
    if (last != run.first && carried(block, run, last) < carried(block, run, run.first) &&
        reroll(block, last, run.period, (run.end - last) / run.period))
      return true;
    for (size_t first = run.first; first < run.first + 2 * run.period && first + 2 * run.period <= run.end; ++first)
      if (reroll(block, first, run.period, (run.end - first) / run.period)) return true;
    return false;
  }

  /// How many values each iteration would leave to the next; more than there can be where there is no loop.
  size_t carried(const std::vector<Stmt>& block, const Run& run, size_t first) {
    const std::optional<Loop> loop = made(block, first, run.period, (run.end - first) / run.period);
    return loop ? loop->carried() : static_cast<size_t>(-1);
  }

  std::optional<Loop> made(const std::vector<Stmt>& block, size_t first, size_t period, size_t count) {
    looked_at_ += period * count;
    if (looked_at_ > most_statements) return std::nullopt;
    std::optional<Loop> out(std::in_place, program_, block, first, period, count,
                            [&](const char* stem) { return new_name(stem); });
    if (!out->make()) out.reset();
    return out;
  }

  bool reroll(std::vector<Stmt>& block, size_t first, size_t period, size_t count) {
    std::optional<Loop> found = made(block, first, period, count);
    if (!found) return false;
    Loop& loop = *found;
    if (kind_of_lengths_ == Lengths::Pieces && count < 3) return false;
    if (kind_of_lengths_ != Lengths::Numbers && !loop.find_length()) return false;
    if (kind_of_lengths_ == Lengths::Numbers) loop.find_list(pieces_);
    const size_t behind = first + period * count;
    std::vector<Stmt> rest(block.begin() + static_cast<std::ptrdiff_t>(behind), block.end());
    if (!drop_results(loop, rest)) return false;
    if (kind_of_lengths_ != Lengths::Numbers && leaves_last(loop, rest))
      std::ranges::copy(loop.leave_last(), std::back_inserter(last_));
    for (Stmt& s : rest) for_each_expr(s, [&](Expr& e) { replace(e, loop); });
    // Two of something are no loop, where each is used for itself and no other trace has more of them.
    if (count == 2 && !fixed_ && loop.single_uses() > 0) return false;
    for (const auto& [values, list] : loop.lists()) made_lists_.insert(list);
    for (const auto& [values, list] : loop.lists())
      if (values.size() == 1) lengths_[list] = pieces_[list] = count;
    std::vector<Stmt> statements = loop.statements();
    block.resize(first);
    block.insert(block.end(), statements.begin(), statements.end());
    reroll_all(block.back().body);
    block.insert(block.end(), rest.begin(), rest.end());
    return true;
  }

  void drop_unneeded() {
    if (other_.unneeded.empty() || body_.empty() || body_.back().kind != Stmt::Kind::Return) return;
    size_t condition = 0;
    for_each_other_result(body_.back(), [&](Expr& e, bool) {
      if (other_.unneeded.contains(condition++)) e = Expr();
      return true;
    });
  }

  /// Numbers that are returned besides the outputs are None where an iteration makes them. False where it makes a
  /// condition.
  bool drop_results(const Loop& loop, std::vector<Stmt>& rest) const {
    if (rest.empty() || rest.back().kind != Stmt::Kind::Return) return true;
    return for_each_other_result(rest.back(), [&](Expr& e, bool decides) {
      if (e.kind != Kind::Name || !loop.makes(e.name)) return true;
      if (!decides) e = Expr();
      return !decides;
    });
  }

  /// The same for numbers and conditions about what an iteration made.
  void drop_results_of_elements() {
    if (made_lists_.empty() || body_.back().kind != Stmt::Kind::Return) return;
    std::unordered_map<std::string, const Expr*> values;
    for (const Stmt& s : body_)
      if (s.kind == Stmt::Kind::Assign && !s.unpack && s.targets.size() == 1) values[s.targets[0]] = &s.values[0];
    const std::function<bool(const Expr&)> is_of_iteration = [&](const Expr& e) {
      if (is_element(e)) return made_lists_.contains(e.items[0].name);
      if (e.kind != Kind::Name) return is_on_numbers(e) && std::ranges::any_of(e.items, is_of_iteration);
      const auto value = values.find(e.name);
      return value != values.end() && is_of_iteration(*value->second);
    };
    for_each_other_result(body_.back(), [&](Expr& e, bool decides) {
      if (!decides && is_of_iteration(e)) e = Expr();
      return true;
    });
  }

  /// Calls f with each result that is no output, and whether how the model goes on depends on it, until f is false.
  template <class F>
  bool for_each_other_result(Stmt& returns, F f) const {
    Expr& returned = returns.values[0];
    if (returned.kind != Kind::Tuple) return true;
    const size_t end = returned.items.size(), numbers = end - std::min(end, other_.numbers);
    const size_t first = numbers - std::min(numbers, other_.decides.size());
    for (size_t i = first; i < end; ++i)
      if (!f(returned.items[i], i < numbers && other_.decides[i - first])) return false;
    return true;
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
  std::optional<Keys> fixed_;
  size_t looked_at_ = 0;
  OtherResults other_;
  Lengths kind_of_lengths_;
  std::vector<Loop::Position> last_;                 // that loops leave to what is behind them
  std::unordered_map<std::string, size_t> lengths_;  // of lists that loops make
  std::unordered_map<std::string, size_t> pieces_;   // of these and of those that operators make: how many elements
  std::set<std::string> made_lists_;                 // by loops
  std::set<std::string> whole_;                      // lists of pieces that are taken as such
  std::set<std::string> used_;
  std::map<std::string, int> numbers_;
};

/// Leaves of the methods those that forward still calls, by name: the others are part of it now.
void leave_called(program::Program& p) {
  std::set<std::string> called = {"forward"};
  const std::function<void(const Expr&)> visit = [&](const Expr& e) {
    if (e.kind == Kind::Method) called.insert(e.name);
    for (const Expr& item : e.items) visit(item);
  };
  const program::Function& forward = p.forward();
  for (const Stmt& s : forward.body) for_each_expr(s, visit);
  for (auto& [name, c] : p.classes)
    std::erase_if(c.methods, [&](const program::Function& f) {
      return !called.contains(f.name) || (called.size() == 1 && &f != &forward);
    });
}

/// A trace as straight-line code, before and after its loops are found.
class UnrolledTrace {
 public:
  /// Throws TracesDiverge for a program with control flow.
  UnrolledTrace(const program::Program& trace, const OtherResults& other, Lengths lengths)
      : program_(whole(trace)), reroller_(*program_, std::move(forward().body), other, lengths) {
    reroller_.index_pieces();
  }

  Counts counts() const { return reroller_.counts(); }

  /// Nothing where there are no loops.
  std::unique_ptr<program::Program> rerolled(const std::optional<Keys>& fixed) {
    std::vector<std::string> before = unrolled(*program_, reroller_.body());
    if (!reroller_.run(fixed)) return nullptr;
    forward().body = reroller_.body();
    leave_called(*program_);
    // Results that were dropped are no operations.
    std::vector<std::string> after = unrolled(*program_, forward().body);
    after.pop_back(), before.pop_back();
    if (after != before) throw Error(Code::Internal, "a loop does not give what it was made of");
    forward().body = reroller_.with_last_positions();
    remove_unused_numbers(forward().body);
    program::verify(*program_);
    return std::move(program_);
  }

 private:
  static std::unique_ptr<program::Program> whole(const program::Program& trace) {
    const program::Type& returns = trace.forward().returns;
    const Recording all{&trace, returns.name == "Tuple" ? returns.args.size() : 1, {}};
    return merge(std::span(&all, 1)).program;
  }

  program::Function& forward() {
    program::Class& root = program_->classes.at(program_->root->class_name);
    return *std::ranges::find(root.methods, "forward", &program::Function::name);
  }

  std::unique_ptr<program::Program> program_;
  Reroller reroller_;
};

/// Statements that all traces have equally often are of no loop whose length differs between them. Nothing for a single
/// trace.
std::optional<Keys> fixed_statements(const std::vector<UnrolledTrace>& traces) {
  if (traces.size() < 2) return std::nullopt;
  Keys out;
  const Counts first = traces[0].counts();
  for (const auto& [key, count] : first) out.insert(key);
  for (size_t i = 1; i < traces.size(); ++i) {
    const Counts counts = traces[i].counts();
    std::erase_if(out, [&](size_t key) {
      const auto found = counts.find(key);
      return found == counts.end() || found->second != first.at(key);
    });
  }
  return out;
}

}  // namespace

std::vector<std::unique_ptr<program::Program>> rerolled(const std::vector<Unrolled>& traces, Lengths lengths) {
  std::vector<std::unique_ptr<program::Program>> out(traces.size());
  std::vector<UnrolledTrace> straight;
  try {
    for (const Unrolled& trace : traces) straight.emplace_back(*trace.program, trace.other, lengths);
  } catch (const Error& e) {
    if (e.first().code == Code::Internal) throw;
    return out;
  }
  const std::optional<Keys> fixed = fixed_statements(straight);
  for (size_t i = 0; i < traces.size(); ++i) out[i] = straight[i].rerolled(fixed);
  return out;
}

}  // namespace lithify::merge
