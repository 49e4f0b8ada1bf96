"""What is replaced in Python and torch while sizes are followed, all of it here, and put back at the end.

Each replacement acts only on the thread that captures, and on numbers and tensors of the capture; otherwise it does what was
there before. One capture runs at a time.
"""

from __future__ import annotations

import builtins
import contextlib
import copy
import functools
import gc
import importlib.abc
import math
import operator
import sys
import threading
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import torch

from lithify import _formula, _places, _torch
from lithify._chosen import by_name, chosen
from lithify._errors import CannotCapture
from lithify._lists import Elements
from lithify._numbers import Integer, Number, Real, Shape, Truth, as_float, as_int, calculate, extremum, is_number
from lithify._watch import Watch

try:
    from lithify import _builtins
except ImportError:  # it is optional: int() of a size is an escape without it
    _builtins = None  # type: ignore[assignment]

TESTED_PYTHONS = ((3, 11),)  # whose int() and float() may be replaced


class Capture(Protocol):
    """What hears of tensors that the replaced functions meet."""

    watch: Watch

    def length(self, tensor: torch.Tensor) -> Any: ...
    def leaves(self, tensor: torch.Tensor, what: str) -> None: ...
    def escape_sizes(self, tensors: Iterable[torch.Tensor], what: str) -> None: ...
    def number(self, tensor: torch.Tensor) -> Any: ...
    def depends_on_contents(self, tensor: torch.Tensor) -> bool: ...
    def started_thread(self) -> None: ...
    def report_data(self, what: str) -> str: ...
    def answer_on_tracing(self) -> bool: ...


_LOCK = threading.RLock()
_current: Capture | None = None
_thread = 0
_attributes: list[_Attribute] = []


def _capture() -> Capture | None:
    """The capture of this thread."""
    return _current if _current is not None and threading.get_ident() == _thread else None


def _traces() -> Capture | None:
    return _capture() if _torch.is_tracing() else None


@contextlib.contextmanager
def replaced(capture: Capture, modules: Iterable[types.ModuleType]) -> Iterator[None]:
    """While it is entered, functions take symbolic numbers, if sizes are followed. `modules` are those of the model, which may
    have functions of the module math by name."""
    global _current, _thread, _attributes
    level = capture.watch.level
    if not level.sizes:
        yield
        return
    with _LOCK, contextlib.ExitStack() as stack:
        before = _current, _thread, _attributes
        _current, _thread, _attributes = capture, threading.get_ident(), []
        try:
            for owner, name, made in _replacements(modules):
                _attributes.append(_Attribute(owner, name, made))
            if level.constructors and can_replace_constructors() and before[0] is None:
                stack.enter_context(_constructors())
            if level.hashes:
                stack.enter_context(_emptied_caches())
            sys.meta_path.insert(0, importer := _Importer())
            stack.callback(sys.meta_path.remove, importer)
            yield
        finally:
            for attribute in reversed(_attributes):
                attribute.restore()
            _current, _thread, _attributes = before


class _Attribute:
    """An attribute of a module or class that is replaced."""

    def __init__(self, owner: Any, name: str, value: Any) -> None:
        self._owner, self._name, self._value = owner, name, value
        self._before = vars(owner).get(name, self)
        self.replace()

    def replace(self) -> None:
        setattr(self._owner, self._name, self._value)

    def restore(self) -> None:
        if self._before is self:
            delattr(self._owner, self._name)
        else:
            setattr(self._owner, self._name, self._before)


@contextlib.contextmanager
def _as_before() -> Iterator[None]:
    """While it is entered, everything is as it was: for code that looks at functions."""
    for attribute in reversed(_attributes):
        attribute.restore()
    try:
        yield
    finally:
        for attribute in _attributes:
            attribute.replace()


def _replacements(modules: Iterable[types.ModuleType]) -> Iterator[tuple[Any, str, Any]]:
    yield builtins, "min", _minimum
    yield builtins, "max", _maximum
    yield builtins, "len", _len
    yield builtins, "sum", _summed
    yield threading.Thread, "start", _start
    yield torch.nn.ModuleList, "__getitem__", _module_at
    yield torch.nn.ModuleDict, "__getitem__", _module_named
    if _vmap is not None:
        yield _vmap_module, "_flat_vmap", _mapped
    for name, (_, function) in _MATH.items():
        yield math, name, function
    modules = list(modules)
    by_identity = {id(before): function for before, function in _MATH.values()}
    for module in modules:
        for name, value in list(vars(module).items()):
            if id(value) in by_identity:
                yield module, name, by_identity[id(value)]
    for module in _packages(modules):
        if "type" not in vars(module):
            yield module, "type", _Kind
    for module, name in _that_ask():
        yield module, name, _ASKS[name][1]
    for name, made in _OF_TENSORS.items():
        yield torch.Tensor, name, made
    yield _torch.texts, "_str", _text_of
    yield torch, "sym_sum", _sym_sum
    yield torch, "sym_ite", _sym_ite
    yield _torch.higher_order, "_hop_compile_and_call", _called_higher_order
    yield _torch.scans, "generic_associative_scan", _scanned
    for name in ("__getitem__", "tolist"):
        yield torch.UntypedStorage, name, _of_storage(name)
    if numpy := sys.modules.get("numpy"):
        yield numpy, "prod", _prod_of(numpy.prod)
    for module in _torch.compilers:
        yield module, "script", _script
    yield torch.jit, "is_tracing", _is_tracing


def _packages(modules: Iterable[types.ModuleType]) -> list[types.ModuleType]:
    """All modules of the packages that these are in."""
    names = {module.__name__.partition(".")[0] for module in modules}
    return [m for name, m in list(sys.modules.items()) if name.partition(".")[0] in names] if names else []


class _Importer(importlib.abc.MetaPathFinder):
    """Modules that are imported meanwhile get everything as it was: they may keep functions by name."""

    def __init__(self) -> None:
        self.imports = False  # what it imports may import others

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if self.imports or _capture() is None:
            return None
        found = (finder.find_spec(name, path, target) for finder in list(sys.meta_path) if finder is not self)
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: Any, importer: _Importer) -> None:
        self._loader, self._importer = loader, importer

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        module.__loader__ = module.__spec__.loader = self._loader
        self._importer.imports = True
        try:
            with _as_before():
                self._loader.exec_module(module)
        finally:
            self._importer.imports = False


@contextlib.contextmanager
def _emptied_caches() -> Iterator[None]:
    """Empties caches of functions that were called with other arguments than before: they may hold symbolic numbers."""
    caches = [o for o in gc.get_objects() if type(o) is functools._lru_cache_wrapper]
    before = [cache.cache_info().misses for cache in caches]
    try:
        yield
    finally:
        for cache, misses in zip(caches, before, strict=True):
            if cache.cache_info().misses != misses:
                cache.cache_clear()


# ---- functions of Python ---------------------------------------------------------------------------------------------------

_min, _max, _length, _sum = min, max, len, sum


def _extremum(op: str, before: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    if not options and _length(args) == 1 and type(args[0]) is Elements and _traces():
        made = args[0].number(getattr(torch, f"a{op}"))
        if made is not None:
            return made
    values = args if _length(args) > 1 else args[0] if args and issubclass(type(args[0]), tuple | list) else ()
    if not options and any(map(is_number, values)) and _capture():
        made = extremum(op, values)
        if made is not NotImplemented:
            return made
    return before(*args, **options)


def _minimum(*args: Any, **options: Any) -> Any:
    return _extremum("min", _min, args, options)


def _maximum(*args: Any, **options: Any) -> Any:
    return _extremum("max", _max, args, options)


def _len(of: Any, /) -> Any:
    if type(of) is Elements and (tensor := of.tensor()) is not None:
        of = tensor
    if issubclass(type(of), torch.Tensor) and (capture := _traces()):
        return capture.length(of)
    return _length(of)


def _summed(values: Any, /, start: Any = 0) -> Any:
    if type(values) is Elements and _traces():
        made = values.number(lambda t: t.sum(dtype=torch.float64 if t.is_floating_point() else torch.int64))
        if made is not None:
            return start + made
    return _sum(values, start)


class _KindOfKinds(type):
    def __call__(cls, *args: Any, **options: Any) -> Any:
        if len(args) == 1 and not options:
            return args[0].__class__ if type(args[0]) in (Integer, Real, Truth, Shape) else type(args[0])
        return type(*args, **options)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, type)

    def __subclasscheck__(cls, kind: Any) -> bool:
        return issubclass(kind, type)


class _Kind(type, metaclass=_KindOfKinds):
    """What `type` is in the code of the model: type(n) of a size is int."""


_thread_start = threading.Thread.start


def _start(self: threading.Thread) -> None:
    if capture := _traces():
        capture.started_thread()
    _thread_start(self)


_getitem = torch.nn.ModuleList.__getitem__


def _module_at(self: torch.nn.ModuleList, index: Any) -> Any:
    """modules[index], where a tensor holds the index."""
    capture = _traces()
    if capture is None or not capture.watch.level.symbolic:
        return _getitem(self, index)
    at = index.tensor() if type(index) is Integer and is_number(index) else index
    if issubclass(type(at), torch.Tensor) and at.dim() == 0 and capture.depends_on_contents(at):
        made = chosen(list(self), at)
        if made is not None:
            return made
    return _getitem(self, index)


_get_named = torch.nn.ModuleDict.__getitem__


def _module_named(self: torch.nn.ModuleDict, key: str) -> Any:
    """modules[f"expert_{n}"], where a tensor holds n."""
    capture = _traces()
    term = capture.watch.taken_key() if capture is not None else None
    if capture is None or term is None:
        return _get_named(self, key)
    made = by_name(self, key, int(term.value), capture.watch.tensor(term))
    if made is None:
        capture.watch.escape(term, "text")
    return _get_named(self, key) if made is None else made


def _of_reals(name: str) -> Callable[..., Any]:
    before = getattr(math, name)

    def function(*reals: Any) -> Any:
        return calculate(name, *reals) if any(map(is_number, reals)) and _capture() else before(*reals)

    return function


def _log(x: Any, /, *base: Any) -> Any:
    if not _capture() or not any(map(is_number, (x, *base))):
        return _MATH["log"][0](x, *base)
    parts = [calculate("log", p) if is_number(p) else _MATH["log"][0](p) for p in (x, *base)]
    return parts[0] / parts[1] if base else parts[0]


def _pow(x: Any, y: Any, /) -> Any:
    if not _capture() or not (is_number(x) or is_number(y)):
        return _MATH["pow"][0](x, y)
    return as_float(x) ** (as_float(y) if is_number(y) else float(y)) if is_number(x) else float(x) ** as_float(y)


def _fabs(x: Any, /) -> Any:
    return abs(as_float(x)) if is_number(x) and _capture() else _MATH["fabs"][0](x)


def _hypot(*coordinates: Any) -> Any:
    if not any(map(is_number, coordinates)) or not _capture():
        return _MATH["hypot"][0](*coordinates)
    return math.sqrt(sum(c * c for c in coordinates))


def _dist(p: Any, q: Any, /) -> Any:
    p, q = tuple(p), tuple(q)
    if not any(map(is_number, p + q)) or not _capture():
        return _MATH["dist"][0](p, q)
    return _hypot(*(a - b for a, b in zip(p, q, strict=True)))


def _remainder(x: Any, y: Any, /) -> Any:
    if {type(x), type(y)} not in ({Integer}, {Integer, int}) or not _capture():
        return _MATH["remainder"][0](x, y)
    return as_float(x - y * round(x / y))


def _modf(x: Any, /) -> Any:
    if not is_number(x) or not _capture():
        return _MATH["modf"][0](x)
    return math.fmod(x, 1), as_float(math.trunc(x))


def _degrees(x: Any, /) -> Any:
    return x * (180 / math.pi) if is_number(x) and _capture() else _MATH["degrees"][0](x)


def _radians(x: Any, /) -> Any:
    return x * (math.pi / 180) if is_number(x) and _capture() else _MATH["radians"][0](x)


def _gcd(*integers: Any) -> Any:
    if not _capture() or not any(map(is_number, integers)):
        return _MATH["gcd"][0](*integers)
    return functools.reduce(lambda a, b: calculate("gcd", a, b), integers[1:], integers[0])


def _lcm(*integers: Any) -> Any:
    if not _capture() or not any(map(is_number, integers)):
        return _MATH["lcm"][0](*integers)
    return functools.reduce(lambda a, b: abs(a * b) // _maximum(_gcd(a, b), 1), integers[1:], integers[0])


def _isqrt(n: Any, /) -> Any:
    return calculate("floor", calculate("sqrt", n)) if type(n) is Integer and _capture() else _MATH["isqrt"][0](n)


def _perm(n: Any, k: Any = None, /) -> Any:
    if type(n) is not Integer or type(k) is not int or not 0 <= k <= 8 or not _capture():
        return _MATH["perm"][0](n, k)
    return functools.reduce(operator.mul, (n - i for i in range(k)), 1)


def _comb(n: Any, k: Any, /) -> Any:
    if type(n) is not Integer or type(k) is not int or not 0 <= k <= 8 or not _capture():
        return _MATH["comb"][0](n, k)
    return _perm(n, k) // math.factorial(k)


_MATH: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    name: (getattr(math, name), function)
    for name, function in {
        **{name: _of_reals(name) for name in ("sqrt", "log2", "log10", "exp", "sin", "cos", *_formula.FUNCTIONS)},
        "log": _log,
        "pow": _pow,
        "fabs": _fabs,
        "hypot": _hypot,
        "dist": _dist,
        "remainder": _remainder,
        "modf": _modf,
        "degrees": _degrees,
        "radians": _radians,
        "gcd": _gcd,
        "lcm": _lcm,
        "isqrt": _isqrt,
        "perm": _perm,
        "comb": _comb,
    }.items()
}


def _prod_of(before: Callable[..., Any]) -> Callable[..., Any]:
    """numpy.prod."""

    def prod(values: Any, *args: Any, **options: Any) -> Any:
        plain = args or options or not issubclass(type(values), tuple | list) or not any(map(is_number, values))
        return before(values, *args, **options) if plain or not _capture() else math.prod(values)

    return prod


def _sym_sum(*values: Any) -> Any:
    flat = values[0] if len(values) == 1 and isinstance(values[0], list | tuple) else values
    return sum(flat) if any(map(is_number, flat)) else _torch_sym_sum(*values)


_torch_sym_sum = getattr(torch, "sym_sum", None)


def _sym_ite(condition: Any, true: Any, false: Any) -> Any:
    if any(map(is_number, (condition, true, false))):
        return true if condition else false
    return _torch_sym_ite(condition, true, false)


_torch_sym_ite = torch.sym_ite


def _called_higher_order(fn: Any, args: Any, kwargs: Any = None) -> Any:
    """torch.cond, while_loop, scan and map. The compiler that runs them does not work while a trace is recorded, and remembers
    where it failed."""
    if not _traces():
        return _call_higher_order(fn, args, kwargs)
    raise CannotCapture(f"the tracer does not record higher-order operators, such as torch.cond{_places.user_line()}")


_call_higher_order = getattr(_torch.higher_order, "_hop_compile_and_call", None)


def _scanned(operator: Any, leaves: Any, *args: Any, **kwargs: Any) -> Any:
    """associative_scan: the steps that it divides a length into are different ones at each."""
    capture = _traces()
    if capture is not None and any(is_number(capture.length(leaf)) for leaf in leaves):
        raise CannotCapture(f"the tracer does not record associative_scan over a dynamic axis{_places.user_line()}")
    return _scan(operator, leaves, *args, **kwargs)


_scan = getattr(_torch.scans, "generic_associative_scan", None)

# ---- functions of torch ----------------------------------------------------------------------------------------------------
# Those that are written in Python ask whether a mode wants them as a whole. They run instead, and the mode gets what they call.


def _overrides(values: Iterable[Any]) -> bool:
    """Whether one of them is of a class that replaces functions of torch itself."""
    for value in values:
        kind = type(value)
        if kind is not torch.Tensor and kind is not torch.nn.Parameter and hasattr(kind, "__torch_function__"):
            own = kind.__torch_function__
            if own is not _torch.disabled_function and own != torch.Tensor.__torch_function__:
                return True
    return False


def _asks(before: Callable[..., bool], several: bool) -> Callable[..., bool]:
    def asks(*values: Any) -> bool:
        if _capture() is None:
            return before(*values)
        return _overrides(values[0] if several else values)

    return asks


_ASKS = {
    name: (getattr(torch.overrides, name), _asks(getattr(torch.overrides, name), name == "has_torch_function"))
    for name in ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
}

_found: tuple[int, list[tuple[types.ModuleType, str]]] = 0, []


def _that_ask() -> list[tuple[types.ModuleType, str]]:
    """The modules that have these functions by name."""
    global _found
    if _found[0] != len(sys.modules):
        modules = [m for m in list(sys.modules.values()) if isinstance(m, types.ModuleType)]
        _found = len(sys.modules), [(m, n) for m in modules for n, asks in _ASKS.items() if vars(m).get(n) is asks[0]]
    return _found[1]


_deepcopy, _reduce = torch.Tensor.__deepcopy__, torch.Tensor.__reduce_ex__
_dlpack, _str = torch.Tensor.__dlpack__, _torch.text_of


def _deep_copied(self: torch.Tensor, memo: dict[int, Any]) -> Any:
    if type(self) is not torch.Tensor or not _traces():
        return _deepcopy(self, memo)
    if id(self) not in memo:
        memo[id(self)] = self.clone()
    return memo[id(self)]


def _copied(self: torch.Tensor) -> Any:
    """Another tensor with the same memory, as copy.copy makes it."""
    if type(self) is torch.Tensor and _traces():
        return self.detach()
    constructor, args, *rest = self.__reduce_ex__(4)
    return copy._reconstruct(self, None, constructor, args, *rest)  # type: ignore[attr-defined]


def _reduced(self: torch.Tensor, protocol: Any) -> Any:
    return _out_of_trace(self, "pickle", lambda: _reduce(self, protocol))


def _to_dlpack(self: torch.Tensor, *args: Any, **options: Any) -> Any:
    return _out_of_trace(self, "dlpack", lambda: _dlpack(self, *args, **options))


def _text_of(self: torch.Tensor, **options: Any) -> Any:
    return _out_of_trace(self, "text", lambda: _str(self, **options))


def _out_of_trace(tensor: torch.Tensor, what: str, made: Callable[[], Any]) -> Any:
    """What the tensor holds goes to Python: how that is computed is not part of the trace."""
    capture = _traces()
    if capture is None:
        return made()
    capture.leaves(tensor, what)
    with _torch.paused():
        return made()


def _with_array(name: str, ufunc: str) -> Callable[..., Any]:
    """x * array, which numpy computes: the type of the result is the one that numpy has."""
    before = getattr(torch.Tensor, name)

    def function(self: torch.Tensor, other: Any) -> Any:
        numpy = sys.modules.get("numpy")
        if numpy is None or type(other) is not numpy.ndarray or not _traces():
            return before(self, other)
        with _torch.paused():
            types = (torch.empty(0, dtype=self.dtype).numpy().dtype, other.dtype, None)
            mine, of_other, out = (
                torch.from_numpy(numpy.empty(0, kind)).dtype for kind in getattr(numpy, ufunc).resolve_dtypes(types)
            )
        return before(self.to(mine), torch.from_numpy(other).to(of_other)).to(out)

    return function


_ARRAY_FUNCTIONS = {"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide", "floordiv": "floor_divide"}
_ARRAY_FUNCTIONS |= {"mod": "remainder", "pow": "power", "matmul": "matmul"}

_OF_TENSORS: dict[str, Any] = {
    "__deepcopy__": _deep_copied,
    "__copy__": _copied,
    "__reduce_ex__": _reduced,
    "__dlpack__": _to_dlpack,
    **{f"__{name}__": _with_array(f"__{name}__", ufunc) for name, ufunc in _ARRAY_FUNCTIONS.items()},
}


def _of_storage(name: str) -> Callable[..., Any]:
    before = getattr(torch.UntypedStorage, name)

    def function(self: Any, *args: Any) -> Any:
        if capture := _traces():
            capture.report_data(f"{name.strip('_')} of a storage")
        return before(self, *args)

    return function


# torch.vmap calls it with the arguments as a flat list. Where it is missing, numbers that come from them are not explained.
_vmap_module = sys.modules.get("torch._functorch.vmap")
_vmap = getattr(_vmap_module, "_flat_vmap", None)


def _mapped(func: Any, batch_size: Any, in_dims: Any, args: Any, *more: Any, **options: Any) -> Any:
    """What is inside takes the sizes of arguments as plain numbers."""
    if capture := _traces():
        capture.escape_sizes([a for a in args if isinstance(a, torch.Tensor)], "vmap")
    return _vmap(func, batch_size, in_dims, args, *more, **options)


_jit_script = torch.jit.script


def _is_tracing() -> bool:
    capture = _traces()
    if capture is None or sys._getframe(1).f_globals.get("__name__", "").startswith("torch."):
        return _torch.is_tracing()
    return capture.answer_on_tracing()


def _script(*args: Any, **options: Any) -> Any:
    """A model may compile a part of it when it runs. The compiler knows functions by identity."""
    if not _capture():
        return _jit_script(*args, **options)
    with _as_before():
        return _jit_script(*args, **options)


# ---- constructors ----------------------------------------------------------------------------------------------------------


def can_replace_constructors() -> bool:
    """Whether int(n) of a size is followed."""
    return _builtins is not None and sys.version_info[:2] in TESTED_PYTHONS and sys.implementation.name == "cpython"


_DTYPES = {
    "Float": torch.float32,
    "Double": torch.float64,
    "Half": torch.float16,
    "BFloat16": torch.bfloat16,
    "Byte": torch.uint8,
}
_DTYPES |= {"Char": torch.int8, "Short": torch.int16, "Int": torch.int32, "Long": torch.int64, "Bool": torch.bool}
_LEGACY = {getattr(torch, f"{name}Tensor"): dtype for name, dtype in _DTYPES.items() if hasattr(torch, f"{name}Tensor")}


@contextlib.contextmanager
def _constructors() -> Iterator[None]:
    kinds = (int, float, torch.Size, torch.Tensor, *_LEGACY)
    watched = (Integer, Real, Truth, Shape, list, tuple, torch.Tensor)
    _builtins.replace(kinds, (functools._lru_cache_wrapper,), watched, _called)
    try:
        yield
    finally:
        _builtins.restore()


def _called(callee: Any, *args: Any, **options: Any) -> Any:
    """What callee(*args, **options) is; NotImplemented where it is what it was before."""
    capture = _capture()
    if capture is None:
        return NotImplemented
    if callee is int or callee is float:
        return _converted(capture, callee, *args)
    values = (*args, *options.values())
    if not any(is_number(a) or (type(a) in (Shape, list, tuple) and any(map(is_number, a))) for a in values):
        return NotImplemented
    if type(callee) is functools._lru_cache_wrapper:
        return callee.__wrapped__(*args, **options)  # a cache would have one entry for all sizes, or a constant
    return _constructed(callee, *args)


def _constructed(kind: type, *args: Any) -> Any:
    if kind is torch.Size:
        return Shape(*args)
    dtype = _LEGACY.get(kind) or torch.get_default_dtype()
    if type(args[0]) in (list, tuple):
        return torch.tensor(args[0], dtype=dtype)
    return torch.empty(args[0] if type(args[0]) is Shape else args, dtype=dtype)


def _converted(capture: Capture, kind: type, value: Any = None, *more: Any) -> Any:
    if more or not isinstance(value, Number | torch.Tensor):
        return NotImplemented
    if isinstance(value, torch.Tensor):
        value = capture.number(value) if _torch.is_tracing() else None
    return NotImplemented if not is_number(value) else as_int(value) if kind is int else as_float(value)
