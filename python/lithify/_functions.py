"""autograd.Functions in a trace: what their forward does is recorded, and not the call of Python, which no file can have.
One that custom_translation_table has, or that has a `symbolic` method, is recorded as an operator, for the core to translate."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.autograd import Function
from torch.autograd.function import FunctionCtx

from lithify import _symbolic, _torch
from lithify._errors import ExportError

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

    @contextlib.contextmanager
    def recorded(self) -> Iterator[None]:
        """While a trace is made."""
        before = Function.__dict__["apply"]

        def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
            if not _torch.is_tracing():
                return before.__get__(None, cls)(*args, **kwargs)
            return self._operator(cls, args)(*args) if self._has(cls) else _forward(cls, *args, **kwargs)

        Function.apply = classmethod(apply)  # type: ignore[assignment, method-assign]
        try:
            yield
        finally:
            Function.apply = before  # type: ignore[method-assign]

    def _has(self, cls: Any) -> bool:
        return cls in self._table or (self._symbolic and hasattr(cls, "symbolic"))

    def _operator(self, cls: Any, args: Sequence[Any]) -> Any:
        parameters = ", ".join(f"{_kind(cls, a)} a{i}" for i, a in enumerate(args))
        # What symbolic is given of an argument depends on its rank.
        key = parameters + str([a.dim() for a in args if isinstance(a, torch.Tensor)])
        known = self._operators.get((cls, key))
        if known is None:
            if self._library is None:
                self._library = torch.library.Library("lithify", "FRAGMENT")
            with _torch.paused():
                made = _forward(cls, *args)
            several = isinstance(made, tuple)
            returned = f"({', '.join('Tensor' for _ in made)})" if several else "Tensor"
            name = f"{cls.__name__}_{len(self._operators)}"
            self._library.define(f"{name}({parameters}) -> {returned}")
            self._library.impl(name, lambda *a: _forward(cls, *a), "CompositeExplicitAutograd")
            known = self._operators[cls, key] = getattr(torch.ops.lithify, name).default
            given = self._table.get(cls)
            self._met(known, given or _symbolic.translation(cls, args, made if several else (made,), self._versions))
        return known


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
