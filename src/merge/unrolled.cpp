#include "merge/unrolled.hpp"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <unordered_map>

#include "base/checked.hpp"
#include "base/diagnostic.hpp"
#include "merge/expressions.hpp"

namespace lithify::merge {
namespace {

using program::Expr;
using program::Stmt;
using Kind = Expr::Kind;

class Operations {
 public:
  Operations(const program::Program& program, const std::vector<Stmt>& body) : program_(program) { run(body); }
  std::vector<std::string> all;

 private:
  struct Value {
    std::string text;
    std::optional<int64_t> number;
    std::vector<Value>* list = nullptr;  // of lists_: it may contain itself
    std::string str(int depth = 0) const {
      constexpr int deepest = 64;
      constexpr size_t longest = size_t{1} << 20;
      if (number) return std::to_string(*number);
      if (!list) return text;
      std::string out = "[";
      for (const Value& v : *list) {
        if (depth == deepest || out.size() > longest)
          throw Error(Code::LimitExceeded, "the lists of a loop are too long, nest too deep, or contain themselves");
        out += v.str(depth + 1) + ",";
      }
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
      if (const std::optional<int64_t> number = number_of(program_, e)) return tensor_of(*number);
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
      if (list.list) list.list = new_list({list.list->rbegin(), list.list->rend()});
      return result(stack, {std::move(list), value(stack.items[1])});
    }
    std::vector<Value> items;
    for (const Expr& item : e.items) items.push_back(value(item));
    return result(e, std::move(items));
  }

  Value result(const Expr& e, std::vector<Value> items) {
    if (e.kind == Kind::List) return {"", {}, new_list(std::move(items))};
    if (e.kind == Kind::Subscript && items[0].list && items[1].number) {
      const std::vector<Value>& list = *items[0].list;
      const auto size = static_cast<int64_t>(list.size());
      const int64_t at = *items[1].number < 0 ? *items[1].number + size : *items[1].number;
      if (at < 0 || at >= size) throw Error(Code::ProgramRaises, fmt::format("index {} of a list of {}", at, size));
      return list[static_cast<size_t>(at)];
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

  std::vector<Value>* new_list(std::vector<Value> items) {
    return lists_.emplace_back(std::make_unique<std::vector<Value>>(std::move(items))).get();
  }

  static Value tensor_of(int64_t number) { return {fmt::format("tensor({})", number), {}, nullptr}; }

  /// What rerolling added: numbers of iterations, and lists of what they make.
  std::optional<Value> computed(const Expr& e, std::vector<Value>& items) {
    const bool numbers = items.size() == 2 && items[0].number && items[1].number;
    if (numbers && e.name == "aten::add") return Value{"", checked_add(*items[0].number, *items[1].number), nullptr};
    if (numbers && e.name == "aten::mul") return Value{"", checked_mul(*items[0].number, *items[1].number), nullptr};
    if (e.name == "prim::NumToTensor" && !items.empty() && items[0].number) return tensor_of(*items[0].number);
    if (items.empty() || !items[0].list) return std::nullopt;
    std::vector<Value>& list = *items[0].list;
    if (e.name == "aten::append" && items.size() == 2) {
      list.push_back(items[1]);
      return Value{"appended", {}, nullptr};
    }
    if (e.name == "aten::add.t" && items.size() == 2 && items[1].list) {
      std::vector<Value> both = list;
      both.insert(both.end(), items[1].list->begin(), items[1].list->end());
      return Value{"", {}, new_list(std::move(both))};
    }
    return std::nullopt;
  }

  const program::Program& program_;
  std::vector<std::unique_ptr<std::vector<Value>>> lists_;
  std::unordered_map<std::string, Value> names_;
  std::unordered_map<std::string, int64_t> counts_;  // of the loops, by the names of their indices
};

}  // namespace

std::vector<std::string> unrolled(const program::Program& program, const std::vector<program::Stmt>& body) {
  return Operations(program, body).all;
}

}  // namespace lithify::merge
