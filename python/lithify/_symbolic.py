"""The `symbolic` method of an autograd.Function, as torch.onnx.export(dynamo=False) calls it: it makes the nodes for the call.

@staticmethod
def symbolic(g, x, alpha):
    return g.op("my.domain::Scaled", x, alpha_f=alpha).setType(x.type())
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from lithify import _custom
from lithify._errors import ExportError


@dataclass(frozen=True)
class Type:
    """Element type and sizes, as a declaration of a custom operator has them: `a0.1` is a size of the first argument."""

    element: str
    texts: tuple[str, ...]
    sample: tuple[int | None, ...]

    @staticmethod
    def of(tensor: torch.Tensor, texts: Sequence[str]) -> Type:
        return Type(str(tensor.dtype).removeprefix("torch."), tuple(texts), tuple(tensor.shape))

    def __str__(self) -> str:
        return f"{self.element}[{', '.join(self.texts)}]"

    def sizes(self) -> list[int | None]:
        return list(self.sample)

    def dim(self) -> int:
        return len(self.sample)

    def with_dtype(self, dtype: torch.dtype) -> Type:
        return replace(self, element=str(dtype).removeprefix("torch."))

    def with_sizes(self, sizes: Sequence[int | None]) -> Type:
        return Type(self.element, tuple("?" if s is None else str(s) for s in sizes), tuple(sizes))


@dataclass(frozen=True)
class Like(Type):
    """The type of an argument of which nothing more is known."""

    def __str__(self) -> str:
        return f"{self.element} like {self.texts[0]}".strip()

    def sizes(self) -> list[int | None]:
        raise ExportError("symbolic asks for the sizes of an argument, which are not known here")

    def dim(self) -> int:
        return len(self.sizes())


class Value(_custom.Value):
    """A result of a node that is made when it is used: until then its type can be set."""

    def __init__(self, node: Node | None, index: int, known: Type | None, handle: int | None = None) -> None:
        self._node, self._index, self._type, self._known = node, index, known, handle

    @property
    def handle(self) -> int | None:  # type: ignore[override]
        return self._known if self._node is None else self._node.handles()[self._index]

    def type(self) -> Type:
        if self._type is None:
            raise ExportError("symbolic asks for the type of a result that has none: set it by setType")
        return self._type

    def setType(self, known: Type) -> Value:
        self._type = known
        return self


class Node:
    """One call of g.op. `make` makes the node from the types of its results."""

    def __init__(self, outputs: int, make: Callable[[list[Type | None]], Sequence[_custom.Value]]) -> None:
        self._make, self._made = make, None  # type: tuple[Any, Sequence[_custom.Value] | None]
        self.values = [Value(self, i, None) for i in range(outputs)]

    def handles(self) -> list[int | None]:
        if self._made is None:
            self._made = self._make([v._type for v in self.values])
        return [v.handle for v in self._made]


class Graph:
    """What symbolic calls `g`. `results` are the types that the Function's own results have."""

    def __init__(self, name: str, results: Sequence[Type], versions: Mapping[str, int]) -> None:
        self._name, self._results, self._versions = name, results, versions

    def op(self, kind: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        domain, _, op = kind.rpartition("::")
        given = {name[:-2] if name[-2:-1] == "_" else name: value for name, value in attributes.items()}
        if domain in ("", "onnx") and op == "Constant":
            return Value(None, 0, None, _constant(given.get("value")))
        if domain in ("aten", "prim"):
            raise ExportError(
                f"symbolic of {self._name} makes a node {kind}: only operators of ONNX and of custom domains are written; "
                "dynamo=True exports what forward does"
            )

        def make(types: list[Type | None]) -> Sequence[_custom.Value]:
            if domain in ("", "onnx"):
                made = getattr(_custom.Ops(), op)(*inputs, outputs=outputs, **given)
            else:
                texts = [str(t or self._result(i, outputs)) for i, t in enumerate(types)]
                made = getattr(_custom.Ops(domain, self._versions.get(domain, 1)), op)(*inputs, types=texts, **given)
            return made if isinstance(made, tuple) else (made,)

        values = Node(outputs, make).values
        return values[0] if outputs == 1 else tuple(values)

    def at(self, operator: str, *inputs: Any, **attributes: Any) -> Any:
        """A node of PyTorch's own operator, which torch.onnx.export refuses as well where it writes ONNX."""
        return self.op(f"aten::{operator}", *inputs, **attributes)

    @property
    def opset(self) -> int:
        return _custom._current.get().opset()

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"symbolic of {self._name} uses g.{name}: Lithify has g.op, g.at and g.opset")

    def _result(self, index: int, outputs: int) -> Type:
        """A node without a type has as many results as the Function, so they are the same ones."""
        if outputs != len(self._results):
            raise ExportError(f"symbolic of {self._name} gives no type to a node of another domain: set it by setType")
        return self._results[index]


def _constant(value: Any) -> int | None:
    call = _custom._current.get()
    value = torch.as_tensor(value)
    if value.dim() == 1 and value.dtype == torch.int64:
        return call.integers_constant(value.tolist())
    contents = value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return call.tensor_constant(str(value.dtype).removeprefix("torch."), list(value.shape), contents)


def types_of(results: Sequence[torch.Tensor], arguments: Sequence[Any]) -> list[Type]:
    """Types of results of a Function: one that has the shape of an argument keeps it, and other sizes are known only at run
    time."""
    tensors = [(f"a{i}", a) for i, a in enumerate(arguments) if isinstance(a, torch.Tensor)]
    out = []
    for result in results:
        like = next((name for name, a in tensors if a.shape == result.shape), None)
        out.append(Type.of(result, [f"{like}.{d}" if like else "?" for d in range(result.dim())]))
    return out


def registered(name: str, symbolic: Callable[..., Any], versions: Mapping[str, int]) -> Callable[..., Any]:
    """The translation of an operator by a function of torch.onnx.register_custom_op_symbolic. It takes the arguments by name."""

    def translate(**given: Any) -> Any:
        def typed(argument: str, value: Any) -> Any:
            if isinstance(value, list):
                return [typed(argument, v) for v in value]
            return Value(None, 0, Like("", (argument,), ()), value.handle) if isinstance(value, _custom.Value) else value

        made = symbolic(Graph(name, (), versions), *(typed(*item) for item in given.items()))
        return tuple(made) if isinstance(made, tuple | list) else made

    return translate


def node_translation(kind: str, attributes: Mapping[str, Any], types: Sequence[Type], version: int | None) -> Callable[..., Any]:
    """The translation of a call of torch.onnx.ops.symbolic: one node."""
    domain, _, op = kind.rpartition("::")

    def translate(*given: Any) -> Any:
        if domain in ("", "onnx"):
            return getattr(_custom.Ops(), op)(*given, outputs=len(types), **attributes)
        return getattr(_custom.Ops(domain, version or 1), op)(*given, types=[str(t) for t in types], **attributes)

    return translate


def translation(
    cls: Any, arguments: Sequence[Any], results: Sequence[torch.Tensor], versions: Mapping[str, int]
) -> Callable[..., Any]:
    """The translation of a Function with a `symbolic` method, for a call with arguments like these."""
    types = [
        Type.of(a, [f"a{i}.{d}" for d in range(a.dim())]) if isinstance(a, torch.Tensor) else None
        for i, a in enumerate(arguments)
    ]
    known = types_of(results, arguments)

    def translate(*given: Any) -> Any:
        values = [Value(None, 0, t, v.handle) if t is not None else v for v, t in zip(given, types, strict=True)]
        made = cls.symbolic(Graph(cls.__name__, known, versions), *values)
        return tuple(made) if isinstance(made, tuple | list) else made

    return translate
