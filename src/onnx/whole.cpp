#include "onnx/whole.hpp"

#include <cmath>
#include <unordered_map>

namespace lithify::onnx {
namespace {

constexpr int depth_limit = 32;
// Sums and products of fractions whose denominators are powers of two up to this are exact in float32, for sizes of
// which the program makes sense at all. A quotient by anything else is exact enough only to be rounded.
constexpr int64_t exact_limit = 256;

struct Fraction {
  Dim over;
  int64_t under = 1;

  bool whole() const { return under == 1; }
  bool exact() const { return under <= exact_limit && (under & (under - 1)) == 0; }
};

using MaybeFraction = std::optional<Fraction>;

class Reader {
 public:
  explicit Reader(sym::Context& sym) : sym_(sym) {}

  MaybeFraction read(const Value* v, int depth) {
    if (auto found = read_.find(v); found != read_.end()) return found->second;
    return read_[v] = compute(v, depth);
  }

  std::optional<Dim> truncated(const Fraction& f) const {
    if (f.whole()) return f.over;
    if (f.over.lower().value_or(-1) < 0) return std::nullopt;
    return sym_.floor_div(f.over, sym_.constant(f.under));
  }

 private:
  MaybeFraction compute(const Value* v, int depth) {
    if (v->contents) return v->contents->size() == 1 ? MaybeFraction(Fraction{v->contents->front()}) : std::nullopt;
    if (v->constant) {
      bool number = v->constant->numel() == 1 && is_float(v->dtype);
      return number ? of_number(v->constant->reals()[0]) : std::nullopt;
    }
    if (v->kind != Value::Kind::Output || depth == depth_limit || !v->producer->domain.empty()) return std::nullopt;
    const std::string& op = v->producer->op_type;
    if (op == "Squeeze" || op == "Unsqueeze" || op == "Reshape") return read(v->producer->inputs[0], depth + 1);
    Vector<Fraction> in;
    for (const Value* input : v->producer->inputs) {
      MaybeFraction f = input ? read(input, depth + 1) : std::nullopt;
      if (!f) return std::nullopt;
      in.push_back(*f);
    }
    if (in.size() == 2) return two(op, in[0], in[1]);
    return in.size() == 1 ? one(*v, in[0]) : std::nullopt;
  }

  MaybeFraction of_number(double v) const {
    for (int64_t under = 1; under <= exact_limit; under *= 2) {
      double over = v * static_cast<double>(under);
      if (over == std::floor(over) && std::abs(over) < 0x1p31)
        return Fraction{sym_.constant(static_cast<int64_t>(over)), under};
    }
    return std::nullopt;
  }

  MaybeFraction one(const Value& out, const Fraction& f) const {
    const std::string& op = out.producer->op_type;
    Dim under = sym_.constant(f.under);
    if (op == "Cast") {
      if (is_float(out.dtype)) return f;
      std::optional<Dim> n = is_integer(out.dtype) ? truncated(f) : std::nullopt;
      return n ? MaybeFraction(Fraction{*n}) : std::nullopt;
    }
    if (op == "Floor") return Fraction{sym_.floor_div(f.over, under)};
    if (op == "Ceil") return Fraction{sym_.ceil_div(f.over, under)};
    if (op == "Neg") return Fraction{sym_.neg(f.over), f.under};
    if (op == "Round" && f.whole()) return f;
    if (op == "Relu" && f.whole()) return Fraction{sym_.max(f.over, sym_.constant(0))};
    return std::nullopt;
  }

  MaybeFraction two(std::string_view op, const Fraction& a, const Fraction& b) const {
    if (!a.exact() || !b.exact()) return std::nullopt;
    Dim under_a = sym_.constant(a.under), under_b = sym_.constant(b.under);
    Dim left = sym_.mul(a.over, under_b), right = sym_.mul(b.over, under_a);
    if (op == "Add") return reduced(sym_.add(left, right), a.under * b.under);
    if (op == "Sub") return reduced(sym_.sub(left, right), a.under * b.under);
    if (op == "Mul") return reduced(sym_.mul(a.over, b.over), a.under * b.under);
    if (op == "Div") {
      if (auto divisor = right.constant(); divisor && *divisor > 0) return reduced(left, *divisor);
      auto quotient = right.is(0) ? std::nullopt : sym_.divide_exactly(left, right);
      return quotient ? MaybeFraction(Fraction{*quotient}) : std::nullopt;
    }
    if (!a.whole() || !b.whole()) return std::nullopt;
    if (op == "Max" || op == "Clip") return Fraction{sym_.max(a.over, b.over)};
    if (op == "Min") return Fraction{sym_.min(a.over, b.over)};
    return std::nullopt;
  }

  MaybeFraction reduced(Dim over, int64_t under) const {
    if (auto quotient = sym_.divide_exactly(over, sym_.constant(under))) return Fraction{*quotient};
    return Fraction{over, under};
  }

  sym::Context& sym_;
  std::unordered_map<const Value*, MaybeFraction> read_;
};

}  // namespace

std::optional<Dim> whole_number(sym::Context& sym, const Value* v) {
  Reader reader(sym);
  MaybeFraction f = reader.read(v, 0);
  return f && is_integer(v->dtype) ? reader.truncated(*f) : std::nullopt;
}

}  // namespace lithify::onnx
