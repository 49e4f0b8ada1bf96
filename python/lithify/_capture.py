"""From a live model to what the core reads: the bytes of a model file without weights, and the tensors that they are.

The weights are never copied: the captured program is saved with empty tensors in their place, and the core writes the ONNX file
from the memory of the live ones.
"""

from __future__ import annotations

import contextlib
import dis
import inspect
import io
import itertools
import logging
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import CodeType, ModuleType
from typing import Any

import torch
from torch import nn

from lithify import _patched, _torch
from lithify._errors import CannotCapture, CannotRun
from lithify._follow import Follower, Question, Stopped, UsedByPython
from lithify._functions import Functions
from lithify._restore import undisturbed
from lithify._signature import Arguments
from lithify._structure import Leaves, flatten, tensor_of, unique
from lithify._watch import Followed, Level

Live = tuple[int, str, list[int], list[int]]  # address, dtype, sizes, strides


@dataclass
class Capture:
    """A program in a file's bytes. `keep` holds what `weights` points into."""

    kind: str  # "trace", "script", "export"
    file: bytes
    weights: dict[str, Live]
    outputs: list[str] | None = None  # names of the outputs, where the capture knows them
    data: list[str] = field(default_factory=list)  # where contents of inputs escape: the trace has one outcome of what follows
    followed: Followed | None = None  # what is known of sizes outside of the program, if they were followed
    guards: list[str] = field(default_factory=list)  # where contents are checked: another outcome than the recorded one raises
    notes: list[str] = field(default_factory=list)  # for the user
    keep: list[torch.Tensor] = field(default_factory=list)


# How a model is traced, the best first. One that breaks on symbolic numbers is traced at the next level.
LEVELS = (
    Level(),
    Level(hashes=True),
    Level(hashes=True, constructors=False),
    Level(sizes=False),
    Level(symbolic=False, constructors=False),
)


def trace(root: nn.Module | None, call: Callable[..., Any], arguments: Arguments, functions: Functions) -> Capture:
    """Records one run of `call` on the sample. `root` owns the weights that it uses, if any."""
    recording = _Recording(root, call, arguments, functions)
    failed: list[str] = []
    refused_hash = False
    for level in LEVELS:
        if level == LEVELS[1] and not refused_hash:
            continue  # there is nothing that it would change
        follower = Follower(level, arguments.numbers)
        try:
            captured = recording.run(follower)
        except CannotCapture:
            raise
        except Exception as error:
            if level == LEVELS[-1]:
                raise
            failed.append(first_line(error))
            refused_hash = refused_hash or follower.watch.refused_hash
            continue
        captured.notes += _notes(level, failed)
        _sort_guards(captured, follower, recording)
        return captured
    raise AssertionError("the last level returns or raises")


def _notes(level: Level, failed: Sequence[str]) -> list[str]:
    if not level.sizes or not level.symbolic:
        return [f"sizes are not followed through the Python code of the model: {failed[0]}"]
    return [f"int() of a size is not followed: {failed[0]}"] if not level.constructors else []


class _Recording:
    """Records runs of a model on the sample."""

    def __init__(self, root: nn.Module | None, call: Callable[..., Any], arguments: Arguments, functions: Functions) -> None:
        self.root, self.call, self.arguments, self.functions = root, call, arguments, functions

    def run(self, follower: Follower) -> Capture:
        adapter, outputs = _adapter(self.root, self.call, self.arguments, follower.results)
        level = follower.watch.level
        replaced = _patched.replaced(follower, level, self._modules()) if level.sizes else contextlib.nullcontext()
        with undisturbed(self.root, None), warnings.catch_warnings(), torch.no_grad(), replaced, self.functions.recorded():
            warnings.simplefilter("ignore")
            sample = tuple(t.clone() for t in self.arguments.tensors)  # the model may change them
            try:
                with follower:
                    recorded = _torch.trace(adapter, sample, _Recorded)
            finally:
                follower.close()
        if not outputs:
            raise CannotCapture("the model returns no tensor")
        weights, keep = live_weights(self.root) if self.root is not None else ({}, [])
        file = _saved(recorded._c, recorded.tensors, weights)
        followed = follower.watch.followed() if level.sizes else None
        return Capture("trace", file, weights, outputs, follower.data, followed, keep=keep)

    def _modules(self) -> list[ModuleType]:
        """Those that have the code of the model."""
        of = [type(m) for m in self.root.modules()] if self.root is not None else []
        names = {kind.__module__ for kind in of} | {getattr(self.call, "__module__", None) or ""}
        return [sys.modules[name] for name in names if name in sys.modules and not name.startswith("torch.")]


# ---- checks of contents that only raise ----------------------------------------------------------------------------------------

MOST_REPLAYS = 8


def _sort_guards(captured: Capture, follower: Follower, recording: _Recording) -> None:
    """A question about contents whose other answer raises an error is no reason to refuse a trace: where the model has results,
    the answer is the recorded one. Each such question is in `guards`, and not in `data`."""
    first = {q.text: q for q in reversed(follower.questions)}
    if not first or len(first) > MOST_REPLAYS:
        return
    guards = [text for text, question in first.items() if text in captured.data and _only_raises(question, follower, recording)]
    captured.data = [text for text in captured.data if text not in guards]
    captured.guards += guards


def _only_raises(question: Question, follower: Follower, recording: _Recording) -> bool:
    """Runs the model again with the other answer. It has to raise in the function that asked, or before anything else is
    computed."""
    replay = Follower(follower.watch.level, recording.arguments.numbers, inverted=question.index)
    try:
        recording.run(replay)
    except Exception as error:
        return replay.since_inverted is not None and (replay.since_inverted == 0 or _raises_in(error, question.code))
    except (Stopped, UsedByPython):
        pass
    return False


def _raises_in(error: Exception, code: CodeType | None) -> bool:
    """Whether a raise or assert statement of the function is where the error comes from."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    if at is None or at.tb_frame.f_code is not code:
        return False
    return dis.opname[at.tb_frame.f_code.co_code[at.tb_lasti]] == "RAISE_VARARGS"


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
    root: nn.Module | None,
    call: Callable[..., Any],
    arguments: Arguments,
    more: Callable[[], Sequence[torch.Tensor]] = tuple,
) -> tuple[nn.Module, list[str]]:
    """A module that takes and returns tensors only, with the parameters, buffers and children of `root`, so that their names
    stay. The names of its outputs are known once it has run; `more` is what it returns after them."""
    outputs: list[str] = []

    def forward(_: nn.Module, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        args, kwargs = arguments.rebuild(tensors)
        leaves: Leaves = []
        flatten(call(*args, **kwargs), "", leaves)
        outputs[:] = _output_names([name for name, _ in leaves])
        return (*(tensor_of(leaf) for _, leaf in leaves), *more())

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
