// Loops that tracing unrolled: the statements of a trace in, the statements with loops out.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/diagnostic.hpp"
#include "merge/reroll.hpp"
#include "traces.hpp"

namespace lithify::merge {
namespace {

/// The statements with the loops rerolled; "" where there are none.
std::string rerolled_text(const std::string& body, Lengths lengths = Lengths::Numbers) {
  const std::unique_ptr<program::Program> whole = trace(body);
  const std::unique_ptr<program::Program> made = std::move(rerolled({{whole.get(), {{}, 1}}}, lengths)[0]);
  return made ? statements(*made) : "";
}

}  // namespace

TEST_CASE("a value that is carried, and a position that counts") {
  CHECK(rerolled_text("    h = torch.zeros_like(x)\n"
                      "    a = torch.add(h, torch.select(x, 1, 0))\n"
                      "    b = torch.add(a, torch.select(x, 1, 1))\n"
                      "    d = torch.add(b, torch.select(x, 1, 2))\n"
                      "    return (d, x)\n") ==
        "h = torch.zeros_like(x)\n"
        "carried0 = h\n"
        "for i0 in range(3):\n"
        "  _0 = torch.select(x, 1, i0)\n"
        "  a = torch.add(carried0, _0)\n"
        "  carried0 = a\n"
        "return (carried0, x)\n");
}

TEST_CASE("a list of what all iterations make, with one before them") {
  CHECK(rerolled_text("    a = torch.neg(torch.select(x, 1, 4))\n"
                      "    b = torch.neg(torch.select(x, 1, 2))\n"
                      "    d = torch.neg(torch.select(x, 1, 0))\n"
                      "    return (torch.stack([x, a, b, d]), x)\n") ==
        "list0 = annotate(List[Tensor], [])\n"
        "for i0 in range(3):\n"
        "  _0 = torch.select(x, 1, torch.add(torch.mul(i0, -2), 4))\n"
        "  a = torch.neg(_0)\n"
        "  torch.append(list0, a)\n"
        "_3 = torch.stack(torch.add.t([x], list0))\n"
        "return (_3, x)\n");
}

TEST_CASE("pieces of a list are its elements") {
  CHECK(rerolled_text("    p, q, r, = torch.unbind(x, 1)\n"
                      "    a = torch.add(x, p)\n"
                      "    b = torch.add(a, q)\n"
                      "    d = torch.add(b, r)\n"
                      "    return (d, x)\n") ==
        "pieces0 = torch.unbind(x, 1)\n"
        "carried0 = x\n"
        "for i0 in range(torch.len(pieces0)):\n"
        "  a = torch.add(carried0, pieces0[i0])\n"
        "  carried0 = a\n"
        "return (carried0, x)\n");
}

TEST_CASE("all pieces of a list are the list") {
  CHECK(rerolled_text("    p, q, r, = torch.unbind(x, 1)\n"
                      "    a = torch.stack([p, q, r])\n"
                      "    return (a, x)\n") ==
        "pieces0 = torch.unbind(x, 1)\n"
        "a = torch.stack(pieces0)\n"
        "return (a, x)\n");
}

TEST_CASE("pieces of lengths that are the same number are rows") {
  CHECK(rerolled_text("    p, q, = torch.split_with_sizes(x, [2, 2])\n"
                      "    a = torch.neg(p)\n"
                      "    b = torch.neg(q)\n"
                      "    return (torch.cat([a, b]), x)\n",
                      Lengths::Pairs) ==
        "pieces0 = torch.unbind(torch.unflatten(x, 0, [-1, 2]), 0)\n"
        "list0 = annotate(List[Tensor], [])\n"
        "for i0 in range(torch.len(pieces0)):\n"
        "  a = torch.neg(pieces0[i0])\n"
        "  torch.append(list0, a)\n"
        "_0 = torch.cat(list0)\n"
        "return (_0, x)\n");
}

TEST_CASE("numbers that are computed again") {
  CHECK(rerolled_text("    p, q, r, s, = torch.unbind(x)\n"
                      "    _0 = int(p)\n"
                      "    _1 = int(q)\n"
                      "    _2 = int(r)\n"
                      "    _3 = int(s)\n"
                      "    a0 = torch.slice(x, 0, 0, _0)\n"
                      "    b0 = torch.sum(a0, [0])\n"
                      "    n1 = torch.add(_0, _1)\n"
                      "    a1 = torch.slice(x, 0, _0, n1)\n"
                      "    b1 = torch.sum(a1, [0])\n"
                      "    m1 = torch.add(_0, _1)\n"
                      "    t1 = ops.prim.NumToTensor(m1)\n"
                      "    n2 = torch.add(m1, _2)\n"
                      "    a2 = torch.slice(x, 0, int(t1), n2)\n"
                      "    b2 = torch.sum(a2, [0])\n"
                      "    m2 = torch.add(m1, _2)\n"
                      "    n3 = torch.add(m2, _3)\n"
                      "    a3 = torch.slice(x, 0, m2, n3)\n"
                      "    b3 = torch.sum(a3, [0])\n"
                      "    return (torch.stack([b0, b1, b2, b3]), x)\n") ==
        "pieces0 = torch.unbind(x)\n"
        "list0 = annotate(List[Tensor], [])\n"
        "for i7 in range(torch.len(pieces0)):\n"
        "  _0 = int(pieces0[i7])\n"
        "  torch.append(list0, _0)\n"
        "a0 = torch.slice(x, 0, 0, list0[0])\n"
        "b0 = torch.sum(a0, [0])\n"
        "carried12 = list0[0]\n"
        "list1 = annotate(List[Tensor], [])\n"
        "for i10 in range(torch.add(torch.len(list0), -1)):\n"
        "  n1 = torch.add(carried12, list0[torch.add(i10, 1)])\n"
        "  a1 = torch.slice(x, 0, carried12, n1)\n"
        "  b1 = torch.sum(a1, [0])\n"
        "  torch.append(list1, b1)\n"
        "  carried12 = n1\n"
        "_5 = torch.stack(torch.add.t([b0], list1))\n"
        "return (_5, x)\n");
}

TEST_CASE("a loop inside of a loop") {
  std::string body = "    h0 = torch.zeros_like(x)\n";
  for (int i = 0, n = 0; i < 3; ++i) {
    body += fmt::format("    g{} = torch.select(x, 0, {})\n", i, i);
    for (int j = 0; j < 4; ++j, ++n)
      body += fmt::format("    h{} = torch.add(h{}, torch.select(g{}, 0, {}))\n", n + 1, n, i, j);
  }
  CHECK(rerolled_text(body + "    return (h12, x)\n") ==
        "h0 = torch.zeros_like(x)\n"
        "carried0 = h0\n"
        "for i0 in range(3):\n"
        "  g0 = torch.select(x, 0, i0)\n"
        "  carried1 = carried0\n"
        "  for i1 in range(4):\n"
        "    _0 = torch.select(g0, 0, i1)\n"
        "    h1 = torch.add(carried1, _0)\n"
        "    carried1 = h1\n"
        "  carried0 = carried1\n"
        "return (carried0, x)\n");
}

TEST_CASE("two of something are a loop only where that is asked for") {
  const std::string two =
      "    a = torch.neg(torch.select(x, 1, 0))\n"
      "    b = torch.neg(torch.select(x, 1, 1))\n"
      "    return (torch.stack([a, b]), x)\n";
  CHECK(rerolled_text(two, Lengths::Pieces) == "");
  CHECK(rerolled_text(two, Lengths::Pairs).find("for i0 in range(torch.size(x, 1)):") != std::string::npos);
}

TEST_CASE("what is no loop stays as it is") {
  // Other weights, numbers that do not count, two values that are used each for itself.
  CHECK(rerolled_text("    p = torch.mul(x, self.a.weight)\n"
                      "    q = torch.mul(p, self.b.weight)\n"
                      "    return (q, x)\n") == "");
  CHECK(rerolled_text("    p = torch.mul(x, 2.)\n"
                      "    q = torch.mul(p, 3.)\n"
                      "    r = torch.mul(q, 5.)\n"
                      "    return (r, x)\n") == "");
  CHECK(rerolled_text("    p = torch.select(x, 1, 0)\n"
                      "    q = torch.select(x, 1, 1)\n"
                      "    return (torch.sub(p, q), x)\n") == "");
}

}  // namespace lithify::merge
