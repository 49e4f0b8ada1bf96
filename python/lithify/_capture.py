"""From a live model to what the core reads: the bytes of a model file without weights, and the tensors that they are.

The weights are never copied: the captured program is saved with empty tensors in their place, and the core writes the ONNX file
from the memory of the live ones. The model that was given is left as it was: training flags, buffers, random state.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from lithify._errors import ExportError
from lithify._signature import Arguments
from lithify._structure import Leaves, flatten, unique

Live = tuple[int, str, list[int], list[int]]  # address, dtype, sizes, strides


@dataclass
class Capture:
    """A program in a file's bytes. `keep` holds what `weights` points into."""

    kind: str  # "trace", "script"
    file: bytes
    weights: dict[str, Live]
    outputs: list[str] | None = None  # names of the outputs, where the capture knows them
    warnings: list[str] = field(default_factory=list)  # what the tracer could not see
    keep: list[torch.Tensor] = field(default_factory=list)


def trace(root: nn.Module | None, call: Callable[..., Any], arguments: Arguments) -> Capture:
    """Records one run of `call` on the sample. `root` owns the weights that it uses, if any."""
    outputs: list[str] = []

    def forward(_: nn.Module, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        args, kwargs = arguments.rebuild(tensors)
        leaves: Leaves = []
        flatten(call(*args, **kwargs), "", leaves)
        outputs[:] = _output_names([name for name, _ in leaves])
        return tuple(tensor for _, tensor in leaves)

    adapter = _adapter(root, forward, arguments.names)
    with warnings.catch_warnings(record=True) as caught, torch.no_grad():
        warnings.simplefilter("always")
        try:
            traced = torch.jit.trace(adapter, tuple(arguments.tensors), check_trace=False, strict=False)
        except ExportError:
            raise
        except Exception as error:
            raise _explained(error, root, arguments) from error
    if not outputs:
        raise ExportError("the model returns no tensor")
    weights, keep = live_weights(root) if root is not None else ({}, [])
    told = [str(w.message) for w in caught if issubclass(w.category, torch.jit.TracerWarning)]
    return Capture("trace", _saved_without_weights(traced, weights), weights, outputs, told, keep)


def script(module: torch.jit.ScriptModule, kind: str = "script") -> Capture:
    """The file of a ScriptModule. Its weights are out of it only while it is saved."""
    weights, keep = live_weights(module)
    return Capture(kind, _saved_without_weights(module, weights), weights, keep=keep)


def live_weights(module: nn.Module) -> tuple[dict[str, Live], list[torch.Tensor]]:
    """All names of all parameters and buffers, with the memory that they have, and what keeps it."""
    table: dict[str, Live] = {}
    keep: dict[int, torch.Tensor] = {}
    for name, tensor in _state(module):
        at = keep.get(id(tensor))
        if at is None:
            at = keep[id(tensor)] = _in_memory(tensor)
        table[name] = (at.data_ptr(), str(at.dtype).removeprefix("torch."), list(at.size()), list(at.stride()))
    return table, list(keep.values())


@contextlib.contextmanager
def undisturbed(module: nn.Module | None, training: bool | None) -> Iterator[None]:
    """Sets the training flags (None: leaves them), and puts flags, buffers and random state back at the end."""
    modules = list(module.modules()) if module is not None else []
    flags = [(m, m.training) for m in modules]
    buffers = [(b, b.detach().clone()) for m in modules for b in m._buffers.values() if b is not None and not b.is_meta]
    devices = sorted({t.device.index for m in modules for t in m._parameters.values() if t is not None and t.is_cuda})
    with torch.random.fork_rng(devices=devices):
        try:
            for m, _ in flags:
                if training is not None and m.training != training:
                    m.training = training
            yield
        finally:
            for m, flag in flags:
                if m.training != flag:
                    m.training = flag
            with torch.no_grad():
                for buffer, before in buffers:
                    if not torch.equal(buffer, before):
                        buffer.copy_(before)


def _state(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    for name, tensor in (
        *module.named_parameters(remove_duplicate=False),
        *module.named_buffers(remove_duplicate=False),
    ):
        plain = tensor.layout == torch.strided and not tensor.is_quantized and not tensor.is_meta
        if plain and type(tensor) in (torch.Tensor, nn.Parameter, nn.Buffer):
            yield name, tensor


def _in_memory(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().resolve_conj().resolve_neg().cpu()


def _adapter(root: nn.Module | None, forward: Callable[..., Any], names: Sequence[str]) -> nn.Module:
    """A module with the parameters, buffers and children of `root`, so that their names stay, that calls `forward`."""
    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("self", *_identifiers(names))]
    forward.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # the tracer takes names from it
    adapter = type("Model", (nn.Module,), {"forward": forward})()
    if root is not None:
        adapter.training = root.training
        adapter._parameters = root._parameters
        adapter._buffers = root._buffers
        adapter._modules = root._modules
    return adapter


def _identifiers(names: Sequence[str]) -> list[str]:
    plain = ["".join(c if c.isalnum() else "_" for c in name) for name in names]
    return unique([f"input_{name}" if name[:1].isdigit() or name in ("", "self") else name for name in plain])


def _output_names(paths: list[str]) -> list[str]:
    """One output is "output", those of a tuple are "output_0", ...; what has a name in the model keeps it."""
    named = [f"output_{path}".rstrip("_") if path[:1].isdigit() or not path else path for path in paths]
    return unique([name.replace("past_key_values.", "present.", 1) for name in named])


def _saved_without_weights(module: torch.jit.ScriptModule, weights: dict[str, Live]) -> bytes:
    """The bytes of torch.jit.save with empty tensors for all weights in the table."""
    replaced: list[tuple[Any, str, torch.Tensor]] = []
    try:
        for path, part in module.named_modules(remove_duplicate=False):
            own = (*part.named_parameters(recurse=False), *part.named_buffers(recurse=False))
            for name, tensor in own:
                if (f"{path}.{name}" if path else name) in weights:
                    replaced.append((part._c, name, tensor))
        for owner, name, tensor in replaced:
            owner.setattr(name, torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta"))
        buffer = io.BytesIO()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.jit.save(module, buffer)
        return buffer.getvalue()
    finally:
        for owner, name, tensor in replaced:
            owner.setattr(name, tensor)


def _explained(error: Exception, root: nn.Module | None, arguments: Arguments) -> ExportError:
    """Says which layer refused the sample, what it is, and what it was given."""
    given = ", ".join(
        f"{n}: {str(t.dtype).removeprefix('torch.')}{list(t.shape)}"
        for n, t in zip(arguments.names, arguments.tensors, strict=True)
    )
    reason = str(error).strip().splitlines()
    text = f"the model cannot be run on the sample ({given}): {type(error).__name__}: {reason[0] if reason else ''}"
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
        text += f"\n  the layer that refused it: '{names[id(layer)]}', {shown}"
    return ExportError(text + (f"\n  called at {line}" if line else ""))
