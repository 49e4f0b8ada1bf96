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
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch
from torch import nn

from lithify import _caches, _guards, _mistakes, _patched, _torch
from lithify._errors import CannotCapture, CannotRun
from lithify._follow import Follower, Known
from lithify._follow import UsedByPython as UsedByPython
from lithify._functions import Functions
from lithify._signature import Arguments
from lithify._structure import Leaves, flatten, is_quantized, scheme_of, tensor_of, unique
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
    changed: list[str] = field(default_factory=list)  # numbers of the model that the run changed
    state: list[str] = field(default_factory=list)  # those of them that results depend on
    asked_tracing: bool = False  # whether the model asked if it is traced
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


def trace(
    root: nn.Module | None,
    call: Callable[..., Any],
    arguments: Arguments,
    functions: Functions,
    known: Known,
    reset: Callable[[], None],
    check_runs: Callable[[], None],
) -> Capture:
    """Records one run of `call` on the sample. `root` owns the weights that it uses, if any; `known` gets the questions that
    are no branches; `reset` puts the model back where another run is needed; `check_runs` raises where the model itself fails."""
    resets = itertools.chain([lambda: None], itertools.repeat(reset))

    def run(follower: Follower) -> Capture:
        next(resets)()
        return _recorded(root, call, arguments, functions, follower)

    follower, failed = Follower(LEVELS[0], known), ""
    for level in LEVELS:
        if level == LEVELS[1] and not follower.watch.refused_hash:
            continue  # there is nothing that it would change
        follower = Follower(level, known)
        try:
            captured = run(follower)
        except CannotCapture:
            raise
        except Exception as error:
            if level != LEVELS[-1]:
                if not failed:
                    reset()
                    check_runs()
                failed = failed or first_line(error)
                continue
            raise
        break
    found = _guards.found(follower, captured.file, run)
    if found.checks or found.idle or found.texts:
        known.checks |= found.checks
        known.idle |= found.idle
        known.texts |= found.texts
        follower = Follower(level, known)
        captured = run(follower)
    captured.notes += _notes(level, failed)
    captured.data = [text for text in captured.data if text not in follower.checks]
    captured.guards = list(follower.checks)
    captured.asked_tracing = follower.asked_tracing
    return captured


def _notes(level: Level, failed: str) -> list[str]:
    if not level.sizes or not level.symbolic:
        return [f"sizes are not followed through the Python code of the model: {failed}"]
    return [] if level.constructors else [f"int() of a size is not followed: {failed}"]


def _recorded(
    root: nn.Module | None, call: Callable[..., Any], arguments: Arguments, functions: Functions, follower: Follower
) -> Capture:
    adapter, outputs, notes = _adapter(root, _with_writes(root, call), arguments, follower.results)
    weights, keep = live_weights(root) if root is not None else ({}, [])  # before the model puts others in their place
    with warnings.catch_warnings(), torch.no_grad(), functions.recorded(), _patched.replaced(follower, _modules(root, call)):
        warnings.simplefilter("ignore")
        sample = [t.clone() for t in arguments.tensors]  # the model may change them
        try:
            with follower:
                recorded = _torch.trace(adapter, sample)
        finally:
            follower.close()
    file = _torch.saved(recorded, weights)
    return Capture("trace", file, weights, outputs, follower.data, follower.followed(), notes=notes, keep=keep)


def _with_writes(root: nn.Module | None, call: Callable[..., Any]) -> Callable[..., Any]:
    """The call, with a write to each registered buffer in whose place it puts a tensor, for the trace to show."""
    if root is None:
        return call

    def run(*args: Any, **kwargs: Any) -> Any:
        before = [(m._buffers, name, t) for m in root.modules() for name, t in m._buffers.items() if t is not None]
        result = call(*args, **kwargs)
        writes = [(t, new) for buffers, name, t in before if (new := buffers.get(name)) is not t and _fits(new, t)]
        if not writes:
            return result
        leaves: Leaves = []
        rebuild = flatten(result, "", leaves)  # results may be views of what is written to
        result = rebuild(iter([v.clone() if isinstance(v, torch.Tensor) else v for _, v in leaves]))
        for t, new in writes:
            t.copy_(new)
        return result

    return run


def _fits(new: torch.Tensor | None, old: torch.Tensor) -> bool:
    return new is not None and new.shape == old.shape and new.dtype == old.dtype


def _modules(root: nn.Module | None, call: Callable[..., Any]) -> list[ModuleType]:
    """Those that have the code of the model."""
    names = {type(m).__module__ for m in root.modules()} if root is not None else set()
    names.add(getattr(call, "__module__", None) or "")
    return [sys.modules[name] for name in names if name in sys.modules and not name.startswith("torch.")]


def export(root: nn.Module | None, call: Callable[..., Any], arguments: Arguments, axes: Sequence[dict[int, str]]) -> Capture:
    """torch.export of `call`, with the axes of each tensor open that are named. It never leaves out a branch silently."""
    adapter, outputs, notes = _adapter(root, call, arguments)
    # Sizes 0 and 1 are special to torch.export, and would be fixed.
    sample = [_at_least_two(t, named) for t, named in zip(arguments.tensors, axes, strict=True)]
    shapes = tuple({axis % max(t.dim(), 1): torch.export.Dim.AUTO for axis in a} for t, a in zip(sample, axes, strict=True))
    same = True
    with warnings.catch_warnings(), torch.no_grad(), _silent():
        warnings.simplefilter("ignore")
        with _torch.texts_refused(), _torch.scans_kept():
            program = torch.export.export(adapter, tuple(sample), dynamic_shapes=shapes, strict=False)
        with contextlib.suppress(Exception):  # at sizes of the sample that the program does not take, for one
            same = _is_same(program.module(), adapter, sample)
        program = _torch.with_operators_only(program)
    if not same:
        raise CannotCapture("the program that torch.export captured gives other results on the sample than the model")
    captured = exported(program)
    captured.outputs = list(outputs)
    captured.notes += notes
    return captured


def run(call: Callable[..., Any], arguments: Arguments, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The results of a model on the arguments, with these tensors in them."""
    given, by_name = arguments.rebuild([t if n is None else n for t, n in zip(tensors, arguments.numbers, strict=True)])
    leaves: Leaves = []
    flatten(call(*given, **by_name), "", leaves)
    return [tensor_of(leaf) for _, leaf in leaves]


def _is_same(captured: Callable[..., Any], model: Callable[..., Any], sample: Sequence[torch.Tensor]) -> bool:
    """Whether both have the same results, as far as the model has the same twice. Some ask whether they are captured."""
    expected = _results(model, sample)
    return _alike(expected, _results(captured, sample)) or not _alike(expected, _results(model, sample))


def is_other_when_traced(model: Callable[..., Any], sample: Sequence[torch.Tensor]) -> bool:
    """Whether the model has other results where it knows that it is traced: on the sample, or where masks hide nothing."""
    before = torch.jit.is_tracing
    inputs = [sample]
    if any(map(_is_mask, sample)):
        inputs.append([torch.ones_like(t) if _is_mask(t) else t for t in sample])
    for tensors in inputs:
        expected = _results(model, tensors)
        torch.jit.is_tracing = lambda: True
        try:
            if not _alike(expected, _results(model, tensors)):
                return True
        finally:
            torch.jit.is_tracing = before
    return False


def _is_mask(tensor: torch.Tensor) -> bool:
    """Whether it holds nothing but 0 and 1."""
    return not tensor.is_floating_point() and not tensor.is_complex() and bool(((tensor == 0) | (tensor == 1)).all())


def repeats(model: Callable[..., Any], sample: Sequence[torch.Tensor]) -> bool:
    """Whether a second run has the same results as the first."""
    return _alike(_results(model, sample), _results(model, sample))


def _results(model: Callable[..., Any], sample: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return model(*(t.clone() for t in sample))  # type: ignore[no-any-return]


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
    weights, kept = _table((n, t) for n, t in program.state_dict.items() if _is_plain(t))
    buffer = io.BytesIO()
    with warnings.catch_warnings(), _silent(), _torch.without_weights(program, weights):
        warnings.simplefilter("ignore")
        torch.export.save(program, buffer)
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
    return Capture("script", _torch.saved(_torch.Saved.of(module), weights), weights, keep=keep)


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
) -> tuple[nn.Module, list[str], list[str]]:
    """A module that takes and returns tensors only, with the parameters, buffers and children of `root`, so that their names
    stay. The names of its outputs, and notes on results that are not in the file as they are, are known once it has run; `more`
    is what it returns after them."""
    outputs: list[str] = []
    notes: list[str] = []

    def forward(_: nn.Module, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        args, kwargs = arguments.rebuild(tensors)
        leaves: Leaves = []
        others: Leaves = []
        flatten(call(*args, **kwargs), "", leaves, others)
        for name, value in others:
            _caches.check_result(value, name)
        if not leaves:
            raise CannotRun("the model returns no tensor, and a file needs an output")
        outputs[:] = _output_names([name for name, _ in leaves])
        names = _output_names([name for name, _ in others])
        notes[:] = [f"'{n}' is not in the file: it is {_shown(v)}" for n, (_, v) in zip(names, others, strict=True)]
        notes.extend(dequantized(n, leaf) for n, (_, leaf) in zip(outputs, leaves, strict=True) if is_quantized(leaf))
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
        vars(adapter).update({name: v for name, v in vars(root).items() if isinstance(v, torch.ScriptObject)})
    return adapter, outputs, notes


def dequantized(name: str, quantized: torch.Tensor) -> str:
    """A note on an input or output."""
    return f"'{name}' has the dequantized values of a quantized tensor: {scheme_of(quantized)}"


def _shown(value: Any) -> str:
    return repr(value) if value is None or isinstance(value, str) else f"an object of type {type(value).__name__}"


def _identifiers(names: Sequence[str]) -> list[str]:
    plain = ["".join(c if c.isalnum() else "_" for c in name) for name in names]
    return unique([f"input_{name}" if name[:1].isdigit() or name in ("", "self") else name for name in plain])


def _output_names(paths: list[str]) -> list[str]:
    """One output is "output", those of a tuple are "output_0", ...; what has a name in the model keeps it. Of a cache it is
    "present.0.key"."""
    caches = {path.partition(".")[0] for path in paths if "." in path}

    def named(path: str) -> str:
        head, _, part = path.partition(".")
        if part:
            return f"present.{part}" if len(caches) == 1 else f"present_{head}.{part}"
        return f"output_{path}".rstrip("_") if path[:1].isdigit() or not path else path

    return unique([named(path) for path in paths])


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
    devices = _mistakes.other_device(root, arguments.tensors)
    text += f"\n  {devices}" if devices else ""
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
