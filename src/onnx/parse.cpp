#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <unordered_map>
#include <utility>

#include "base/diagnostic.hpp"
#include "onnx/builder.hpp"
#include "onnx/text.hpp"

namespace lithify::onnx {
namespace {

/// The text, and how far it has been read.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  [[noreturn]] void fail(const std::string& message) const {
    const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n');
    throw Error(Code::BadProgram, fmt::format("line {} of the graph: {}", line, message));
  }

  void skip() {
    while (at_ < text_.size()) {
      if (text_[at_] == '#')
        at_ = std::min(text_.find('\n', at_), text_.size());
      else if (std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos)
        ++at_;
      else
        return;
    }
  }
  char peek() {
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(std::string_view mark) {
    skip();
    if (!text_.substr(at_).starts_with(mark)) return false;
    at_ += mark.size();
    return true;
  }
  void expect(std::string_view mark) {
    if (!accept(mark)) fail(fmt::format("'{}' is missing", mark));
  }
  /// Everything up to one of the characters.
  std::string_view until(std::string_view ends) {
    skip();
    const size_t begin = at_;
    at_ = std::min(text_.find_first_of(ends, at_), text_.size());
    if (begin == at_) fail("a name is missing");
    return text_.substr(begin, at_ - begin);
  }
  /// A name in quotes, whose opening quote has been read.
  std::string quoted() {
    std::string out;
    for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      const bool escaped = text_[at_] == '\\' && at_ + 1 < text_.size();
      if (escaped) ++at_;
      out += escaped && text_[at_] == 'n' ? '\n' : text_[at_];
    }
    if (at_ == text_.size()) fail("a quote is not closed");
    ++at_;
    return out;
  }
  size_t position() const { return at_; }
  void go_back(size_t position) { at_ = position; }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

constexpr std::string_view name_ends = " \t\r\n,(){}[]<>=\"#";

std::optional<int64_t> integer_of(std::string_view word) {
  int64_t v = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), v);
  return error == std::errc() && end == word.data() + word.size() ? std::optional(v) : std::nullopt;
}

/// Sizes: formulas of symbols, which are made as they come.
class Formulas {
 public:
  Formulas(Cursor& in, sym::Context& sym) : in_(in), sym_(sym) {}

  Dim sum() {
    Dim out = in_.accept("-") ? sym_.neg(product()) : product();
    while (true) {
      if (in_.accept("+"))
        out = sym_.add(out, product());
      else if (in_.accept("-"))
        out = sym_.sub(out, product());
      else
        return out;
    }
  }

  /// A line `size`. The symbol is made where it is used first: the order of symbols decides on that of terms.
  void declare() {
    const std::string name(in_.until(ends));
    const auto [symbol, is_new] = declared_.try_emplace(name);
    if (!is_new) in_.fail(fmt::format("the size {} is declared twice", name));
    sym::SymbolInfo& info = symbol->second.info;
    info.name = name;
    info.lower.reset();
    do {
      if (in_.accept(">=")) {
        info.lower = number();
      } else if (in_.accept("<=")) {
        info.upper = number();
      } else if (in_.accept("% ")) {
        info.divisor = number();
      } else if (in_.accept("<")) {
        symbol->second.below = in_.position();
        in_.until("\n");
      }
    } while (in_.accept(","));
  }

 private:
  static constexpr std::string_view ends = " \t\r\n,(){}[]+-*/%<>=";

  Dim product() {
    Dim out = factor();
    while (in_.accept("*")) out = sym_.mul(out, factor());
    return out;
  }

  Dim factor() {
    if (in_.accept("(")) {
      Dim e = sum();
      if (in_.accept("%")) e = sym_.mod(e, factor());
      in_.expect(")");
      return e;
    }
    const std::string word(in_.until(ends));
    if (const auto n = integer_of(word)) return sym_.constant(*n);
    if (!in_.accept("(")) return symbol(word);
    Dim e = sum();
    if (word == "floor") {
      in_.expect("/");
      e = sym_.floor_div(e, factor());
    }
    while (in_.accept(",")) e = combined(word, e, sum());
    in_.expect(")");
    return e;
  }

  Dim combined(std::string_view function, Dim a, Dim b) {
    if (function == "min") return sym_.min(a, b);
    if (function == "max") return sym_.max(a, b);
    const auto e = function == "broadcast" ? sym_.broadcast(a, b) : std::nullopt;
    if (!e) in_.fail(fmt::format("{} of {} and {}", function, a.str(), b.str()));
    return *e;
  }

  Dim symbol(const std::string& name) {
    if (const auto found = symbols_.find(name); found != symbols_.end()) return found->second;
    sym::SymbolInfo info{.name = name};
    if (const auto declared = declared_.find(name); declared != declared_.end()) {
      info = declared->second.info;
      if (const auto below = std::exchange(declared->second.below, std::nullopt)) {
        const size_t here = in_.position();
        in_.go_back(*below);
        info.below = sum();
        in_.go_back(here);
      }
    }
    return symbols_[name] = sym_.symbol(info);
  }

  int64_t number() {
    const bool negative = in_.accept("-");
    const auto n = integer_of(in_.until(ends));
    if (!n) in_.fail("a number is missing");
    return negative ? -*n : *n;
  }

  struct Declared {
    sym::SymbolInfo info;
    std::optional<size_t> below;  ///< where the formula is in the text
  };

  Cursor& in_;
  sym::Context& sym_;
  std::unordered_map<std::string, Declared> declared_;
  std::unordered_map<std::string, Dim> symbols_;
};

class Parser {
 public:
  // The opset is that of the constants alone, which every opset has.
  Parser(std::string_view text, sym::Context& sym, Graph& graph)
      : in_(text), formulas_(in_, sym), constants_(graph, sym, 20) {}

  void whole(Graph& graph) {
    parse(graph);
    if (in_.peek() != '\0') in_.fail("a graph has ended, and more follows");
  }

 private:
  /// The lines of a graph, to the end of the text or of the body.
  void parse(Graph& graph) {
    while (in_.peek() != '\0' && in_.peek() != '}') {
      const size_t begin = in_.position();
      const std::string word = name();
      if (in_.peek() == ':' || in_.peek() == ',') {
        in_.go_back(begin);
        node(graph);
      } else if (word == "size") {
        formulas_.declare();
      } else if (word == "input") {
        Value* v = declared(graph, name());
        v->kind = Value::Kind::Input;
        graph.inputs.push_back(v);
      } else if (word == "weight") {
        weight();
      } else if (word == "output") {
        const std::string of = name();
        graph.outputs.push_back(value(of));
        in_.expect(":");
        Value again;
        type(again);
      } else {
        in_.fail(fmt::format("'{}' begins no line", word));
      }
    }
  }

  std::string name() { return in_.accept("\"") ? in_.quoted() : std::string(in_.until(name_ends)); }

  Value* value(const std::string& name) {
    const auto found = values_.find(name);
    if (found == values_.end()) in_.fail(fmt::format("there is no value '{}'", name));
    return found->second;
  }

  void add(const std::string& name, Value* v) {
    if (!values_.emplace(name, v).second) in_.fail(fmt::format("there are two values '{}'", name));
  }

  /// A value whose type follows its name.
  Value* declared(Graph& graph, const std::string& name) {
    Value* v = graph.new_value();
    v->name = name;
    add(name, v);
    in_.expect(":");
    type(*v);
    return v;
  }

  /// A type, and the contents where they are known.
  void type(Value& v) {
    type_alone(v);
    if (!in_.accept("{")) return;
    v.contents.emplace();
    while (!in_.accept("}")) {
      v.contents->push_back(formulas_.sum());
      in_.accept(",");
    }
  }

  void type_alone(Value& v) {
    if (in_.accept("sequence of ")) v.form = Value::Form::Sequence;
    if (in_.accept("optional ")) v.form = Value::Form::Optional;
    v.dtype = dtype(in_.until(name_ends));
    if (!in_.accept("[")) return;
    while (!in_.accept("]")) {
      v.shape.push_back(in_.accept("?") ? Dim() : formulas_.sum());
      in_.accept(",");
    }
  }

  /// The sizes of a constant.
  Vector<int64_t> numbers(const Shape& shape) const {
    Vector<int64_t> out;
    for (const Dim d : shape) {
      if (!d || !d.is_constant()) in_.fail("the sizes of a constant are numbers");
      out.push_back(*d.constant());
    }
    return out;
  }

  DType dtype(std::string_view name) const {
    const auto found = dtype_named(name);
    if (!found) in_.fail(fmt::format("there is no type '{}'", name));
    return *found;
  }

  void weight() {
    const std::string called = name();
    in_.expect(":");
    Value like;
    type(like);
    add(called, constants_.constant(zeros(like.dtype, numbers(like.shape)), called));
  }

  TensorView zeros(DType dtype, Vector<int64_t> sizes) const {
    constexpr size_t most_bytes = size_t{1} << 30;
    size_t bytes = byte_size(dtype);
    for (const int64_t size : sizes) {
      bytes = size < 0 || bytes > most_bytes ? most_bytes + 1 : bytes * static_cast<size_t>(size);
    }
    if (bytes > most_bytes) in_.fail("a constant is too large");
    return TensorView::dense(dtype, std::move(sizes), std::vector<std::byte>(bytes));
  }

  void node(Graph& graph) {
    Node* n = graph.new_node();
    Vector<std::string> names;
    do {
      if (in_.accept("_ ")) in_.fail("an output is left out");
      const std::string called = name();
      Value* v = graph.new_value();
      v->name = called;
      in_.expect(":");
      type(*v);
      v->producer = n;
      v->output_index = n->outputs.size();
      n->outputs.push_back(v);
      names.push_back(called);
    } while (in_.accept(","));
    in_.expect("=");
    const std::string op(in_.until(" <(\n"));
    const size_t domain = op.rfind("::");
    n->op_type = domain == std::string::npos ? op : op.substr(domain + 2);
    n->domain = domain == std::string::npos ? "" : op.substr(0, domain);
    if (in_.accept("<"))
      while (!in_.accept(">")) {
        const std::string attribute(in_.until(name_ends));
        in_.expect("=");
        n->attributes.push_back({attribute, data(graph)});
        in_.accept(",");
      }
    in_.expect("(");
    while (!in_.accept(")")) {
      n->inputs.push_back(operand());
      in_.accept(",");
    }
    for (size_t i = 0; i < names.size(); ++i) add(names[i], n->outputs[i]);
    graph.nodes.push_back(n);
  }

  /// Whether a type is next, or a constant, which begins with one.
  bool at_type() {
    if (in_.peek() == '"') return false;
    const size_t begin = in_.position();
    const std::string_view word = in_.until(name_ends);
    const bool is_type = dtype_named(word) && (in_.peek() == '[' || in_.peek() == '{');
    in_.go_back(begin);
    return is_type || word == "sequence" || word == "optional";
  }

  Value* operand() {
    if (at_type()) {
      Value like;
      type_alone(like);
      in_.expect("{");
      return constants_.constant(elements(like));
    }
    const bool is_quoted = in_.peek() == '"';
    const std::string called = name();
    return called == "_" && !is_quoted ? nullptr : value(called);
  }

  /// The rest of a constant behind its opening brace.
  TensorView elements(const Value& like) {
    const DType type = like.dtype;
    Vector<int64_t> sizes = numbers(like.shape);
    TensorView out = zeros(type, sizes);
    if (in_.accept("...")) {
      in_.expect("}");
      return out;
    }
    Vector<double> reals;
    Vector<Dim> integers;
    while (!in_.accept("}")) {
      const std::string word(in_.until(name_ends));
      if (is_float(type))
        reals.push_back(std::strtod(word.c_str(), nullptr));
      else
        integers.push_back(constants_.dim(integer_of(word).value_or(0)));
      in_.accept(",");
    }
    if (static_cast<int64_t>(reals.size() + integers.size()) != out.numel())
      in_.fail("a constant has not as many elements as its sizes ask for");
    if (is_float(type)) return *constants_.reals(type, std::move(sizes), reals)->constant->view();
    return *constants_.symbolic(type, like.shape, std::move(integers))->constant->view();
  }

  Attribute::Data data(Graph& graph) {
    if (in_.accept("{")) {
      auto body = std::make_shared<Graph>(&graph);
      parse(*body);
      in_.expect("}");
      return body;
    }
    if (in_.accept("\"")) return in_.quoted();
    if (in_.accept("floats[]")) return Vector<float>();
    if (in_.accept("strings[]")) return Vector<std::string>();
    if (in_.accept("[")) return list();
    if (at_type()) return type_or_tensor();
    const std::string word(in_.until(name_ends));
    if (const auto n = integer_of(word)) return *n;
    return std::strtof(word.c_str(), nullptr);
  }

  Attribute::Data type_or_tensor() {
    auto like = std::make_shared<Value>();
    type_alone(*like);
    if (in_.accept("{")) return std::make_shared<const Tensor>(elements(*like));
    return std::shared_ptr<const Value>(std::move(like));
  }

  Attribute::Data list() {
    Vector<int64_t> integers;
    Vector<float> reals;
    Vector<std::string> strings;
    while (!in_.accept("]")) {
      if (in_.accept("\"")) {
        strings.push_back(in_.quoted());
      } else {
        const std::string word(in_.until(name_ends));
        if (const auto n = integer_of(word))
          integers.push_back(*n);
        else
          reals.push_back(std::strtof(word.c_str(), nullptr));
      }
      in_.accept(",");
    }
    if (!strings.empty()) return strings;
    if (!reals.empty()) return reals;
    return integers;
  }

  Cursor in_;
  Formulas formulas_;
  Builder constants_;
  std::unordered_map<std::string, Value*> values_;
};

}  // namespace

std::unique_ptr<Graph> parse(std::string_view text, sym::Context& sym) {
  auto graph = std::make_unique<Graph>();
  Parser(text, sym, *graph).whole(*graph);
  return graph;
}

}  // namespace lithify::onnx
