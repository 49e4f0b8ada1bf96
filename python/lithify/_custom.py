"""custom_translation_table: Python functions that translate operators of torch.library and autograd.Functions.

A function takes the arguments of its operator, tensors as Value, and returns one Value or several. It makes nodes by
`lithify.ops`, or by the opsets of onnxscript, as functions for torch.onnx.export do:

    table = {torch.ops.mylib.scaled.default: lambda x, alpha: lithify.ops.Mul(x, alpha)}
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from lithify import _core
from lithify._errors import ExportError

_current: contextvars.ContextVar[_core.CustomCall] = contextvars.ContextVar("call")


class Value:
    """A tensor in the graph that is being made."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __add__(self, other: Any) -> Value:
        return ops.Add(self, other)

    def __sub__(self, other: Any) -> Value:
        return ops.Sub(self, other)

    def __mul__(self, other: Any) -> Value:
        return ops.Mul(self, other)

    def __truediv__(self, other: Any) -> Value:
        return ops.Div(self, other)

    def __matmul__(self, other: Any) -> Value:
        return ops.MatMul(self, other)

    def __neg__(self) -> Value:
        return ops.Neg(self)

    __radd__, __rmul__ = __add__, __mul__


class Ops:
    """Makes nodes: `ops.Celu(x, alpha=0.5)`. Inputs are values, numbers, lists of whole numbers, None; keywords are attributes.

    `ops.TopK(x, [3], outputs=2)` has several results. A node of another domain declares its results, as in a file of custom
    operators: `ops("com.example", 1).Twice(x, types=["like x"])`.
    """

    def __init__(self, domain: str = "", version: int = 1) -> None:
        self._domain, self._version = domain, version

    def __call__(self, domain: str, version: int = 1) -> Ops:
        return Ops(domain, version)

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        if not op_type[0].isupper():
            raise AttributeError(op_type)
        return lambda *inputs, **attributes: self._node(op_type, inputs, attributes)

    def _node(self, op_type: str, inputs: Sequence[Any], attributes: dict[str, Any]) -> Any:
        call = _current.get()
        like = next((i.handle for i in inputs if isinstance(i, Value)), None)
        handles = [_handle(call, i, like) for i in inputs]
        outputs, types = attributes.pop("outputs", 1), attributes.pop("types", None)
        given = {name: _attribute(value) for name, value in attributes.items() if value is not None}
        if self._domain:
            made = call.foreign_node(self._domain, self._version, op_type, handles, given, types or ["like x"])
        else:
            made = call.node(op_type, handles, given, outputs)
        values = tuple(Value(h) for h in made)
        return values[0] if len(values) == 1 else values


ops = Ops()


def _handle(call: _core.CustomCall, value: Any, like: int | None) -> int | None:
    if value is None or isinstance(value, Value):
        return value.handle if value is not None else None
    if isinstance(value, bool | int | float):
        return call.constant(float(value), like)
    if isinstance(value, list | tuple) and all(isinstance(v, int) for v in value):
        return call.integers_constant(list(value))
    raise ExportError(f"{value!r} is not an input of a node: pass a value, a number or a list of integers")


def _attribute(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    return list(value) if isinstance(value, tuple) else value


class Translations:
    """What the core takes of a table: the schema of each operator, and what runs its function. `error` is what one raised.
    `functions` are the autograd.Functions in it, which are operators once they are met."""

    def __init__(self, table: Mapping[Any, Callable[..., Any]]) -> None:
        self.error: Exception | None = None
        self.plugins: list[Plugin] = []
        self.functions = {key: function for key, function in table.items() if hasattr(key, "setup_context")}
        for key, function in table.items():
            if key not in self.functions:
                self.add(key, function)

    def add(self, key: Any, function: Callable[..., Any], by_name: bool = False) -> None:
        """`by_name`: the function takes the arguments of the operator by their names."""
        for overload in [getattr(key, name) for name in key.overloads()] if hasattr(key, "overloads") else [key]:
            schema = getattr(overload, "_schema", None)
            if schema is None:
                raise ExportError(
                    f"custom_translation_table has {key!r}, which is not an operator: use one such as torch.ops.mylib.op.default"
                )
            self.plugins.append((str(schema), functools.partial(self._run, schema=schema, function=function, by_name=by_name)))

    def _run(self, call: _core.CustomCall, schema: Any, function: Callable[..., Any], by_name: bool) -> list[int | None]:
        token = _current.set(call)
        try:
            with _onnxscript():
                given = {a.name: _argument(call, a) for a in schema.arguments}
                made = function(**given) if by_name else function(*given.values())
            values = made if isinstance(made, tuple | list) else (made,)
            if not all(isinstance(v, Value) for v in values):
                raise ExportError(f"the translation of {schema.name} returns {made!r}, and not values of the graph")
            return [v.handle for v in values]
        except Exception as error:
            self.error = error
            raise
        finally:
            _current.reset(token)


Plugin = tuple[str, Callable[[_core.CustomCall], list["int | None"]]]


def _argument(call: _core.CustomCall, argument: Any) -> Any:
    """By the type that the schema has."""
    name, kind = argument.name, str(argument.type).removeprefix("Optional[").removesuffix("]")
    if not call.given(name):
        return None
    if kind == "Tensor":
        return Value(call.tensor(name))
    if "Tensor" in kind:
        return [None if h is None else Value(h) for h in call.tensors(name)]
    read = {"int": call.integer, "float": call.real, "bool": call.flag, "str": call.text, "number": call.real}
    return read[kind](name) if kind in read else call.integers(name)


@contextlib.contextmanager
def _onnxscript() -> Iterator[None]:
    """Functions that were written for torch.onnx.export make their nodes by onnxscript; then it is there."""
    try:
        from onnxscript import evaluator
    except ImportError:
        yield
        return

    class Evaluator:
        def eval_op(self, op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
            made = Ops() if op.opset.domain == "" else Ops(op.opset.domain, op.opset.version)
            return getattr(made, op.name)(*args, **kwargs)

        def eval_function(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
            return function.function(*args, **kwargs)

    with evaluator.default_as(Evaluator()):  # type: ignore[arg-type]
        yield
