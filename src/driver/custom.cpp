#include "driver/custom.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>

#include "base/checked.hpp"
#include "base/options.hpp"
#include "base/text.hpp"
#include "onnx/opdef.hpp"
#include "ops/register.hpp"

namespace lithify::driver {
namespace {

using eval::Call;
using onnx::Dim;
using Versions = std::map<std::string, int>;

[[noreturn]] void bad(int line, const std::string& what) {
  throw Error(Code::BadOption, fmt::format("custom operators, line {}: {}", line, what),
              "docs/custom-operators.md describes how to write them");
}

/// The parts between commas that no bracket and no quote encloses.
std::vector<std::string> listed(std::string_view s) {
  std::vector<std::string> out;
  int depth = 0;
  bool quoted = false;
  size_t begin = 0;
  if (trimmed(s).empty()) return out;
  for (size_t i = 0; i <= s.size(); ++i) {
    const char c = i < s.size() ? s[i] : ',';
    if (i < s.size() && c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '[' || c == '(' || c == '<') ++depth;
    if (c == ']' || c == ')' || c == '>') --depth;
    if (c != ',' || (depth > 0 && i < s.size())) continue;
    out.emplace_back(trimmed(s.substr(begin, i - begin)));
    begin = i + 1;
  }
  return out;
}

template <class T>
std::optional<T> number(std::string_view s) {
  T v{};
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
  return error == std::errc() && end == s.data() + s.size() ? std::optional(v) : std::nullopt;
}

bool is_name(std::string_view s) {
  if (s.empty() || std::isdigit(static_cast<unsigned char>(s[0]))) return false;
  return std::all_of(s.begin(), s.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

// ---- types of outputs -----------------------------------------------------------------------------------------------

using Lookup = std::function<const onnx::Value*(const std::string&)>;

/// "like x", "int64 like x", "float32[x.0, ?, 10]".
onnx::Builder::Fact parse_fact(onnx::Builder& b, const std::string& text, const Lookup& value) {
  auto error = [&](const std::string& why) {
    return Error(Code::BadOption, fmt::format("the type '{}' of a custom operator's output: {}", text, why),
                 "write 'like x', 'int64 like x', or 'float32[x.0, ?, 10]'");
  };
  auto named = [&](std::string_view name) {
    const onnx::Value* v = value(std::string(trimmed(name)));
    if (!v) throw error(fmt::format("'{}' is not a tensor here", trimmed(name)));
    return v;
  };
  auto type_of = [&](std::string_view name) {
    const auto t = dtype_named(trimmed(name));
    if (!t) throw error(fmt::format("there is no element type '{}'", trimmed(name)));
    return *t;
  };
  if (const size_t like = text.find("like "); like != std::string::npos) {
    const onnx::Value* v = named(std::string_view(text).substr(like + 5));
    return {like == 0 ? v->dtype : type_of(text.substr(0, like)), v->shape};
  }
  const size_t open = text.find('[');
  if (open == std::string::npos || text.back() != ']') throw error("it has no sizes");
  onnx::Builder::Fact fact{type_of(text.substr(0, open)), {}};
  for (const std::string& size : listed(std::string_view(text).substr(open + 1, text.size() - open - 2))) {
    if (size == "?") {
      fact.shape.push_back(b.sym.symbol({.name = "custom", .lower = 0, .upper = {}, .sample = {}, .divisor = 1}));
    } else if (const auto n = number<int64_t>(size); n && *n >= 0) {
      fact.shape.push_back(b.dim(*n));
    } else {
      const size_t dot = size.find('.');
      const auto axis =
          dot == std::string::npos ? std::nullopt : number<int64_t>(std::string_view(size).substr(dot + 1));
      if (!axis) throw error(fmt::format("'{}' is not a size", size));
      const onnx::Shape& shape = named(std::string_view(size).substr(0, dot))->shape;
      const auto rank = static_cast<int64_t>(shape.size()), at = *axis < 0 ? *axis + rank : *axis;
      if (at < 0 || at >= rank) throw error(fmt::format("'{}' has {} dimensions", size.substr(0, dot), rank));
      fact.shape.push_back(shape[static_cast<size_t>(at)]);
    }
  }
  return fact;
}

// ---- arguments as attributes ----------------------------------------------------------------------------------------

/// A number, text or list of the program as an attribute; empty for what an attribute cannot hold.
std::optional<onnx::Attribute::Data> attribute_data(const eval::Value& v) {
  if (const bool* flag = v.get_if<bool>()) return int64_t{*flag};
  if (const double* real = v.get_if<double>()) return static_cast<float>(*real);
  if (const auto* text = v.get_if<std::string>()) return *text;
  if (v.is_int()) {
    const auto n = v.integer().constant();
    return n ? std::optional<onnx::Attribute::Data>(*n) : std::nullopt;
  }
  if (!v.is_list() && !v.is<eval::Tuple>()) return std::nullopt;
  std::vector<int64_t> ints;
  std::vector<float> reals;
  std::vector<std::string> texts;
  for (const eval::Value& item : v.items()) {
    const auto data = attribute_data(item);
    if (!data) return std::nullopt;
    if (const auto* n = std::get_if<int64_t>(&*data)) {
      ints.push_back(*n);
      reals.push_back(static_cast<float>(*n));
    } else if (const auto* r = std::get_if<float>(&*data)) {
      reals.push_back(*r);
    } else if (const auto* t = std::get_if<std::string>(&*data)) {
      texts.push_back(*t);
    } else {
      return std::nullopt;
    }
  }
  if (texts.size() == v.items().size() && !texts.empty()) return texts;
  if (!texts.empty()) return std::nullopt;
  if (ints.size() == reals.size()) return ints;
  return reals;
}

eval::Value result_of(std::vector<onnx::Value*> values) {
  if (values.size() == 1) return values[0];
  std::vector<eval::Value> items(values.begin(), values.end());
  return eval::Value::tuple(std::move(items));
}

// ---- declarations ---------------------------------------------------------------------------------------------------

/// One line of a body: "y, z = my.domain::Op@2<axis=dim>(x, 1.0) : like x, int64 like x".
struct Line {
  int number = 0;
  std::vector<std::string> results;
  std::string domain, op;
  int version = 1;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::vector<std::string> inputs, types;
};

Line parse_line(std::string_view text, int at) {
  Line line;
  line.number = at;
  size_t open = text.find('(');
  if (open == std::string_view::npos) bad(at, "there is no '(' with the inputs of a node");
  std::string_view head = text.substr(0, open);
  const size_t angle = head.find('<');
  // Attributes may hold brackets and '=': they are taken off first.
  if (angle != std::string_view::npos) {
    const size_t close = text.find('>', angle);
    if (close == std::string_view::npos) bad(at, "'<' is not closed");
    for (const std::string& item : listed(text.substr(angle + 1, close - angle - 1))) {
      const size_t eq = item.find('=');
      if (eq == std::string::npos) bad(at, fmt::format("the attribute '{}' has no value", item));
      line.attributes.emplace_back(trimmed(std::string_view(item).substr(0, eq)),
                                   trimmed(std::string_view(item).substr(eq + 1)));
    }
    open = text.find('(', close);
    if (open == std::string_view::npos) bad(at, "there is no '(' with the inputs of a node");
    head = text.substr(0, angle);
  }
  const size_t close = text.find(')', open);
  if (close == std::string_view::npos) bad(at, "'(' is not closed");
  line.inputs = listed(text.substr(open + 1, close - open - 1));
  std::string_view rest = trimmed(text.substr(close + 1));
  if (!rest.empty() && rest.front() != ':') bad(at, fmt::format("'{}' is not understood", rest));
  if (!rest.empty()) line.types = listed(rest.substr(1));
  if (const size_t eq = head.find('='); eq != std::string_view::npos) {
    line.results = listed(head.substr(0, eq));
    head = head.substr(eq + 1);
  }
  head = trimmed(head);
  if (const size_t colons = head.rfind("::"); colons != std::string_view::npos) {
    line.domain = head.substr(0, colons);
    head = head.substr(colons + 2);
  }
  if (const size_t version = head.find('@'); version != std::string_view::npos) {
    const auto n = number<int>(head.substr(version + 1));
    if (!n || *n < 1) bad(at, fmt::format("'{}' is not a version", head.substr(version + 1)));
    line.version = *n;
    head = head.substr(0, version);
  }
  line.op = head;
  if (!is_name(line.op)) bad(at, fmt::format("'{}' is not the name of an operator", line.op));
  if (line.results.empty()) line.results.resize(std::max<size_t>(line.types.size(), 1));
  if (!line.domain.empty() && line.types.size() != line.results.size())
    bad(at, fmt::format("{}::{} needs the type of each of its outputs: ' : like x'", line.domain, line.op));
  if (line.domain.empty() && !line.types.empty())
    bad(at, fmt::format("the types of {} follow from its inputs", line.op));
  return line;
}

/// A declared operator: its schema, and the nodes that a call of it becomes.
struct Declaration {
  std::string schema;
  int line = 0;
  std::vector<Line> body;
  std::vector<std::string> results;  ///< names; empty for those of the last line
};

/// Runs the body of a declaration on the arguments of one call.
class Body {
 public:
  Body(Call& call, const Declaration& declaration) : c_(call), d_(declaration) {}

  eval::Value run() {
    std::vector<onnx::Value*> last;
    for (const Line& line : d_.body) last = run(line);
    if (d_.results.empty()) return result_of(last);
    std::vector<onnx::Value*> out;
    for (const std::string& name : d_.results) {
      const onnx::Value* v = value(name);
      if (!v) bad(d_.line, fmt::format("'{}' is returned and is not a tensor", name));
      out.push_back(const_cast<onnx::Value*>(v));
    }
    return result_of(out);
  }

 private:
  const onnx::Value* value(const std::string& name) {
    if (const auto found = values_.find(name); found != values_.end()) return found->second;
    if (!c_.schema.argument(name) || !c_.arg(name).is_tensor()) return nullptr;
    return c_.tensor(name);
  }

  std::vector<onnx::Value*> run(const Line& line) {
    onnx::Inputs inputs;
    std::vector<std::pair<size_t, double>> numbers;
    DType type = DType::Float;
    bool typed = false;
    for (const std::string& name : line.inputs) {
      if (name == "_") {
        inputs.push_back(nullptr);
      } else if (const auto n = number<double>(name)) {
        numbers.emplace_back(inputs.size(), *n);
        inputs.push_back(nullptr);
      } else if (const onnx::Value* v = value(name)) {
        if (!typed && is_float(v->dtype)) type = v->dtype;
        typed = true;
        inputs.push_back(const_cast<onnx::Value*>(v));
      } else if (c_.schema.argument(name)) {
        add_argument(name, inputs, numbers);
      } else {
        bad(line.number, fmt::format("there is no '{}'", name));
      }
    }
    for (auto [at, n] : numbers) inputs[at] = c_.onnx.scalar(type, n);
    std::vector<onnx::Value*> out;
    if (line.domain.empty()) {
      out = c_.onnx.op_n(line.op, inputs, attributes(line), line.results.size());
    } else {
      Vector<onnx::Builder::Fact> facts;
      for (const std::string& t : line.types)
        facts.push_back(parse_fact(c_.onnx, t, [&](const std::string& name) { return value(name); }));
      out = c_.onnx.foreign(line.domain, line.op, inputs, attributes(line), facts);
    }
    for (size_t i = 0; i < out.size() && i < line.results.size(); ++i) values_[line.results[i]] = out[i];
    return out;
  }

  // None is left out, a number becomes a constant, a list of tensors as many inputs.
  void add_argument(const std::string& name, onnx::Inputs& inputs, std::vector<std::pair<size_t, double>>& numbers) {
    const eval::Value& v = c_.arg(name);
    if (v.is_none()) {
      inputs.push_back(nullptr);
    } else if (v.is_list()) {
      for (onnx::Value* each : c_.tensors(name)) inputs.push_back(each);
    } else if (const double* real = v.get_if<double>()) {
      numbers.emplace_back(inputs.size(), *real);
      inputs.push_back(nullptr);
    } else {
      inputs.push_back(c_.as_tensor(v));
    }
  }

  onnx::Attributes attributes(const Line& line) {
    onnx::Attributes out;
    for (const auto& [name, text] : line.attributes) {
      if (c_.schema.argument(text)) {
        if (c_.none(text)) continue;
        const auto data = attribute_data(c_.arg(text));
        if (!data) c_.unsupported(fmt::format("'{}' cannot be an attribute", text));
        out.push_back({name, *data});
      } else {
        out.push_back({name, literal(text, line.number)});
      }
    }
    return out;
  }

  static onnx::Attribute::Data literal(const std::string& text, int line) {
    if (text.size() >= 2 && text.front() == '"' && text.back() == '"') return text.substr(1, text.size() - 2);
    if (const auto n = number<int64_t>(text)) return *n;
    if (const auto r = number<float>(text)) return *r;
    if (text.size() < 2 || text.front() != '[' || text.back() != ']')
      bad(line, fmt::format("'{}' is not a number, text, list or argument", text));
    std::vector<int64_t> ints;
    std::vector<float> reals;
    for (const std::string& item : listed(std::string_view(text).substr(1, text.size() - 2))) {
      if (const auto n = number<int64_t>(item)) ints.push_back(*n);
      const auto r = number<float>(item);
      if (!r) bad(line, fmt::format("'{}' is not a number", item));
      reals.push_back(*r);
    }
    if (ints.size() == reals.size()) return ints;
    return reals;
  }

  Call& c_;
  const Declaration& d_;
  std::map<std::string, onnx::Value*> values_;
};

std::vector<Declaration> parse(std::string_view text) {
  std::vector<Declaration> out;
  int at = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++at;
    if (const size_t comment = line.find('#'); comment != std::string_view::npos) line = line.substr(0, comment);
    const std::string_view content = trimmed(line);
    if (content.empty()) continue;
    const bool indented = line.front() == ' ' || line.front() == '\t';
    if (!indented) {
      if (content.find("::") == std::string_view::npos || content.find("->") == std::string_view::npos)
        bad(at, fmt::format("'{}' is not a schema such as 'mylib::op(Tensor x) -> Tensor'", content));
      out.push_back({std::string(content), at, {}, {}});
    } else if (out.empty()) {
      bad(at, "a node stands before the first schema");
    } else if (content.starts_with("return ")) {
      out.back().results = listed(content.substr(7));
    } else {
      out.back().body.push_back(parse_line(content, at));
    }
  }
  for (const Declaration& d : out)
    if (d.body.empty()) bad(d.line, "there are no nodes below the schema");
  return out;
}

void add_version(Versions& versions, const std::string& domain, int version) {
  const auto [at, added] = versions.emplace(domain, version);
  if (!added && at->second != version)
    throw Error(Code::BadOption,
                fmt::format("the domain '{}' is named in the versions {} and {}", domain, at->second, version));
}

void add_rule(eval::Registry& rules, const std::string& schema, eval::RuleFunction run) {
  try {
    rules.add(schema, std::move(run));
    rules.overloads(std::string_view(schema).substr(0, schema.find_first_of(".(")));  // a wrong schema shows
  } catch (const Error& e) {
    throw Error(Code::BadOption, fmt::format("'{}' cannot be declared: {}", schema, e.first().message),
                "write it as PyTorch does: mylib::op(Tensor x, float alpha=1.0) -> Tensor");
  }
}

// ---- plug-ins -------------------------------------------------------------------------------------------------------

onnx::Value* handle(CustomCall::Tensor t) { return const_cast<onnx::Value*>(static_cast<const onnx::Value*>(t)); }

class PluginCall : public CustomCall {
 public:
  PluginCall(Call& call, Versions& versions) : c_(call), versions_(versions) {}
  int opset() const override { return c_.opset(); }
  bool given(const std::string& argument) override { return !c_.arg(argument).is_none(); }
  Tensor tensor(const std::string& argument) override { return c_.maybe_tensor(argument); }
  std::vector<Tensor> tensors(const std::string& argument) override {
    const auto all = c_.maybe_tensors(argument);
    return {all.begin(), all.end()};
  }
  int64_t integer(const std::string& argument) override { return c_.integer(argument); }
  std::vector<int64_t> integers(const std::string& argument) override { return c_.integers(argument); }
  double real(const std::string& argument) override { return c_.real(argument); }
  bool flag(const std::string& argument) override { return c_.flag(argument); }
  std::string text(const std::string& argument) override { return c_.text(argument); }
  Tensor constant(double number, Tensor like) override {
    return c_.onnx.scalar(like ? handle(like)->dtype : DType::Float, number);
  }
  Tensor integers_constant(const std::vector<int64_t>& numbers) override { return c_.onnx.ints(numbers); }
  Tensor tensor_constant(const std::string& type, const std::vector<int64_t>& sizes, std::string_view bytes) override {
    const std::optional<DType> dtype = dtype_named(type);
    if (!dtype) throw Error(Code::UnsupportedType, fmt::format("there is no element type '{}'", type));
    int64_t count = 1;
    for (int64_t n : sizes) count = checked_mul(count, n);
    if (checked_mul(count, static_cast<int64_t>(byte_size(*dtype))) != static_cast<int64_t>(bytes.size()))
      throw Error(Code::ShapeMismatch,
                  fmt::format("{} bytes are given for {} elements of {}", bytes.size(), count, type));
    const auto data = std::as_bytes(std::span<const char>(bytes));
    return c_.onnx.constant(TensorView::dense(*dtype, sizes, {data.begin(), data.end()}));
  }
  std::vector<Tensor> node(const std::string& op_type, const std::vector<Tensor>& inputs,
                           const std::vector<Attribute>& attributes, size_t outputs) override {
    if (!onnx::find_op(op_type))
      throw Error(Code::UnsupportedOperator, fmt::format("ONNX has no operator {}", op_type));
    const auto out = c_.onnx.op_n(op_type, values(inputs), converted(attributes), outputs);
    return {out.begin(), out.end()};
  }
  std::vector<Tensor> node(const std::string& domain, int version, const std::string& op_type,
                           const std::vector<Tensor>& inputs, const std::vector<Attribute>& attributes,
                           const std::vector<std::string>& outputs) override {
    add_version(versions_, domain, version);
    Vector<onnx::Builder::Fact> facts;
    for (const std::string& text : outputs)
      facts.push_back(parse_fact(c_.onnx, text, [&](const std::string& name) -> const onnx::Value* {
        return c_.schema.argument(name) ? c_.maybe_tensor(name) : nullptr;
      }));
    const auto out = c_.onnx.foreign(domain, op_type, values(inputs), converted(attributes), facts);
    return {out.begin(), out.end()};
  }

 private:
  static onnx::Inputs values(const std::vector<Tensor>& inputs) {
    onnx::Inputs out;
    for (Tensor t : inputs) out.push_back(handle(t));
    return out;
  }
  static const auto& as_data(const auto& v) { return v; }
  template <class T>
  static Vector<T> as_data(const std::vector<T>& v) {
    return Vector<T>(v);
  }
  static onnx::Attributes converted(const std::vector<Attribute>& attributes) {
    onnx::Attributes out;
    for (const Attribute& a : attributes)
      std::visit([&](const auto& v) { out.push_back({a.name, as_data(v)}); }, a.value);
    return out;
  }
  Call& c_;
  Versions& versions_;
};

// ---- operators without a declaration
// ---------------------------------------------------------------------------------

/// The calls of operators without a rule: name, number of positional arguments, names of the others.
using Unknown = std::set<std::pair<std::string, std::pair<size_t, std::vector<std::string>>>>;

void find_unknown(const std::vector<program::Stmt>& body, const eval::Registry& rules, Unknown& out);

void find_unknown(const program::Expr& e, const eval::Registry& rules, Unknown& out) {
  if (e.kind == program::Expr::Kind::Operator &&
      rules.overloads(e.name.substr(0, e.name.find('.', e.name.find("::")))).empty())
    out.insert({e.name, {e.items.size() - e.keywords.size(), e.keywords}});
  for (const program::Expr& i : e.items) find_unknown(i, rules, out);
}

void find_unknown(const std::vector<program::Stmt>& body, const eval::Registry& rules, Unknown& out) {
  for (const program::Stmt& s : body) {
    for (const program::Expr& e : s.values) find_unknown(e, rules, out);
    find_unknown(s.body, rules, out);
    find_unknown(s.orelse, rules, out);
  }
}

/// Tensors are inputs, everything else attributes, under the argument's name or number.
eval::Value kept(Call& c, const std::string& domain, const std::string& op) {
  onnx::Inputs inputs;
  onnx::Attributes attributes;
  const onnx::Value* first = nullptr;
  auto input = [&](const eval::Value& v) {
    inputs.push_back(c.as_tensor(v));
    if (!first && v.is_tensor()) first = inputs.back();
  };
  for (const eval::SchemaArgument& a : c.schema.arguments) {
    const eval::Value& v = c.arg(a.name);
    const auto data = v.is_tensor() || v.is_none() ? std::nullopt : attribute_data(v);
    if (v.is_none()) {
      inputs.push_back(nullptr);
    } else if (data) {
      attributes.push_back({a.name, *data});
    } else if (v.is_list()) {
      attributes.push_back({a.name + "_count", static_cast<int64_t>(v.items().size())});
      for (const eval::Value& item : v.items()) input(item);
    } else {
      input(v);
    }
  }
  if (!first)
    c.unsupported("no argument is a tensor, so the type of the result is not known; declare the operator by " +
                  option("custom_ops"));
  onnx::Builder::Fact fact{first->dtype, {}};
  for (size_t i = 0; i < first->rank(); ++i)
    fact.shape.push_back(c.sym.symbol({.name = "custom", .lower = 0, .upper = {}, .sample = {}, .divisor = 1}));
  return c.onnx.foreign(domain, op, inputs, attributes, {fact})[0];
}

}  // namespace

Rules::Rules(const ExportOptions& options, const program::Program& program) {
  if (options.custom_ops.empty() && options.plugins.empty() && !options.allow_custom) return;
  own_ = std::make_unique<eval::Registry>();
  ops::register_all(*own_);
  for (const auto& [domain, version] : options.custom_opsets) add_version(versions_, domain, version);
  for (const CustomOperator& plugin : options.plugins)
    add_rule(*own_, plugin.schema, [this, run = plugin.run](Call& c) {
      PluginCall call(c, versions_);
      std::vector<onnx::Value*> out;
      for (CustomCall::Tensor t : run(call)) out.push_back(handle(t));
      return result_of(std::move(out));
    });
  for (const Declaration& d : parse(options.custom_ops)) {
    for (const Line& line : d.body)
      if (!line.domain.empty()) add_version(versions_, line.domain, line.version);
    add_rule(*own_, d.schema, [d](Call& c) { return Body(c, d).run(); });
  }
  if (!options.allow_custom) return;
  Unknown unknown;
  for (const auto& [name, f] : program.functions) find_unknown(f.body, *own_, unknown);
  for (const auto& [name, c] : program.classes)
    for (const program::Function& f : c.methods) find_unknown(f.body, *own_, unknown);
  for (const auto& [name, arguments] : unknown) {
    const size_t colons = name.find("::");
    const std::string domain = name.substr(0, colons),
                      op = name.substr(colons + 2, name.find('.', colons) - colons - 2);
    std::string schema;
    for (size_t i = 0; i < arguments.first; ++i) schema += fmt::format("{}t? arg{}", i ? ", " : "", i);
    for (const std::string& keyword : arguments.second)
      schema += fmt::format("{}t? {}", schema.empty() ? "" : ", ", keyword);
    add_rule(*own_, fmt::format("{}({}) -> Tensor", name, schema),
             [domain, op](Call& c) { return kept(c, domain, op); });
    versions_.try_emplace(domain, 1);
    assumptions.push_back(
        {Code::UnsupportedOperator,
         Severity::Warning,
         fmt::format("{} is kept as a node of the domain '{}'; its result is assumed to have the type and "
                     "the number of dimensions of its first tensor",
                     name, domain),
         {},
         "declare it by " + option("custom_ops"),
         name});
  }
}

const eval::Registry& Rules::registry() const { return own_ ? *own_ : ops::all_rules(); }

void Rules::declare_domains(onnx::Model& model) const {
  for (const onnx::Node* n : model.graph->all_nodes())
    if (const auto found = versions_.find(n->domain); found != versions_.end()) model.domains.insert(*found);
}

}  // namespace lithify::driver
