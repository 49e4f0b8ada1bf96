"""One comparison: an exported file in ONNX Runtime beside the live model, on the same arguments."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from lithify import _capture, _samples
from lithify._errors import CannotCheck, CannotRun
from lithify._restore import undisturbed
from lithify._signature import Arguments

if TYPE_CHECKING:
    import onnxruntime

EPSILON = {torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7, torch.float64: 2.0**-52}
DEEP = 512  # operators that are assumed to lead to an output, where the package onnx is not there to count them
BFLOAT16 = 16  # of onnx.TensorProto


def available() -> bool:
    """Whether files can be run."""
    return importlib.util.find_spec("onnxruntime") is not None


def tolerance(dtype: torch.dtype, depth: int) -> float:
    """Of a value that `depth` operators lead to, in parts of its largest element: rounding adds up like the steps of a walk."""
    return EPSILON.get(dtype, 2.0**-23) * 256 * (1 + depth) ** 0.5


@dataclass
class Difference:
    """Of all outputs. `wrong` has what is wrong with each; false as a condition where nothing is."""

    error: float = 0.0  # the largest, in parts of what is allowed
    wrong: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.wrong)

    def __str__(self) -> str:
        if len(set(self.wrong.values())) == 1 and len(self.wrong) > 1:
            return f"all of {', '.join(self.wrong)}: {next(iter(self.wrong.values()))}"
        return "; ".join(f"{name}: {what}" for name, what in self.wrong.items())


class Checker:
    """Compares a file with the model that it was exported from.

    `axes` are the dynamic axes of each tensor of the arguments, by the names of their dimensions. `file` is a path, or the bytes
    of a model, whose external data is in `folder`. The live model is run with the training flags as `training` has them (None:
    as they are), and left as it was.
    """

    def __init__(
        self,
        model: Any,
        arguments: Arguments,
        axes: Sequence[Mapping[int, str]],
        file: str | os.PathLike[str] | bytes,
        *,
        folder: str = "",
        training: bool | None = False,
    ) -> None:
        self.model, self.arguments, self.axes, self.training = model, arguments, axes, training
        self.file, self.folder = file, folder
        owner = model if isinstance(model, torch.nn.Module) else getattr(model, "__self__", None)
        self.root = owner if isinstance(owner, torch.nn.Module) else None

    def inputs(self, sizes: Mapping[str, int]) -> list[torch.Tensor]:
        """The sample where the dimensions have these sizes, and all others those of the sample. Numbers that were repeated
        differ by a little: equal ones have no order."""
        sample = self.arguments.tensors
        made = _samples.resized(sample, self.axes, sizes)
        return [_distinct(t) if t.shape != s.shape else t for t, s in zip(made, sample, strict=True)]

    def compare(self, tensors: Sequence[torch.Tensor]) -> Difference:
        """What differs on these arguments. Raises CannotRun where the live model does not run, and CannotCheck where ONNX Runtime
        lacks something to run the file."""
        expected = self.live(_copies(tensors))
        try:
            got = self._run(tensors)
        except CannotCheck:
            raise
        except Exception as error:
            return Difference(float("inf"), dict.fromkeys(self._outputs(), f"the runtime fails: {_first_line(error)}"))
        if len(got) != len(expected):
            counted = f"the exported model has {len(got)} outputs, and the live one {len(expected)}"
            return Difference(float("inf"), {"outputs": counted})
        return self._differences(tensors, got, expected)

    def live(
        self, tensors: Sequence[torch.Tensor], *, seed: int | None = None, within: Any = contextlib.nullcontext
    ) -> list[torch.Tensor]:
        """The results of the live model, which may write to the tensors and runs `within` a context. Raises CannotRun where it
        fails."""
        mode = None if isinstance(self.model, torch.fx.GraphModule) else self.training
        with undisturbed(self.root, mode, self.model), torch.no_grad():
            if seed is not None:
                torch.manual_seed(seed)
            try:
                with within():
                    results = _capture.run(self.model, self.arguments, tensors)
                return [t.cpu() for t in results]
            except Exception as error:
                raise CannotRun(f"the model does not run: {_capture.first_line(error)}") from error

    def feed(self, tensors: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
        """The inputs of the file by name. Those after the arguments are state of the model."""
        inputs = self.session.get_inputs()
        state = self.root.state_dict(keep_vars=True) if self.root is not None else {}
        more = [state[i.name] for i in inputs[len(tensors) :] if i.name in state]
        if len(tensors) + len(more) != len(inputs):
            names = ", ".join(i.name for i in inputs)
            raise CannotCheck(f"the exported model takes {names}, and the live one {', '.join(self.arguments.names)}")
        return {i.name: _real(t.detach().cpu()).contiguous() for i, t in zip(inputs, (*tensors, *more), strict=True)}

    @functools.cached_property
    def session(self) -> onnxruntime.InferenceSession:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = torch.get_num_threads()
        if self.folder:
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", self.folder)
        file = self.file if isinstance(self.file, bytes) else os.fspath(self.file)
        try:
            return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            if re.search(r"NOT_IMPLEMENTED|is not a registered function/op|official released onnx opset", str(error)):
                raise CannotCheck(f"ONNX Runtime cannot run the model: {_first_line(error)}") from error
            raise

    @functools.cached_property
    def depths(self) -> dict[str, int]:
        """How many operators lead to each value."""
        if importlib.util.find_spec("onnx") is None:
            return {}
        import onnx

        from lithify._diverge import depths

        contents = self.file if isinstance(self.file, bytes) else Path(self.file).read_bytes()
        graph = onnx.load_from_string(contents).graph
        return {o.name: 0 for o in graph.output} | depths(graph)

    def _outputs(self) -> list[str]:
        try:
            return [o.name for o in self.session.get_outputs()]
        except Exception:
            return ["the model"]

    def _run(self, tensors: Sequence[torch.Tensor]) -> list[tuple[str, torch.Tensor]]:
        """Outputs by name; a sequence has several tensors, and an optional may have none. State is not among them."""
        feed = self.feed(tensors)
        outputs = self.session.get_outputs()[: len(self.session.get_outputs()) - (len(feed) - len(tensors))]
        names = [o.name for o in outputs]
        if all(o.type.startswith("tensor") for o in outputs):
            values = self.session.run_with_ort_values(names, {name: _to_ort(t) for name, t in feed.items()})
            return [(name, _from_ort(value)) for name, value in zip(names, values, strict=True)]
        arrays = self.session.run(names, {name: t.numpy() for name, t in feed.items()})
        listed = [a if isinstance(a, list) else [] if a is None else [a] for a in arrays]
        return [(name, torch.from_numpy(array)) for name, items in zip(names, listed, strict=True) for array in items]

    def _differences(
        self, tensors: Sequence[torch.Tensor], got: Sequence[tuple[str, torch.Tensor]], expected: Sequence[torch.Tensor]
    ) -> Difference:
        out = Difference()
        pairs = [(name, g, _real(e)) for (name, g), e in zip(got, expected, strict=True)]
        suspects = [i for i, (_, g, e) in enumerate(pairs) if _mismatch(g, e) or _distance(g, e) > tolerance(g.dtype, 0)]
        noise = self._noise(tensors, expected) if suspects else []
        for i, (name, g, e) in enumerate(pairs):
            if i not in suspects:
                out.error = max(out.error, _distance(g, e) / tolerance(g.dtype, 0))
                continue
            if noise[i] == float("inf") and g.dtype == e.dtype:  # it is random
                continue
            within = tolerance(g.dtype, self.depths.get(name, DEEP))
            wrong = _mismatch(g, e)
            error = float("inf") if wrong else _distance(g, e) / within
            if error > 1 and not wrong:
                error /= max(1.0, 16 * noise[i] / within)
                wrong = f"differs by {error * within:.2g} of its largest element, {within:.2g} is allowed" if error > 1 else ""
            out.error = max(out.error, error)
            if wrong:
                out.wrong[name] = wrong
        return out

    def _noise(self, tensors: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> list[float]:
        """How far the live model's own outputs move when its inputs do by their last bits; infinite for those that differ in
        every run."""
        moved = [t * (1 + 2 * torch.finfo(t.dtype).eps) if t.is_floating_point() else t for t in tensors]
        near, again = self.live(_copies(moved)), self.live(_copies(tensors), seed=1)

        def is_random(a: torch.Tensor, b: torch.Tensor) -> bool:
            return bool(_mismatch(a, b)) or _distance(a, b) > tolerance(a.dtype, DEEP)

        triples = [tuple(map(_real, t)) for t in zip(near, again, expected, strict=True)]
        return [float("inf") if is_random(b, c) else _distance(a, c) if a.shape == c.shape else 1.0 for a, b, c in triples]


def _copies(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [t.clone() for t in tensors]


def _distinct(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.is_floating_point() or tensor.element_size() < 2 or bool((tensor == tensor.round()).all()):
        return tensor
    return tensor * (1 + torch.rand(tensor.shape, generator=torch.Generator().manual_seed(0)) / 64).to(tensor)


def _real(tensor: torch.Tensor) -> torch.Tensor:
    """As the exported model has it: complex numbers are their two parts along a last axis."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _to_ort(tensor: torch.Tensor) -> onnxruntime.OrtValue:
    import onnxruntime

    if tensor.dtype == torch.bfloat16:
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(tensor.view(torch.int16).numpy(), BFLOAT16)
    return onnxruntime.OrtValue.ortvalue_from_numpy(tensor.numpy())


def _from_ort(value: onnxruntime.OrtValue) -> torch.Tensor:
    if value.element_type() != BFLOAT16:
        return torch.from_numpy(value.numpy())
    out = torch.empty(value.shape(), dtype=torch.bfloat16)
    ctypes.memmove(out.data_ptr(), value.data_ptr(), 2 * out.numel())
    return out


def _mismatch(got: torch.Tensor, live: torch.Tensor) -> str:
    """What is wrong beside the numbers, and with numbers that must be equal."""
    if got.dtype != live.dtype:
        return f"is {got.dtype}, the live model has {live.dtype}"
    if got.shape != live.shape:
        return f"has the shape {list(got.shape)}, the live model has {list(live.shape)}"
    differ = int((got != live).sum()) if not live.is_floating_point() else 0
    return f"{differ} of {live.numel()} elements differ" if differ else ""


def _distance(got: torch.Tensor, live: torch.Tensor) -> float:
    """The largest difference, in parts of the largest element. What is not finite must be the same."""
    if not live.is_floating_point() or live.numel() == 0:
        return 0.0
    a, b = got.double(), live.double()
    if not bool(((a == b) | (a.isnan() & b.isnan()))[~b.isfinite()].all()) or bool((~a.isfinite() & b.isfinite()).any()):
        return float("inf")
    finite = b.isfinite()
    return float((a - b)[finite].abs().max() / b[finite].abs().max().clamp(min=1e-30)) if bool(finite.any()) else 0.0


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:200]
