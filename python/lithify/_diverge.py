"""Where an exported model begins to differ from the live one: the first node whose value the live model never has.

The values of both are kept as signatures of a hundred numbers, those of the exported model a few dozen nodes at a time, so that
memory stays bounded. A node is right when its value is one that an operator of the live model computes; the nodes in between,
which only express one operator in several, lead to one that is right. So what leads to a wrong output and to nothing right is
where the fault is, and its first node is reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from lithify._check import tolerance
from lithify._places import user_line

Feed = dict[str, np.ndarray]
SAMPLES = 97  # of each value
AT_ONCE = 48  # values of the exported model
RESHAPING = {"Reshape", "Squeeze", "Unsqueeze", "Flatten", "Expand"}
MOVING = RESHAPING | {"Transpose", "Concat"}  # what these change is the order of elements, or their number


def depths(graph: onnx.GraphProto) -> dict[str, int]:
    """How many nodes lead to each value."""
    out: dict[str, int] = {}
    for node in graph.node:
        depth = 1 + max((out.get(name, 0) for name in node.input), default=0)
        out.update(dict.fromkeys(node.output, depth))
    return out


@dataclass
class Divergence:
    node: str
    op_type: str
    module: str  # where the node is in the model: "encoder.layers.0"
    source: str  # "model.py:12", or nothing
    why: str

    def __str__(self) -> str:
        at = f", in '{self.module}'" if self.module else ""
        return f"first at the node '{self.node}' ({self.op_type}){at}{f', {self.source}' if self.source else ''}: {self.why}"


@dataclass
class Signature:
    """Of a tensor: numbers at even distances, and some that do not depend on the order."""

    shape: tuple[int, ...]
    picked: np.ndarray
    whole: np.ndarray

    @staticmethod
    def of(tensor: torch.Tensor) -> Signature:
        flat = torch.view_as_real(tensor).flatten() if tensor.is_complex() else tensor.flatten()
        count = flat.numel()
        if count == 0:
            return Signature(tuple(tensor.shape), np.zeros(0), np.zeros(5))
        flat = torch.nan_to_num(flat.to(torch.float64), nan=1e300, posinf=2e300, neginf=-2e300)
        picked = flat[torch.linspace(0, count - 1, min(count, SAMPLES)).round().long()]
        whole = torch.stack([flat.sum() / count, flat.abs().mean(), flat.square().mean().sqrt(), flat.min(), flat.max()])
        return Signature(tuple(tensor.shape), picked.numpy(), whole.numpy())

    def scale(self) -> float:
        return max(abs(float(self.whole[3])), abs(float(self.whole[4])), 1e-30)

    def same_elements(self, other: Signature, within: float) -> bool:
        """In whatever order."""
        if np.prod(self.shape) != np.prod(other.shape):
            return False
        return bool(np.all(np.abs(self.whole - other.whole) <= within * other.scale()))

    def same(self, other: Signature, within: float) -> bool:
        """In the same order, in whatever shape."""
        return self.same_elements(other, within) and bool(np.all(np.abs(self.picked - other.picked) <= within * other.scale()))


@dataclass
class Live:
    """A value of the live model."""

    value: Signature
    line: str
    by: str = ""  # the only operator of ONNX that may compute it; any, if it is empty


class _Eager(TorchDispatchMode):
    """Keeps what every operator of the live model computes, and the line that calls it."""

    def __init__(self) -> None:
        super().__init__()
        self.values: list[Live] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        line = user_line()
        if func in (torch.ops.aten.addmm.default, torch.ops.aten.baddbmm.default):
            self._keep(torch.matmul(args[1], args[2]), line, "MatMul")  # a node by itself in ONNX
        for value in result if isinstance(result, tuple | list) else (result,):
            self._keep(value, line)
        return result

    def _keep(self, value: Any, line: str, by: str = "") -> None:
        if (
            isinstance(value, torch.Tensor)
            and type(value) in (torch.Tensor, torch.nn.Parameter)
            and value.layout == torch.strided
        ):
            self.values.append(Live(Signature.of(value.detach().cpu()), line, by))


def find(model: onnx.ModelProto, folder: str, feed: Feed, run: Callable[[Any], Any], wrong: Sequence[str]) -> Divergence | None:
    """`run` runs the live model on what is in `feed`, within the context that a function makes; `wrong` are the outputs that
    differ."""
    eager = _Eager()
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        run(lambda: eager)
    graph = model.graph
    computed, stopped = _computed(model, folder, feed)
    deep = depths(graph)
    exact: dict[str, int] = {}  # value, and where the live model has it
    alike: set[str] = set()
    for node in graph.node:
        for name in node.output:
            if name in computed:
                dtype, value = computed[name]
                within = tolerance(getattr(torch, dtype, torch.float32), deep[name])
                at, elements = _matched(value, eager.values, within, node.op_type)
                if at is not None:
                    exact[name] = at
                elif elements:
                    alike.add(name)
    given = {i.name for i in graph.initializer} | {i.name for i in graph.input}
    leads = set(stopped.input) if stopped is not None else set(wrong)
    suspects = []
    for node in reversed(graph.node):
        if node is stopped or (leads & set(node.output)) - set(exact):
            suspects.insert(0, node)
            leads |= set(node.input) - set(exact)
    for node in suspects:
        inputs = [i for i in node.input if i and i not in given]
        known = all(i in exact for i in inputs)
        sizes = all(n in computed and _is_size(*computed[n]) for n in node.output if n)
        if node is not stopped and (sizes or (set(node.output) & alike and not (node.op_type in MOVING and known))):
            continue
        after = max((exact[i] for i in inputs if i in exact), default=-1)
        return Divergence(
            node=node.name,
            op_type=node.op_type,
            module=re.sub(r"/[^/]*$", "", node.name).strip("/").replace("/", "."),
            source=_next_unmatched(eager.values, set(exact.values()), after),
            why="the runtime fails in it" if node is stopped else "the live model has no such value",
        )
    return None


def _computed(model: onnx.ModelProto, folder: str, feed: Feed) -> tuple[dict[str, tuple[str, Signature]], onnx.NodeProto | None]:
    """The element type and signature of every value of the graph, and the node that the runtime fails in, if it does."""
    names = [n for node in model.graph.node for n in node.output if n]
    out: dict[str, tuple[str, Signature]] = {}
    stopped = None
    for first in range(0, len(names), AT_ONCE):
        wanted = names[first : first + AT_ONCE]
        if stopped is not None:
            break
        try:
            values = _values(model, folder, feed, wanted)
        except Exception:
            values = {}
            for name in wanted:  # as far as it goes
                try:
                    values |= _values(model, folder, feed, [name])
                except Exception as error:
                    named = re.search(r"Name:'([^']*)'", str(error))
                    nodes = [n for n in model.graph.node if (named and n.name == named[1]) or (not named and name in n.output)]
                    stopped = nodes[0] if nodes else None
                    break
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                out[name] = (str(value.dtype), Signature.of(torch.from_numpy(np.ascontiguousarray(value))))
    return out, stopped


def _values(model: onnx.ModelProto, folder: str, feed: Feed, names: Sequence[str]) -> dict[str, Any]:
    """Runs no more of the graph than they need."""
    part, needed = onnx.ModelProto(), set(names)
    part.CopyFrom(model)
    del part.graph.output[:], part.graph.node[:]
    part.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    for node in reversed(model.graph.node):
        if needed & set(node.output):
            part.graph.node.insert(0, node)
            needed.update(_reads(node))
    return dict(zip(names, session(part.SerializeToString(), folder).run(list(names), feed), strict=True))


def _reads(node: onnx.NodeProto) -> Iterable[str]:
    """The inputs of a node, and what the graphs in it take from around them."""
    yield from node.input
    for a in node.attribute:
        for inner in a.g.node if a.type == onnx.AttributeProto.GRAPH else ():
            yield from _reads(inner)


def session(model: bytes, folder: str) -> onnxruntime.InferenceSession:
    """Without optimizations: each node is run as it stands."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if folder:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _matched(value: Signature, among: Iterable[Live], within: float, op_type: str) -> tuple[int | None, bool]:
    """Where the value is among those of the live model, and whether its elements are there in another order and shape."""
    shapes = set()
    for i, live in enumerate(among):
        if live.by in ("", op_type) and value.same_elements(live.value, within):
            shapes.add(live.value.shape)
            if value.same(live.value, within) and (value.shape == live.value.shape or op_type not in RESHAPING):
                return i, True
    return None, bool(shapes) and (value.shape not in shapes or op_type in MOVING)


def _is_size(dtype: str, value: Signature) -> bool:
    """Whether it may be a size on its way into a node, which the live model has outside of tensors."""
    return dtype in ("int64", "int32", "bool") and int(np.prod(value.shape)) <= 16


def _next_unmatched(values: Sequence[Live], matched: set[int], after: int) -> str:
    for i in range(after + 1, len(values)):
        if i not in matched:
            return values[i].line.removeprefix(" at ")
    return ""
