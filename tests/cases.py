"""The language of the operator cases, one line a case.

Case files sit beside the code, `src/*/<family>_cases.py`, and are found by their name:

    import torch
    import torch.nn.functional as F
    from torch import nn

    from tests.cases import B, H, S, W, case, f16, f32, i64, inf, nan, x

    case(F.celu, x[B, 16], alpha=0.8)
    case(torch.cat, [x[B, 3], x[B, 4]], dim=-1)
    case(nn.Conv2d(3, 8, 3, padding=1), x[B, 3, H, W])
    case(lambda x: x.view(x.size(0), -1) * 2, x[B, S, 4])
    case(torch.Tensor.add_, x[B, 4], x[4], alpha=2)

The callable is a torch function, a Tensor method, a lambda, a function, or an nn.Module (its weights are drawn again).
Arguments that are input specs become the model's inputs, also within lists and tuples; all others are constants: numbers,
strings, lists, dtypes, and tensors (these become buffers). A lambda may use names from around it, as they are when the
line runs, so a loop over literals makes one case an iteration.

Input specs: an element type, indexed by sizes.
    x[B, 16]                    float32 from the normal distribution (x is f32); f16 bf16 f64 i64 i32 i16 i8 u8 boolean c64 c128
    x[()], x[0, 3]              a 0-d tensor, an empty one
    x(0.1, 2.0)[B, 16]          uniform in [0.1, 2.0); whole numbers likewise: i64(0, 10)[B, 4]
    x(values=(nan, -inf, 0))[6] these values, over and over
    (f32 | f16 | i64)[B, 4]     a case for each type; the same choice in two arguments is made once
Sizes are numbers or dynamic dimensions: B S T H W N. A dimension takes the size 1 in some runs, so say where it cannot:
    x[B, 3, H >= 3, W >= 3]     never below 3
    x[B, 2 * S], x[B, S + 1]    an axis bound to another (a dynamic dimension of its own to the exporter)

Options, by keyword (a callable with an argument of such a name goes into a lambda):
    opsets=range(9, 22)         where it can be run; by default 9 to 26. An opset that cannot express the case is no reason:
                                the exporter must report it, and name the lowest that can
    trace=False                 take the scripted route alone, or with script=False that of torch.export: control flow that
                                a trace does not see
    also=[(tensor, ...), ...]   further inputs to run on, such as take the other branch
    script=False                take the traced route alone; else the scripted one is also taken where torch can script
    export=False                do not take the route of torch.export, which is also taken where torch can export
    records=False               the sizes that torch.export records are not eager's, or hold at the sample's alone: do not compare
    ones=False                  do not also trace with every dynamic dimension at 1
    empty=True                  run at size 0 of the first dynamic dimension as well
    rtol=, atol=, why=          tolerances other than the usual, and the reason, which is required
    dequantized=True            compare eager PyTorch with its own dequantized computation first: tests/dequantized.py
    reference="reason"          run in onnx's reference evaluator, where ONNX Runtime lacks the kernel
    xfail="reason"              known not to work; the case must fail

Each case is taken through: trace, script and torch.export; static and dynamic sizes; opset 18 and two others in turn; the full
check of onnx; a run at the sample sizes and three others; comparison with eager PyTorch of values, element types, shapes and
names of dimensions. A failure writes a directory with a reproduction. Run some with

    .venv/bin/python -m tests.cases -k celu            (any option of pytest; --opsets all tries every opset)

`make test` leaves torch.export, which is slow, out of most cases of an operator but the first; `make test-all` does not.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import itertools
import linecache
import math
import operator
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, reduce
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

ROOT = Path(__file__).resolve().parent.parent
OPSETS = range(9, 27)
inf, nan = math.inf, math.nan


@dataclass(frozen=True)
class Dim:
    """A dynamic dimension: `scale` times the size called `name`, plus `offset`, at least `low`."""

    name: str
    low: int = 1
    scale: int = 1
    offset: int = 0

    def __ge__(self, low: int) -> Dim:
        return replace(self, low=low)

    def __mul__(self, n: int) -> Dim:
        return replace(self, scale=self.scale * n, offset=self.offset * n)

    __rmul__ = __mul__

    def __add__(self, n: int) -> Dim:
        return replace(self, offset=self.offset + n)

    def __str__(self) -> str:
        """The name of the axis in the ONNX file."""
        bound = f"x{self.scale}" if self.scale != 1 else ""
        return self.name + bound + (f"p{self.offset}" if self.offset else "")


B, S, T, H, W, N = (Dim(name) for name in "BSTHWN")
SAMPLE = {"B": 2, "S": 5, "T": 4, "H": 8, "W": 6, "N": 7}
LARGER = {"B": 3, "S": 7, "T": 6, "H": 11, "W": 9, "N": 10}


@dataclass(frozen=True)
class ElementType:
    """The element type of an input, and what its elements are drawn from."""

    name: str
    dtype: torch.dtype
    low: float | None = None
    high: float | None = None
    values: tuple[complex, ...] = ()

    def __call__(self, low: float | None = None, high: float | None = None, *, values: Sequence[complex] = ()) -> ElementType:
        return replace(self, low=low, high=high, values=tuple(values))

    def __getitem__(self, shape: int | Dim | tuple[int | Dim, ...]) -> Spec:
        return Spec((self,), shape if isinstance(shape, tuple) else (shape,))

    def __or__(self, other: ElementType | ElementTypes) -> ElementTypes:
        return ElementTypes((self,)) | other

    def __str__(self) -> str:
        drawn = [f"{v:g}" for v in (self.low, self.high) if v is not None] or [f"{v:g}" for v in self.values]
        return self.name + (f"({','.join(drawn)})" if drawn else "")


@dataclass(frozen=True)
class ElementTypes:
    """Several element types, a case for each."""

    types: tuple[ElementType, ...]

    def __or__(self, other: ElementType | ElementTypes) -> ElementTypes:
        return ElementTypes(self.types + (other.types if isinstance(other, ElementTypes) else (other,)))

    def __getitem__(self, shape: int | Dim | tuple[int | Dim, ...]) -> Spec:
        return Spec(self.types, shape if isinstance(shape, tuple) else (shape,))


x = f32 = ElementType("f32", torch.float32)
f16 = ElementType("f16", torch.float16)
bf16 = ElementType("bf16", torch.bfloat16)
f64 = ElementType("f64", torch.float64)
i64 = ElementType("i64", torch.int64)
i32 = ElementType("i32", torch.int32)
i16 = ElementType("i16", torch.int16)
i8 = ElementType("i8", torch.int8)
u8 = ElementType("u8", torch.uint8)
boolean = ElementType("bool", torch.bool)
c64 = ElementType("c64", torch.complex64)
c128 = ElementType("c128", torch.complex128)
floats = f32 | f64 | f16
ints = i64 | i32
numbers = floats | ints


def normal(sizes: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    """From the normal distribution; in double, which is drawn alike on every processor."""
    return torch.randn(tuple(sizes), generator=generator, dtype=torch.float64)


@dataclass(frozen=True)
class Spec:
    """An input: its element type (one, once the choices are made) and its sizes."""

    types: tuple[ElementType, ...]
    shape: tuple[int | Dim, ...]

    @property
    def type(self) -> ElementType:
        return self.types[0]

    def sizes(self, at: dict[str, int]) -> tuple[int, ...]:
        return tuple(d.scale * at[d.name] + d.offset if isinstance(d, Dim) else d for d in self.shape)

    def draw(self, at: dict[str, int], generator: torch.Generator) -> torch.Tensor:
        sizes, t = self.sizes(at), self.type
        count = math.prod(sizes)
        if t.values:
            return torch.tensor(list(itertools.islice(itertools.cycle(t.values), count)), dtype=t.dtype).reshape(sizes)
        if t.dtype.is_complex:
            return torch.view_as_complex(normal((*sizes, 2), generator) * 0.5**0.5).to(t.dtype)
        if t.dtype.is_floating_point:
            if t.low is None or t.high is None:
                return normal(sizes, generator).to(t.dtype)
            return (torch.rand(sizes, generator=generator) * (t.high - t.low) + t.low).to(t.dtype)
        usual = (0, 2) if t.dtype == torch.bool else (0, 10) if t.dtype == torch.uint8 else (-5, 6)
        low, high = (int(given if given is not None else u) for given, u in zip((t.low, t.high), usual, strict=True))
        return torch.randint(low, high, sizes, generator=generator).to(t.dtype)

    def __str__(self) -> str:
        return f"{self.type}[{','.join(map(str, self.shape))}]"


@dataclass
class Case:
    """One line of a case file, with the source of the module that it stands for."""

    name: str
    family: str
    place: str
    inputs: dict[str, Spec]
    source: str
    namespace: dict[str, Any]
    modules: dict[str, nn.Module]
    buffers: dict[str, torch.Tensor]
    first: bool  # of its operator
    opsets: Sequence[int] = OPSETS
    trace: bool = True
    also: Sequence[tuple[torch.Tensor, ...]] = ()
    script: bool = True
    export: bool = True
    records: bool = True
    ones: bool = True
    empty: bool = False
    rtol: float | None = None
    atol: float | None = None
    why: str = ""
    dequantized: bool = False
    reference: str = ""
    xfail: str = ""

    @property
    def dims(self) -> dict[str, int]:
        """The dynamic dimensions in the order of their first use, with the least size of each."""
        least: dict[str, int] = {}
        for spec in self.inputs.values():
            for d in spec.shape:
                if isinstance(d, Dim):
                    least[d.name] = max(d.low, least.get(d.name, 0))
        return least

    def sizes(self) -> list[dict[str, int]]:
        """The sizes to run at: the sample's, all least, larger ones, and the first larger with the others least."""
        least = self.dims
        sample = {d: max(SAMPLE[d], low) for d, low in least.items()}
        larger = {d: max(LARGER[d], low + 2) for d, low in least.items()}
        first = set(list(least)[:1])
        runs = [sample, dict(least), larger, {d: larger[d] if d in first else least[d] for d in least}]
        if self.empty:
            runs.append({d: 0 if d in first else sample[d] for d in least})
        return [run for i, run in enumerate(runs) if run not in runs[:i]]


CASES: list[Case] = []
_names: dict[str, int] = {}
_operators: set[str] = set()

_OPTIONS = (
    *("opsets", "trace", "also", "script", "export", "records", "ones", "empty"),
    *("rtol", "atol", "why", "dequantized", "reference", "xfail"),
)


def case(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Adds a case, or one for each choice of element types. The text at the top of this module says how."""
    options = {key: kwargs.pop(key) for key in _OPTIONS if key in kwargs}
    if ("rtol" in options or "atol" in options) and not options.get("why"):
        raise TypeError("a tolerance other than the usual needs its reason: why=")
    frame = sys._getframe(1)
    place = f"{_relative(frame.f_code.co_filename)}:{frame.f_lineno}"
    family = Path(frame.f_code.co_filename).stem.removesuffix("_cases")
    choices = list(dict.fromkeys(spec.types for spec in _specs([args, kwargs]) if len(spec.types) > 1))
    for picked in itertools.product(*choices):
        choice = dict(zip(choices, picked, strict=True))
        chosen_args, chosen_kwargs = _choose([list(args), kwargs], choice)
        made = _Writer(fn, chosen_args, chosen_kwargs).case(family, place, options)
        CASES.append(made)


def load() -> list[Case]:
    """All cases of the project, in a fixed order."""
    if not CASES:
        for path in sorted((ROOT / "src").glob("*/*_cases.py")):
            load_file(path)
    return CASES


def load_file(path: Path) -> None:
    spec = importlib.util.spec_from_file_location(f"cases_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # torch.jit looks up the classes of a module here
    torch.manual_seed(0)
    spec.loader.exec_module(module)


def _relative(path: str) -> str:
    return str(Path(path).relative_to(ROOT)) if Path(path).is_relative_to(ROOT) else Path(path).name


def _specs(value: Any) -> Iterable[Spec]:
    if isinstance(value, Spec):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _specs(item)
    elif isinstance(value, dict):
        yield from _specs(list(value.values()))


def _choose(value: Any, choice: dict[tuple[ElementType, ...], ElementType]) -> Any:
    if isinstance(value, Spec):
        return replace(value, types=(choice[value.types],)) if value.types in choice else value
    if isinstance(value, (list, tuple)):
        return type(value)(_choose(item, choice) for item in value)
    if isinstance(value, dict):
        return {key: _choose(item, choice) for key, item in value.items()}
    return value


_KNOWN: tuple[tuple[str, Any], ...] = (
    ("F", F),
    ("torch", torch),
    ("torch.special", torch.special),
    ("torch.linalg", torch.linalg),
    ("torch.fft", torch.fft),
    ("operator", operator),
)


@dataclass
class _Writer:
    """Writes a case as the source of a module, which torch can trace and script and a person can read."""

    fn: Callable[..., Any]
    args: list[Any]
    kwargs: dict[str, Any]
    inputs: dict[str, Spec] = field(default_factory=dict)
    namespace: dict[str, Any] = field(default_factory=dict)
    modules: dict[str, nn.Module] = field(default_factory=dict)
    buffers: dict[str, torch.Tensor] = field(default_factory=dict)

    def case(self, family: str, place: str, options: dict[str, Any]) -> Case:
        title, body = self._lambda() if _is_lambda(self.fn) else self._call()
        shown = [_show(a) for a in self.args] + [f"{k}={_show(v)}" for k, v in self.kwargs.items()]
        name = _unique(f"{family}-{title}({','.join(shown)})")
        signature = "".join(f", {n}: torch.Tensor" for n in self.inputs)
        source = f"class Case(nn.Module):\n    def forward(self{signature}):\n" + "".join(f"        {s}\n" for s in body)
        self.namespace |= {"torch": torch, "nn": nn, "F": F, "operator": operator, "inf": inf, "nan": nan}
        operator_name = name.split("(")[0]
        first = operator_name not in _operators
        _operators.add(operator_name)
        return Case(name, family, place, self.inputs, source, self.namespace, self.modules, self.buffers, first, **options)

    def _call(self) -> tuple[str, list[str]]:
        names = iter(_free_names())
        args = [self._text(a, names) for a in self.args]
        kwargs = [f"{k}={self._text(v, itertools.chain([k], names))}" for k, v in self.kwargs.items()]
        method = getattr(self.fn, "__name__", "")
        if isinstance(self.fn, nn.Module):
            self.modules["m"] = self.fn
            return re.sub(r"\s+", " ", repr(self.fn)), [f"return self.m({', '.join(args + kwargs)})"]
        if getattr(torch.Tensor, method, None) is self.fn:
            return method, [f"return {args[0]}.{method}({', '.join(args[1:] + kwargs)})"]
        callee = self._callee()
        return method or callee, [f"return {callee}({', '.join(args + kwargs)})"]

    def _callee(self) -> str:
        if isinstance(self.fn, torch._ops.OpOverloadPacket):
            return f"torch.ops.{self.fn}".replace("::", ".")
        if isinstance(self.fn, torch._ops.OpOverload):
            return f"torch.ops.{self.fn.overloadpacket}".replace("::", ".")
        name = getattr(self.fn, "__name__", "")
        for prefix, module in _KNOWN:
            if name and getattr(module, name, None) is self.fn:
                return f"{prefix}.{name}"
        self.namespace["fn"] = self.fn
        return "fn"

    def _lambda(self) -> tuple[str, list[str]]:
        parameters = list(inspect.signature(self.fn).parameters)
        given = dict(zip(parameters, self.args, strict=False)) | self.kwargs
        body = []
        for name, value in given.items():
            text = self._text(value, itertools.chain([name], _free_names()))
            if text != name:
                body.append(f"{name} = {text}")
        node = _lambda_node(self.fn.__code__)
        if node is None:
            self.namespace["fn"] = self.fn
            return "lambda", [*body, f"return fn({', '.join(given)})"]
        text = ast.unparse(_Substitute(self, parameters).visit(node.body))
        return text, [*body, f"return {text}"]

    def _text(self, value: Any, names: Iterable[str]) -> str:
        """The source text of an argument; a spec becomes an input under the first name that is free."""
        if isinstance(value, Spec):
            name = next(n for n in names if n not in self.inputs)
            self.inputs[name] = value
            return name
        if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
            inner = ", ".join(self._text(item, names) for item in value)
            return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if len(value) == 1 else ''})"
        return self.literal(value) or self._foreign(value)

    def literal(self, value: Any) -> str | None:
        """The source text of a value that has one."""
        if isinstance(value, torch.Tensor):
            return self._buffer(value)
        if isinstance(value, float) and not math.isfinite(value):
            return f"float('{value}')"
        if isinstance(value, torch.device):
            return f"torch.device('{value}')"
        if isinstance(value, torch.Size):
            return repr(list(value))
        if isinstance(value, (list, tuple)):
            parts = [self.literal(item) for item in value]
            inner = ", ".join(str(p) for p in parts)
            shown = f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if len(value) == 1 else ''})"
            return None if None in parts else shown
        if value is None or isinstance(value, (bool, int, float, str, torch.dtype, torch.memory_format, torch.layout)):
            return repr(value)
        return None

    def _buffer(self, value: torch.Tensor) -> str:
        name = next((n for n, b in self.buffers.items() if b is value), f"c{len(self.buffers)}")
        self.buffers[name] = value
        return f"self.{name}"

    def _foreign(self, value: Any) -> str:
        name = f"v{len(self.namespace)}"
        self.namespace[name] = value
        return name


class _Substitute(ast.NodeTransformer):
    """Puts the values of a lambda's outer names into its text, where they have a text."""

    def __init__(self, writer: _Writer, parameters: list[str]) -> None:
        around = inspect.getclosurevars(writer.fn)
        self.outer = {**around.globals, **around.nonlocals}
        self.writer = writer
        self.parameters = set(parameters)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self.parameters or node.id not in self.outer:
            return node
        value = self.outer[node.id]
        if isinstance(value, nn.Module):
            self.writer.modules[node.id] = value
            return ast.parse(f"self.{node.id}", mode="eval").body
        text = self.writer.literal(value)
        if text is not None:
            return ast.parse(text, mode="eval").body
        self.writer.namespace[node.id] = value
        return node


def _is_lambda(fn: Callable[..., Any]) -> bool:
    return inspect.isfunction(fn) and fn.__name__ == "<lambda>"


def _lambda_node(code: Any) -> ast.Lambda | None:
    """The innermost lambda around the code's first position; a copy, to be changed."""
    at = next(((p[0], p[2]) for p in code.co_positions() if p[0] and p[2]), None)
    source = "".join(linecache.getlines(code.co_filename))
    if at is None or not source:
        return None
    inside = [n for n in _lambdas(source) if _start(n) <= at < _end(n)]
    return ast.parse(ast.unparse(max(inside, key=_start)), mode="eval").body if inside else None  # type: ignore[return-value]


@cache
def _lambdas(source: str) -> list[ast.Lambda]:
    return [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Lambda)]


def _start(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: ast.expr) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or 0


def _free_names() -> Iterable[str]:
    return itertools.chain("xyzuvw", (f"x{i}" for i in itertools.count(6)))


def _show(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"({','.join(_show(v) for v in value)})"
    if isinstance(value, torch.Tensor):
        return f"tensor{list(value.shape)}"
    return str(value)


def _unique(name: str) -> str:
    name = reduce(lambda text, c: text.replace(c, ""), " \n'\"", name).replace("::", ".")[:150]
    _names[name] = _names.get(name, 0) + 1
    return name if _names[name] == 1 else f"{name}#{_names[name]}"


if __name__ == "__main__":
    import pytest

    sys.exit(pytest.main([str(ROOT / "tests" / "test_cases.py"), "-q", "--tb=short", "--every", *sys.argv[1:]]))
