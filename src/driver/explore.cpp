#include "driver/explore.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>

#include "base/clock.hpp"
#include "driver/errors.hpp"
#include "driver/other_sizes.hpp"
#include "driver/solve.hpp"
#include "provenance/compare.hpp"

namespace lithify::driver {
namespace {

constexpr double longer_for_data = 4;    // times the seconds of the budget
constexpr size_t sizes_for_side = 3;     // at which a side is tried
constexpr size_t enough_recordings = 4;  // of a path, to show what its numbers stand for

/// The conditions that decide, with their outcomes, the same for all recordings of one path. The sizes in them have
/// numbers by the conditions alone: a loop may use sizes in each of its iterations, and these are not equally many.
std::string signature(const Recording& recording) {
  std::string out;
  std::map<std::string, size_t> numbers;
  if (!recording.capture.followed) return out;
  for (size_t at = 0; at < recording.capture.followed->conditions.size(); ++at) {
    const Condition& c = recording.capture.followed->conditions[at];
    if (c.other_raises || recording.counting.contains(at)) continue;
    for (size_t i = 0; i < c.formula.size();) {
      const size_t end = c.formula[i] == 's' ? c.formula.find_first_not_of("0123456789", i + 1) : i + 1;
      const std::string part = c.formula.substr(i, end - i);
      out += part.size() > 1 ? fmt::format("s{}", numbers.try_emplace(part, numbers.size()).first->second) : part;
      i = std::min(end, c.formula.size());
    }
    out += fmt::format("={};", c.outcome);
  }
  return out;
}

/// Whether Python took the number of elements of something.
bool is_length(const Escape& e) { return e.what == "length" || e.what == "tolist"; }

bool has_lengths(const Capture& capture) {
  return capture.followed && std::ranges::any_of(capture.followed->escapes, is_length);
}

/// Whether one of them is as large as contents require.
bool has_lengths_of_contents(const Capture& capture) {
  return capture.followed &&
         std::ranges::any_of(capture.followed->escapes, [](const Escape& e) { return e.of_contents && is_length(e); });
}

bool takes_contents(const Capture& capture) {
  return capture.followed && std::ranges::any_of(capture.followed->escapes, &Escape::of_contents);
}

/// Whether it asked for sizes only to raise at others.
bool has_checks(const Capture& capture) {
  return capture.followed && std::ranges::any_of(capture.followed->conditions, &Condition::other_raises);
}

std::shared_ptr<const Opened> opened(const Capture& capture) {
  return std::make_shared<const Opened>(std::vector<Source>{{capture.model, capture.inputs}});
}

std::string one_outcome(const std::string& where) {
  return fmt::format("a trace follows only one outcome of the condition on data at {}", where);
}

/// The programs of the recordings with their loops rerolled.
std::vector<std::shared_ptr<const Opened>> rerolled(std::span<const Recording> recordings) {
  std::vector<Unrolled> traces;
  for (const Recording& r : recordings)
    traces.push_back({r.opened, r.opened->traces().data(), &r.capture.followed, &r.counting});
  return rerolled(traces, merge::Lengths::Numbers);
}

/// Whether the recordings have loops of other lengths: that they are loops shows there.
bool has_confirmed_loops(const Path& path) {
  const auto lengths = [](const Recording& r) {
    std::vector<int64_t> out;
    for (const program::Stmt& s : r.opened->program().forward().body)
      if (s.recorded) out.push_back(*s.recorded);
    return out;
  };
  return !path.recordings.empty() && std::ranges::any_of(path.recordings, [&](const Recording& r) {
    return lengths(r) != lengths(path.recordings[0]);
  });
}

/// The path with these programs in place of its recordings', as far as they have the same loops as one of them. The
/// others are only good for a check: a loop of one iteration cannot be seen. No recordings where that one has no loops.
Path with_loops(const Path& path, const std::vector<std::shared_ptr<const Opened>>& loops, size_t first) {
  Path out;
  if (!loops[first]) return out;
  out.recordings.push_back(path.recordings[first]);
  out.recordings.back().opened = loops[first];
  for (size_t i = 0; i < loops.size(); ++i) {
    if (i == first) continue;
    if (!loops[i] || !provenance::differ_in_numbers(loops[first]->program(), loops[i]->program())) {
      out.other_sizes.push_back(path.recordings[i].sizes);
      continue;
    }
    out.recordings.push_back(path.recordings[i]);
    out.recordings.back().opened = loops[i];
  }
  return out;
}

bool have_same_answers(const Path& a, const Path& b) {
  return std::ranges::equal(a.answers, b.answers, [](const Answer& x, const Answer& y) {
    return x.condition == y.condition && x.outcome == y.outcome;
  });
}

}  // namespace

std::optional<claims::Formula> in_dimensions(const std::string& formula, const Evaluated& outcome) {
  if (formula.empty()) return std::nullopt;
  const claims::Formula parsed = claims::Formula::parse(formula);
  std::map<std::string, claims::Formula> sizes;
  for (const std::string& name : parsed.names()) {
    const size_t index = std::stoul(name.substr(1));
    if (index >= outcome.followed_sizes.size() || !outcome.followed_sizes[index]) return std::nullopt;
    const sym::Expr size = *outcome.followed_sizes[index];
    for (sym::Expr symbol : sym::symbols(size))
      if (!outcome.dimensions.contains(sym::info(symbol).name)) return std::nullopt;
    sizes.emplace(name, claims::Formula::parse(size.str()));
  }
  return parsed.substitute(sizes);
}

// ---- exploring ----------------------------------------------------------------------------------------------------

void Exploration::run(Capture sample, std::vector<Recording> others) {
  for (Recording& r : others) {
    others_.push_back(recorded(r.sizes, r.outcomes, std::move(r.capture)));
    others_.back().opened = opened(others_.back().capture);
  }
  add(recorded(sample_, {}, std::move(sample)));
  for (const Recording& r : others_) add(r);
  while (true) {
    std::erase_if(sides_, [&](const Side& s) {
      const Prefix turned = side_prefix(s);
      return is_covered(turned) || failed_.contains(turned);
    });
    // Without a side that data decide, there is no claim at all: these may take longer.
    const bool all_spent = runs_ >= budget_.runs || seconds_ >= longer_for_data * budget_.seconds;
    if (is_spent())
      std::erase_if(sides_, [&](const Side& s) {
        const Prefix turned = side_prefix(s);
        if (!all_spent && depends_on_data(turned)) return false;
        failed_[turned] = fmt::format("the budget of {} runs and {} seconds is spent", budget_.runs, budget_.seconds);
        return true;
      });
    const auto nearest =
        std::ranges::min_element(sides_, {}, [&](const Side& s) { return distance(sample_, s.sizes.front()); });
    if (nearest == sides_.end()) return;
    const Side side = *nearest;
    sides_.erase(nearest);
    take(side);
  }
}

bool Exploration::depends_on_data(const Prefix& prefix) const {
  return std::ranges::any_of(prefix, [&](const auto& asked) { return is_on_data(asked.first); });
}

/// Captures the other side of a condition.
void Exploration::take(const Side& side) {
  const Prefix turned = side_prefix(side);
  const Outcomes outcomes = outcomes_of(side);
  for (const Sizes& sizes : side.sizes) {
    try {
      add(recorded(sizes, outcomes, record(sizes, outcomes)));
      if (is_covered(turned)) return;
      failed_[turned] = fmt::format("at {} the model does not take it", text_of(sizes));
    } catch (const CannotCapture& e) {
      failed_[turned] = e.what();
    } catch (const Error& e) {
      failed_[turned] = e.first().message;
      return;
    }
  }
}

Capture Exploration::record(const Sizes& sizes, const Outcomes& outcomes, bool vary_contents) {
  const double start = thread_seconds();
  ++runs_;
  try {
    Capture out = record_(sizes, outcomes, vary_contents);
    seconds_ += thread_seconds() - start;
    return out;
  } catch (...) {
    seconds_ += thread_seconds() - start;
    throw;
  }
}

/// A capture at other sizes than another one. How many there are of something in contents shows in other contents.
Recording Exploration::record_other(const Recording& first, const Sizes& sizes) {
  Recording out = recorded(sizes, first.outcomes, record(sizes, first.outcomes));
  if (has_lengths_of_contents(first.capture)) try {
      Recording varied = recorded(sizes, first.outcomes, record(sizes, first.outcomes, /*vary_contents=*/true));
      if (signature(varied) == signature(first)) return varied;
    } catch (const CannotCapture&) {
    }
  return out;
}

Recording Exploration::recorded(const Sizes& sizes, const Outcomes& outcomes, Capture capture) const {
  Recording out{sizes, outcomes, std::move(capture)};
  if (counting_ == Counting::Loops && out.capture.followed) {
    out.counting = counting_conditions(*out.capture.followed);
    escape_counted(*out.capture.followed, out.counting);
  }
  return out;
}

/// Adds a recording to its path, or a path for it.
void Exploration::add(Recording recording) {
  if (!recording.opened) recording.opened = opened(recording.capture);
  const std::string key = signature(recording);
  if (std::ranges::find(paths_, key, [](const Path& p) { return signature(p.recordings[0]); }) != paths_.end()) return;
  Path path;
  path.recordings.push_back(std::move(recording));
  // What contents decide shows in other contents.
  if (takes_contents(path.recordings[0].capture)) add_others(path.recordings);
  settle(path);
  path.answers = answers_of(path);
  path.unknown = unknown_conditions(path);
  if (!path.unknown.empty()) {
    // What such a condition depends on is known at the sizes of recordings only.
    if (path.recordings.size() == 1) {
      enlarge(path.recordings);
      path.recovered = settle_(path.recordings, false);
    }
    for (const Path& other : paths_)
      if (have_same_answers(path, other)) throw Error(Code::CannotCapture, one_outcome(path.unknown[0]));
  }
  paths_.push_back(std::move(path));
  find_sides(paths_.size() - 1);
}

/// Adds the recordings of other samples that take the same path.
void Exploration::add_others(std::vector<Recording>& recordings) const {
  const std::shared_ptr<const Opened> first = recordings[0].opened;
  for (const Recording& r : others_)
    if (r.opened != first && signature(r) == signature(recordings[0])) recordings.push_back(r);
}

/// One recording shows all where no size escapes; else several of the same path. Where these have loops of other
/// lengths, the loops are rerolled.
void Exploration::settle_at_all_sizes(Path& path) {
  std::exception_ptr why;
  bool diverge = true;
  try {
    path.recovered = settle_(path.recordings, false);
    return;
  } catch (const Error& e) {
    // A loop over pieces, of which the trace has so many, is no error where it is a loop.
    diverge = is_about_sizes(e);
    const bool may_loop =
        has_lengths(path.recordings[0].capture) || rerolled(std::span(path.recordings).first(1))[0] != nullptr;
    if (!diverge && !may_loop) throw;
    why = std::current_exception();
  }
  enlarge(path.recordings);
  if (diverge) try {
      path.recovered = settle_(path.recordings, false);
      return;
    } catch (const Error& e) {
      if (e.first().code != Code::TracesDiverge) throw;
      why = std::current_exception();
    }
  // A loop of two iterations can hardly be told from two of something: then the largest recording shows it.
  const auto elements = [](const Recording& r) {
    double out = 1;
    for (const auto& [name, size] : r.sizes) out *= static_cast<double>(size);
    return out;
  };
  const auto largest = std::ranges::max_element(path.recordings, {}, elements) - path.recordings.begin();
  const std::vector<std::shared_ptr<const Opened>> loops = rerolled(path.recordings);
  Path whole = with_loops(path, loops, 0);
  if (!has_confirmed_loops(whole)) whole = with_loops(path, loops, static_cast<size_t>(largest));
  if (!has_confirmed_loops(whole)) std::rethrow_exception(why);
  path = std::move(whole);
  path.recovered = settle_(path.recordings, false);
}

/// Where the recordings do not show what the model does at other sizes, a raise that is not taken may show that there
/// are none.
void Exploration::settle(Path& path) {
  const std::vector<Recording> given = path.recordings;
  try {
    settle_at_all_sizes(path);
  } catch (const Error&) {
    if (!has_checks(given[0].capture)) throw;
    path.recordings = given;
    path.recovered = settle_(given, true);
  }
}

/// Records the same path at other sizes.
void Exploration::enlarge(std::vector<Recording>& recordings) {
  const Sizes first = recordings[0].sizes;
  std::set<size_t> held;  // dimensions that decide whether the path is taken: they stay as they are
  std::vector<Sizes> candidates = many_sizes(first), tried = {first};
  if (has_lengths_of_contents(recordings[0].capture)) {
    // Where much is computed, all of what may be found in contents is: less shows that there may be less.
    for (const int64_t few : {1, 2}) {
      Sizes smaller = first;
      for (auto& [name, size] : smaller) size = std::min(size, few);
      candidates.insert(candidates.begin() + few, smaller);
    }
  }
  if (has_lengths(recordings[0].capture) && !candidates.empty()) {
    // Loops of two lengths show that they are loops: of one step, there is none.
    for (const int64_t times : {5, 3}) {
      Sizes larger = first;
      for (auto& [name, size] : larger) size *= times;
      candidates.insert(candidates.begin() + 1, larger);
    }
  }
  const size_t given = recordings.size();
  const size_t enough = given - 1 + enough_recordings + (has_lengths(recordings[0].capture) ? 1 : 0) +
                        (has_lengths_of_contents(recordings[0].capture) ? 1 : 0);
  const auto is_over = [&] {
    // What cannot be exported by itself needs a second recording, however long it takes.
    const bool spent = recordings.size() > given ? is_spent() : runs_ >= budget_.runs;
    return spent || recordings.size() >= enough;
  };
  const auto attempt = [&](const Sizes& sizes) {
    if (is_over() || std::ranges::find(tried, sizes) != tried.end()) return Attempt::OtherPath;
    tried.push_back(sizes);
    return add_to(recordings, sizes);
  };
  for (size_t i = 0; i < candidates.size() && !is_over(); ++i) {
    Sizes sizes = candidates[i];
    for (size_t d : held) sizes[d].second = first[d].second;
    const Attempt done = attempt(sizes);
    if (done == Attempt::Failed && i == 0) {
      const std::vector<Sizes> bound = bound_sizes(first);
      candidates.insert(candidates.begin() + 1, bound.begin(), bound.end());
    } else if (done != Attempt::SamePath && first.size() > 1 && held.empty()) {
      for (size_t d = 0; d < first.size() && held.empty(); ++d) {
        Sizes others = sizes;
        others[d].second = first[d].second;
        if (attempt(others) == Attempt::SamePath) held.insert(d);
      }
    }
  }
}

/// Adds a recording at these sizes, if it takes the same path.
Exploration::Attempt Exploration::add_to(std::vector<Recording>& recordings, const Sizes& sizes) {
  try {
    Recording other = record_other(recordings[0], sizes);
    if (signature(other) != signature(recordings[0])) return Attempt::OtherPath;
    other.opened = opened(other.capture);
    recordings.push_back(std::move(other));
    return Attempt::SamePath;
  } catch (const CannotCapture&) {
    return Attempt::Failed;
  }
}

// ---- conditions ---------------------------------------------------------------------------------------------------

std::vector<std::string> Exploration::unknown_conditions(const Path& path) {
  std::vector<std::string> out;
  const Capture& capture = path.recordings[0].capture;
  const Evaluated& outcome = *path.recovered.outcome;
  for (size_t i = 0; capture.followed && i < capture.followed->conditions.size(); ++i) {
    const Condition& c = capture.followed->conditions[i];
    const bool guards = c.other_raises || path.recordings[0].counting.contains(i);
    if (!outcome.decided_conditions[i] && !c.question && !guards && !in_dimensions(c.formula, outcome))
      out.push_back(c.where);
  }
  return out;
}

std::vector<Answer> Exploration::answers_of(const Path& path) {
  std::vector<Answer> out;
  const Capture& capture = path.recordings[0].capture;
  if (!capture.followed) return out;
  const Evaluated& outcome = *path.recovered.outcome;
  for (size_t i = 0; i < capture.followed->conditions.size(); ++i) {
    const Condition& c = capture.followed->conditions[i];
    if (outcome.decided_conditions[i] || path.recordings[0].counting.contains(i)) continue;
    const std::optional<claims::Formula> formula = in_dimensions(c.formula, outcome);
    if (!formula && !c.question) continue;
    if (formula && formula->names().empty()) continue;
    // One that compares a number of the recording, as the length of an unrolled loop, is no condition of the path.
    const auto holds = [&](const Recording& r) { return outcome_at(*formula, r.sizes) == c.outcome; };
    if (formula && c.other_raises && !std::ranges::all_of(path.recordings, holds)) continue;
    const size_t id = condition_id(formula ? formula->str() : *c.question, {formula, c.where});
    if (std::ranges::find(out, id, &Answer::condition) == out.end())
      out.push_back(
          {id, c.outcome, capture.output_names.size() + i, formula ? std::nullopt : c.question, c.other_raises});
  }
  return out;
}

size_t Exploration::condition_id(const std::string& text, PathCondition condition) {
  const auto [known, is_new] = ids_.try_emplace(text, conditions_.size());
  if (is_new) conditions_.push_back(std::move(condition));
  return known->second;
}

Exploration::Prefix Exploration::side_prefix(const Side& side) const {
  Prefix out;
  for (size_t i = 0; i <= side.answer; ++i) {
    const Answer& a = paths_[side.path].answers[i];
    out.emplace_back(a.condition, (i == side.answer) != a.outcome);
  }
  return out;
}

Outcomes Exploration::outcomes_of(const Side& side) const {
  Outcomes out;
  for (size_t i = 0; i <= side.answer; ++i)
    if (const Answer& a = paths_[side.path].answers[i]; a.question) out[*a.question] = (i == side.answer) != a.outcome;
  return out;
}

/// Whether a path starts with these answers.
bool Exploration::is_covered(const Prefix& prefix) const {
  return std::ranges::any_of(paths_, [&](const Path& p) {
    return p.answers.size() >= prefix.size() &&
           std::equal(prefix.begin(), prefix.end(), p.answers.begin(),
                      [](const auto& x, const Answer& a) { return x == std::pair(a.condition, a.outcome); });
  });
}

/// The other sides of the conditions of a path, with sizes that take them.
void Exploration::find_sides(size_t path) {
  for (size_t i = 0; i < paths_[path].answers.size(); ++i) {
    Side side{path, i, {}};
    const Prefix turned = side_prefix(side);
    if (is_covered(turned) || failed_.contains(turned)) continue;
    if (paths_[path].answers[i].other_raises && !is_on_data(turned.back().first)) {
      failed_[turned] = "the model raises an error";
      continue;
    }
    const Sizes& from = paths_[path].recordings[0].sizes;
    if (is_on_data(turned.back().first)) {
      side.sizes = {from};
      sides_.push_back(std::move(side));
      continue;
    }
    std::vector<Wanted> wanted;
    for (const auto& [condition, outcome] : turned)
      if (!is_on_data(condition)) wanted.push_back({&*conditions_[condition].formula, outcome});
    side.sizes = sizes_where(wanted, from, sample_, sizes_for_side);
    if (!side.sizes.empty()) sides_.push_back(std::move(side));
  }
}

std::string Exploration::why_not(size_t condition, bool outcome) const {
  for (const auto& [prefix, why] : failed_)
    if (prefix.back() == std::pair(condition, outcome)) return why;
  return "";
}

std::string Exploration::missing_data() const {
  for (const auto& [prefix, why] : failed_)
    for (const auto& [condition, outcome] : prefix)
      if (is_on_data(condition)) return fmt::format("{}: {}", one_outcome(conditions_[condition].where), why);
  return "";
}

bool Exploration::takes(const Path& path, const Sizes& sizes) const {
  return std::ranges::all_of(path.answers, [&](const Answer& a) {
    return is_on_data(a.condition) || outcome_at(*conditions_[a.condition].formula, sizes) == a.outcome;
  });
}

}  // namespace lithify::driver
