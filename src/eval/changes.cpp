// What a run changes of the model itself: buffers, and attributes of modules.
#include "eval/carry.hpp"
#include "eval/evaluator.hpp"

namespace lithify::eval {
namespace {

/// The type in the graph of a number that is an attribute.
std::optional<DType> type_of_number(const program::Data& data) {
  using K = program::Data::Kind;
  if (data.kind == K::Int) return DType::Int64;
  if (data.kind == K::Float) return DType::Double;
  return data.kind == K::Bool ? std::optional(DType::Bool) : std::nullopt;
}

}  // namespace

onnx::Value* Evaluator::contents_at_first(const TensorView& weight) {
  const auto found = paths_.find(&weight);
  const std::string path = found == paths_.end() ? std::string() : found->second;
  onnx::Value*& contents = first_contents_[&weight];
  if (!options_.state_inputs.contains(path)) return contents = builder_.weight(weight, path);
  onnx::Shape shape;
  for (int64_t n : weight.sizes) shape.push_back(builder_.dim(n));
  return contents = builder_.input(path, weight.dtype, std::move(shape));
}

Value Evaluator::attribute_at_first(const program::Data& data, const std::string& path) {
  const std::optional<DType> type = type_of_number(data);
  if (!type || !options_.state_inputs.contains(path)) return from_data(data);
  onnx::Value* in = builder_.input(path, *type, {});
  if (type == DType::Int64) return builder_.symbol_of(in, path.substr(path.rfind('.') + 1));
  auto number = std::make_shared<Tensor>(in);
  number->is_number = true;
  return number;
}

Vector<Change> Evaluator::changes() {
  Vector<Change> out;
  std::set<const void*> seen;
  if (root_) find_changes(*program_.root, seen, out);
  return out;
}

void Evaluator::find_changes(const program::Object& object, std::set<const void*>& seen, Vector<Change>& out) {
  const auto converted = converted_.find(&object);
  if (converted == converted_.end() || !seen.insert(&object).second) return;
  Object& now = **converted->second.get_if<std::shared_ptr<Object>>();
  for (auto& [name, data] : object.attributes) {
    const Value* v = now.attribute(name);
    const auto set = set_at_.all().find({&now, name});
    Change change{now.path.empty() ? name : now.path + "." + name, nullptr,
                  set == set_at_.all().end() ? Place{} : program_.locate(*set->second)};
    if (data.object) {
      find_changes(*data.object, seen, out);
    } else if (data.tensor) {
      if (!seen.insert(data.tensor.get()).second) continue;
      onnx::Value* before = first_contents_.at(data.tensor.get());
      onnx::Value* after = v && v->is_tensor() ? v->tensor()->read(builder_) : nullptr;
      if (before == after) continue;
      for (auto& [tensor, pos] : written_at_.all())
        if (!change.place.known() && after && tensor->shares_memory_with(*v->tensor()))
          change.place = program_.locate(pos);
      if (after && after->dtype == before->dtype && after->shape == before->shape) change.after = after;
      out.push_back(std::move(change));
    } else {
      const auto* list = v ? v->get_if<std::shared_ptr<List>>() : nullptr;
      const bool same = v && equal(builder_.sym, *v, from_data(data)) == true;
      const bool longer = list && data.container && (*list)->items.size() != data.container->items.size();
      if (!longer && (same || set == set_at_.all().end() || !read_first_.contains({&now, name}))) continue;
      if (const auto type = type_of_number(data); type && v && v->is_number()) {
        onnx::Value* after = carried(builder_, *v);
        if (after->dtype == *type && after->rank() == 0) change.after = after;
      }
      change.grows = longer;
      out.push_back(std::move(change));
    }
  }
}

}  // namespace lithify::eval
