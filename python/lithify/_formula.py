"""Formulas of sizes: their text, their value in this run, and the statements that compute them in the traced program.

A Term is a size, or an operation on terms and constants, exactly as Python computes it. It costs nothing until its text or its
statements are needed. The language of the texts is that of Python: see capture.hpp.

Quotients of integers keep their two parts, so that `ceil(n / 32)` is computed on integers: the core follows integers
symbolically, and not floating point. This is exact: a correctly rounded quotient of integers below 2**53 is on the same side of
each integer, and of each integer and a half, as the true one.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple, Union

import torch

from lithify._torch import Program, Value

Constant = int | float | bool
Operand = Union["Term", Constant]

# Of math, where TorchScript has them for real numbers.
FUNCTIONS = ("fmod", "atan2", "copysign", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "expm1", "log1p")
COMPUTE: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "not": operator.not_,
    "neg": operator.neg,
    "abs": abs,
    "min": min,
    "max": max,
    "int": int,
    "float": float,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "gcd": math.gcd,
    **{name: getattr(math, name) for name in ("sqrt", "log", "log2", "log10", "exp", "sin", "cos", *FUNCTIONS)},
}
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
# How tightly operators bind; functions and names bind closest.
RANKS = {"or": 1, "and": 2, "not": 3, **dict.fromkeys(COMPARISONS, 4), "+": 5, "-": 5, "neg": 7, "**": 8}
RANKS |= dict.fromkeys(("*", "/", "//", "%"), 6)
ATOM = 9
NOT_IN_TEXTS = ("&", "|", "^", *FUNCTIONS)  # the language does not have them: what they compute has a name
LARGEST = 60  # operations in a text; a larger one has names for its parts
LARGEST_FRACTION = 1 << 20
_NEUTRAL = {"+": 0, "-": 0, "*": 1, "//": 1, "**": 1}


class Ratio(NamedTuple):
    """A real number as a quotient of integers. `exact`: nothing was rounded to get it, since it is divided by a power of 2."""

    over: Operand
    under: Operand
    exact: bool


class Term:
    """A size of a tensor, a number that a tensor holds, or an operation. `value` is what it is in this run; `named` if it has a
    name in texts; `of_contents` if it is computed from what inputs hold."""

    __slots__ = ("_scalar", "named", "nonnegative", "of_contents", "op", "operands", "ratio", "source", "value", "weight")

    def __init__(self, op: str, operands: tuple[Operand, ...], value: Constant) -> None:
        self.op, self.operands, self.value = op, operands, value
        self.source: tuple[Value, int | None] | None = None
        self.nonnegative = _is_nonnegative(op, operands)
        self.of_contents = any(o.of_contents for o in operands if isinstance(o, Term))
        self.ratio = _ratio(op, operands) if type(value) is float else None
        self.weight = 1 + sum(o.weight for o in operands if isinstance(o, Term))
        self.named = op in NOT_IN_TEXTS
        self._scalar: Value | None = None

    def scalar(self, program: Program) -> Value:
        """The number in the traced program."""
        if self._scalar is None:
            self._scalar = _sources(self, program) if self.source else _emitted(self, program)
        return self._scalar

    def text(self, name: Callable[[Term], str]) -> str:
        return _text(self, name)[0]

    def first_source(self) -> Value:
        """The tensor that the first of its numbers is of."""
        term = self
        while term.source is None:
            term = next(o for o in term.operands if isinstance(o, Term))
        return term.source[0]


def leaf(source: Value, axis: int | None, value: Constant, of_contents: bool = False) -> Term:
    """The size of a tensor along an axis, or the number that a tensor of the program holds."""
    term = Term("", (), value)
    term.source = source, axis
    term.nonnegative = axis is not None
    term.named = True
    term.of_contents = of_contents
    return term


def apply(op: str, *operands: Operand) -> Operand:
    """The operation on terms and constants. Raises what Python raises."""
    value = COMPUTE[op](*(value_of(o) for o in operands))
    if not any(isinstance(o, Term) for o in operands):
        return value  # type: ignore[no-any-return]
    if type(value) is int and op in _NEUTRAL:
        if value_is(operands[1], _NEUTRAL[op]):
            return operands[0]
        if op in ("+", "*") and value_is(operands[0], _NEUTRAL[op]):
            return operands[1]
        if (folded := _folded(op, *operands)) is not None:
            return folded
    return Term(op, operands, value)


def _folded(op: str, a: Operand, b: Operand) -> Operand | None:
    """n + 3 for (n + 1) + 2: a number that counts stays a short formula."""
    if op not in ("+", "-") or type(b) is not int or not isinstance(a, Term) or a.named or a.op not in ("+", "-"):
        return None
    of, first = a.operands
    if type(first) is not int or type(a.value) is not int:
        return None
    sum_ = (first if a.op == "+" else -first) + (b if op == "+" else -b)
    return apply("+" if sum_ >= 0 else "-", of, abs(sum_))


def value_of(operand: Operand) -> Constant:
    return operand.value if isinstance(operand, Term) else operand


def value_is(operand: Operand, constant: int) -> bool:
    return type(operand) is int and operand == constant


def are_same(a: Operand, b: Operand) -> bool:
    """Whether both are the same formula."""
    if not (isinstance(a, Term) and isinstance(b, Term)):
        return type(a) is type(b) and a == b
    if a is b or a.source or b.source:
        return a is b
    return a.op == b.op and len(a.operands) == len(b.operands) and all(map(are_same, a.operands, b.operands))


def decided(op: str, a: Operand, b: Operand) -> bool | None:
    """The outcome of a comparison where it is the same at all sizes."""
    if are_same(a, b):
        return op in ("<=", ">=", "==")
    if not isinstance(a, Term) and isinstance(b, Term):
        return decided({"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(op, op), b, a)
    if isinstance(b, Term) or not isinstance(a, Term):
        return None
    if isinstance(b, float) and not math.isfinite(b):
        return COMPUTE[op](a.value, b)  # type: ignore[no-any-return]
    if a.nonnegative and (b < 0 or (b == 0 and op in ("<", ">="))):
        return op in (">", ">=", "!=")
    return None


def is_nonnegative(operand: Operand) -> bool:
    return operand.nonnegative if isinstance(operand, Term) else operand >= 0


def _is_nonnegative(op: str, operands: tuple[Operand, ...]) -> bool:
    """Whether the result is not negative at any size."""
    if op in ("+", "*", "/", "//", "**", "min", "int", "float", "floor", "ceil", "round", "&"):
        return all(map(is_nonnegative, operands))
    if op == "max":
        return any(map(is_nonnegative, operands))
    if op == "%":
        return is_nonnegative(operands[1])
    return op in ("abs", "sqrt", "exp", "gcd", "not", "and", "or", *COMPARISONS)


# ---- text ------------------------------------------------------------------------------------------------------------------


def _text(operand: Operand, name: Callable[[Term], str]) -> tuple[str, int]:
    """The text, and how tightly it binds."""
    if not isinstance(operand, Term):
        return repr(operand), ATOM if operand >= 0 else RANKS["neg"]
    if operand.named:
        return name(operand), ATOM
    op, parts = operand.op, [_text(o, name) for o in operand.operands]
    rank = RANKS.get(op, ATOM)
    if rank == ATOM:
        return f"{op}({', '.join(text for text, _ in parts)})", ATOM
    if len(parts) == 1:
        sign = "-" if op == "neg" else "not "
        return sign + _inside(parts[0], rank), rank
    strict_left, strict_right = op in COMPARISONS or op == "**", op not in ("**", "and", "or")
    left, right = _inside(parts[0], rank + strict_left), _inside(parts[1], rank + strict_right)
    return f"{left} {op} {right}", rank


def _inside(part: tuple[str, int], rank: int) -> str:
    text, own = part
    return text if own >= rank else f"({text})"


# ---- quotients of integers -------------------------------------------------------------------------------------------------


def ratio_of(operand: Operand) -> Ratio | None:
    """The number as a quotient of integers, where that is known."""
    if isinstance(operand, Term):
        return Ratio(operand, 1, True) if type(operand.value) is int else operand.ratio
    if not math.isfinite(operand):
        return None
    over, under = operand.as_integer_ratio()
    return Ratio(over, under, True) if max(abs(over), under) <= LARGEST_FRACTION else None


def _ratio(op: str, operands: tuple[Operand, ...]) -> Ratio | None:
    """Of the result of an operation on real numbers. Where something was rounded, only what keeps it on the same side of each
    integer has a quotient."""
    parts = [ratio_of(o) for o in operands]
    known = [p for p in parts if p is not None]
    if len(known) != len(parts):
        return None
    rule = _RATIOS.get(op)
    made = rule(*known) if rule else None
    if made is None or (type(made.under) is int and abs(made.under) > LARGEST_FRACTION):
        return None
    return made


def _is_whole(r: Ratio) -> bool:
    return value_is(r.under, 1)


def _sum(op: str, a: Ratio, b: Ratio) -> Ratio | None:
    if a.exact and b.exact:
        under = max(a.under, b.under)  # powers of 2
        scaled = [apply("*", r.over, under // r.under) if under != r.under else r.over for r in (a, b)]  # type: ignore[operator]
        return Ratio(apply(op, *scaled), under, True)
    if _is_whole(b):
        return Ratio(apply(op, a.over, apply("*", b.over, a.under)), a.under, False)
    if _is_whole(a):
        return Ratio(apply(op, apply("*", a.over, b.under), b.over), b.under, False)
    return None


def _product(a: Ratio, b: Ratio) -> Ratio | None:
    if not (a.exact and b.exact):
        return None
    return Ratio(apply("*", a.over, b.over), apply("*", a.under, b.under), True)


def _quotient(a: Ratio, b: Ratio) -> Ratio | None:
    if not _is_whole(b) or value_is(b.over, 0):
        return None
    power_of_2 = type(b.over) is int and b.over > 0 and b.over & (b.over - 1) == 0
    if not _is_whole(a) and not (a.exact and power_of_2):
        return None
    return Ratio(a.over, apply("*", a.under, b.over), a.exact and power_of_2)


_RATIOS: dict[str, Callable[..., Ratio | None]] = {
    "+": lambda a, b: _sum("+", a, b),
    "-": lambda a, b: _sum("-", a, b),
    "*": _product,
    "/": _quotient,
    "neg": lambda a: Ratio(apply("neg", a.over), a.under, a.exact),
    "float": lambda a: a,
}


def _positive(r: Ratio | None) -> tuple[Operand, int] | None:
    """The parts of a quotient by a positive constant."""
    if r is None or type(r.under) is not int:
        return None
    return (r.over, r.under) if r.under > 0 else (apply("neg", r.over), -r.under)


def _floor(r: Ratio) -> Operand:
    return apply("//", r.over, r.under)


def _ceil(r: Ratio) -> Operand:
    return apply("neg", apply("//", apply("neg", r.over), r.under))


def _truncated(r: Ratio) -> Operand | None:
    if is_nonnegative(r.over) and is_nonnegative(r.under):
        return _floor(r)
    parts = _positive(r)
    if parts is None:
        return None
    over, under = parts
    above, below = apply("max", over, 0), apply("max", apply("neg", over), 0)
    return apply("-", apply("//", above, under), apply("//", below, under))


def _rounded(r: Ratio) -> Operand | None:
    """To the nearest integer; to the even one of two."""
    parts = _positive(r)
    if parts is None:
        return None
    over, under = parts
    nearest = apply("//", apply("+", apply("*", over, 2), under), 2 * under)
    if under % 2:
        return nearest
    off = apply("%", apply("-", over, under // 2), under)
    is_half = apply("-", 1, apply("min", off, 1))
    return apply("-", nearest, apply("*", is_half, apply("%", nearest, 2)))


_ON_INTEGERS: dict[str, Callable[[Ratio], Operand | None]] = {
    "floor": _floor,
    "ceil": _ceil,
    "int": _truncated,
    "round": _rounded,
}


def _compared(op: str, a: Ratio | None, b: Ratio | None) -> Operand | None:
    """A comparison of real numbers as one of integers."""
    if a is None or b is None or not ((a.exact and b.exact) or _is_whole(a) or _is_whole(b)):
        return None
    x, y = _positive(a), _positive(b)
    if x is None or y is None:
        return None
    return apply(op, apply("*", x[0], y[1]), apply("*", y[0], x[1]))


# ---- statements ------------------------------------------------------------------------------------------------------------

_BINARY = {"+": "add", "-": "sub", "*": "mul", "/": "div", "//": "floordiv", "%": "remainder", "**": "pow"}
_BINARY |= {"&": "__and__", "|": "__or__", "^": "__xor__", "and": "__and__", "or": "__or__"}
_BINARY |= {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
_KINDS = {op: f"aten::{name}" for op, name in _BINARY.items()} | {"min": "prim::min", "max": "prim::max"}
_KINDS |= {"neg": "aten::neg", "abs": "prim::abs", "not": "aten::__not__"}
_MOST_FACTORS = 8


def _sources(term: Term, program: Program) -> Value:
    assert term.source is not None
    value, axis = term.source
    if axis is not None:
        return program.size(value, axis)
    kind = type(term.value)
    return program.emit(_FROM_TENSOR[kind], [value], kind)


_FROM_TENSOR = {int: "aten::Int", float: "aten::Float", bool: "aten::Bool"}


def _as(operand: Operand, kind: type, program: Program) -> Value:
    """An operand as a number of a type."""
    if not isinstance(operand, Term):
        return program.constant(kind(operand))
    scalar = operand.scalar(program)
    if type(operand.value) is kind:
        return scalar
    return program.emit("aten::Float" if kind is float else "aten::Int", [scalar], kind)


def _emitted(term: Term, program: Program) -> Value:
    op, operands, result = term.op, term.operands, type(term.value)
    by_integers = _by_integers(term)
    if by_integers is not None:
        return _as(by_integers, result, program)
    if op == "float":
        return _as(operands[0], float, program)
    if op == "int":
        return program.emit("aten::Int", [operands[0].scalar(program)], int)  # type: ignore[union-attr]
    if op in ("floor", "ceil"):
        return program.emit(f"aten::{op}", [_as(operands[0], float, program)], int)
    if op == "round":
        rounded = program.emit("aten::round", [_as(operands[0], float, program)], float)
        return program.emit("aten::Int", [rounded], int)
    if op == "**" and result is int:
        return _power(operands, program)
    if op in ("gcd", "log2"):
        return _of_tensors(op, operands, result, program)
    kind = float if op == "/" or any(type(value_of(o)) is float for o in operands) else int
    if op in ("and", "or", "not"):
        kind = bool
    if op not in _KINDS or op == "**":
        kind = float
    return program.emit(_KINDS.get(op, f"aten::{op}"), [_as(o, kind, program) for o in operands], result)


def _by_integers(term: Term) -> Operand | None:
    """The same number, computed on integers only."""
    if term.op in _ON_INTEGERS:
        ratio = ratio_of(term.operands[0])
        is_real = type(value_of(term.operands[0])) is float
        return _ON_INTEGERS[term.op](ratio) if is_real and ratio else None
    if term.op in COMPARISONS and any(type(value_of(o)) is float for o in term.operands):
        return _compared(term.op, *map(ratio_of, term.operands))
    return None


def _power(operands: tuple[Operand, ...], program: Program) -> Value:
    """Of integers: TorchScript has it for real numbers only."""
    base, exponent = operands
    if isinstance(exponent, int) and 0 < exponent <= _MOST_FACTORS:
        factor = out = _as(base, int, program)
        for _ in range(exponent - 1):
            out = program.emit("aten::mul", [out, factor], int)
        return out
    if value_is(base, 2):
        return program.emit("aten::__lshift__", [program.constant(1), _as(exponent, int, program)], int)
    real = program.emit("aten::pow", [_as(o, float, program) for o in operands], float)
    return program.emit("aten::Int", [real], int)


def _of_tensors(op: str, operands: tuple[Operand, ...], result: type, program: Program) -> Value:
    """A function that TorchScript has for tensors only."""
    tensors = [program.emit("prim::NumToTensor", [_as(o, result, program)], torch.Tensor) for o in operands]
    made = program.emit(f"aten::{op}", tensors, torch.Tensor)
    return program.emit("aten::Int" if result is int else "aten::Float", [made], result)
