"""lithify.export: the call of torch.onnx.export."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from lithify import _core
from lithify._errors import ExportError
from lithify._files import declarations, opset_of

if TYPE_CHECKING:
    import torch

    from lithify._capture import Capture
    from lithify._signature import Arguments

How = Literal["auto", "trace", "script", "export"]


@dataclass
class Result:
    """What was exported. Printed, it is a short report."""

    path: Path | None
    bytes: bytes | None = field(repr=False)  # the model, when there was no path
    inputs: list[_core.ValueInfo]
    outputs: list[_core.ValueInfo]
    opset: int
    nodes: dict[str, int]  # by operator, most frequent first
    weights: int
    weight_bytes: int
    file_bytes: int
    external_file: Path | None
    capture: str  # how the model was captured
    why: str  # and the reason
    messages: list[_core.Message] = field(repr=False)  # warnings and notes of the conversion
    notes: list[str]  # what is worth knowing of the call
    seconds: dict[str, float]
    graph: str = field(repr=False)  # one line a node

    def __str__(self) -> str:
        lines = [f"{self.path or 'in memory'}: opset {self.opset}, {sum(self.nodes.values())} nodes, {self.weights} weights"]
        lines += [f"  input   {v}" for v in self.inputs] + [f"  output  {v}" for v in self.outputs]
        lines += [f"  capture {self.capture}: {self.why}"]
        lines += [f"  seconds {sum(self.seconds.values()):.3f} ({', '.join(f'{k} {v:.3f}' for k, v in self.seconds.items())})"]
        return "\n".join(lines + [f"  note    {n}" for n in self.notes] + [str(m) for m in self.messages])


def export(
    model: Any,
    args: Any = (),
    f: str | os.PathLike[str] | IO[bytes] | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    verbose: bool | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | str | None = None,
    dynamo: bool = False,
    external_data: bool | Literal["auto", "always", "never"] = "auto",
    dynamic_shapes: Mapping[str, Any] | Sequence[Any] | None = None,
    custom_translation_table: Mapping[Callable[..., Any], Callable[..., Any]] | None = None,
    report: bool = False,
    optimize: bool = True,
    verify: bool = False,
    profile: bool = False,
    dump_exported_program: bool = False,
    artifacts_dir: str | os.PathLike[str] = ".",
    export_params: bool = True,
    keep_initializers_as_inputs: bool | None = False,
    dynamic_axes: Mapping[str, Any] | None = None,
    training: Any = None,
    operator_export_type: Any = None,
    do_constant_folding: bool = True,
    custom_opsets: Mapping[str, int] | None = None,
    export_modules_as_functions: bool | Collection[type] = False,
    autograd_inlining: bool = True,
    capture: How = "auto",
    progress: Callable[[int, int], None] | None = None,
    custom_ops: str | os.PathLike[str] | None = None,
    allow_custom: bool = False,
    state: Literal["error", "io", "frozen"] = "error",
) -> Result:
    """Writes `model` as ONNX. All arguments are those of torch.onnx.export, and five more:

    capture: how the program is taken from the model: "trace", "script", "export" (torch.export), or "auto".
    progress: called with the bytes written and the bytes in all.
    custom_ops: a file that says what operators of your own become.
    allow_custom: keep operators that are not known as nodes of their namespace's domain.
    state: what buffers become that the model changes as it runs and that results depend on: an error, further inputs and
        outputs ("io"), or what they are now, at the beginning of every run ("frozen").

    `opset_version` is a number, "latest", or a runtime, whose newest opset it stands for: "ort-1.17".

    `f` is a path, a file open for writing bytes, or None: then the result has the bytes.
    dynamo, optimize, do_constant_folding and autograd_inlining choose how torch works, and change nothing here.
    Raises ExportError with every reason, and leaves no file behind.
    """
    _refuse(
        ("export_params=False", not export_params, "the weights are always in the model"),
        ("keep_initializers_as_inputs=True", bool(keep_initializers_as_inputs), "weights are not inputs from opset 9 on"),
        ("custom_translation_table", bool(custom_translation_table), "custom_ops takes operators of your own"),
        ("custom_opsets", bool(custom_opsets), "custom_ops names the domains of its operators"),
        ("export_modules_as_functions", bool(export_modules_as_functions), "torch no longer has it, either"),
        ("dump_exported_program=True", dump_exported_program, "torch.export.save writes one"),
        ("profile=True", profile, "the seconds of each stage are in the result"),
        ("operator_export_type", _enum(operator_export_type) not in ("", "ONNX"), "only operators of ONNX are written"),
    )
    if capture not in ("auto", "trace", "script", "export"):
        raise ValueError(f"capture is 'auto', 'trace', 'script' or 'export', not {capture!r}")
    if dynamic_axes and dynamic_shapes:
        raise ExportError("dynamic_axes and dynamic_shapes are both given: they say the same in two ways")

    watch = _Watch()
    call = _Call(model, args, kwargs, training, input_names, output_names)
    axes = call.dynamic(dynamic_axes, dynamic_shapes)
    captured, why = call.capture(capture, axes)
    call.drop_unknown(axes, captured)
    watch.lap("capture")
    done, contents = _core.export_model(
        captured.file,
        captured.weights,
        os.fspath(f) if isinstance(f, str | os.PathLike) else None,
        opset=opset_of(opset_version),
        inputs=call.specifications(captured),
        dynamic_axes=axes,
        input_names=call.input_names,
        output_names=call.output_names(captured),
        custom_ops=declarations(custom_ops),
        allow_custom=allow_custom,
        external_data=_external(external_data),
        progress=progress,
        state=state,
    )
    if contents is not None and f is not None:
        f.write(contents)  # type: ignore[union-attr]
        contents = None
    result = Result(
        path=Path(f) if isinstance(f, str | os.PathLike) else None,
        bytes=contents,
        inputs=done.inputs,
        outputs=done.outputs,
        opset=done.opset,
        nodes=dict(done.nodes),
        weights=done.weights,
        weight_bytes=done.weight_bytes,
        file_bytes=done.file_bytes,
        external_file=Path(done.external_file) if done.external_file else None,
        capture=captured.kind,
        why=why,
        messages=done.messages,
        notes=call.notes,
        seconds=watch.laps | dict(done.seconds),
        graph=done.graph_text,
    )
    if verify:
        from lithify.verify import verify as compare

        compare(model, result, args, kwargs=kwargs).check()
    if verbose:
        print(result.graph, end="")
    if report:
        (Path(artifacts_dir) / "lithify_export_report.txt").write_text(f"{result}\n\n{result.graph}")
    return result


class _Watch:
    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.laps[stage], self._last = now - self._last, now


class _Call:
    """One call of export: the model and its sample arguments, and what they are called in the file."""

    def __init__(
        self,
        model: Any,
        args: Any,
        kwargs: Mapping[str, Any] | None,
        training: Any,
        input_names: Sequence[str] | None,
        output_names: Sequence[str] | None,
    ) -> None:
        import torch

        from lithify._signature import bind, split_kwargs

        self.notes: list[str] = []
        self.model = model
        owner = model if isinstance(model, torch.nn.Module) else getattr(model, "__self__", None)
        self.root: torch.nn.Module | None = owner if isinstance(owner, torch.nn.Module) else None
        self.scripted = isinstance(model, torch.jit.ScriptModule)
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

    def capture(self, how: How, axes: dict[str, dict[int, str]]) -> tuple[Capture, str]:
        """The program, and why it was taken this way."""
        import torch

        from lithify import _capture

        with _capture.undisturbed(self.root, self.training):
            if self.scripted:
                return _capture.script(self.model), "the model is a ScriptModule"
            if self.exported:
                return _capture.exported(self.model), "the model is an ExportedProgram"
            if how == "script":
                return _capture.script(torch.jit.script(self.model)), "asked for"
            if how == "export":
                return self._export(axes), "asked for"
            captured = _capture.trace(self.root, self.model, self.arguments)
            if how == "trace" or not captured.unseen:
                self.notes += [f"the trace has one outcome of {w}" for w in captured.unseen]
                return captured, "asked for" if how == "trace" else "one run of the model records all that it does"
            return self._instead_of_trace(captured.unseen[0], axes)

    def _instead_of_trace(self, told: str, axes: dict[str, dict[int, str]]) -> tuple[Capture, str]:
        """What a run on one sample does not show, torch.export refuses, and TorchScript has as it is."""
        import torch

        from lithify import _capture

        why = f"a trace has one outcome of {told}"
        try:
            return self._export(axes), why
        except ExportError as error:
            reasons = str(error)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return _capture.script(torch.jit.script(self.model)), why
        except Exception as error:
            lines = (
                f"a trace would have one outcome of {told}",
                reasons,
                f"torch.jit.script cannot capture it: {type(error).__name__}",
                'capture="trace" takes the branches that the sample takes',
            )
            raise ExportError("\n  ".join(lines)) from error

    def _export(self, axes: dict[str, dict[int, str]]) -> Capture:
        from lithify import _capture

        names = zip(self.input_names, self.arguments.names, strict=True)
        return _capture.export(self.root, self.model, self.arguments, [axes.get(n) or axes.get(a) or {} for n, a in names])

    def dynamic(self, dynamic_axes: Any, dynamic_shapes: Any) -> dict[str, dict[int, str]]:
        from lithify import _dims

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

    def _mode(self, training: Any) -> bool | None:
        """The training flag to capture with; None leaves all flags as they are."""
        name = _enum(training) or "EVAL"
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


def _external(value: bool | str) -> str:
    """torch.onnx.export has True for "when it is needed"."""
    return {True: "auto", False: "never"}.get(value, value)  # type: ignore[arg-type, return-value, call-overload]


def _enum(value: Any) -> str:
    """The name of an enumerator; torch's own have one without being enums of Python."""
    return "" if value is None else str(getattr(value, "name", value)).rpartition(".")[2]


def _refuse(*rows: tuple[str, bool, str]) -> None:
    for argument, asked, reason in rows:
        if asked:
            raise ExportError(f"{argument} is not supported: {reason}")
