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

#include "merge/expressions.hpp"
#include "merge/loop.hpp"
#include "merge/merge.hpp"
#include "merge/operators.hpp"
#include "merge/unrolled.hpp"
#include "program/verify.hpp"

namespace lithify::merge {
namespace {

using program::Expr;
using program::Stmt;
using Kind = Expr::Kind;

constexpr size_t longest_body = 4096;  // statements

class Reroller {
 public:
  Reroller(const program::Program& program, std::vector<Stmt> body, const OtherResults& other, Lengths lengths)
      : program_(program), body_(std::move(body)), other_(other), kind_of_lengths_(lengths) {
    for (const Stmt& s : body_) used_.insert(s.targets.begin(), s.targets.end());
  }

  /// Pieces of a list are elements of it, and those of a tensor that is split are slices of it: so they count.
  void index_pieces() {
    inline_lists();
    std::unordered_map<std::string, Expr> pieces;
    std::vector<Stmt> out;
    for (Stmt& s : body_) {
      for_each_expr(s, [&](Expr& e) { replace_names(e, pieces); });
      const bool unpacks = s.kind == Stmt::Kind::Assign && s.unpack && gives_list(s.values[0]);
      if (unpacks && is_split(s.values[0])) {
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
  /// A list of pieces that has a name, and is only unpacked, stands where that is.
  void inline_lists() {
    std::unordered_map<std::string, size_t> uses;
    const std::function<void(const Expr&)> count = [&](const Expr& e) {
      if (e.kind == Kind::Name) ++uses[e.name];
      for (const Expr& item : e.items) count(item);
    };
    for (const Stmt& s : body_) for_each_expr(s, count);
    std::vector<Stmt> out;
    for (Stmt& s : body_) {
      const bool unpacks = s.kind == Stmt::Kind::Assign && s.unpack && s.values[0].kind == Kind::Name;
      if (unpacks && !out.empty() && out.back().kind == Stmt::Kind::Assign && !out.back().unpack &&
          out.back().targets == std::vector{s.values[0].name} && uses[s.values[0].name] == 1 &&
          gives_list(out.back().values[0])) {
        s.values = std::move(out.back().values);
        out.pop_back();
      }
      out.push_back(std::move(s));
    }
    body_ = std::move(out);
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

  /// Whether an operator splits a tensor into pieces whose lengths are values.
  static bool is_split_by_values(const Stmt& s) {
    const Expr& e = s.values[0];
    const bool splits =
        e.name == "aten::split_with_sizes" || e.name == "aten::unsafe_split_with_sizes" || e.name == "aten::split";
    return splits && e.items.size() >= 2 && e.keywords.empty() && e.items[0].kind == Kind::Name &&
           e.items[1].kind == Kind::List && e.items[1].items.size() == s.targets.size() &&
           std::ranges::all_of(e.items[1].items, [](const Expr& i) { return i.kind == Kind::Name; });
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
    if (!drop_results(loop, rest)) return false;
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

  /// Numbers that are returned besides the outputs are None where an iteration makes them. False where it makes a
  /// condition.
  bool drop_results(const Loop& loop, std::vector<Stmt>& rest) const {
    if (rest.empty() || rest.back().kind != Stmt::Kind::Return) return true;
    Expr& returned = rest.back().values[0];
    if (returned.kind != Kind::Tuple) return true;
    const size_t end = returned.items.size(), numbers = end - std::min(end, other_.numbers);
    for (size_t i = numbers - std::min(numbers, other_.conditions); i < end; ++i) {
      Expr& e = returned.items[i];
      if (e.kind != Kind::Name || !loop.makes(e.name)) continue;
      if (i < numbers) return false;
      e = Expr();
    }
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
  OtherResults other_;
  Lengths kind_of_lengths_;
  std::unordered_map<std::string, size_t> lengths_;  // of lists that loops make
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

}  // namespace

std::unique_ptr<program::Program> rerolled(const program::Program& trace, const OtherResults& other, Lengths lengths) {
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
  Reroller reroller(*out, std::move(forward.body), other, lengths);
  reroller.index_pieces();
  const std::vector<std::string> before = unrolled(*out, reroller.body());
  if (!reroller.run()) return nullptr;
  forward.body = reroller.body();
  leave_called(*out);
  // Results that were dropped are no operations.
  std::vector<std::string> after = unrolled(*out, forward.body), expected = before;
  after.pop_back(), expected.pop_back();
  if (after != expected) throw Error(Code::Internal, "a loop does not give what it was made of");
  program::verify(*out);
  return out;
}

}  // namespace lithify::merge
