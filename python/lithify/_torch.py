"""The private parts of torch that captures need, all of them here.

Each is looked up when this module is imported. One that is missing in another release of torch raises CannotCapture when it is
used, which names the releases that were tested: a capture that needs it fails, and others are tried.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import sys
import types
from collections.abc import Container, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from lithify._errors import CannotCapture

TESTED = "2.13"


def _part(path: str) -> Any:
    """A part of torch by its name."""
    part: Any = torch
    for name in path.split("."):
        part = getattr(part, name, None)
        if part is None:
            return _Missing(path)
    return part


class _Missing:
    """In place of a part that this release of torch does not have."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, *_: Any, **__: Any) -> Any:
        text = f"torch {torch.__version__} does not have torch.{self._path}, which the capture needs"
        raise CannotCapture(f"{text}; tested with torch {TESTED}")

    def __contains__(self, _: Any) -> bool:
        return False


# ---- the tracer ------------------------------------------------------------------------------------------------------------

Value = Any  # torch._C.Value: a value of the program that is being traced

is_tracing = _part("_C._is_tracing")
without_functions = _part("_C.DisableTorchFunction")  # calls of torch in it reach no mode and no subclass
disabled_function = _part("_C._disabled_torch_function_impl")  # the __torch_function__ of classes that have none
function_owners = (_part("_C._VariableFunctions"), _part("_C._nn"))  # of functions that are written in C++
operator_types = tuple(t for t in map(_part, ("_ops.OpOverload", "_ops.OpOverloadPacket")) if isinstance(t, type))  # of torch.ops
texts, text_of = _part("_tensor_str"), _part("_tensor_str._str")  # the module that prints tensors, and its function
compilers = [
    m for m in map(_part, ("jit", "jit._script", "jit._trace")) if hasattr(m, "script")
]  # modules that have torch.jit.script
higher_order = _part("_higher_order_ops.utils")  # the module that runs torch.cond and the like
_scans = "torch._higher_order_ops.associative_scan"  # a function has the name of the module, too
scans = sys.modules.get(_scans) or types.ModuleType(_scans)
container_types = _part("utils._pytree.SUPPORTED_NODES")
has_setup_context = _part("autograd.function._is_setup_context_defined")  # whether a Function has one
_compilation_unit, _script_module = _part("_C.CompilationUnit"), _part("_C.ScriptModule")
state, _set_state = _part("_C._get_tracing_state"), _part("_C._set_tracing_state")
_value_of, _set_value = _part("_C._get_value_trace"), _part("_C._set_value_trace")
_integer, _real, _truth, _tensor = (_part(f"_C.{name}Type.get") for name in ("Int", "Float", "Bool", "Tensor"))


def trace(module: nn.Module, sample: Sequence[torch.Tensor]) -> Saved:
    """torch.jit.trace_module of a method `forward`."""
    try:
        return torch.jit.trace_module(  # type: ignore[no-any-return]
            module,
            {"forward": tuple(sample)},
            check_trace=False,
            strict=False,
            _module_class=_Recorded,
            _compilation_unit=_compilation_unit(),
        )
    except TypeError as error:
        if "unexpected keyword argument '_" not in str(error):
            raise
        raise CannotCapture(f"{error}, in torch {torch.__version__}; tested with torch {TESTED}") from error


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Nothing is recorded in it, and sizes are plain numbers."""
    before = state()
    _set_state(None)
    try:
        yield
    finally:
        _set_state(before)


def resume(before: Any) -> bool:
    """Continues the trace of this state after a function that raised. The tracer stops where an operator raises, and leaves its
    statement without a result. Returns whether it did. Where the tracer itself raised, nothing can be continued."""
    if state() is not None:
        return False
    unfinished = (n for n in reversed(list(before.graph().nodes())) if n.kind().startswith("aten::"))
    last = next(unfinished, None)
    if last is None or last.outputsSize() > 0:
        return False
    last.destroy()
    _set_state(before)
    return True


def sizes_of(tensor: torch.Tensor) -> torch.Size:
    """Its sizes as plain numbers, while a trace is recorded."""
    before = state()
    _set_state(None)
    try:
        return tensor.size()
    finally:
        _set_state(before)


def value_of(tensor: torch.Tensor) -> Value | None:
    """The value of the program that the tensor is. None for what the program cannot hold: it is not part of it."""
    try:
        return _value_of(tensor)
    except RuntimeError:  # a constant that requires a gradient
        return None


def inputs() -> list[Value]:
    """The tensors that the program takes."""
    return [value for value in state().graph().inputs() if value.type().isSubtypeOf(_tensor())]


def set_value(tensor: torch.Tensor, value: Value) -> None:
    """From here on, the tensor is this value of the program."""
    _set_value(tensor, value)


def key_of(value: Value) -> int:
    return value.unique()  # type: ignore[no-any-return]


def kind_of(value: Value) -> str:
    """The operator that makes the value."""
    return value.node().kind()  # type: ignore[no-any-return]


def is_constant(value: Value, depth: int = 4) -> bool:
    """Whether it is a constant or a weight, or was computed from such by a few operators."""
    node = value.node()
    if node.kind() in ("prim::Constant", "prim::GetAttr"):
        return True
    return depth > 0 and node.kind() != "prim::Param" and all(is_constant(v, depth - 1) for v in node.inputs())


def lengths_packed(value: Value) -> Value | None:
    """The lengths of the sequences, where the value is the batch sizes of packed ones."""
    packing = value.node()
    is_sizes = packing.kind() == "aten::_pack_padded_sequence" and key_of(value) == key_of(packing.outputsAt(1))
    return packing.inputsAt(1) if is_sizes else None


def uses_of(tensor: torch.Tensor) -> int:
    """How many statements of the program use the tensor."""
    value = value_of(tensor)
    return 0 if value is None else len(value.uses())


def forget_positions() -> None:
    """Takes from the tracer the positions of an index that has failed: the next index would get them, which may be of another
    program."""
    with without_functions():
        torch.zeros(1)[0:1].select(0, 0)


class Program:
    """The program that is being traced, for statements that the tracer does not record: arithmetic on numbers. They are added
    at the statement that is being recorded."""

    def __init__(self) -> None:
        self._graph = state().graph()
        self._added: list[Any] = []  # statements without a line

    def constant(self, number: bool | int | float) -> Value:
        value = self._graph.insertConstant(number)
        self._added.append(value.node())
        return value

    def emit(self, kind: str, operands: Sequence[Value], result: type) -> Value:
        """A statement with one result, an int, a float, a bool or a tensor."""
        node = self._graph.create(kind, list(operands), 1)
        node.output().setType(_types()[result])
        self._added.append(node)
        return self._graph.insertNode(node).output()

    def size(self, value: Value, axis: int) -> Value:
        """The size of a tensor as it is where its value is made: in-place operators may have changed it since."""
        size = self.emit("aten::size", [value, self.constant(axis)], int).node()
        if any(use.user.kind() in _RESHAPES for use in value.uses()):
            made = value.node()
            size.moveBefore(next(iter(self._graph.nodes()))) if made.kind() == "prim::Param" else size.moveAfter(made)
            size.inputsAt(1).node().moveBefore(size)
        return size.output()

    def locate(self, result: Any) -> None:
        """What was added since the last call has the line of the statement that made the result."""
        while isinstance(result, tuple | list) and result:
            result = result[0]
        made = value_of(result) if isinstance(result, torch.Tensor) else None
        if made is not None:
            self.locate_by(made)
        self._added.clear()

    def locate_by(self, value: Value) -> None:
        """What was added since the last call has the line of the statement that made the value."""
        for node in self._added:
            node.copyMetadata(value.node())
        self._added.clear()

    def added(self) -> int:
        """How many statements have no line yet."""
        return len(self._added)

    def put_behind(self, value: Value, first: int) -> None:
        """Moves these statements, but for the first so many of `added`, to where the value is made."""
        behind = value.node()
        if behind.kind() == "prim::Param":
            return
        for node in self._added[first:]:
            node.moveAfter(behind)
            behind = node

    def tensor(self, scalar: Value, number: bool | int | float) -> torch.Tensor:
        """A tensor without dimensions that is a number of the program. `number` is what it holds in this run."""
        with paused(), without_functions():
            dtype = {bool: torch.bool, int: torch.int64, float: torch.float64}[type(number)]
            made = torch.tensor(number, dtype=dtype, device="cpu")
        value = self.emit("prim::NumToTensor", [scalar], torch.Tensor)
        value.inferTypeFrom(made)
        set_value(made, value)
        return made


# In-place operators that change sizes.
_RESHAPES = {f"aten::{name}_" for name in ("squeeze", "unsqueeze", "t", "transpose", "swapaxes", "swapdims", "as_strided")}
_RESHAPES |= {"aten::resize_", "aten::resize_as_", "aten::set_"}


def _types() -> dict[type, Any]:
    return {int: _integer(), float: _real(), bool: _truth(), torch.Tensor: _tensor()}


# ---- modules of TorchScript -----------------------------------------------------------------------------------------------

Owned = tuple[str, Any, str, torch.Tensor]  # the whole name; the module of TorchScript that has the tensor, and its name there


class Saved:
    """A module of TorchScript that can be saved, and its tensors."""

    def __init__(self, module: Any, tensors: list[Owned]) -> None:
        self._c, self.tensors = module, tensors

    @staticmethod
    def of(module: torch.jit.ScriptModule) -> Saved:
        return Saved(module._c, list(_tensors_of(module, "")))


class _Recorded(Saved):
    """The module of TorchScript that a trace is recorded into: a tree like the live one, with its tensors and no more. What
    torch.jit.trace makes by itself has all that compiled code could ask of a module, and takes longer than the trace."""

    def __init__(self, module: nn.Module, _compilation_unit: Any) -> None:
        self.tensors: list[Owned] = []
        self._names = (f"__torch__.Module{n}" for n in itertools.count())  # of one file: a file for each takes longer to save
        super().__init__(self._made(module, "", _compilation_unit), self.tensors)

    def _made(self, module: nn.Module, prefix: str, unit: Any) -> Any:
        made = _script_module(next(self._names), unit, False)
        for name, tensor in (*module._parameters.items(), *module._buffers.items()):
            if tensor is not None:
                made._register_attribute(name, _tensor(), tensor)
                self.tensors.append((prefix + name, made, name, tensor))
        for name, value in module.__dict__.items():
            if isinstance(value, torch.ScriptObject):
                made._register_attribute(name, value._type(), value)
        for name, child in module._modules.items():
            path = f"{prefix}{name}."
            if isinstance(child, torch.jit.ScriptModule):
                made._register_attribute(name, child._c._type(), child._c)
                self.tensors += _tensors_of(child, path)
            elif child is not None:
                part = self._made(child, path, unit)
                made._register_attribute(name, part._type(), part)
        return made


def _tensors_of(module: torch.jit.ScriptModule, prefix: str) -> Iterator[Owned]:
    for path, part in module.named_modules(remove_duplicate=False):
        for name, tensor in (*part.named_parameters(recurse=False), *part.named_buffers(recurse=False)):
            yield prefix + (f"{path}.{name}" if path else name), part._c, name, tensor


def saved(module: Saved, weights: Container[str]) -> bytes:
    """The bytes of torch.jit.save with empty tensors for the weights of these names."""
    replaced = [(owner, name, tensor) for path, owner, name, tensor in module.tensors if path in weights]
    try:
        for owner, name, tensor in replaced:
            owner.setattr(name, _empty(tensor))
        return module._c.save_to_buffer()  # type: ignore[no-any-return]
    except RuntimeError as error:
        raise CannotCapture(f"TorchScript cannot save what was captured: {error}") from error
    finally:
        for owner, name, tensor in replaced:
            owner.setattr(name, tensor)


@contextlib.contextmanager
def without_weights(program: torch.export.ExportedProgram, weights: Container[str]) -> Iterator[None]:
    """An exported program with empty tensors for the weights of these names."""
    state = program._state_dict
    try:
        program._state_dict = {n: _empty(t) if n in weights else t for n, t in state.items()}
        yield
    finally:
        program._state_dict = state


@contextlib.contextmanager
def scans_kept() -> Iterator[None]:
    """While it is entered, an associative_scan is one operator, and not the steps that its length is divided into."""
    before = getattr(scans, "generic_associative_scan", None)
    if before is None:
        yield
        return

    def kept(combine: Any, leaves: Sequence[torch.Tensor], *args: Any, **kwargs: Any) -> Any:
        mapped = getattr(combine, "keywords", {}).get("combine_fn")  # torch.vmap of the function of slices
        each = inspect.getclosurevars(mapped).nonlocals.get("func") if inspect.isfunction(mapped) else None
        if each is None or args or any(kwargs.values()):
            return before(combine, leaves, *args, **kwargs)
        step = functools.partial(combine.func, **{**combine.keywords, "combine_fn": each})
        return list(scans.associative_scan_op(lambda *slices: tree_leaves(step(*slices)), list(leaves), ()))

    scans.generic_associative_scan = kept
    try:
        yield
    finally:
        scans.generic_associative_scan = before


@contextlib.contextmanager
def texts_refused() -> Iterator[None]:
    """Raises CannotCapture where the model makes a text of a size: while torch.export runs, that is the name of its symbol."""
    kinds = (torch.SymInt, torch.SymFloat)
    methods = [(kind, name, getattr(kind, name)) for kind in kinds for name in ("__str__", "__repr__", "__format__")]

    def refusing(method: Any) -> Any:
        def text(*args: Any) -> Any:
            if not sys._getframe(1).f_globals.get("__name__", "").startswith(("torch", "sympy", "logging", __name__)):
                raise CannotCapture("the model makes a text of a size, which torch.export does not follow")
            return method(*args)

        return text

    try:
        for kind, name, method in methods:
            setattr(kind, name, refusing(method))
        yield
    finally:
        for kind, name, method in methods:
            setattr(kind, name, method)


def with_operators_only(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program without calls of torch.func.vmap, which are no operators: decomposed where it has some."""
    graphs = [m.graph for m in program.graph_module.modules() if isinstance(m, torch.fx.GraphModule)]
    calls = (node.target for graph in graphs for node in graph.nodes if node.op == "call_function")
    return program.run_decompositions({}) if any(_is_of_functorch(target) for target in calls) else program


def _is_of_functorch(target: Any) -> bool:
    return str(getattr(target, "__module__", "")).startswith("torch._functorch")


def registered_symbolics(opset: int) -> list[tuple[str, Any, Any]]:
    """The operators of torch.onnx.register_custom_op_symbolic that there are, by name, with their functions for the opset."""
    module = sys.modules.get("torch.onnx._internal.torchscript_exporter.registration")
    groups = getattr(getattr(module, "registry", None), "_registry", {})
    out = []
    for name, group in groups.items():
        custom = getattr(getattr(group, "_functions", None), "_overrides", {})
        fitting = [version for version in custom if version <= opset]
        namespace, _, operator = name.partition("::")
        packet = getattr(getattr(torch.ops, namespace, None), operator, None) if fitting else None
        if packet is not None:
            out.append((name, packet, custom[max(fitting)]))
    return out


def _empty(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of the same type and sizes without contents."""
    made = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")
    return nn.Parameter(made, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else made


# ---- what a value is computed from -----------------------------------------------------------------------------------------

# Operators that take no more than sizes from their first operand.
_OF_SIZES = {f"aten::{name}_like" for name in ("zeros", "ones", "full", "empty", "rand", "randn", "randint")}
_OF_SIZES |= {f"aten::new_{name}" for name in ("zeros", "ones", "full", "empty", "empty_strided")}
_OF_SIZES |= {"aten::size", "aten::numel", "aten::len"}
_CONSTANTS = {"prim::Constant", "prim::GetAttr", "aten::dim"}
# Operators whose results are as large as the contents of their operands require.
_OF_CONTENTS = {f"aten::{name}" for name in ("nonzero", "nonzero_numpy", "argwhere", "masked_select", "bincount", "unique_dim")}
_OF_CONTENTS |= {f"aten::{name}" for name in ("_unique", "_unique2", "unique_consecutive", "unique_dim_consecutive")}
_OF_CONTENTS |= {"torchvision::nms", "aten::_pack_padded_sequence"}
_TO_NUMBERS = ("aten::Int", "aten::Float", "aten::Bool", "aten::ScalarImplicit")
# Operators whose result has the sizes of their first operand.
_LIKE_FIRST = {f"aten::{name}" for name in ("scatter", "scatter_add", "index_add", "index_copy", "index_fill", "index_put")}
_LIKE_FIRST |= {f"aten::{name}" for name in ("masked_fill", "masked_scatter", "put", "scatter_reduce", "detach", "to")}

Size = tuple[int, int | None]  # the key of a tensor and the axis; None for all of them


class Origin(NamedTuple):
    """What a value is computed from: contents of inputs, by position, and sizes."""

    inputs: frozenset[int]
    sizes: frozenset[Size]


class Origins:
    """Of the values of one program. What is known of a value stays true, so it is kept."""

    def __init__(self, axes: Sequence[Container[int]]) -> None:
        self.values: dict[int, Value] = {}  # whose sizes are used, by key
        self._axes = axes  # of each input: those that are dynamic
        self._known: dict[int, Origin] = {}
        self._fixed: set[int] = set()  # whose sizes do not depend on contents

    def of(self, value: Value) -> Origin:
        pending = [value]
        while pending:
            at = pending[-1]
            missing = [v for v in _contents(at) if key_of(v) not in self._known]
            if missing:
                pending += missing
                continue
            self._known[key_of(at)] = self._joined(at)
            pending.pop()
        return self._known[key_of(value)]

    def _joined(self, value: Value) -> Origin:
        node = value.node()
        kind = node.kind()
        if kind == "prim::Param":
            names = [v.debugName() for v in node.outputs()]
            is_tensor = value.type().isSubtypeOf(_tensor())
            return Origin(frozenset([names.index(value.debugName()) - 1] if is_tensor else []), frozenset())  # after the module
        known = [self._known[key_of(v)] for v in _contents(value)]
        sizes = [size for origin in known for size in origin.sizes]
        if kind in _OF_SIZES:
            of = node.inputsAt(0)
            self.values[key_of(of)] = of
            sizes.append((key_of(of), node.inputsAt(1).toIValue() if kind == "aten::size" else None))
        return Origin(frozenset(i for origin in known for i in origin.inputs), frozenset(sizes))

    def is_fixed(self, value: Value, axis: int) -> bool:
        """Whether a size is certainly that of an axis of an input that is not dynamic."""
        node = value.node()
        while node.kind() == "aten::select" and (dim := node.inputsAt(1).toIValue()) is not None:
            value = node.inputsAt(0)
            rank = _rank(value)
            if rank is None:
                return False
            axis += axis >= dim % rank
            node = value.node()
        if node.kind() != "prim::Param":
            return False
        index = [v.debugName() for v in node.outputs()].index(value.debugName()) - 1  # after the module
        return 0 <= index < len(self._axes) and axis not in self._axes[index]

    def is_size_of_contents(self, value: Value) -> bool:
        """Whether how large the tensor is may depend on what the inputs hold. False is certain."""
        pending, seen = [value], set()
        while pending:
            at = pending.pop()
            key = key_of(at)
            if key in seen or key in self._fixed or _rank(at) == 0:
                continue
            seen.add(key)
            node = at.node()
            kind = node.kind()
            if _is_of_contents(node):
                return True
            if kind in _TO_NUMBERS and self.of(at).inputs:
                return True
            if kind == "aten::repeat_interleave" and self.of(node.inputsAt(1)).inputs:
                return True
            pending += _shaping(node)
        self._fixed |= seen
        return False


_COMPARISONS = {"aten::eq": "==", "aten::ne": "!=", "aten::lt": "<", "aten::le": "<=", "aten::gt": ">", "aten::ge": ">="}
# What has elements of its first operand.
_CHOOSING = {f"aten::{name}" for name in ("select", "slice", "squeeze", "unsqueeze", "view", "reshape", "flatten", "alias")}
_CHOOSING |= {f"aten::{name}" for name in ("detach", "clone", "to", "unbind", "index_select", "contiguous")} | {
    "prim::ListUnpack"
}


def comparison_with_constant(value: Value) -> tuple[str, Value, int] | None:
    """Of a tensor with an integer: the operator, the tensor and the integer."""
    node = value.node()
    op = _COMPARISONS.get(node.kind())
    constant = node.inputsAt(1).toIValue() if op is not None else None
    if isinstance(constant, torch.Tensor) and constant.dim() == 0 and not constant.is_floating_point():
        constant = int(constant)
    return (op, node.inputsAt(0), constant) if op is not None and type(constant) is int else None


def positions_along(value: Value) -> tuple[Value, int] | None:
    """The value and the axis of it along which all elements of a tensor are positions."""
    node = value.node()
    while node.kind() in _CHOOSING:
        node = node.inputsAt(0).node()
    kind, of = node.kind(), node.inputsAt(0) if node.inputsSize() else None
    rank = _rank(of) if of is not None and of.isCompleteTensor() else None
    if kind == "aten::nonzero" and rank == 1:
        return of, 0
    if kind in ("aten::argmax", "aten::argmin") and rank:
        axis = node.inputsAt(1).toIValue()
        return (of, axis % rank) if type(axis) is int else None
    return None


def _operands(node: Any) -> list[Value]:
    """Of a node that computes something; constants and the inputs of the graph have none."""
    kind = node.kind()
    return [] if kind in _CONSTANTS or kind == "prim::Param" else list(node.inputs())


def _contents(value: Value) -> list[Value]:
    """The operands whose contents a value is computed from."""
    node = value.node()
    operands = _operands(node)
    return operands[1:] if node.kind() in _OF_SIZES else operands


def _shaping(node: Any) -> list[Value]:
    """The operands that sizes of the results depend on."""
    kind, operands = node.kind(), _operands(node)
    like_first = kind in _LIKE_FIRST or (kind.endswith("_") and not kind.endswith("__"))
    return operands[:1] if like_first else operands


def _rank(value: Value) -> int | None:
    """Of a tensor that is not a number; None where that is not known."""
    if not value.isCompleteTensor() or kind_of(value) == "prim::NumToTensor":
        return None
    return value.type().dim()  # type: ignore[no-any-return]


def _is_of_contents(node: Any) -> bool:
    """Whether the results are as large as the contents of the operands require."""
    kind = node.kind()
    if kind == "aten::where":
        return node.inputsSize() == 1
    if kind == "aten::index":
        indices = [v.type().scalarType() for v in node.inputsAt(1).node().inputs() if v.isCompleteTensor()]
        return "Bool" in indices or "Byte" in indices
    return kind in _OF_CONTENTS


def sizes_in(value: Value) -> list[int]:
    """The sizes that a tensor has in this run."""
    return list(value.type().sizes() or [])
