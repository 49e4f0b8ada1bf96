#include "provenance/recorder.hpp"

#include <algorithm>

namespace lithify::provenance {

namespace {

// Of the numbers that went into one value, the rest is not looked at.
constexpr size_t max_numbers = 64;

}  // namespace

Issue::Id Issue::id() const {
  Id out{kind, step, at, {a.node(), b.node()}};
  for (sym::Expr size : among) out.sizes.push_back(size.node());
  return out;
}

Recorder::Recorder(const program::Program& program, sym::Context& sym, Journal& journal, Formulas formulas,
                   bool suspicious)
    : program_(program),
      sym_(sym),
      formulas_(std::move(formulas)),
      suspicious_(suspicious),
      issues_(journal),
      uses_(journal),
      used_ones_(journal),
      varied_(journal),
      assumptions_(journal),
      known_assumptions_(journal),
      sides_(journal),
      boundaries_(journal) {}

std::optional<sym::Expr> Recorder::formula(const Literal& literal) const {
  const auto found = formulas_.find(literal);
  return found == formulas_.end() ? std::nullopt : std::optional(found->second);
}

void Recorder::begin(program::Pos pos, Origin arguments, Origin listed) {
  ++steps_;
  pos_ = pos;
  arguments_ = arguments;
  listed_ = listed;
  within_ = true;
  broadcast_ones_.clear();
  moved_.clear();
}

void Recorder::use(Origin value, Role role, sym::Expr size, int64_t least) {
  if (!suspicious_ || !is_literal(value) || origins_.value(value) < least) return;
  const NumberUse use{*origins_.as_literal(value), origins_.value(value), role, size, pos_};
  if (use.number == 1 && (role == Role::Position || role == Role::Size)) varied_.insert(use.literal);
  add_use(use);
}

void Recorder::add_use(const NumberUse& use) {
  if (use.number == 1) used_ones_.insert(use.literal);
  uses_.push_back(use);
}

void Recorder::vary(Origin argument) {
  for (const Origins::Found& f : origins_.numbers(origins_.join({argument}, pos_), max_numbers))
    if (used_ones_.contains(f.literal)) varied_.insert(f.literal);
}

void Recorder::end() {
  within_ = false;
  if (!listed_) return;
  for (const Boundary& b : moved_)
    issues_.push_back({Issue::Kind::MovedBoundary, b.before, b.after, {}, listed_, steps_, 0, pos_});
}

void Recorder::contradict(const sym::Conflict& c) {
  within_ = false;
  issues_.push_back({Issue::Kind::Contradiction, c.a, c.b, c.among, arguments_, steps_, c.at, pos_});
}

bool Recorder::broadcasts_one_to(sym::Expr size) const {
  return std::ranges::find(broadcast_ones_, size) != broadcast_ones_.end();
}

void Recorder::broadcast(Origin operand, bool is_constant, sym::Expr size, size_t axis) {
  std::vector<Origin> suspected;
  for (const Origins::Found& f : origins_.numbers(origins_.join({operand}, pos_), max_numbers)) {
    if (f.value == 1 && (f.literal.element == Literal::length || varied_.contains(f.literal)))
      suspected.push_back(origins_.literal(f.literal, 1));
    else if (suspicious_ && is_constant && has_size_of_one(f.literal))
      add_use({f.literal, 1, Role::Size, size, pos_});
  }
  if (!suspected.empty())
    issues_.push_back({Issue::Kind::Broadcast,
                       size,
                       sym_.constant(1),
                       {},
                       origins_.join(std::move(suspected), pos_),
                       steps_,
                       axis,
                       pos_});
}

bool Recorder::has_size_of_one(const Literal& literal) const {
  if (literal.expr->kind != program::Expr::Kind::Constant) return false;
  const program::Data& data = program_.constants[static_cast<size_t>(literal.expr->integer)];
  return data.tensor && std::ranges::count(data.tensor->sizes, 1) > 0;
}

void Recorder::assumed(const sym::Assumption& a) {
  const bool is_new = a.given.empty()
                          ? known_assumptions_.insert({a.kind, a.a.node(), a.b.node()})
                          : std::ranges::find(assumptions_.all(), a, &Assumed::assumption) == assumptions_.all().end();
  if (is_new) assumptions_.push_back({a, within_ ? pos_ : program::Pos()});
  if (within_ && a.kind == sym::Assumption::Kind::AtMost) use_as_limit(a);
}

/// A dimension that must be as large as it is in the sample: where a number of the program leads there, it may be its
/// last position.
void Recorder::use_as_limit(const sym::Assumption& a) {
  const std::optional<int64_t> needed = a.a.constant();
  if (!suspicious_ || !needed || sym_.sample(a.b) != needed) return;
  const std::vector<Origins::Found> numbers = origins_.numbers(arguments_, max_numbers);
  if (numbers.empty()) return;
  const auto last = std::ranges::find(numbers, *needed - 1, &Origins::Found::value);
  add_use({(last == numbers.end() ? numbers.front() : *last).literal, *needed - 1, Role::Position, a.b, pos_});
}

void Recorder::took_side(const sym::Assumption& side) { sides_.push_back({side, within_ ? pos_ : program::Pos()}); }

void Recorder::broadcast_one(sym::Expr size) {
  if (within_) broadcast_ones_.push_back(size);
}

void Recorder::moved_boundary(sym::Expr before, sym::Expr after) {
  boundaries_.push_back({before, after});
  if (within_) moved_.push_back({before, after});
}

Record Recorder::take() {
  return {std::move(origins_),      issues_.take(), uses_.take(), assumptions_.take(),
          boundaries_.all().size(), steps_,         sides_.take()};
}

}  // namespace lithify::provenance
