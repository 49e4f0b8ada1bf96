"""lithify.verify: an exported model in ONNX Runtime beside the live model, at the sample and elsewhere."""

from __future__ import annotations

import importlib.util
import itertools
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lithify import _core
from lithify._errors import ExportError
from lithify._export import Result

if TYPE_CHECKING:
    import torch

    from lithify._call import Call
    from lithify._check import Checker
    from lithify._diverge import Divergence

LARGE = 1 << 22  # elements that an input has at most when it is made larger


@dataclass
class Run:
    """One comparison. `wrong` has what is wrong with each output; a run that the live model itself refuses is `skipped`."""

    what: str  # "the sample", "batch=1", "random values"
    error: float = 0.0  # the largest of all outputs, in parts of what is allowed
    wrong: dict[str, str] = field(default_factory=dict)
    skipped: str = ""

    def __str__(self) -> str:
        from lithify._check import Difference

        outcome = f"skipped: {self.skipped}" if self.skipped else str(Difference(self.error, self.wrong)) or "right"
        return f"{self.what:<32}{self.error:>16.2g}  {outcome}"


@dataclass
class Verification:
    """What was compared. True or false as a condition; printed, it is a table."""

    runs: list[Run]
    divergence: Divergence | None = None  # of the first run that is wrong

    def __bool__(self) -> bool:
        return not any(run.wrong for run in self.runs)

    def __str__(self) -> str:
        lines = [f"{'run':<32}{'error / allowed':>16}", *map(str, self.runs)]
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
    _check_needed()
    file = (exported.path or exported.bytes) if isinstance(exported, Result) else exported
    if file is None:
        raise ExportError("a model that was written to a file object cannot be verified: give its path")
    _check_valid(file)
    constants = exported.constants if isinstance(exported, Result) else None
    return _Comparison(_checker(_reference(model), file, args, kwargs, constants)).run(sizes)


def verify_call(call: Call, file: str | bytes) -> Verification:
    """As verify, for the model and arguments of a call of export."""
    _check_needed()
    _check_valid(file)
    return _Comparison(call.checker(file), call.is_outside, call.other_samples()).run(None)


def _check_needed() -> None:
    missing = [name for name in ("onnx", "onnxruntime") if importlib.util.find_spec(name) is None]
    if missing:
        raise ExportError(f"verification needs {' and '.join(missing)}: pip install lithify[verify]")


def _checker(
    model: Any, file: Any, args: Any, kwargs: Mapping[str, Any] | None, constants: Collection[str] | None = None
) -> Checker:
    """For a file whose inputs are not known from the export. Numbers that are constants in it are not among them."""
    import torch

    from lithify._check import Checker
    from lithify._settle import settled
    from lithify._signature import bind, split_kwargs

    arguments = bind(model.forward if isinstance(model, torch.nn.Module) else model, *split_kwargs(args, kwargs))
    arguments = settled(model, model if isinstance(model, torch.nn.Module) else None, False, arguments)
    checker = Checker(model, arguments, [], file)
    names = [i.name for i in checker.session.get_inputs()]
    for index in reversed(range(len(arguments.names))):
        name, number = arguments.names[index], arguments.numbers[index] is not None
        if name in constants if constants is not None else number and name not in names:
            checker.arguments = checker.arguments.without(index)
    if len(checker.arguments.tensors) > len(names):
        raise ExportError(f"the exported model takes {names}, and the live one {checker.arguments.names}")
    return checker


def _check_valid(file: Any) -> None:
    import onnx

    try:
        onnx.checker.check_model(file if isinstance(file, bytes) else os.fspath(file), full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise ExportError(f"the ONNX checker rejects the model: {error}") from error


class _Comparison:
    """All runs that verify makes."""

    def __init__(
        self,
        checker: Checker,
        is_outside: Callable[[Mapping[str, int]], bool] = lambda _: False,
        others: Sequence[list[torch.Tensor]] = (),
    ) -> None:
        """`is_outside` is whether sizes are outside of the bounds that the user declared. `others` are other samples."""
        self.checker, self._is_outside, self._others = checker, is_outside, others
        inputs = checker.session.get_inputs()[: len(checker.arguments.tensors)]
        checker.axes = [{a: d for a, d in enumerate(i.shape) if isinstance(d, str)} for i in inputs]

    def run(self, sizes: Sequence[Mapping[str, int]] | None) -> Verification:
        out = Verification([])
        for what, tensors in self._contents():
            self._add(out, [(what, tensors)])
        if sizes is not None:
            for at in sizes:
                self._add(out, [(_text(at), self.checker.inputs(at))])
            return out
        for candidates in _candidates(self._sample()):
            made = [(_text(at), self.checker.inputs(at)) for at in candidates if not self._is_outside(at)]
            self._add(out, [(what, tensors) for what, tensors in made if self._fits(tensors)])
        return out

    def _sample(self) -> dict[str, int]:
        """The sizes of the dimensions with a plain name."""
        from lithify import _samples

        found = _samples.sizes(self.checker.arguments.tensors, self.checker.axes)
        return {name: size for name, size in found.items() if name.isidentifier()}

    def _contents(self) -> Iterator[tuple[str, list[torch.Tensor]]]:
        sample = self.checker.arguments.tensors
        yield "the sample", sample
        for i, tensors in enumerate(self._others):
            yield f"samples[{i}]", tensors
        if any(t.is_floating_point() and t.dim() for t in sample):
            for what, change in _VALUES.items():
                yield what, [change(t) if t.is_floating_point() and t.dim() else t for t in sample]

    def _fits(self, tensors: Sequence[torch.Tensor]) -> bool:
        return max((t.numel() for t in tensors), default=0) <= max(LARGE, *(t.numel() for t in self.checker.arguments.tensors))

    def _add(self, out: Verification, candidates: Sequence[tuple[str, list[torch.Tensor]]]) -> None:
        """A run on the first of the candidates on which the live model runs."""
        from lithify._errors import CannotRun

        skipped = None
        for what, tensors in candidates:
            try:
                difference = self.checker.compare(tensors)
            except CannotRun as error:
                skipped = skipped or Run(what, skipped=str(error))
                continue
            out.runs.append(Run(what, difference.error, difference.wrong))
            if difference and out.divergence is None:
                out.divergence = self._locate(tensors, list(difference.wrong))
            return
        if skipped is not None:
            out.runs.append(skipped)

    def _locate(self, tensors: list[torch.Tensor], wrong: list[str]) -> Divergence | None:
        import onnx

        from lithify import _diverge

        checker = self.checker
        contents = checker.file if isinstance(checker.file, bytes) else Path(checker.file).read_bytes()
        folder = "" if isinstance(checker.file, bytes) else str(Path(checker.file).resolve().parent)
        feed = {name: t.numpy() for name, t in checker.feed(tensors).items()}
        copies = [t.clone() for t in tensors]  # the model may write to them
        model = onnx.load_from_string(contents)
        return _diverge.find(model, folder, feed, lambda within: checker.live(copies, within=within), wrong)


def _text(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


def _random(tensor: torch.Tensor) -> torch.Tensor:
    import torch

    made = torch.randn(tensor.shape, generator=torch.Generator().manual_seed(0))
    return made.to(tensor) * float(tensor.float().std(correction=0).clamp(min=1e-3))


_VALUES = {"random values": _random, "zeros": lambda t: t * 0, "values 100 times as large": lambda t: t * 100}


def _candidates(sample: dict[str, int]) -> Iterator[list[dict[str, int]]]:
    """Sizes to run at: each dimension at 1, 2, an odd size and a large one, the others as in the sample; and all of them at
    others. Where the model does not run at these, sizes follow that keep more of what ties those of the sample."""
    for name, size in sample.items():
        for other in dict.fromkeys((1, 2, size + 1 + size % 2, 3 * size + 2)):
            if other != size:
                yield [{name: other}, *_together(sample, {name: other})]
    if len(sample) > 1:
        everywhere = [dict(at) for at in _core.other_sizes(list(sample.items()))]
        yield sorted(everywhere, key=lambda at: sum(holds(sample, at) for holds in (_equals_hold, _sums_hold)))


def _sums(sample: Mapping[str, int]) -> list[tuple[str, str, str]]:
    """The dimensions that are the sum of two others in the sample, with these."""
    pairs = list(itertools.combinations(sample, 2))
    return [(c, a, b) for c in sample for a, b in pairs if c not in (a, b) and sample[a] + sample[b] == sample[c]]


def _sums_hold(sample: Mapping[str, int], at: Mapping[str, int]) -> bool:
    return all(at[c] == at[a] + at[b] for c, a, b in _sums(sample))


def _equals_hold(sample: Mapping[str, int], at: Mapping[str, int]) -> bool:
    return all(at[a] == at[b] for a, b in itertools.combinations(sample, 2) if sample[a] == sample[b])


def _together(sample: Mapping[str, int], at: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """The sizes with others that change with them: sums of two dimensions stay sums, equal ones equal."""
    equal = {name: at[other] for name, size in sample.items() for other in at if sample[other] == size} | dict(at)
    for made in (_with_sums(sample, at), equal, _with_sums(sample, equal)):
        if made != at:
            yield made


def _with_sums(sample: Mapping[str, int], at: Mapping[str, int]) -> dict[str, int]:
    made = dict(at)
    for c, a, b in _sums(sample):
        now = {**sample, **made}
        if a in made or b in made:
            made[c] = now[a] + now[b]
        elif c in made and made[c] > 1:  # one of them gets what the other leaves
            made[a] = made[c] - sample[b] if made[c] > sample[b] else made[c] // 2
            made[b] = made[c] - made[a]
    return made


def _reference(model: Any) -> Any:
    import torch

    if isinstance(model, str | os.PathLike):
        path = os.fspath(model)
        return torch.export.load(path).module() if path.endswith(".pt2") else torch.jit.load(path)
    return model.module() if isinstance(model, torch.export.ExportedProgram) else model
