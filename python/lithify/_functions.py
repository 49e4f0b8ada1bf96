"""autograd.Functions in a trace: what their forward does is recorded, and not the call of Python, which no file can have.
One that custom_translation_table has, or that has a `symbolic` method, is recorded as an operator, for the core to translate."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.autograd import Function
from torch.autograd.function import FunctionCtx

from lithify import _symbolic, _torch
from lithify._errors import ExportError
from lithify._numbers import is_number

KINDS: list[tuple[type, str]] = [(torch.Tensor, "Tensor"), (bool, "bool"), (int, "int"), (float, "float"), (str, "str")]


class Functions:
    """`table` has Functions that become operators, beside those with a `symbolic` method if these count; `met` is called with
    each such operator and its translation. `versions` are those of the domains that `symbolic` makes nodes of."""

    def __init__(
        self,
        table: Mapping[Any, Callable[..., Any]],
        met: Callable[[Any, Callable[..., Any]], None],
        symbolic: bool = False,
        versions: Mapping[str, int] | None = None,
    ) -> None:
        self._table, self._met, self._symbolic, self._versions = table, met, symbolic, dict(versions or {})
        self._operators: dict[tuple[Any, str], Any] = {}
        self._library: torch.library.Library | None = None  # it is there as long as this object

    def translated(self) -> list[str]:
        """The names of those that became operators."""
        return sorted({cls.__name__ for cls, _ in self._operators if isinstance(cls, type)})

    @contextlib.contextmanager
    def recorded(self) -> Iterator[None]:
        """While a trace is made."""
        before = Function.__dict__["apply"]

        def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
            if not _torch.is_tracing():
                return before.__get__(None, cls)(*args, **kwargs)
            return self._operator(cls, args)(*args) if self._has(cls) else _forward(cls, *args, **kwargs)

        Function.apply = classmethod(apply)  # type: ignore[assignment, method-assign]
        calls = {name: getattr(torch.onnx.ops, name) for name in _NODES if hasattr(torch.onnx.ops, name)}
        for name, call in calls.items():
            setattr(torch.onnx.ops, name, self._node_of(call, several=name == "symbolic_multi_out"))
        try:
            yield
        finally:
            Function.apply = before  # type: ignore[method-assign]
            for name, call in calls.items():
                setattr(torch.onnx.ops, name, call)

    def _node_of(self, before: Callable[..., Any], several: bool) -> Callable[..., Any]:
        """torch.onnx.ops.symbolic, or symbolic_multi_out: one node, as an operator of the trace."""

        def node(kind: str, /, inputs: Sequence[Any], attrs: Any = None, **more: Any) -> Any:
            if not _torch.is_tracing():
                return before(kind, inputs, attrs, **more)
            dtypes, shapes = (more["dtypes"], more["shapes"]) if several else ([more["dtype"]], [more["shape"]])
            types = [_node_type(d, s, inputs) for d, s in zip(dtypes, shapes, strict=True)]
            parameters = ", ".join(f"{_kind(None, t)} a{i}" for i, t in enumerate(inputs))
            returned = f"({', '.join('Tensor' for _ in types)})" if several else "Tensor"

            def zeros(*_: Any) -> Any:
                made = [torch.zeros(t.sample, dtype=getattr(torch, t.element)) for t in types]  # type: ignore[arg-type]
                return tuple(made) if several else made[0]

            operator = self._defined(kind.rpartition("::")[2], parameters, returned, zeros)
            self._operators[object(), parameters] = operator
            self._met(operator, _symbolic.node_translation(kind, dict(attrs or {}), types, more.get("version")))
            return operator(*inputs)

        return node

    def _defined(self, name: str, parameters: str, returned: str, function: Callable[..., Any]) -> Any:
        """A new operator."""
        if self._library is None:
            self._library = torch.library.Library("lithify", "FRAGMENT")
        name = f"{name}_{next(_numbers)}"
        self._library.define(f"{name}({parameters}) -> {returned}")
        self._library.impl(name, function, "CompositeExplicitAutograd")
        return getattr(torch.ops.lithify, name).default

    def _has(self, cls: Any) -> bool:
        return cls in self._table or (self._symbolic and hasattr(cls, "symbolic"))

    def _operator(self, cls: Any, args: Sequence[Any]) -> Any:
        parameters = ", ".join(f"{_kind(cls, a)} a{i}" for i, a in enumerate(args))
        # What symbolic is given of an argument depends on its rank.
        key = parameters + str([a.dim() for a in args if isinstance(a, torch.Tensor)])
        known = self._operators.get((cls, key))
        if known is None:
            with _torch.paused():
                made = _forward(cls, *args)
                several = isinstance(made, tuple)
                results = made if several else (made,)
                translation = self._table.get(cls) or _symbolic.translation(cls, args, results, self._versions)
            returned = f"({', '.join('Tensor' for _ in made)})" if several else "Tensor"
            known = self._defined(cls.__name__, parameters, returned, lambda *a: _forward(cls, *a))
            self._operators[cls, key] = known
            self._met(known, translation)
        return known


_numbers = itertools.count()  # of operators in this process: those of other exports may still be there
_NODES = ("symbolic", "symbolic_multi_out")  # of torch.onnx.ops


def _node_type(dtype: Any, shape: Sequence[Any], inputs: Sequence[Any]) -> _symbolic.Type:
    """Of a result with this shape: a size of an input is that size, and others that are computed are known only at run time."""
    if not isinstance(dtype, torch.dtype):
        raise ExportError(f"torch.onnx.ops.symbolic has the element type {dtype!r}: pass one of torch, such as torch.float32")
    known = {
        id(size.term): f"a{i}.{d}"
        for i, t in enumerate(inputs)
        if t is not None
        for d, size in enumerate(t.shape)
        if is_number(size)
    }
    texts = [known.get(id(s.term), "?") if is_number(s) else str(s) for s in shape]
    sample = tuple(s.value if is_number(s) else int(s) for s in shape)
    return _symbolic.Type(str(dtype).removeprefix("torch."), tuple(texts), sample)


def _forward(cls: Any, *args: Any, **kwargs: Any) -> Any:
    if _torch.has_setup_context(cls.setup_context):
        return cls.forward(*args, **kwargs)
    context = FunctionCtx()
    context.needs_input_grad = (False,) * len(args)  # type: ignore[attr-defined]
    return cls.forward(context, *args, **kwargs)


def _kind(cls: Any, value: Any) -> str:
    """The type of a parameter that takes the value, in a schema."""
    if value is None:
        return "Tensor?"
    if isinstance(value, tuple | list) and value:
        return _kind(cls, value[0]) + "[]"
    for kind, name in KINDS:
        if isinstance(value, kind):
            return name
    raise ExportError(f"{cls.__name__} takes {value!r}, which no operator can")
