#include "program/program.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace lithify::program {

namespace {

void append(std::string& out, const Type& type) {
  out += type.name;
  if (type.name == "Tuple" && type.args.empty()) out += "[()]";
  if (type.args.empty()) return;
  const char* separator = "[";
  for (const Type& arg : type.args) {
    out += separator;
    append(out, arg);
    separator = ", ";
  }
  out += ']';
}

template <class Map>
const typename Map::mapped_type* find(const Map& map, std::string_view key) {
  const auto it = map.find(std::string(key));
  return it == map.end() ? nullptr : &it->second;
}

/// The second member of the pair whose first is `key`.
template <class T>
const T* find_first(const std::vector<std::pair<std::string, T>>& pairs, std::string_view key) {
  const auto it = std::ranges::find(pairs, key, &std::pair<std::string, T>::first);
  return it == pairs.end() ? nullptr : &it->second;
}

}  // namespace

std::string Type::str() const {
  std::string out;
  append(out, *this);
  return out;
}

const Function* Class::method(std::string_view name) const {
  const auto it = std::ranges::find(methods, name, &Function::name);
  return it == methods.end() ? nullptr : &*it;
}

const Expr* Class::constant(std::string_view name) const { return find_first(constants, name); }

const Data* Object::attribute(std::string_view name) const { return find_first(attributes, name); }

const Class* Program::find_class(std::string_view qualified_name) const { return find(classes, qualified_name); }

const Function* Program::find_function(std::string_view qualified_name) const {
  return find(functions, qualified_name);
}

const Function& Program::forward() const {
  if (!root) throw Error(Code::BadProgram, "the file holds no model object");
  const Class* cls = find_class(root->class_name);
  if (!cls)
    throw Error(Code::BadProgram, fmt::format("the model's class {} has no code in the file", root->class_name));
  const Function* function = cls->method("forward");
  if (!function) {
    throw Error(Code::BadProgram, fmt::format("the model's class {} has no method forward", root->class_name));
  }
  return *function;
}

Place Program::locate(Pos pos) const {
  if (pos.file < 0 || static_cast<size_t>(pos.file) >= files.size()) return {};
  const SourceFile& file = files[static_cast<size_t>(pos.file)];
  return file.locate ? file.locate(pos.offset) : Place{};
}

}  // namespace lithify::program
