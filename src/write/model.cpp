#include "write/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <limits>
#include <optional>

#include "base/diagnostic.hpp"
#include "platform/file.hpp"
#include "write/encode.hpp"
#include "write/external.hpp"
#include "write/file.hpp"
#include "write/plan.hpp"

namespace lithify::write {
namespace fs = std::filesystem;
namespace {

using External = WriteOptions::External;

/// Protobuf libraries keep the size of a message in an int.
constexpr uint64_t largest_message = std::numeric_limits<int32_t>::max();

Plan plan_of(const Message& message) {
  Plan plan;
  size_t done = 0;
  for (const Message::Gap& gap : message.gaps()) {
    plan.add(message.bytes().substr(done, gap.position - done));
    plan.add(*gap.tensor);
    done = gap.position;
  }
  plan.add(message.bytes().substr(done));
  return plan;
}

Plan plan_of(const ExternalData& data) {
  Plan plan;
  for (const ExternalData::Region& region : data.regions()) {
    plan.skip_to(region.offset);
    plan.add(*region.tensor);
  }
  return plan;
}

/// The message, and what it refers to when the model needs external data.
struct Encoded {
  Message message;
  std::optional<ExternalData> data;
};

Encoded encode_within_limit(const onnx::Model& model, const std::string& data_name, External external) {
  Encoded encoded;
  if (external != External::Always) {
    encoded.message = encode(model, nullptr);
    if (encoded.message.size() <= largest_message) return encoded;
    if (external == External::Never)
      throw Error(Code::TooLarge,
                  fmt::format("the model has {:.1f} GB and one ONNX file can have 2 GB",
                              static_cast<double>(encoded.message.size()) / 1e9),
                  "let the weights go to a file beside it: external data 'auto' or 'always'");
  }
  encoded.data.emplace(data_name);
  encoded.message = encode(model, &*encoded.data);
  if (encoded.message.size() > largest_message)
    throw Error(Code::TooLarge, "the model has more than 2 GB without its weights");
  if (encoded.data->regions().empty()) encoded.data.reset();
  return encoded;
}

/// Two names for the external data of a model: the one that the present file does not refer to is free. So the model
/// and its data are replaced as one, by the rename of the model.
struct DataNames {
  fs::path free, other;

  explicit DataNames(const fs::path& out) : free(out), other(out) {
    free += ".data";
    other += ".1.data";
    std::error_code ignored;
    if (fs::exists(free, ignored) && fs::exists(out, ignored) && !mentions(out, platform::text_of(other.filename())))
      std::swap(free, other);
  }

  static bool mentions(const fs::path& file, const std::string& text) {
    std::error_code ignored;
    if (!fs::is_regular_file(file, ignored)) return false;
    std::ifstream in(file, std::ios::binary);
    const std::boyer_moore_searcher searcher(text.begin(), text.end());
    std::string part;  // the end of what was read before, and what follows it
    for (std::string more(size_t{1} << 20, '\0'); in; part.erase(0, part.size() - std::min(part.size(), text.size()))) {
      in.read(more.data(), static_cast<std::streamsize>(more.size()));
      part.append(more, 0, static_cast<size_t>(in.gcount()));
      if (std::search(part.begin(), part.end(), searcher) != part.end()) return true;
    }
    return false;
  }
};

}  // namespace

WriteResult write_model(const onnx::Model& model, const fs::path& out, const WriteOptions& options) {
  const DataNames names(out);
  const fs::path& data_path = names.free;
  const Encoded encoded = encode_within_limit(model, platform::text_of(data_path.filename()), options.external);
  const Plan plan = plan_of(encoded.message);
  const Plan data_plan = encoded.data ? plan_of(*encoded.data) : Plan();
  WriteResult result{
      .bytes = plan.size() + data_plan.size(), .weight_bytes = encoded.message.weight_bytes(), .external_file = {}};

  Progress progress(options.progress, plan.bytes() + data_plan.bytes());
  OutputFile file(out, plan.size(), options.sync);
  std::optional<OutputFile> data_file;
  if (encoded.data) {
    if (!file.seekable())
      throw Error(Code::CannotWrite,
                  fmt::format("external data has no place beside the output '{}'", platform::text_of(out)),
                  "write to a regular file");
    std::error_code missing;
    const fs::path& like = fs::exists(names.other, missing) ? names.other : out;
    data_file.emplace(data_path, data_plan.size(), options.sync, like);
    data_plan.run(*data_file, progress);
    result.weight_bytes += encoded.data->weight_bytes();
    result.external_file = platform::text_of(data_path);
  }
  plan.run(file, progress);
  progress.report();
  options.before_commit();
  if (data_file) data_file->close();
  file.close();
  if (data_file) data_file->commit();
  file.commit();
  if (data_file) {
    std::error_code ignored;
    fs::remove(names.other, ignored);
  }
  return result;
}

WriteResult write_model(const onnx::Model& model, const std::function<std::byte*(uint64_t size)>& allocate,
                        const WriteOptions& options) {
  if (options.external == External::Always)
    throw Error(Code::BadOption, "external data has no place beside a model in memory", "write to a file");
  const Encoded encoded = encode_within_limit(model, {}, External::Never);
  const Plan plan = plan_of(encoded.message);
  Progress progress(options.progress, plan.bytes());
  plan.run(OutputBuffer({allocate(plan.size()), static_cast<size_t>(plan.size())}), progress);
  progress.report();
  options.before_commit();
  return {.bytes = plan.size(), .weight_bytes = encoded.message.weight_bytes(), .external_file = {}};
}

}  // namespace lithify::write
