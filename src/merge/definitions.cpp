#include "merge/definitions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "program/print.hpp"
#include "program/text.hpp"

namespace lithify::merge {
namespace {

using program::Data;
using program::Expr;
using program::unmangled;
using Kind = Expr::Kind;

/// The same for equal data; empty for what has an identity.
std::string contents_of(const Data& d) {
  std::string head = fmt::format("{}:", static_cast<int>(d.kind));
  switch (d.kind) {
    case Data::Kind::None:
      return head;
    case Data::Kind::Bool:
    case Data::Kind::Int:
      return head + std::to_string(d.integer);
    case Data::Kind::Float:
    case Data::Kind::Complex:
      return fmt::format("{}{},{}", head, std::bit_cast<uint64_t>(d.real), std::bit_cast<uint64_t>(d.imag));
    case Data::Kind::String:
    case Data::Kind::Device:
      return head + d.text;
    case Data::Kind::Tensor: {
      std::string out = fmt::format("{}{}", head, static_cast<int>(d.tensor->dtype));
      for (const int64_t size : d.tensor->sizes) out += fmt::format(",{}", size);
      const std::vector<std::byte> bytes = d.tensor->dense_bytes();
      return out + ":" + std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    default:
      return "";
  }
}

[[noreturn]] void differ(const std::string& what) {
  throw Error(Code::TracesDiverge, fmt::format("the traces are not of one model: {}", what));
}

/// Whether attributes of two traces are the same, as far as that can be seen without their elements.
bool alike(const Data& a, const Data& b) {
  if (a.kind != b.kind || !a.object != !b.object) return false;
  if (a.tensor) return a.tensor->dtype == b.tensor->dtype && a.tensor->sizes == b.tensor->sizes;
  return a.integer == b.integer && std::bit_cast<uint64_t>(a.real) == std::bit_cast<uint64_t>(b.real) &&
         a.text == b.text;
}

}  // namespace

std::string path_of(const Node& node) {
  if (node.value) return node.value == ValueRef{} ? "self" : "";
  if (node.expr->kind != Kind::Attribute) return "";
  const std::string of = path_of(node.items[0]);
  return of.empty() ? of : of + "." + node.expr->name;
}

Definitions::Definitions(std::vector<const program::Program*> traces, std::span<const Formulas* const> formulas)
    : traces_(std::move(traces)), program_(std::make_unique<program::Program>(*traces_.at(0))) {
  std::unordered_map<std::string, uint64_t> numbers;
  for (const Formulas* of : formulas) {
    auto& known = formulas_.emplace_back();
    for (const auto& [literal, text] : *of) known[literal] = numbers.try_emplace(text, numbers.size()).first->second;
  }
  for (size_t t = 0; t < traces_.size(); ++t) {
    first_file_.push_back(t == 0 ? 0 : static_cast<int32_t>(program_->files.size()));
    if (t > 0) program_->files.insert(program_->files.end(), traces_[t]->files.begin(), traces_[t]->files.end());
    add_constants(t);
  }
  for (const auto& [name, function] : program_->functions) unmangled_.emplace(unmangled(name), name);
  for (const auto& [name, cls] : program_->classes) unmangled_.emplace(unmangled(name), name);
}

void Definitions::add_constants(size_t trace) {
  constants_.emplace_back();
  for (const Data& d : traces_[trace]->constants) {
    // The constants of the first trace are there already.
    const size_t place = trace == 0 ? constants_[0].size() : program_->constants.size();
    int64_t number = static_cast<int64_t>(place);
    if (const std::string contents = contents_of(d); !contents.empty())
      number = known_constants_.emplace(contents, number).first->second;
    if (place == program_->constants.size() && number == static_cast<int64_t>(place)) program_->constants.push_back(d);
    constants_[trace].push_back(number);
  }
}

int64_t Definitions::constant(size_t trace, int64_t number) const {
  if (number < 0 || static_cast<size_t>(number) >= constants_[trace].size())
    throw Error(Code::BadProgram, fmt::format("the program has no constant {}", number));
  return constants_[trace][static_cast<size_t>(number)];
}

std::optional<uint64_t> Definitions::formula(size_t trace, const Expr& literal) const {
  const auto found = formulas_[trace].find(&literal);
  return found == formulas_[trace].end() ? std::nullopt : std::optional(found->second);
}

std::string Definitions::kind_of_constant(size_t trace, int64_t number) const {
  const Data& d = program_->constants[static_cast<size_t>(constant(trace, number))];
  if (!d.tensor) return fmt::format("{}", static_cast<int>(d.kind));
  return fmt::format("{}:{}", static_cast<int>(d.tensor->dtype), d.tensor->sizes.size());
}

program::Pos Definitions::adapted(size_t trace, program::Pos pos) const {
  if (pos.file >= 0) pos.file += first_file_[trace];
  return pos;
}

program::Expr Definitions::adapted(size_t trace, const Expr& e) {
  Expr out;
  out.kind = e.kind;
  out.pos = e.pos;
  out.name = e.name;
  out.integer = e.integer;
  out.integer2 = e.integer2;
  out.real = e.real;
  out.imag = e.imag;
  out.keywords = e.keywords;
  out.type = e.type;
  adapt(trace, out);
  return out;
}

program::Type Definitions::adapted(size_t trace, const program::Type& type) {
  program::Type out{name(trace, type.name), {}};
  for (const program::Type& arg : type.args) out.args.push_back(adapted(trace, arg));
  return out;
}

void Definitions::adapt(size_t trace, Expr& e) {
  e.pos = adapted(trace, e.pos);
  if (e.kind == Kind::Constant) e.integer = constant(trace, e.integer);
  if (e.kind == Kind::Call || e.kind == Kind::New) e.name = name(trace, e.name);
  if (e.kind == Kind::Path) e.name = path_name(trace, e.name);
  e.type = adapted(trace, e.type);
  for (Expr& item : e.items) adapt(trace, item);
}

void Definitions::adapt(size_t trace, program::Stmt& s) {
  s.pos = adapted(trace, s.pos);
  for (Expr& e : s.values) adapt(trace, e);
  for (auto& type : s.target_types)
    if (type) type = adapted(trace, *type);
  for (program::Stmt& inner : s.body) adapt(trace, inner);
  for (program::Stmt& inner : s.orelse) adapt(trace, inner);
}

void Definitions::adapt(size_t trace, program::Function& f) {
  f.pos = adapted(trace, f.pos);
  f.returns = adapted(trace, f.returns);
  for (program::Parameter& p : f.parameters) {
    p.type = adapted(trace, p.type);
    if (p.default_value) adapt(trace, *p.default_value);
  }
  for (program::Stmt& s : f.body) adapt(trace, s);
}

void Definitions::adapt(size_t trace, program::Class& c) {
  c.pos = adapted(trace, c.pos);
  for (auto& [attribute, type] : c.attributes) type = adapted(trace, type);
  for (auto& [constant, value] : c.constants) adapt(trace, value);
  for (program::Function& f : c.methods) adapt(trace, f);
}

// An enum member by the name of its class.
std::string Definitions::path_name(size_t trace, const std::string& path) {
  const size_t dot = path.rfind('.');
  if (dot == std::string::npos || traces_[trace]->find_function(path) || traces_[trace]->find_class(path))
    return name(trace, path);
  return name(trace, path.substr(0, dot)) + path.substr(dot);
}

// A function or class of a trace in the program: one that reads the same, or else a copy. Classes of modules are those
// of the first trace: the methods that others call are compared where they are called.
std::string Definitions::name(size_t trace, const std::string& own) {
  if (trace == 0 || !own.starts_with(program::kOwnPrefix)) return own;
  const program::Function* function = traces_[trace]->find_function(own);
  const program::Class* cls = traces_[trace]->find_class(own);
  if ((!function && !cls) || (cls && cls->kind == program::Class::Kind::Module)) return own;
  const auto [it, is_new] = names_.try_emplace({trace, own}, own);
  if (!is_new) return it->second;
  auto settle = [&](auto copy, auto& definitions) {
    adapt(trace, copy);
    const std::string text = unmangled(program::print(copy));
    const auto [begin, end] = unmangled_.equal_range(unmangled(own));
    for (auto known = begin; known != end; ++known)
      if (const auto found = definitions.find(known->second);
          found != definitions.end() && unmangled(program::print(found->second)) == text)
        return known->second;
    std::string free = own;
    for (int n = 1; definitions.contains(free); ++n) free = fmt::format("{}_{}", own, n);
    copy.qualified_name = free;
    definitions.emplace(free, std::move(copy));
    unmangled_.emplace(unmangled(own), free);
    return free;
  };
  const std::string found = function ? settle(*function, program_->functions) : settle(*cls, program_->classes);
  return names_[{trace, own}] = found;
}

const Data* Definitions::attribute(size_t trace, const Node& path) const {
  const Node& of = path.items[0];
  if (of.value) return traces_[trace]->root->attribute(path.expr->name);
  const Data* outer = attribute(trace, of);
  return outer && outer->object ? outer->object->attribute(path.expr->name) : nullptr;
}

void Definitions::require_attribute(size_t trace, const Node& path) {
  const std::string text = path_of(path);
  if (trace == 0 || text.empty() || path.value || !required_.emplace(trace, text).second) return;
  const Data *first = attribute(0, path), *other = attribute(trace, path);
  if (!first != !other || (first && !alike(*first, *other))) differ(fmt::format("{} differs", text));
}

void Definitions::require_method(size_t trace, const Node& object, const Expr& call) {
  const std::string text = path_of(object);
  if (trace == 0 || text.empty() || !required_.emplace(trace, text + "." + call.name + "()").second) return;
  auto method = [&](size_t t) -> const program::Function* {
    const program::Object* of = traces_[t]->root.get();
    if (!object.value) {
      const Data* data = attribute(t, object);
      of = data ? data->object.get() : nullptr;
    }
    const program::Class* type = of ? traces_[t]->find_class(of->class_name) : nullptr;
    return type ? type->method(call.name) : nullptr;
  };
  const program::Function *first = method(0), *other = method(trace);
  if (!first || !other) differ(fmt::format("{} has no method {}", text, call.name));
  program::Function copy = *other;
  adapt(trace, copy);
  if (unmangled(program::print(*first)) != unmangled(program::print(copy)))
    differ(fmt::format("the code of {}.{} differs", text, call.name));
}

}  // namespace lithify::merge
