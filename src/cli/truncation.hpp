// Model files that become shorter while the program reads them: the system signals a read behind the new end.
#pragma once

namespace lithify::cli {

/// From now on such a file is an error. Nothing that was written has a name yet.
void refuse_truncated_models();
/// From now on the program just ends: its output is complete, and only a hint would be read from the model.
void ignore_truncated_models();

}  // namespace lithify::cli
