#include "cli/truncation.hpp"

#include "cli/exit_codes.hpp"
#include "platform/process.hpp"

namespace lithify::cli {

void refuse_truncated_models() {
  platform::on_lost_mapping("error LTH001: the model file became shorter while it was read\n", bad_file);
}

void ignore_truncated_models() { platform::on_lost_mapping("", done); }

}  // namespace lithify::cli
