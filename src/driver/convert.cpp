#include "driver/convert.hpp"

#include "driver/discover.hpp"
#include "driver/source.hpp"

namespace lithify::driver {

Opened::Opened(const std::vector<Source>& sources) {
  for (const Source& source : sources) files_.push_back(open_source(source.model));
  for (size_t i = 0; i < files_.size(); ++i) traces_.push_back({files_[i].program.get(), sources[i].inputs});
}

Opened::Opened(std::unique_ptr<program::Program> program, std::vector<std::shared_ptr<const Opened>> of,
               std::vector<std::string> inputs)
    : program_(std::move(program)), of_(std::move(of)), traces_{{program_.get(), std::move(inputs)}} {}

std::vector<Source> sources_of(const ModelSource& model, const ExportOptions& options) {
  std::vector<Source> out = {{model, {}}};
  for (const ModelSource& other : options.also) out.push_back({other, {}});
  return out;
}

ExportOptions settled(const Opened& opened, ExportOptions options) {
  if (options.discover) options.dynamic_axes = discover(opened.traces(), options);
  return options;
}

Converted convert(const std::vector<Source>& sources, const ExportOptions& options,
                  const std::optional<Followed>& followed) {
  auto opened = std::make_shared<const Opened>(sources);
  const PreparedModel model(opened->program(), settled(*opened, options), followed);
  Converted out{opened, recover(model, opened->traces()).outcome};
  if (out.evaluated->failed()) throw Error(out.evaluated->diagnostics);
  return out;
}

}  // namespace lithify::driver
