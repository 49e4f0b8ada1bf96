"""Numbers that Python computes from sizes while a trace is recorded: Integer, Real and Truth; a Shape has the sizes of a tensor.

They are subclasses of torch.SymInt, SymFloat and SymBool, so that functions of torch take them, and isinstance takes them for
int, float and bool, as the model's code expects. Arithmetic makes formulas; what cannot be a formula is reported to the Watch: an
outcome that Python asks for is a condition, and a number that it takes is an escape. When the capture is over, they are plain
numbers, for caches of the model that may hold them.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import torch

from lithify import _formula, _places
from lithify._formula import COMPUTE, Constant, Operand, Term, apply, value_of


class Watch(Protocol):
    """What hears of the numbers of one capture."""

    is_open: bool  # while the capture runs

    def made(self, number: Any) -> None:
        """There is a new number."""

    def condition(self, term: Term) -> bool:
        """Python asks for the outcome."""

    def escape(self, term: Term, what: str) -> Constant:
        """Python takes the number."""

    def text(self, term: Term) -> Constant:
        """Python takes the number as a text: of what this returns."""

    def hash(self, term: Term) -> int:
        """Python asks for a hash. Raises TypeError where the model has to do without."""

    def tensor(self, term: Term) -> torch.Tensor:
        """The number as a tensor of the traced program."""

    def settle(self, term: Term) -> None:
        """The formula is as large as it may be."""


class Number:
    """A formula, as Python sees it."""

    def __init__(self, watch: Watch, term: Term) -> None:
        self.watch, self.term = watch, term
        watch.made(self)

    @property
    def value(self) -> Any:
        """The number in this run. Asking for it is not reported."""
        return self.term.value

    @property
    def node(self) -> Node:
        """What torch asks for where it takes the number in C++."""
        return Node(self)

    def tensor(self) -> torch.Tensor:
        return self.watch.tensor(self.term)

    def taken(self, what: str) -> Any:
        """The number for Python."""
        return self.watch.escape(self.term, what) if self.watch.is_open else self.value

    def __int__(self) -> int:
        return int(self.taken("int"))

    def __float__(self) -> float:
        return float(self.taken("float"))

    def __complex__(self) -> complex:
        return complex(self.taken("complex"))

    def __hash__(self) -> int:
        return self.watch.hash(self.term) if self.watch.is_open else hash(self.value)

    def __str__(self) -> str:
        return self.__format__("")

    __repr__ = __str__

    def __format__(self, specification: str) -> str:
        return format(self.watch.text(self.term) if self.watch.is_open else self.value, specification)

    def __copy__(self) -> Number:
        return self

    def __deepcopy__(self, _: Any) -> Number:
        return self

    def __reduce_ex__(self, _: Any) -> Any:
        return type(self.value), (self.taken("pickle"),)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return sys.modules["numpy"].asarray(self.taken("numpy"), dtype=dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return _ufunc(ufunc, method, inputs, options)

    def __getattr__(self, name: str) -> Any:
        """A trace without symbolic numbers has tensors for sizes, and code that asks whether it is traced takes them for such."""
        kind = type(self.value)
        if name.startswith("__") or not self.watch.is_open:
            return getattr(self.value, name)
        if hasattr(kind, name):
            return getattr(self.taken(name), name)
        if hasattr(torch.Tensor, name):
            return getattr(self.tensor().clone(), name)
        raise AttributeError(f"'{kind.__name__}' object has no attribute '{name}'")


NUMBERS: tuple[type, ...] = ()  # the exact types; set below


def is_number(value: Any) -> bool:
    """Whether it is a number of a capture that runs."""
    return type(value) in NUMBERS and value.watch.is_open


def number(watch: Watch, operand: Operand | complex) -> Any:
    """What Python gets for a result."""
    if not isinstance(operand, Term):
        return operand
    kind = type(operand.value)
    if kind is complex or (kind is float and not math.isfinite(operand.value)):
        return watch.escape(operand, "number")
    if operand.weight > _formula.LARGEST and not operand.named:
        if kind is not int:
            return watch.condition(operand) if kind is bool else watch.escape(operand, "number")
        watch.settle(operand)
    return {int: Integer, float: Real, bool: Truth}[kind](watch, operand)


def calculate(op: str, *given: Any) -> Any:
    """An operation on numbers of this module and of Python; NotImplemented for anything else."""
    operands = [_operand(g) for g in given]
    if any(o is NotImplemented for o in operands):
        return NotImplemented
    watch = next((g.watch for g in given if is_number(g)), None)
    if watch is None:
        return COMPUTE[op](*map(value_of, operands))
    if op in _formula.COMPARISONS and (known := _formula.decided(op, *operands)) is not None:
        return known
    return number(watch, apply(op, *operands))


def _operand(given: Any) -> Any:
    kind = type(given)
    if kind is int or kind is float:
        return given
    if kind in NUMBERS:
        if not given.watch.is_open:
            return int(given.value) if kind is Truth else given.value
        return apply("int", given.term) if kind is Truth else given.term
    if issubclass(kind, int):
        return int(given)
    if issubclass(kind, float):
        return float(given)
    numpy = sys.modules.get("numpy")
    if numpy and issubclass(kind, numpy.generic) and isinstance(plain := given.item(), int | float):
        return plain
    return NotImplemented


def _binary(op: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    return (lambda self, other: calculate(op, self, other)), (lambda self, other: calculate(op, other, self))


def _comparison(op: str) -> Callable[..., Any]:
    def compared(self: Any, other: Any) -> Any:
        outcome = calculate(op, self, other)
        # Of `n > 1 and more`, the outcome itself may be the result: it is a plain one, as Python is about to ask for it.
        return bool(outcome) if type(outcome) is Truth and _places.is_in_and_or(sys._getframe(1)) else outcome

    return compared


class Arithmetic(Number):
    """What Integer and Real have in common; of a Truth, Python computes with the integer."""

    __add__, __radd__ = _binary("+")
    __sub__, __rsub__ = _binary("-")
    __mul__, __rmul__ = _binary("*")
    __truediv__, __rtruediv__ = _binary("/")
    __floordiv__, __rfloordiv__ = _binary("//")
    __mod__, __rmod__ = _binary("%")
    __hash__ = Number.__hash__

    __lt__ = _comparison("<")
    __le__ = _comparison("<=")
    __gt__ = _comparison(">")
    __ge__ = _comparison(">=")
    __eq__ = _comparison("==")
    __ne__ = _comparison("!=")

    def __divmod__(self, other: Any) -> Any:
        quotient = self // other
        return quotient if quotient is NotImplemented else (quotient, self % other)

    def __rdivmod__(self, other: Any) -> Any:
        quotient = other // self
        return quotient if quotient is NotImplemented else (quotient, other % self)

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        return _power(self, other) if modulus is None else pow(self.taken("number"), other, modulus)

    def __rpow__(self, other: Any) -> Any:
        return _power(other, self)

    def __neg__(self) -> Any:
        return calculate("neg", self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self if self.term.nonnegative else calculate("abs", self)

    def __bool__(self) -> bool:
        return bool(calculate("!=", self, 0))

    @property
    def real(self) -> Any:
        return self

    @property
    def imag(self) -> Any:
        return type(self.value)(0)

    def conjugate(self) -> Any:
        return self

    def __sym_max__(self, other: Any) -> Any:
        return extremum("max", [self, other], promote=True)

    def __sym_min__(self, other: Any) -> Any:
        return extremum("min", [self, other], promote=True)

    def __sym_float__(self) -> Any:
        return as_float(self)

    def __sym_int__(self) -> Any:
        return as_int(self)

    def __sym_sqrt__(self) -> Any:
        return calculate("sqrt", self)

    def __sym_log2__(self) -> Any:
        return calculate("log2", self)

    def __sym_sin__(self) -> Any:
        return calculate("sin", self)

    def __sym_cos__(self) -> Any:
        return calculate("cos", self)


class Integer(Arithmetic, torch.SymInt):
    __class__ = property(lambda _: int)  # type: ignore[assignment]
    __hash__ = Number.__hash__

    def __index__(self) -> int:
        return int(self.taken("index"))

    def __round__(self, digits: int | None = None) -> Any:
        return self if digits is None or digits >= 0 else round(self.taken("round"), digits)

    def __floor__(self) -> Any:
        return self

    __ceil__ = __trunc__ = __floor__

    def __invert__(self) -> Any:
        return -self - 1

    def __lshift__(self, other: Any) -> Any:
        return self * 2**other

    def __rlshift__(self, other: Any) -> Any:
        return other * 2**self

    def __rshift__(self, other: Any) -> Any:
        return self // 2**other

    def __rrshift__(self, other: Any) -> Any:
        return other // 2**self

    def __and__(self, other: Any) -> Any:
        if type(other) is int and other > 0 and other & (other + 1) == 0:
            return self % (other + 1)
        return calculate("&", self, other)

    def __or__(self, other: Any) -> Any:
        return calculate("|", self, other)

    def __xor__(self, other: Any) -> Any:
        return calculate("^", self, other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    @property
    def numerator(self) -> Any:
        return self

    @property
    def denominator(self) -> int:
        return 1

    def as_integer_ratio(self) -> Any:
        return self, 1

    def is_integer(self) -> bool:
        return True

    def bit_length(self) -> Any:
        bits = calculate("floor", calculate("log2", extremum("max", [abs(self) * 2, 1])))
        bits.term.nonnegative = True
        return bits


class Real(Arithmetic, torch.SymFloat):
    __class__ = property(lambda _: float)  # type: ignore[assignment]
    __hash__ = Number.__hash__

    def __round__(self, digits: int | None = None) -> Any:
        return calculate("round", self) if digits is None else round(self.taken("round"), digits)

    def __floor__(self) -> Any:
        return calculate("floor", self)

    def __ceil__(self) -> Any:
        return calculate("ceil", self)

    def __trunc__(self) -> Any:
        return calculate("int", self)

    def is_integer(self) -> Any:
        return calculate("==", calculate("floor", self), self)

    def as_integer_ratio(self) -> Any:
        return self.taken("number").as_integer_ratio()

    def hex(self) -> str:
        return self.taken("text").hex()  # type: ignore[no-any-return]


class Truth(Arithmetic, torch.SymBool):
    """The outcome of a comparison, until Python asks for it."""

    __class__ = property(lambda _: bool)  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return self.watch.condition(self.term) if self.watch.is_open else self.value

    def __int__(self) -> int:
        return int(bool(self))

    __index__ = __int__

    def __float__(self) -> float:
        return float(bool(self))

    def __hash__(self) -> int:
        return hash(bool(self))

    def __format__(self, specification: str) -> str:
        return format(bool(self), specification)

    def __eq__(self, other: object) -> Any:
        if type(other) is bool:
            return self if other else self.__sym_not__()
        return calculate("==", self, other)

    def __ne__(self, other: object) -> Any:
        if type(other) is bool:
            return self.__sym_not__() if other else self
        return calculate("!=", self, other)

    def __and__(self, other: Any) -> Any:
        return self._logical("and", other)

    def __or__(self, other: Any) -> Any:
        return self._logical("or", other)

    def __xor__(self, other: Any) -> Any:
        return self != other

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __invert__(self) -> Any:
        return -as_int(self) - 1

    def __round__(self, digits: int | None = None) -> Any:
        return as_int(self)

    def __abs__(self) -> Any:
        return as_int(self)

    def __sym_not__(self) -> Any:
        return number(self.watch, apply("not", self.term)) if self.watch.is_open else not self.value

    def __sym_ite__(self, true: Any, false: Any) -> Any:
        return true if bool(self) else false

    def _logical(self, op: str, other: Any) -> Any:
        if type(other) is bool:
            return self if other is (op == "and") else other
        if type(other) is Truth and self.watch.is_open and other.watch.is_open:
            return number(self.watch, apply(op, self.term, other.term))
        return calculate({"and": "&", "or": "|"}[op], self, other)


NUMBERS = (Integer, Real, Truth)


class Node:
    """What torch calls where a number reaches it in C++, or a function that guards. A number that is asked for is an escape."""

    def __init__(self, of: Number) -> None:
        self._of = of

    def is_int(self) -> bool:
        return type(self._of) is Integer

    def is_float(self) -> bool:
        return type(self._of) is Real

    def is_bool(self) -> bool:
        return type(self._of) is Truth

    def is_symbolic(self) -> bool:
        return True

    def is_nested_int(self) -> bool:
        return False

    def is_constant(self) -> bool:
        return False

    def has_hint(self) -> bool:
        return True

    def clone(self) -> Node:
        return self

    def guard_int(self, *_: Any) -> int:
        return int(self._of.taken("argument"))

    maybe_as_int = int_ = require_hint = constant_int = guard_int

    def guard_float(self, *_: Any) -> float:
        return float(self._of.taken("argument"))

    maybe_as_float = guard_float

    def guard_bool(self, *_: Any) -> bool:
        return bool(self._of)

    maybe_as_bool = constant_bool = bool_ = expect_true = guard_size_oblivious = guard_or_false = guard_or_true = guard_bool

    def expect_size(self, *_: Any) -> bool:
        return bool(self._of >= 0)  # type: ignore[operator]

    def str(self) -> str:
        return str(self._of)

    _graph_repr = str

    @property
    def hint(self) -> Any:
        return self._of.taken("argument")


class Shape(tuple[Any, ...]):
    """The sizes of a tensor: a torch.Size of Integers."""

    __class__ = property(lambda _: torch.Size)  # type: ignore[assignment]

    def numel(self) -> Any:
        return math.prod(self)

    def __getitem__(self, at: Any) -> Any:
        item = tuple.__getitem__(self, at)
        return Shape(item) if isinstance(at, slice) else item

    def __add__(self, other: Any) -> Any:
        return Shape((*self, *other)) if isinstance(other, tuple) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return Shape((*other, *self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times: Any) -> Any:
        return Shape(tuple.__mul__(self, times))

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(repr, self))}])"

    __str__ = __repr__

    def __reduce_ex__(self, _: Any) -> Any:
        return torch.Size, (tuple(map(int, self)),)


# ---- functions of Python -----------------------------------------------------------------------------------------------------


def as_int(value: Any) -> Any:
    """int(value)."""
    if type(value) is Integer:
        return value
    if type(value) is Truth:
        return calculate("+", value, 0)
    return calculate("int", value)


def as_float(value: Any) -> Any:
    """float(value)."""
    return value if type(value) is Real else calculate("float", value)


def extremum(op: str, values: Iterable[Any], promote: bool = False) -> Any:
    """min and max. NotImplemented for integers among reals, where the type of the result depends on the outcome, unless they
    become reals."""
    values = list(values)
    kinds = {type(value_of(_operand(v))) if _operand(v) is not NotImplemented else None for v in values}
    if promote and kinds == {int, float}:
        values, kinds = [as_float(v) if is_number(v) else float(v) for v in values], {float}
    if kinds not in ({int}, {float}):
        return NotImplemented
    out = values[0]
    for value in values[1:]:
        out = out if is_number(out) and out is value else calculate(op, out, value)
    return out


def _power(base: Any, exponent: Any) -> Any:
    a, b = _operand(base), _operand(exponent)
    if a is NotImplemented or b is NotImplemented:
        return NotImplemented
    if type(value_of(a)) is type(value_of(b)) is int and isinstance(b, Term) and not b.nonnegative:
        bool(calculate(">=", exponent, 0))  # decides whether the result is an integer
    return calculate("**", base, exponent)


# ---- numpy -------------------------------------------------------------------------------------------------------------------

_UFUNCS = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "true_divide": "/",
    "floor_divide": "//",
    "remainder": "%",
}
_UFUNCS |= {"negative": "neg", "minimum": "min", "maximum": "max", "less": "<", "less_equal": "<=", "greater": ">"}
_UFUNCS |= {"greater_equal": ">=", "equal": "==", "not_equal": "!=", "gcd": "gcd"}
_UFUNCS |= {name: name for name in ("sqrt", "log", "log2", "log10", "exp", "sin", "cos")}
_ROUNDING = {"floor": "floor", "ceil": "ceil", "rint": "round", "trunc": "int"}


def _ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """A function of numpy on a number, and on others."""
    if method == "__call__" and not options and all(_operand(i) is not NotImplemented for i in inputs):
        with contextlib.suppress(TypeError):
            if ufunc.__name__ in _UFUNCS:
                return calculate(_UFUNCS[ufunc.__name__], *inputs)
            if ufunc.__name__ in _ROUNDING:
                return as_float(calculate(_ROUNDING[ufunc.__name__], inputs[0]))
            if ufunc.__name__ in ("absolute", "fabs"):
                return abs(inputs[0])
            if ufunc.__name__ == "power":
                return inputs[0] ** inputs[1]
    plain = [i.taken("numpy") if is_number(i) else i for i in inputs]
    return getattr(ufunc, method)(*plain, **options)
