"""From a live model to what the core reads: the bytes of a model file without weights, and the tensors that they are.

The weights are never copied: the captured program is saved with empty tensors in their place, and the core writes the ONNX file
from the memory of the live ones.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import itertools
import logging
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from lithify._errors import CannotCapture, CannotRun
from lithify._functions import Functions
from lithify._signature import Arguments
from lithify._structure import Leaves, flatten, tensor_of, unique

Live = tuple[int, str, list[int], list[int]]  # address, dtype, sizes, strides


@dataclass
class Capture:
    """A program in a file's bytes. `keep` holds what `weights` points into."""

    kind: str  # "trace", "script", "export"
    file: bytes
    weights: dict[str, Live]
    outputs: list[str] | None = None  # names of the outputs, where the capture knows them
    data: list[str] = field(default_factory=list)  # where contents of inputs escape: the trace has one outcome of what follows
    sizes: list[str] | None = None  # where sizes do, if that was watched; these sizes are the last results of the program
    keep: list[torch.Tensor] = field(default_factory=list)


def trace(root: nn.Module | None, call: Callable[..., Any], arguments: Arguments, functions: Functions) -> Capture:
    """Records one run of `call` on the sample. `root` owns the weights that it uses, if any."""
    watch = _Escapes(arguments.numbers)
    adapter, outputs = _adapter(root, call, arguments, watch.escaped)
    with warnings.catch_warnings(), torch.no_grad(), watch, functions.recorded():
        warnings.simplefilter("ignore")
        recorded = torch.jit.trace_module(
            adapter,
            {"forward": tuple(t.clone() for t in arguments.tensors)},  # the model may change them
            check_trace=False,
            strict=False,
            _module_class=_Recorded,
            _compilation_unit=torch._C.CompilationUnit(),
        )
    if not outputs:
        raise CannotCapture("the model returns no tensor")
    weights, keep = live_weights(root) if root is not None else ({}, [])
    return Capture("trace", _saved(recorded._c, recorded.tensors, weights), weights, outputs, watch.data, watch.sizes, keep)


def export(root: nn.Module | None, call: Callable[..., Any], arguments: Arguments, axes: Sequence[dict[int, str]]) -> Capture:
    """torch.export of `call`, with the axes of each tensor open that are named. It never leaves out a branch silently."""
    adapter, outputs = _adapter(root, call, arguments)
    # Sizes 0 and 1 are special to torch.export, and would be fixed.
    sample = [_at_least_two(t, named) for t, named in zip(arguments.tensors, axes, strict=True)]
    shapes = tuple({axis % max(t.dim(), 1): torch.export.Dim.AUTO for axis in a} for t, a in zip(sample, axes, strict=True))
    same = True
    with warnings.catch_warnings(), torch.no_grad(), _silent():
        warnings.simplefilter("ignore")
        program = torch.export.export(adapter, tuple(sample), dynamic_shapes=shapes, strict=False)
        with contextlib.suppress(Exception):  # at sizes of the sample that the program does not take, for one
            same = _is_same(program.module(), adapter, sample)
    if not same:
        raise CannotCapture("the program that torch.export captured gives other results on the sample than the model")
    captured = exported(program)
    captured.outputs = list(outputs)
    return captured


def run(call: Callable[..., Any], arguments: Arguments, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The results of a model on the arguments, with these tensors in them."""
    given, by_name = arguments.rebuild([t if n is None else n for t, n in zip(tensors, arguments.numbers, strict=True)])
    leaves: Leaves = []
    flatten(call(*given, **by_name), "", leaves)
    return [tensor_of(leaf) for _, leaf in leaves]


def _is_same(captured: Callable[..., Any], model: Callable[..., Any], sample: Sequence[torch.Tensor]) -> bool:
    """Whether both have the same results, as far as the model has the same twice. Some ask whether they are captured."""

    def results(module: Callable[..., Any]) -> Sequence[torch.Tensor]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return module(*(t.clone() for t in sample))  # type: ignore[no-any-return]

    expected = results(model)
    return _alike(expected, results(captured)) or not _alike(expected, results(model))


def _alike(some: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> bool:
    """Whether results are the same, but for rounding."""
    return len(some) == len(others) and all(map(_is_alike, some, others))


def _is_alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype or not a.is_floating_point():
        return a.dtype == b.dtype and torch.equal(a, b)
    a, b = a.double(), b.double()
    largest = a[a.isfinite()].abs().max() if a.isfinite().any() else 0
    return torch.allclose(a, b, rtol=0, atol=0.01 * float(largest), equal_nan=True)


def exported(program: torch.export.ExportedProgram) -> Capture:
    """The file of an ExportedProgram. Its weights are out of it only while it is saved."""
    state = program._state_dict
    weights, kept = _table((n, t) for n, t in state.items() if _is_plain(t))
    buffer = io.BytesIO()
    try:
        program._state_dict = {n: _empty(t) if n in weights else t for n, t in state.items()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.export.save(program, buffer)
    finally:
        program._state_dict = state
    return Capture("export", buffer.getvalue(), weights, keep=kept)


def scripted(model: Callable[..., Any], arguments: Arguments) -> Capture:
    """torch.jit.script of the model."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        made = torch.jit.script(model)
        if not _is_same(lambda *t: run(made, arguments, t), lambda *t: run(model, arguments, t), arguments.tensors):
            raise CannotCapture("the program of torch.jit.script gives other results on the sample than the model")
    return script(made)


def script(module: torch.jit.ScriptModule | torch.jit.ScriptFunction) -> Capture:
    """The file of what TorchScript has. Its weights are out of it only while it is saved."""
    if isinstance(module, torch.jit.ScriptFunction):
        return Capture("script", module.save_to_buffer(), {})
    weights, keep = live_weights(module)
    return Capture("script", _saved(module._c, list(_tensors_of(module, "")), weights), weights, keep=keep)


def live_weights(module: nn.Module) -> tuple[dict[str, Live], list[torch.Tensor]]:
    """All names of all parameters and buffers, with the memory that they have, and what keeps it."""
    named = (*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False))
    return _table((n, t) for n, t in named if _is_plain(t))


def _table(named: Iterable[tuple[str, torch.Tensor]]) -> tuple[dict[str, Live], list[torch.Tensor]]:
    table: dict[str, Live] = {}
    keep: dict[int, torch.Tensor] = {}
    for name, tensor in named:
        at = keep.get(id(tensor))
        if at is None:
            at = keep[id(tensor)] = _in_memory(tensor)
        table[name] = (at.data_ptr(), str(at.dtype).removeprefix("torch."), list(at.size()), list(at.stride()))
    return table, list(keep.values())


class UsedByPython(BaseException):  # not to be caught by the model
    """A traced program turns an argument that was given as a number into a Python value: it is not an input then."""

    def __init__(self, index: int, where: str) -> None:
        self.index, self.where = index, where


class _Escapes(TorchFunctionMode):
    """Finds where a traced program turns a tensor into a Python value: the trace has one outcome of the rest. `escaped` has the
    tensors that are sizes, or computed from sizes, and `sizes` has where each escapes; `data` has it for those that are not.
    `numbers` are the arguments that were given as numbers; one that escapes ends the trace."""

    values = ("__bool__", "__int__", "__float__", "__index__", "__format__", "__contains__", "__array__", "numpy")
    values += ("item", "tolist", "tensor", "equal", "allclose", "is_nonzero")
    of_sizes = ("__len__", "stride", "storage_offset", "untyped_storage")

    def __init__(self, numbers: Sequence[Any]) -> None:
        super().__init__()
        self.numbers = numbers
        self.data: list[str] = []
        self.sizes: list[str] = []
        self.escaped: list[torch.Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if (name in self.values or name in self.of_sizes) and torch._C._is_tracing():
            for tensor in _tensors(args):
                self._escapes(name, tensor)
        return func(*args, **(kwargs or {}))

    def _escapes(self, name: str, tensor: torch.Tensor) -> None:
        where = f"{name.strip('_')} of a %s{user_line()}"
        if name in self.of_sizes:
            sizes = [size for size in tensor.shape if isinstance(size, torch.Tensor)]
        elif inputs := _inputs_of(tensor):
            if all(self.numbers[i] is not None for i in inputs):
                raise UsedByPython(inputs[0], where % "number")
            self.data.append(where % "tensor")
            return
        else:
            sizes = [tensor]
        self.escaped += sizes
        self.sizes += [where % "size"] * len(sizes)


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for item in value for t in _tensors(item)] if isinstance(value, tuple | list) else []


def user_line() -> str:
    for frame, line in traceback.walk_stack(None):
        file = frame.f_code.co_filename
        if "/torch/" not in file and "/lithify/_" not in file:
            return f" at {file}:{line}"
    return ""


def _inputs_of(tensor: torch.Tensor) -> list[int]:
    """The inputs from whose contents the tensor was computed in the trace."""
    found: list[int] = []
    pending, seen = [torch._C._get_value_trace(tensor)], set()
    while pending:
        value = pending.pop()
        node = value.node()
        if value.debugName() in seen or node.kind() in ("aten::size", "prim::GetAttr", "aten::dim", "prim::NumToTensor"):
            continue
        seen.add(value.debugName())
        if node.kind() == "prim::Param" and value.type().isSubtypeOf(torch._C.TensorType.get()):
            found.append([v.debugName() for v in node.outputs()].index(value.debugName()) - 1)  # the first is the module
        pending += list(node.inputs())
    return found


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """torch.export prints its state when it fails; the error contains as much."""
    logger = logging.getLogger("torch")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logger.setLevel(level)


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether it is memory and strides, and no more."""
    plain = tensor.layout == torch.strided and not tensor.is_quantized and not tensor.is_meta
    return plain and type(tensor) in (torch.Tensor, nn.Parameter, nn.Buffer)


def _empty(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of the same type and sizes without contents."""
    made = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")
    return nn.Parameter(made, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else made


def _at_least_two(tensor: torch.Tensor, axes: dict[int, str]) -> torch.Tensor:
    """The tensor, repeated along those of the axes that have one element."""
    for axis in axes:
        if tensor.size(axis) == 1:
            tensor = torch.cat([tensor, tensor], axis)
    return tensor


def _in_memory(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().resolve_conj().resolve_neg().cpu()


def _adapter(
    root: nn.Module | None, call: Callable[..., Any], arguments: Arguments, more: Sequence[torch.Tensor] = ()
) -> tuple[nn.Module, list[str]]:
    """A module that takes and returns tensors only, with the parameters, buffers and children of `root`, so that their names
    stay. The names of its outputs are known once it has run; `more` is what it returns after them."""
    outputs: list[str] = []

    def forward(_: nn.Module, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        args, kwargs = arguments.rebuild(tensors)
        leaves: Leaves = []
        flatten(call(*args, **kwargs), "", leaves)
        outputs[:] = _output_names([name for name, _ in leaves])
        return (*(tensor_of(leaf) for _, leaf in leaves), *more)

    names = ("self", *_identifiers(arguments.names))
    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    forward.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # the tracer takes names from it
    # The tracer looks through all attributes for methods to compile; there are none.
    adapter = type("Model", (nn.Module,), {"forward": forward, "__dir__": lambda _: []})()
    if root is not None:
        adapter.training = root.training
        adapter._parameters = root._parameters
        adapter._buffers = root._buffers
        adapter._modules = root._modules
    return adapter, outputs


def _identifiers(names: Sequence[str]) -> list[str]:
    plain = ["".join(c if c.isalnum() else "_" for c in name) for name in names]
    return unique([f"input_{name}" if name[:1].isdigit() or name in ("", "self") else name for name in plain])


def _output_names(paths: list[str]) -> list[str]:
    """One output is "output", those of a tuple are "output_0", ...; what has a name in the model keeps it."""
    named = [f"output_{path}".rstrip("_") if path[:1].isdigit() or not path else path for path in paths]
    return unique([name.replace("past_key_values.", "present.", 1) for name in named])


Owned = tuple[str, Any, str, torch.Tensor]  # the whole name; the module of TorchScript that has the tensor, and its name there


class _Recorded:
    """The module of TorchScript that a trace is recorded into: a tree like the live one, with its tensors and no more. What
    torch.jit.trace makes by itself has all that compiled code could ask of a module, and takes longer than the trace."""

    def __init__(self, module: nn.Module, _compilation_unit: Any) -> None:
        self.tensors: list[Owned] = []
        self._names = (f"__torch__.Module{n}" for n in itertools.count())  # of one file: a file for each takes longer to save
        self._c = self._made(module, "", _compilation_unit)

    def _made(self, module: nn.Module, prefix: str, unit: Any) -> Any:
        made = torch._C.ScriptModule(next(self._names), unit, False)
        for name, tensor in (*module._parameters.items(), *module._buffers.items()):
            if tensor is not None:
                made._register_attribute(name, torch._C.TensorType.get(), tensor)
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


def _saved(module: Any, tensors: Sequence[Owned], weights: dict[str, Live]) -> bytes:
    """The bytes of torch.jit.save with empty tensors for all weights in the table."""
    replaced = [(owner, name, tensor) for path, owner, name, tensor in tensors if path in weights]
    try:
        for owner, name, tensor in replaced:
            owner.setattr(name, _empty(tensor))
        return module.save_to_buffer()  # type: ignore[no-any-return]
    finally:
        for owner, name, tensor in replaced:
            owner.setattr(name, tensor)


def first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


def explained(error: Exception, root: nn.Module | None, arguments: Arguments) -> CannotRun:
    """Names the layer that fails on the sample, its type, and its arguments."""
    given = ", ".join(
        f"{n}: {str(t.dtype).removeprefix('torch.')}{list(t.shape)}"
        for n, t in zip(arguments.names, arguments.tensors, strict=True)
    )
    text = f"the model cannot be run on the sample ({given}): {first_line(error)}"
    names = {id(m): n or type(m).__name__ for n, m in root.named_modules()} if root is not None else {}
    layer, line = None, ""
    for frame, number in traceback.walk_tb(error.__traceback__):
        owner = frame.f_locals.get("self")
        if isinstance(owner, nn.Module) and id(owner) in names:
            layer = owner
        file = frame.f_code.co_filename
        if "/torch/" not in file and "/lithify/" not in file:
            line = f"{file}:{number}"
    if layer is not None:
        shown = str(layer) if len(str(layer)) < 200 and "\n" not in str(layer) else type(layer).__name__
        text += f"\n  the layer that fails: '{names[id(layer)]}', {shown}"
    return CannotRun(text + (f"\n  called at {line}" if line else ""))
