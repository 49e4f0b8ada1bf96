"""lithify.verify: an exported model in ONNX Runtime beside the live model, at the sample and elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lithify import _core
from lithify._errors import ExportError
from lithify._export import Result

if TYPE_CHECKING:
    import torch

    from lithify._diverge import Divergence

LARGE = 1 << 22  # elements that an input has at most when it is made larger


@dataclass
class Run:
    """One comparison. `wrong` has what is wrong with each output; a run that the live model itself refuses is `skipped`."""

    what: str  # "the sample", "batch=1", "random values"
    error: float = 0.0  # the largest of all outputs, in parts of what is allowed
    wrong: dict[str, str] = field(default_factory=dict)
    skipped: str = ""


@dataclass
class Verification:
    """What was compared. True or false as a condition; printed, it is a table."""

    runs: list[Run]
    divergence: Divergence | None = None  # of the first run that is wrong

    def __bool__(self) -> bool:
        return not any(run.wrong for run in self.runs)

    def __str__(self) -> str:
        lines = [f"{'run':<32}{'error / allowed':>16}"]
        for run in self.runs:
            outcome = (
                "skipped: " + run.skipped if run.skipped else "; ".join(f"{n}: {w}" for n, w in run.wrong.items()) or "right"
            )
            lines.append(f"{run.what:<32}{run.error:>16.2g}  {outcome}")
        return "\n".join([*lines, str(self.divergence)] if self.divergence else lines)

    def check(self) -> None:
        """Raises ExportError with all that is wrong."""
        if not self:
            raise ExportError(f"the exported model differs from the live one\n{self}")


def verify(
    model: Any,
    exported: Result | str | os.PathLike[str] | bytes,
    args: Any = (),
    *,
    kwargs: Mapping[str, Any] | None = None,
    sizes: Sequence[Mapping[str, int]] | None = None,
) -> Verification:
    """Runs both: at the sample, on other values, and at other sizes of every dynamic dimension, or those in `sizes`, by the names
    of the dimensions. `model` is live, or the path of a file of torch.jit.save or torch.export.save. Where they differ, the node
    is named that does so first. Needs onnx and onnxruntime. Raises ExportError when the file is not a valid model."""
    return _Comparison(model, exported, args, kwargs).run(sizes)


class _Comparison:
    def __init__(self, model: Any, exported: Any, args: Any, kwargs: Mapping[str, Any] | None) -> None:
        import onnx
        import torch

        from lithify import _diverge
        from lithify._signature import bind, split_kwargs

        self.model = _reference(model)
        file = (exported.path or exported.bytes) if isinstance(exported, Result) else exported
        if file is None:
            raise ExportError("a model that was written to a file object cannot be verified: give its path")
        self.folder = "" if isinstance(file, bytes) else str(Path(file).resolve().parent)
        try:
            onnx.checker.check_model(file if isinstance(file, bytes) else os.fspath(file), full_check=True)
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
            raise ExportError(f"the ONNX checker rejects the model: {error}") from error
        contents = file if isinstance(file, bytes) else Path(file).read_bytes()
        self.proto = onnx.load_from_string(contents)
        self.session = _diverge.session(contents, self.folder, plain=False)
        self.depth = _diverge.depths(self.proto.graph)
        forward = self.model.forward if isinstance(self.model, torch.nn.Module) else self.model
        self.arguments = bind(forward, *split_kwargs(args, kwargs))
        names = [i.name for i in self.session.get_inputs()]
        for index in reversed(range(len(self.arguments.names))):
            name, number = self.arguments.names[index], self.arguments.numbers[index] is not None
            if name in exported.constants if isinstance(exported, Result) else number and name not in names:
                self.arguments = self.arguments.without(index)
        if len(self.arguments.tensors) != len(names):
            raise ExportError(f"the exported model takes {names}, and the live one {self.arguments.names}")
        self.axes = [
            {a: d for a, d in enumerate(i.shape) if isinstance(d, str) and d.isidentifier()} for i in self.session.get_inputs()
        ]

    def run(self, sizes: Sequence[Mapping[str, int]] | None) -> Verification:
        out = Verification([])
        for what, tensors in self._inputs(sizes):
            run = self._compare(what, tensors)
            out.runs.append(run)
            if run.wrong and out.divergence is None:
                out.divergence = self._locate(tensors, list(run.wrong))
        return out

    def _inputs(self, sizes: Sequence[Mapping[str, int]] | None) -> Iterator[tuple[str, list[torch.Tensor]]]:
        from lithify import _samples

        sample = self.arguments.tensors
        yield "the sample", sample
        for what, change in _VALUES.items():
            changed = [change(t) if t.is_floating_point() and t.dim() else t for t in sample]
            if any(t.is_floating_point() and t.dim() for t in sample):
                yield what, changed
        for at in sizes if sizes is not None else _sizes(_samples.sizes(sample, self.axes)):
            tensors = _samples.resized(sample, self.axes, at)
            if max((t.numel() for t in tensors), default=0) <= max(LARGE, *(t.numel() for t in sample)) or sizes is not None:
                yield ", ".join(f"{name}={size}" for name, size in at.items()), tensors

    def _live(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        import torch

        from lithify._restore import undisturbed
        from lithify._structure import Leaves, flatten, tensor_of

        leaves: Leaves = []
        root = self.model if isinstance(self.model, torch.nn.Module) else None
        mode = None if isinstance(self.model, torch.fx.GraphModule) else False
        with undisturbed(root, mode), torch.no_grad():
            numbers = self.arguments.numbers
            given, by_name = self.arguments.rebuild([t if n is None else n for t, n in zip(tensors, numbers, strict=True)])
            flatten(self.model(*given, **by_name), "", leaves)
        return [tensor_of(leaf).cpu() for _, leaf in leaves]

    def _feed(self, tensors: Sequence[torch.Tensor]) -> dict[str, Any]:
        inputs = self.session.get_inputs()
        return {i.name: t.detach().cpu().contiguous().numpy() for i, t in zip(inputs, tensors, strict=True)}

    def _compare(self, what: str, tensors: list[torch.Tensor]) -> Run:
        from lithify._diverge import tolerance

        run = Run(what)
        try:
            expected = self._live(tensors)
        except Exception as error:
            run.skipped = f"the live model fails ({type(error).__name__})"
            return run
        outputs = [o.name for o in self.session.get_outputs()]
        try:
            got = _tensors(outputs, self.session.run(None, self._feed(tensors)))
        except Exception as error:
            run.wrong = dict.fromkeys(outputs, f"the runtime fails: {str(error).splitlines()[0][:200]}")
            run.error = float("inf")
            return run
        if len(got) != len(expected):
            raise ExportError(f"the exported model has {len(got)} outputs, and the live one {len(expected)}")
        noise: list[float] = []
        for i, ((name, array), live) in enumerate(zip(got, expected, strict=True)):
            within = tolerance(str(array.dtype), self.depth.get(name, 0))
            error, wrong = _difference(array, live, within)
            if error > 1 and not wrong:
                noise = noise or self._noise(tensors, expected)
                error /= max(1.0, 16 * noise[i] / within)
                wrong = f"differs by {error * within:.2g} of its largest element, {within:.2g} is allowed" if error > 1 else ""
            run.error = max(run.error, error)
            if wrong:
                run.wrong[name] = wrong
        return run

    def _noise(self, tensors: list[torch.Tensor], expected: list[torch.Tensor]) -> list[float]:
        """How far the live model's own outputs move when its inputs do by their last bits."""
        import torch

        moved = [t * (1 + 2 * torch.finfo(t.dtype).eps) if t.is_floating_point() else t for t in tensors]
        return [_distance(a, b) for a, b in zip(self._live(moved), expected, strict=True)]

    def _locate(self, tensors: list[torch.Tensor], wrong: list[str]) -> Divergence | None:
        import onnx

        from lithify import _diverge

        copy = onnx.ModelProto()
        copy.CopyFrom(self.proto)
        return _diverge.find(copy, self.folder, self._feed(tensors), lambda: self._live(tensors), wrong)


def _tensors(names: list[str], outputs: list[Any]) -> list[tuple[str, Any]]:
    """Outputs by name; a sequence has several tensors, and an optional may have none."""
    listed = [o if isinstance(o, list) else [] if o is None else [o] for o in outputs]
    return [(name, array) for name, arrays in zip(names, listed, strict=True) for array in arrays]


def _random(tensor: torch.Tensor) -> torch.Tensor:
    import torch

    made = torch.randn(tensor.shape, generator=torch.Generator().manual_seed(0))
    return made.to(tensor) * float(tensor.float().std(correction=0).clamp(min=1e-3))


_VALUES = {"random values": _random, "zeros": lambda t: t * 0, "values 100 times as large": lambda t: t * 100}


def _sizes(sample: dict[str, int]) -> Iterator[dict[str, int]]:
    """Each dimension at 1, 2, an odd size and a large one, the others as in the sample; and all of them at others."""
    for name, size in sample.items():
        for other in dict.fromkeys((1, 2, size + 1 + size % 2, 3 * size + 2)):
            if other != size:
                yield {name: other}
    if len(sample) > 1:
        yield dict(_core.other_sizes(list(sample.items()))[0])


def _reference(model: Any) -> Any:
    import torch

    if isinstance(model, str | os.PathLike):
        path = os.fspath(model)
        return torch.export.load(path).module() if path.endswith(".pt2") else torch.jit.load(path)
    return model.module() if isinstance(model, torch.export.ExportedProgram) else model


def _difference(array: Any, live: torch.Tensor, within: float) -> tuple[float, str]:
    """In parts of what is allowed; and what is wrong beside the numbers."""
    import torch

    got = torch.from_numpy(array)
    if live.is_complex():
        live = torch.view_as_real(live)
    if got.dtype != live.dtype:
        return float("inf"), f"is {got.dtype}, the live model has {live.dtype}"
    if got.shape != live.shape:
        return float("inf"), f"has the shape {list(got.shape)}, the live model has {list(live.shape)}"
    if not live.is_floating_point():
        differ = int((got != live).sum())
        return (float("inf"), f"{differ} of {live.numel()} elements differ") if differ else (0.0, "")
    return _distance(got, live) / within, ""


def _distance(got: torch.Tensor, live: torch.Tensor) -> float:
    """The largest difference, in parts of the largest element. What is not finite must be the same."""
    if not live.is_floating_point() or live.numel() == 0:
        return 0.0
    a, b = got.double(), live.double()
    if not bool(((a == b) | (a.isnan() & b.isnan()))[~b.isfinite()].all()) or bool((~a.isfinite() & b.isfinite()).any()):
        return float("inf")
    finite = b.isfinite()
    return float((a - b)[finite].abs().max() / b[finite].abs().max().clamp(min=1e-30)) if bool(finite.any()) else 0.0
