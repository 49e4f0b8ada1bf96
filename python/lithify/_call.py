"""One call of export: the model and its sample arguments, what they are called in the file, and the ways to capture them."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from lithify import _capture, _dims, _samples
from lithify._capture import Capture
from lithify._errors import ExportError
from lithify._functions import Functions
from lithify._signature import Arguments, bind, split_kwargs

How = Literal["auto", "trace", "script", "export"]
Axes = dict[str, dict[int, str]]  # by name of an input or output

# What another capture may have an answer to: numbers that were hard-coded, and captures that differ.
ABOUT_SIZES = {"LTH061", "LTH063", "LTH064", "LTH065"}


@dataclass
class Attempt:
    """Captures that the core may make a model of: one, and others at other sizes."""

    captures: list[Capture]
    why: str
    proven: bool = False  # refuse all numbers that were hard-coded, or may have been


class Call:
    """The arguments of export that are about the model. `notes` is what there is to know of it."""

    def __init__(
        self,
        model: Any,
        args: Any,
        kwargs: Mapping[str, Any] | None,
        training: str,
        input_names: Sequence[str] | None,
        output_names: Sequence[str] | None,
        functions: Functions,
    ) -> None:
        self.functions = functions
        self.notes: list[str] = []
        self.error: ExportError | None = None  # of the first attempt, where it has one to tell
        self.reasons: list[str] = []  # why other attempts did not do
        self.constants: dict[str, tuple[Any, str]] = {}  # arguments that are no inputs, and why
        self.model = model = getattr(model, "_orig_mod", model)  # of torch.compile
        owner = model if isinstance(model, torch.nn.Module) else getattr(model, "__self__", None)
        self.root: torch.nn.Module | None = owner if isinstance(owner, torch.nn.Module) else None
        self.scripted = isinstance(model, torch.jit.ScriptModule | torch.jit.ScriptFunction)
        self.exported = isinstance(model, torch.export.ExportedProgram)
        if not callable(model):
            raise ExportError(f"a {type(model).__name__} is no model: an nn.Module, a ScriptModule or a function is wanted")
        self.training = self._mode(training)
        self._output_names = list(output_names or [])
        if self.exported:  # it has its own sample
            self.arguments: Arguments = bind(lambda: None, (), {})
            self.input_names = list(input_names or [])
            return
        forward = model.forward if isinstance(model, torch.nn.Module) else model
        self.arguments = bind(forward, *split_kwargs(args, kwargs))
        self.input_names = _renamed(list(input_names or []), self.arguments.names, "input")
        self._whole = self.arguments, list(self.input_names)

    def attempts(self, how: How, axes: Axes) -> Iterator[Attempt]:
        """The ways to capture the model, the fastest first; the next one when all that is wrong with the last is sizes."""
        if self.scripted:
            yield Attempt([self._captured(lambda: _capture.script(self.model))], f"the model is a {type(self.model).__name__}")
        elif self.exported:
            yield Attempt([_capture.exported(self.model)], "the model is an ExportedProgram")
        elif how == "script":
            yield Attempt([self._script()], "asked for")
        elif how == "export":
            yield Attempt([self._export(axes)], "asked for")
        elif how == "trace":
            traced = self._trace_sample()
            self.notes += [f"the trace has one outcome of {what}" for what in traced.data]
            yield Attempt([traced], "asked for")
        else:
            yield from self._automatic(axes)

    def _automatic(self, axes: Axes) -> Iterator[Attempt]:
        """A trace, where one shows all; two at different sizes, where they agree; else what has the branches as well."""
        traced = self._trace_sample()
        if traced.data:
            yield from self._instead_of_trace(f"a trace has one outcome of {traced.data[0]}", axes)
            return
        named = self._axes_of_inputs(axes)
        sizes = _samples.sizes(self.arguments.tensors, named)
        if not sizes:
            yield Attempt([traced], "a trace of one run: no size is dynamic")
            return
        yield Attempt([traced], "a trace of one run shows all that it does", proven=True)
        other = self._trace_at_other_sizes(sizes, named)
        if other is None:
            self.notes.append("the model runs at no other size that was tried: only the sample shows what it does")
            yield Attempt([traced], "a trace of one run")
        else:
            at, captured = other
            yield Attempt([traced, captured], f"traces of two runs, at the sample's sizes and at {at}")
        yield from self._instead_of_trace("traces at different sizes do not show what it does at others", axes)

    def _trace_at_other_sizes(self, sizes: _samples.Sizes, named: _samples.Axes) -> tuple[str, Capture] | None:
        for at in _samples.other_sizes(sizes):
            try:
                tensors = _samples.resized(self.arguments.tensors, named, at)
                captured = self._trace(dataclasses.replace(self.arguments, tensors=tensors))
            except (Exception, _capture.UsedByPython):  # whatever the model raises at sizes that it cannot have
                continue
            return ", ".join(f"{name}={size}" for name, size in at.items()), captured
        return None

    def _instead_of_trace(self, why: str, axes: Axes) -> Iterator[Attempt]:
        """What a run on one sample does not show, TorchScript has as it is, and torch.export proves or refuses."""
        self.reasons.append(why)
        for capture in (self._script, lambda: self._export(axes)):
            try:
                captured = capture()
            except ExportError as error:
                self.reasons.append(str(error))
                continue
            yield Attempt([captured], why)

    def refused(self, attempt: Attempt, error: ExportError) -> None:
        """Notes that the core refused it. Raises the error if no other attempt can help."""
        wrong = [m for m in error.messages if m.severity == "error"]
        if self.error is not None:
            self.reasons.append(f"captured by {attempt.captures[0].kind}: {wrong[0].text if wrong else error}")
        elif not wrong or any(m.code not in ABOUT_SIZES for m in wrong):
            raise error
        elif not attempt.proven:  # else it was only not shown
            self.error = error

    def failed(self) -> ExportError:
        """All that was tried, when nothing of it can be exported: first what is wrong with the model as it was traced."""
        if self.error is not None and not self.reasons:
            return self.error
        lines = [str(self.error)] if self.error is not None else []
        error = ExportError("\n  ".join([*lines, *self.reasons, 'capture="trace" takes the branches that the sample takes']))
        error.messages = self.error.messages if self.error is not None else []
        return error

    def _captured(self, capture: Callable[[], Capture]) -> Capture:
        with _capture.undisturbed(self.root, self.training):
            return capture()

    def _trace(self, arguments: Arguments) -> Capture:
        return self._captured(lambda: _capture.trace(self.root, self.model, arguments, self.functions))

    def _trace_sample(self) -> Capture:
        while True:
            try:
                return self._trace(self.arguments)
            except _capture.UsedByPython as used:
                self._keep_number(used.index, used.where)

    def _keep_number(self, index: int, where: str) -> None:
        """An argument that was given as a number stays one, as in torch.onnx.export: it is no input of the file."""
        self.constants[self.arguments.names[index]] = self.arguments.numbers[index], where
        self.arguments = self.arguments.without(index)
        del self.input_names[index]

    def _export(self, axes: Axes) -> Capture:
        for index in reversed([i for i, number in enumerate(self.arguments.numbers) if number is not None]):
            self._keep_number(index, "torch.export takes numbers as they are")
        return self._captured(lambda: _capture.export(self.root, self.model, self.arguments, self._axes_of_inputs(axes)))

    def _script(self) -> Capture:
        self.arguments, self.input_names, self.constants = self._whole[0], list(self._whole[1]), {}

        def scripted() -> Capture:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    return _capture.script(torch.jit.script(self.model))
                except Exception as error:
                    raise ExportError(f"torch.jit.script cannot capture the model: {_capture.first_line(error)}") from error

        return self._captured(scripted)

    def _axes_of_inputs(self, axes: Axes) -> list[dict[int, str]]:
        names = zip(self.input_names, self.arguments.names, strict=True)
        return [axes.get(n) or axes.get(a) or {} for n, a in names]

    def dynamic(self, dynamic_axes: Any, dynamic_shapes: Any) -> dict[str, dict[int, str]]:
        if dynamic_shapes:
            return _dims.from_shapes(dynamic_shapes, self.arguments, self.input_names)
        return _dims.from_axes(dynamic_axes or {})

    def drop_unknown(self, axes: dict[str, dict[int, str]], captured: Capture) -> None:
        """Names that are no input or output are ignored, as in torch.onnx.export."""
        known = {*self.input_names, *self.arguments.names, *self.output_names(captured)}
        for name in [n for n in axes if n not in known] if captured.outputs is not None else []:
            warnings.warn(f"dynamic_axes names '{name}', which is neither an input nor an output", stacklevel=3)
            del axes[name]

    def specifications(self, captured: Capture) -> list[str]:
        """Types and sizes of the inputs, for a program that has no sample of its own."""
        if captured.kind != "script":
            return []
        return [
            f"{name}:{str(t.dtype).removeprefix('torch.')}[{','.join(map(str, t.shape))}]"
            for name, t in zip(self.arguments.names, self.arguments.tensors, strict=True)
        ]

    def output_names(self, captured: Capture) -> list[str]:
        if captured.outputs is None:
            return self._output_names
        return _renamed(self._output_names, captured.outputs, "output")

    def _mode(self, training: str) -> bool | None:
        """The training flag to capture with; None leaves all flags as they are."""
        name = training or "EVAL"
        if name not in ("EVAL", "PRESERVE", "TRAINING"):
            raise ValueError(f"training is one of torch.onnx.TrainingMode, not {training!r}")
        if name == "EVAL" and self.root is not None and any(m.training for m in self.root.modules()):
            self.notes.append("the model is in training mode, and was exported in evaluation mode, as torch.onnx.export does")
        return {"EVAL": False, "PRESERVE": None, "TRAINING": True}[name]


def _renamed(given: list[str], names: list[str], what: str) -> list[str]:
    if len(given) > len(names):
        raise ExportError(
            f"number of {what} names provided ({len(given)}) exceeded number of {what}s ({len(names)}: {', '.join(names)})"
        )
    return given + names[len(given) :]
