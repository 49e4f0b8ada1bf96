// Path exploration: which paths the code around a live model can take, by what it asks of sizes and of data.
//
// A trace is one path, with the conditions that it met. Each condition has another side. Sizes that take it are found
// by solving the conditions, the model is captured there as well, and so on, within a budget. A side that is not
// captured limits what can be claimed. The other side of a condition on data is captured at the same sizes: the front
// end goes on with the other outcome, whatever the inputs hold.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "claims/formula.hpp"
#include "driver/convert.hpp"
#include "driver/counting.hpp"
#include "lithify/capture.hpp"

namespace lithify::driver {

/// A condition, and the first line that asks it.
struct PathCondition {
  std::optional<claims::Formula> formula;  ///< of the dynamic dimensions; nothing for a condition on data
  std::string where;
};

/// Of questions about data: see CaptureRequest::outcomes.
using Outcomes = std::map<std::string, bool>;

/// A condition that a path asked.
struct Answer {
  size_t condition = 0;  ///< index among those of the exploration
  bool outcome = false;
  size_t result = 0;                         ///< where its value is among the results of the program
  std::optional<std::string> question = {};  ///< of a condition on data
  bool other_raises = false;                 ///< see Condition
};

/// A capture at some sizes.
struct Recording {
  Sizes sizes;
  Outcomes outcomes;
  Capture capture;
  std::shared_ptr<const Opened> opened = nullptr;
  std::set<size_t> counting = {};  ///< the conditions that only say whether a loop goes on
};

/// One path. The program of its first recording is exported; further recordings of the same path show which of its
/// numbers are sizes, where some escaped.
struct Path {
  std::vector<Recording> recordings;
  std::vector<Sizes> other_sizes;  ///< at which it was recorded as well, to be checked
  std::vector<Answer> answers;
  std::vector<std::string> unknown;  ///< lines of conditions on sizes that are no formulas of the dynamic dimensions
  Recovered recovered;               ///< what the program evaluates to by itself
};

/// What conditions that count are: see counting.hpp.
enum class Counting {
  Loops,  ///< the numbers of iterations of loops, which recordings at other sizes show
  Paths   ///< conditions as others are
};

/// How much work an exploration may be.
struct Budget {
  int64_t runs;    ///< of the model, after that on the sample
  double seconds;  ///< that they take, after which no further run begins
};

/// A formula over the sizes s0, s1, ... of lithify::Followed as one of the dynamic dimensions; nothing where it depends
/// on data.
std::optional<claims::Formula> in_dimensions(const std::string& formula, const Evaluated& outcome);

class Exploration {
 public:
  /// Captures the model at some sizes, and with other contents if so asked. Throws CannotCapture where it does not run
  /// there.
  using Record = std::function<Capture(const Sizes& sizes, const Outcomes& outcomes, bool vary_contents)>;
  /// Evaluates the program of the first recording by itself. A raise that is not taken may show that a dimension has
  /// one size only: whether that is believed. Throws Error where it cannot be exported.
  using Settle = std::function<Recovered(const std::vector<Recording>& recordings, bool fixes_sizes)>;

  Exploration(Sizes sample, Record record, Settle settle, Budget budget, Counting counting = Counting::Paths)
      : sample_(std::move(sample)),
        record_(std::move(record)),
        settle_(std::move(settle)),
        budget_(budget),
        counting_(counting) {}

  /// Finds the paths of the sample and of others that the user gave. Throws Error where one of these cannot be
  /// exported.
  void run(Capture sample, std::vector<Recording> others);

  const std::vector<Path>& paths() const { return paths_; }  ///< the first is the sample's
  const std::vector<PathCondition>& conditions() const { return conditions_; }
  /// Why the side of a condition with this outcome was not captured; empty where it was, or no sizes that take it were
  /// found.
  std::string why_not(size_t condition, bool outcome) const;
  /// Why not all is captured that the model does depending on data; empty where it is.
  std::string missing_data() const;
  /// Whether the model takes this path at some sizes, with some data.
  bool takes(const Path& path, const Sizes& sizes) const;

 private:
  struct Side {
    size_t path = 0, answer = 0;  ///< the answer of this path to be turned
    std::vector<Sizes> sizes;     ///< at which that is so, the nearest first
  };
  using Prefix = std::vector<std::pair<size_t, bool>>;  ///< conditions and outcomes

  void take(const Side& side);
  Capture record(const Sizes& sizes, const Outcomes& outcomes, bool vary_contents = false);
  Recording record_other(const Recording& first, const Sizes& sizes);
  Recording recorded(const Sizes& sizes, const Outcomes& outcomes, Capture capture) const;
  void add(Recording recording);
  void add_others(std::vector<Recording>& recordings) const;
  void settle(Path& path);
  void settle_at_all_sizes(Path& path);
  void enlarge(std::vector<Recording>& recordings);
  enum class Attempt { SamePath, OtherPath, Failed };
  Attempt add_to(std::vector<Recording>& recordings, const Sizes& sizes);

  std::vector<Answer> answers_of(const Path& path);
  static std::vector<std::string> unknown_conditions(const Path& path);
  size_t condition_id(const std::string& text, PathCondition condition);
  Prefix side_prefix(const Side& side) const;
  Outcomes outcomes_of(const Side& side) const;
  bool is_on_data(size_t condition) const { return !conditions_[condition].formula; }
  bool depends_on_data(const Prefix& prefix) const;
  bool is_covered(const Prefix& prefix) const;
  void find_sides(size_t path);
  bool is_spent() const { return runs_ >= budget_.runs || seconds_ >= budget_.seconds; }

  Sizes sample_;
  Record record_;
  Settle settle_;
  Budget budget_;
  Counting counting_;
  int64_t runs_ = 0;
  double seconds_ = 0;
  std::vector<Recording> others_;  // of the other samples
  std::vector<Path> paths_;
  std::vector<PathCondition> conditions_;
  std::map<std::string, size_t> ids_;     // of conditions, by their text
  std::vector<Side> sides_;               // not captured yet
  std::map<Prefix, std::string> failed_;  // sides that cannot be captured, and why
};

}  // namespace lithify::driver
