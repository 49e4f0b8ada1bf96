"""One call of export: the model and its sample arguments, what they are called in the file, and how they are captured."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.util
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import torch

from lithify import _caches, _capture, _core, _dims, _mistakes, _samples
from lithify._capture import Capture
from lithify._check import Checker
from lithify._custom import Translations
from lithify._errors import CannotCapture, CannotRun, ExportError
from lithify._functions import Functions
from lithify._restore import Changes, undisturbed
from lithify._settle import settled
from lithify._signature import Arguments, bind, split_kwargs
from lithify._watch import Followed

How = Literal["auto", "trace", "script", "export"]
OUTSIDE = "the sizes are outside of the bounds of their dimensions"
Axes = dict[str, dict[int, str]]  # by name of an input or output


class Call:
    """The arguments of export that are about the model. `notes` are for the user."""

    def __init__(
        self,
        model: Any,
        args: Any,
        kwargs: Mapping[str, Any] | None,
        training: str,
        input_names: Sequence[str] | None,
        output_names: Sequence[str] | None,
        dynamic_axes: Any,
        dynamic_shapes: Any,
        translations: Translations,
        functions: Functions,
        samples: Sequence[Any] = (),
    ) -> None:
        self.translations = translations
        self.functions = functions
        self.notes: list[str] = []
        self._others: list[Arguments] = []  # of other samples
        self._bounds: _dims.Bounds = {}
        self._discovers = False  # whether the dynamic axes are detected
        self._hides_tracing = False  # whether the model, which computes something else where it is traced, is not told so
        self.checks = True  # whether exported files may be compared with the model
        self.constants: dict[str, tuple[Any, str]] = {}  # arguments that are no inputs, and why
        _mistakes.check_model(model)
        _mistakes.check_arguments(args)
        _mistakes.check_names("input_names", input_names)
        _mistakes.check_names("output_names", output_names)
        self.model = model = self._unwrapped(getattr(model, "_orig_mod", model))  # of torch.compile
        owner = model if isinstance(model, torch.nn.Module) else getattr(model, "__self__", None)
        self.root: torch.nn.Module | None = owner if isinstance(owner, torch.nn.Module) else None
        self.scripted = isinstance(model, torch.jit.ScriptModule | torch.jit.ScriptFunction)
        self.exported = isinstance(model, torch.export.ExportedProgram)
        self.training = self._mode(training)
        self._output_names = list(output_names or [])
        self._given = split_kwargs(args, kwargs)
        if self.exported:  # it has its own sample
            self.arguments: Arguments = bind(lambda: None, (), {})
            self.input_names = list(input_names or [])
            self.axes = self._dynamic(dynamic_axes, dynamic_shapes)
            if samples:
                self.notes.append("samples are not used: a program of torch.export has all that it does")
            return
        forward = model.forward if isinstance(model, torch.nn.Module) else model
        bound = bind(forward, *self._given)
        weights = self.root.state_dict() if self.root is not None else {}
        _mistakes.check_types([*zip(bound.names, bound.tensors, strict=True), *weights.items()])
        self.arguments = settled(model, self.root, self.training, bound)
        self.input_names = _renamed(list(input_names or []), self.arguments.names, "input")
        by_name = dict(zip(self.arguments.names, self.input_names, strict=True))
        self.notes += [_capture.dequantized(by_name[name], t) for name, t in self.arguments.quantized.items()]
        self.axes, bounds = _dims.with_windows(self._dynamic(dynamic_axes, dynamic_shapes), self.arguments)
        self._bounds |= bounds
        self._enlarge()
        self._whole = self.arguments, list(self.input_names)
        self._others = [self._other(forward, given, f"samples[{i}]") for i, given in enumerate(samples)]

    def _other(self, forward: Callable[..., Any], given: Any, what: str) -> Arguments:
        """Another sample of the arguments."""
        args, kwargs = split_kwargs(given, None)
        other = settled(self.model, self.root, self.training, bind(forward, args, {**self._given[1], **kwargs}))
        _mistakes.check_like(self.arguments, other, self._axes_of_inputs(), what)
        return other

    def _on(self, other: Arguments) -> Arguments:
        """The arguments with the tensors and numbers of another sample."""
        at = [other.names.index(name) for name in self.arguments.names]
        return dataclasses.replace(self.arguments, tensors=[other.tensors[i] for i in at], numbers=[other.numbers[i] for i in at])

    def _enlarge(self) -> None:
        """Gives tokens to the past of empty caches, where it is dynamic and the model runs with them."""
        if not any(map(_caches.is_cache, self.arguments.structure.values())):
            return
        axes = self._axes_of_inputs()
        labels = [(name, label) for name, named in zip(self.arguments.names, axes, strict=True) for label in named.values()]
        others = {label for name, label in labels if not name.endswith("attention_mask")}
        tensors = _samples.with_elements(self.arguments.tensors, axes, {label for _, label in labels} - others)
        if any(t is not before for t, before in zip(tensors, self.arguments.tensors, strict=True)):
            larger = dataclasses.replace(self.arguments, tensors=tensors)
            with contextlib.suppress(CannotRun):
                self._check_runs(larger)
                self.arguments = larger

    def _unwrapped(self, model: Any) -> Any:
        """What spreads a model over devices has no place in a file."""
        if not isinstance(model, torch.nn.DataParallel | torch.nn.parallel.DistributedDataParallel):
            return model
        self.notes.append(f"the model is wrapped in {type(model).__name__}, and what it wraps was exported")
        return model.module

    def _dynamic(self, dynamic_axes: Any, dynamic_shapes: Any) -> Axes:
        if dynamic_shapes:
            axes, self._bounds = _dims.from_shapes(dynamic_shapes, self.arguments, self.input_names)
            return axes
        self._discovers = dynamic_axes == "auto"
        return {} if self._discovers else _dims.from_axes(dynamic_axes or {})

    def discover(self, options: _core.Options) -> None:
        """With dynamic_axes="auto", makes every axis dynamic that can be, as the program of the sample has it."""
        if not self._discovers:
            return
        kind = self.strategy or "trace"
        captured = self._capture(kind, {}, {})
        options.discover = True
        options.inputs, options.input_names = self._specifications(captured), self.input_names
        result, _ = _core.export_model(captured.file, captured.weights, None, options)
        options.discover, options.inputs, options.input_names = False, [], []
        for value in result.inputs:
            self.axes[value.name] = {axis: size for axis, size in enumerate(value.shape) if not size.isdecimal()}

    @property
    def strategy(self) -> How | None:
        """The only way to capture a model that has its program already."""
        return "script" if self.scripted else "export" if self.exported else None

    # The core asks for captures: see capture.hpp.

    def sample_sizes(self) -> list[tuple[str, int]]:
        if self.scripted or self.exported:
            return []
        return list(_samples.sizes(self.arguments.tensors, self._axes_of_inputs()).items())

    def more_samples(self) -> list[list[tuple[str, int]]]:
        return [list(_samples.sizes(tensors, self._axes_of_inputs()).items()) for tensors in self.other_samples()]

    def other_samples(self) -> list[list[torch.Tensor]]:
        return [self._on(other).tensors for other in self._others]

    def bounds(self) -> list[str]:
        least = [f"{name} >= {low}" for name, (low, _) in self._bounds.items() if low > 1]
        return least + [f"{name} <= {high}" for name, (_, high) in self._bounds.items() if high is not None]

    def is_outside(self, sizes: Mapping[str, int]) -> bool:
        bounds = ((size, *self._bounds.get(name, (0, None))) for name, size in sizes.items())
        return any(size < low or (high is not None and size > high) for size, low, high in bounds)

    def capture(
        self, kind: How, sizes: Sequence[tuple[str, int]], vary_contents: bool, outcomes: Mapping[str, bool], sample: int
    ) -> _core.Capture:
        captured = self._capture(kind, dict(sizes), outcomes, vary_contents=vary_contents, sample=sample)
        self.notes += [note for note in captured.notes if note not in self.notes]
        return _core.Capture(
            file=captured.file,
            weights=captured.weights,
            keep=captured.keep,
            inputs=self._specifications(captured),
            input_names=self.input_names,
            output_names=self._names_of_outputs(captured),
            dynamic_axes=self._known_axes(captured),
            followed=_followed(captured.followed),
            escaped_data=captured.data,
            assumptions=captured.guards,
            state=captured.state,
            plugins=self.translations.plugins,
        )

    def check(self, file: bytes, all_sizes: Sequence[Sequence[tuple[str, int]]]) -> list[tuple[str, str]]:
        """Compares the exported file with the model at each of these sizes, and on the other samples: see module.cpp."""
        if not self.checks or importlib.util.find_spec("onnxruntime") is None:
            return [("no_runtime", "") for _ in all_sizes]
        checker = self.checker(file)
        at_sizes = [self._checked(checker, checker.inputs(dict(sizes)), dict(sizes)) for sizes in all_sizes]
        return at_sizes + [self._checked(checker, tensors, {}) for tensors in self.other_samples()]

    def _checked(self, checker: Checker, tensors: Sequence[torch.Tensor], sizes: Mapping[str, int]) -> tuple[str, str]:
        if self.is_outside(sizes):
            return "not_run", OUTSIDE
        try:
            difference = checker.compare(tensors)
        except CannotRun as error:
            return "not_run", str(error)
        return ("differs", str(difference)) if difference else ("agrees", "")

    def checker(self, file: str | bytes) -> Checker:
        """What compares the exported file with the model, on the sample and at other sizes."""
        if not self.exported:
            return Checker(self.model, self.arguments, self._axes_of_inputs(), file, training=self.training)
        model = self.model.module()
        arguments = bind(model.forward, *self._given if self._given[0] or self._given[1] else self.model.example_inputs)
        return Checker(model, arguments, [{} for _ in arguments.tensors], file)

    def _capture(
        self, kind: How, sizes: Mapping[str, int], outcomes: Mapping[str, bool], *, vary_contents: bool = False, sample: int = 0
    ) -> Capture:
        if self.exported:
            return self._captured(lambda _: _capture.exported(self.model), "torch.export cannot save the program")
        if self.scripted:
            return self._captured(lambda _: _capture.script(self.model), "TorchScript cannot save the model")
        if kind != "trace" and (translated := self.functions.translated()):
            raise CannotCapture(f"only a trace has {', '.join(translated)} as an operator")
        if kind == "script":
            return self._script()
        if kind == "export":
            if self._hides_tracing:
                raise CannotCapture("torch.export cannot capture the model: it computes something else where it is captured")
            return self._export()
        if sample:
            return self._trace_on(self._on(self._others[sample - 1]), {})
        return self._trace_at(sizes, outcomes, vary_contents) if sizes or outcomes else self._trace_sample()

    def _trace_at(self, sizes: Mapping[str, int], outcomes: Mapping[str, bool], vary_contents: bool) -> Capture:
        if self.is_outside(sizes):
            raise CannotCapture(OUTSIDE)
        tensors = _samples.resized(self.arguments.tensors, self._axes_of_inputs(), sizes)
        if vary_contents:
            tensors = _samples.shuffled(tensors)
        return self._trace_on(dataclasses.replace(self.arguments, tensors=tensors), outcomes)

    def _trace_on(self, arguments: Arguments, outcomes: Mapping[str, bool]) -> Capture:
        try:
            return self._trace(arguments, outcomes)
        except _capture.UsedByPython as used:
            raise CannotCapture(used.where) from None

    def _captured(self, capture: Callable[[Changes], Capture], what: str, arguments: Arguments | None = None) -> Capture:
        """Whatever torch or the model raises is a reason why this capture does not do; `what` introduces it. Of a model that does
        not even run on the arguments, that is the reason."""
        try:
            with undisturbed(self.root, self.training, self.model) as changes:
                captured = capture(changes)
            captured.changed = changes.names
            return captured
        except ExportError:
            raise
        except Exception as error:
            if arguments is not None:
                self._check_runs(arguments)
            raise CannotCapture(f"{what}: {_capture.first_line(error)}") from error

    @contextlib.contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """For runs of the model itself, which leave it as it was."""
        with undisturbed(self.root, self.training, self.model), warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            yield

    def _check_runs(self, arguments: Arguments) -> None:
        """Raises CannotRun where the model fails on the arguments."""
        with self._undisturbed():
            try:
                _capture.run(self.model, arguments, [t.clone() for t in arguments.tensors])
            except Exception as error:
                raise _capture.explained(error, self.root, arguments) from error

    def _trace(self, arguments: Arguments, outcomes: Mapping[str, bool]) -> Capture:
        known = _capture.Known(arguments.numbers, self._axes_of_inputs(), outcomes, hides_tracing=self._hides_tracing)

        def traced(changes: Changes) -> Capture:
            check_runs = functools.partial(self._check_runs, arguments)
            return _capture.trace(self.root, self.model, arguments, self.functions, known, changes.reset, check_runs)

        return self._captured(traced, "the tracer cannot record the model", arguments)

    def _trace_sample(self) -> Capture:
        while True:
            try:
                captured = self._trace(self.arguments, {})
            except _capture.UsedByPython as used:
                self._keep_number(used.index, used.where)
                continue
            if captured.asked_tracing and not self._hides_tracing and self._is_other_when_traced():
                self._hides_tracing = True
                continue
            return self._with_state(captured)

    def _is_other_when_traced(self) -> bool:
        with self._undisturbed(), contextlib.suppress(Exception):  # code for traces may fail without one
            return _capture.is_other_when_traced(lambda *t: _capture.run(self.model, self.arguments, t), self.arguments.tensors)
        return False

    def _with_state(self, captured: Capture) -> Capture:
        """What a run changes is state where a second run has other results on the sample than the first."""
        if not captured.changed:
            return captured
        with self._undisturbed():
            if not _capture.repeats(lambda *t: _capture.run(self.model, self.arguments, t), self.arguments.tensors):
                captured.state = captured.changed
        return captured

    def _keep_number(self, index: int, where: str) -> None:
        """An argument that was given as a number stays one, as in torch.onnx.export: it is not an input of the file."""
        self.constants[self.arguments.names[index]] = self.arguments.numbers[index], where
        self.arguments = self.arguments.without(index)
        del self.input_names[index]

    def keep_numbers(self) -> bool:
        """Makes constants of the arguments that were given as numbers. Whether there are some."""
        if self.scripted or self.exported:
            return False
        self.arguments, self.input_names, self.constants = self._whole[0], list(self._whole[1]), {}
        self._keep_all_numbers("the file needs to know it")
        self._whole = self.arguments, list(self.input_names)
        return bool(self.constants)

    def _keep_all_numbers(self, where: str) -> None:
        for index in reversed([i for i, number in enumerate(self.arguments.numbers) if number is not None]):
            self._keep_number(index, where)

    def _export(self) -> Capture:
        self._keep_all_numbers("torch.export takes numbers as they are")
        captured = self._captured(
            lambda _: _capture.export(self.root, self.model, self.arguments, self._axes_of_inputs()),
            "torch.export cannot capture the model",
            self.arguments,
        )
        return self._with_state(captured)

    def _script(self) -> Capture:
        self.arguments, self.input_names, self.constants = self._whole[0], list(self._whole[1]), {}
        return self._captured(
            lambda _: _capture.scripted(self.model, self.arguments), "torch.jit.script cannot capture the model", self.arguments
        )

    def _axes_of_inputs(self) -> list[dict[int, str]]:
        names = zip(self.input_names, self.arguments.names, strict=True)
        return [self.axes.get(n) or self.axes.get(a) or {} for n, a in names]

    def _known_axes(self, captured: Capture) -> Axes:
        """Raises ExportError for a name that is neither an input nor an output."""
        names = [*self.input_names, *self._names_of_outputs(captured)]
        known = {*names, *self.arguments.names, *self.constants}
        for name in self.axes if captured.outputs is not None else []:
            if name not in known:
                meant = _mistakes.did_you_mean(name, names)
                raise ExportError(f"dynamic_axes names {name!r}, which is neither an input nor an output: {meant}")
        return {name: axes for name, axes in self.axes.items() if name not in self.constants}

    def _specifications(self, captured: Capture) -> list[str]:
        """Types and sizes of the inputs, for a program without a sample."""
        if captured.kind != "script":
            return []
        return [
            f"{name}:{str(t.dtype).removeprefix('torch.')}[{','.join(map(str, t.shape))}]"
            for name, t in zip(self.arguments.names, self.arguments.tensors, strict=True)
        ]

    def _names_of_outputs(self, captured: Capture) -> list[str]:
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


def _followed(followed: Followed | None) -> Any:
    """What the core takes: see module.cpp."""
    if followed is None:
        return None
    conditions = [(c.formula, c.outcome, c.where, c.question, c.other_raises) for c in followed.conditions]
    return (
        conditions,
        [(e.formula, e.value, e.what, e.where, e.of_contents, e.only_here) for e in followed.escapes],
        followed.sizes,
    )


def _renamed(given: list[str], names: list[str], what: str) -> list[str]:
    if len(given) > len(names):
        raise ExportError(
            f"number of {what} names provided ({len(given)}) exceeded number of {what}s ({len(names)}: {', '.join(names)})"
        )
    return given + names[len(given) :]
