#include "driver/source.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/checked.hpp"
#include "base/diagnostic.hpp"

namespace lithify::driver {
namespace {

/// A view without its storage, and the bytes that it reaches to.
std::pair<TensorView, size_t> described(const std::string& name, const LiveTensor& live) {
  auto bad = [&](std::string_view what) {
    return Error(Code::BadOption, fmt::format("the tensor '{}' {}", name, what));
  };
  const std::optional<DType> dtype = dtype_named(live.dtype);
  if (!dtype || byte_size(*dtype) == 0) throw bad(fmt::format("is of the type '{}', which is not known", live.dtype));
  if (live.sizes.size() != live.strides.size()) throw bad("has sizes and strides that differ in number");
  if (std::ranges::any_of(live.sizes, [](int64_t s) { return s < 0; }) ||
      std::ranges::any_of(live.strides, [](int64_t s) { return s < 0; }))
    throw bad("has a negative size or stride");
  TensorView view{*dtype, Vector<int64_t>(live.sizes), Vector<int64_t>(live.strides), 0, nullptr};
  if (view.numel() == 0) return {std::move(view), 0};
  if (!live.data) throw bad("has no memory");
  int64_t last = 0;
  for (size_t i = 0; i < live.sizes.size(); ++i)
    last = checked_add(last, checked_mul(live.sizes[i] - 1, live.strides[i]));
  return {std::move(view),
          static_cast<size_t>(checked_mul(checked_add(last, 1), static_cast<int64_t>(byte_size(*dtype))))};
}

/// Tensors at the same address share a storage, so that tied weights are one.
read::LiveTensors live_tensors(const std::map<std::string, LiveTensor>& weights) {
  read::LiveTensors out;
  std::map<const void*, std::shared_ptr<Storage>> storages;
  for (const auto& [name, live] : weights) {
    auto [view, bytes] = described(name, live);
    std::shared_ptr<Storage>& storage = storages[live.data];
    if (!storage) storage = std::make_shared<Storage>();
    if (bytes > storage->bytes.size()) storage->bytes = {static_cast<const std::byte*>(live.data), bytes};
    view.storage = storage;
    out.emplace(name, std::move(view));
  }
  return out;
}

}  // namespace

read::Opened open_source(const ModelSource& source) {
  if (!source.path.empty() || !source.bytes.data) return read::open_model(source.path);
  return read::open_model(archive::Record{{source.bytes.data, source.bytes.size}, nullptr},
                          live_tensors(source.weights));
}

}  // namespace lithify::driver
