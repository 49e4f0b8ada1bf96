#include "fuzz/programs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ops/register.hpp"
#include "tests/unit/model_bytes.hpp"

namespace lithify::fuzz {
namespace {

using eval::SchemaArgument;
using Kind = SchemaArgument::Kind;

constexpr std::string_view integers[] = {"0",  "1",  "2",   "3",  "-1",   "-2",        "5",
                                         "7",  "-3", "100", "s0", "1000", "123456789", "-9223372036854775807",
                                         "63", "64", "n0",  "8",  "4",    "6",         "9223372036854775807"};
constexpr std::string_view reals[] = {"0.", "1.", "-1.", "0.5", "2.5", "1e-05", "1e308", "inf", "-inf", "nan", "-0."};
constexpr std::string_view texts[] = {"mean",  "sum",   "none",      "constant", "reflect", "replicate", "same",
                                      "",      "valid", "linear",    "bilinear", "ij",      "ii->i",     "trunc",
                                      "floor", "tanh",  "ij,jk->ik", "prod",     "amax",    "nearest",   "circular"};

const Vector<std::string>& rule_names() {
  static const Vector<std::string> names = ops::all_rules().names();
  return names;
}

/// Writes one program, statement by statement.
class Writer {
 public:
  explicit Writer(Choices& choices) : choices_(choices), names_(rule_names()) {}

  std::string program() {
    body_ = "    w = self.w\n    b = self.b\n    s0 = torch.size(x, 0)\n    n0 = torch.len(x)\n";
    const size_t count = 1 + choices_.below(6);
    for (size_t i = 0; i < count; ++i) statement(4);
    return fmt::format("{}    return ({}, )\n", body_, fmt::join(tensors_, ", "));
  }

 private:
  void line(size_t indent, const std::string& text) { body_ += std::string(indent, ' ') + text + "\n"; }

  void statement(size_t indent) {
    const size_t kind = choices_.below(12);
    if (kind == 0 && indent < 12) return branch(indent);
    if (kind == 1 && indent < 12) return loop(indent);
    if (kind == 2) return new_tensor(indent);
    call(indent);
  }

  /// What a body assigns is not seen outside: both sides assign one name that was there before.
  void inside(size_t indent) {
    const auto tensors = tensors_;
    const auto values = values_;
    const size_t count = 1 + choices_.below(2);
    for (size_t i = 0; i < count; ++i) statement(indent);
    line(indent, fmt::format("y = {}", choices_.of(tensors_)));
    tensors_ = tensors;
    values_ = values;
  }

  void branch(size_t indent) {
    line(indent, "y = x");
    line(indent, choices_.one_in(2) ? "if torch.gt(s0, 2):" : "if bool(torch.sum(x)):");
    inside(indent + 2);
    line(indent, "else:");
    inside(indent + 2);
    tensors_.push_back("y");
  }

  void loop(size_t indent) {
    line(indent, "y = x");
    line(indent, choices_.one_in(2) ? "for i in range(3):" : "for i in range(s0):");
    inside(indent + 2);
    tensors_.push_back("y");
  }

  void new_tensor(size_t indent) {
    static constexpr std::string_view sizes[] = {
        "[2, 3]",         "[3, 3, 4, 4]", "[]",     "[0]",       "[1]",  "[5]",
        "[2, 0, 3]",      "[s0, 1]",      "[4, 4]", "[2, 3, 4]", "[s0]", "[1, 1, 1, 1]",
        "[2, 1, 3, 4, 5]"};
    static constexpr std::string_view types[] = {"6", "7", "4", "3", "11", "0", "1", "5", "15", "9", "2"};
    const std::string name = fmt::format("t{}", next_++);
    line(indent, fmt::format("{} = torch.ones({}, dtype={})", name, choices_.of(sizes), choices_.of(types)));
    tensors_.push_back(name);
  }

  void call(size_t indent) {
    const eval::Rule* rule = nullptr;
    for (int tries = 0; tries < 8 && !rule; ++tries) {
      const auto& rules = ops::all_rules().overloads(choices_.of(names_));
      if (!rules.empty()) rule = &choices_.of(rules);
    }
    if (!rule) return;
    const std::string name = fmt::format("v{}", next_++);
    line(indent, fmt::format("{} = {}({})", name, callee(rule->schema), arguments(rule->schema)));
    values_.push_back(name);
    if (rule->schema.returns.size() == 1 && rule->schema.returns[0].starts_with("Tensor")) tensors_.push_back(name);
    if (rule->schema.returns.size() > 1) unpack(indent, name, rule->schema.returns.size());
  }

  void unpack(size_t indent, const std::string& name, size_t count) {
    std::string targets;
    for (size_t i = 0; i < count; ++i) targets += fmt::format("{}_{}, ", name, i);
    line(indent, fmt::format("{}= {}", targets, name));
    tensors_.push_back(name + "_0");
  }

  static std::string callee(const eval::Schema& schema) {
    const size_t colons = schema.name.find("::");
    const std::string space = schema.name.substr(0, colons), op = schema.name.substr(colons + 2);
    return space == "aten" ? "torch." + op : fmt::format("ops.{}.{}", space, op);
  }

  std::string arguments(const eval::Schema& schema) {
    std::vector<std::string> out;
    bool by_name = false;
    for (const SchemaArgument& a : schema.arguments) {
      if (a.default_text && choices_.one_in(3)) {
        by_name = true;
        continue;
      }
      by_name = by_name || a.keyword_only;
      out.push_back((by_name ? a.name + "=" : "") + argument(a));
    }
    return fmt::format("{}", fmt::join(out, ", "));
  }

  std::string argument(const SchemaArgument& a) {
    if (a.optional && choices_.one_in(3)) return "None";
    if (!a.list || (a.fixed && choices_.one_in(4))) return item(a);
    std::vector<std::string> items;
    const size_t count = a.fixed && !choices_.one_in(4) ? static_cast<size_t>(a.fixed) : choices_.below(5);
    for (size_t i = 0; i < count; ++i) items.push_back(a.item_optional && choices_.one_in(3) ? "None" : item(a));
    return fmt::format("[{}]", fmt::join(items, ", "));
  }

  std::string item(const SchemaArgument& a) {
    switch (a.kind) {
      case Kind::Tensor:
        return choices_.of(tensors_);
      case Kind::Int:
        return std::string(choices_.of(integers));
      case Kind::Float:
        return std::string(choices_.of(reals));
      case Kind::Bool:
        return choices_.one_in(2) ? "True" : "False";
      case Kind::Scalar:
        return std::string(choices_.one_in(2) ? choices_.of(integers) : choices_.of(reals));
      case Kind::Str:
        return fmt::format("\"{}\"", choices_.of(texts));
      case Kind::Device:
        return "torch.device(\"cpu\")";
      case Kind::Any:
        break;
    }
    if (!values_.empty() && choices_.one_in(2)) return choices_.of(values_);
    switch (choices_.below(6)) {
      case 0:
        return "[1, 2, 3]";
      case 1:
        return "(x, 2)";
      case 2:
        return std::string(choices_.of(integers));
      case 3:
        return fmt::format("\"{}\"", choices_.of(texts));
      default:
        return choices_.of(tensors_);
    }
  }

  Choices& choices_;
  const Vector<std::string>& names_;
  std::string body_;
  std::vector<std::string> tensors_ = {"x", "w", "b"}, values_;
  int next_ = 0;
};

}  // namespace

std::string make_program(Choices& choices) { return Writer(choices).program(); }

std::string model_of(const std::string& body) {
  namespace pickle = test::pickle;
  const std::string w = pickle::tensor(pickle::storage("FloatStorage", "0", 108), 0, {4, 3, 3, 3}, {27, 9, 3, 1});
  const std::string b = pickle::tensor(pickle::storage("FloatStorage", "1", 3), 0, {3}, {1});
  const std::string attributes = pickle::text("w") + w + pickle::text("b") + b + pickle::text("training") + "\x89";
  return test::zip_of(
      {{.name = "m/version", .data = "3\n"},
       {.name = "m/byteorder", .data = "little"},
       {.name = "m/constants.pkl", .data = "\x80\x02)."},
       {.name = "m/data.pkl", .data = pickle::whole(pickle::object("__torch__", "M", pickle::dict(attributes)))},
       {.name = "m/data/0", .data = std::string(108 * sizeof(float), '\x3e')},
       {.name = "m/data/1", .data = std::string(3 * sizeof(float), '\x3f')},
       {.name = "m/code/__torch__.py",
        .data = "class M(Module):\n  __parameters__ = [\"w\", ]\n  __buffers__ = [\"b\", ]\n  w : Tensor\n"
                "  b : Tensor\n  training : bool\n  def forward(self: __torch__.M,\n    x: Tensor) -> Any:\n" +
                body}});
}

}  // namespace lithify::fuzz
