"""Takes a model through the exporter and ONNX Runtime, and compares it with eager PyTorch.

`verify` takes one case of `tests.cases` along all its routes. The pieces (`export`, `Session`, `compare`) serve the tests of
whole models too. Whatever goes wrong is a `Mismatch` with a message that stands by itself.
"""

from __future__ import annotations

import copy
import ctypes
import functools
import linecache
import os
import re
import shutil
import subprocess
import tempfile
import textwrap
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.reference
import onnxruntime
import sympy
import torch
from torch import nn

from tests.cases import OPSETS, ROOT, Case, Dim, Spec, normal
from tests.dequantized import Dequantized, WrongReference

LITHIFY = Path(os.environ.get("LITHIFY", ROOT / "build" / "lithify"))
FAILURES = ROOT / "build" / "failures"
DEFAULT_OPSET = 18
ORDER = (9, 23, 13, 26, 11, 20, 16, 10, 21, 24, 12, 22, 14, 19, 25, 15, 17)
TOLERANCE = {torch.float16: (1e-2, 1e-3), torch.bfloat16: (5e-2, 1e-2), torch.float64: (1e-7, 1e-7)}
SECONDS = 120
FAULT = "LTH099"  # the code of a fault of the exporter itself

onnxruntime.set_default_logger_severity(3)

Names = dict[str, dict[int, str]]


class Mismatch(AssertionError):
    """The exported model is not what was asked for."""


class NeedsOpset(Mismatch):
    """The exporter reports that only a later opset can express the model."""

    def __init__(self, message: str, opset: int) -> None:
        super().__init__(message)
        self.opset = opset


full_widths = True  # of the models that are built


def widths(**narrow: Any) -> dict[str, Any]:
    """Widths in place of a model's own, unless the tests run with --every: the graph is the same, in a tenth of the time."""
    return {} if full_widths else narrow


# ---- pieces ---------------------------------------------------------------------------------------


def export(
    model: Path,
    out: Path,
    *,
    opset: int = DEFAULT_OPSET,
    dynamic: Names | None = None,
    inputs: Sequence[str] = (),
    flags: Sequence[str] = (),
    names: Names | None = None,
) -> onnx.ModelProto:
    """Runs `lithify export`, checks the file that it wrote, and loads it. `names` are the axes that must be dynamic in it."""
    command = export_command(model, out, opset=opset, dynamic=dynamic, inputs=inputs, flags=flags)
    done = run(command)
    if done.returncode != 0:
        message = f"exit code {done.returncode} from\n  {_shown(command)}\n{done.stderr or done.stdout}"
        if done.returncode == 1 and errors(done.stderr) == {"LTH043"}:
            raise NeedsOpset(message, max(int(n) for n in re.findall(r"--opset (\d+) or higher", done.stderr)))
        raise Mismatch(message)
    try:
        # By path: a checker that is given the message cannot see external data or files above 2 GB.
        onnx.checker.check_model(str(out), full_check=True)
    except Exception as error:
        raise Mismatch(f"the full check of onnx refuses the model: {error}") from error
    loaded = onnx.load(str(out), load_external_data=False)
    written = {entry.domain: entry.version for entry in loaded.opset_import}
    if written.get("") != opset:
        raise Mismatch(f"asked for opset {opset}, the file says {written}")
    check_names(loaded, (dynamic or {}) if names is None else names)
    return loaded


def run(command: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=SECONDS, close_fds=False)


def errors(text: str) -> set[str]:
    """The codes of the errors among messages."""
    return set(re.findall(r"error (LTH\d+)", text))


def exit_code(messages: str) -> int:
    """The exit code that belongs to the first error: 2 usage, 3 a bad file, 4 a bad output, 1 all others."""
    number = int(re.search(r"error LTH(\d+)", messages)[1])  # type: ignore[index]
    return 3 if number < 10 else 2 if 20 <= number <= 23 else 4 if 80 <= number <= 81 else 1


def refusal(done: subprocess.CompletedProcess[str], *codes: str, out: Path | None = None) -> str:
    """The messages of a run that refused its model: the exit code of its first error, errors of these codes and no others, and
    no file written.

    Without codes any will do, but that of a fault of the exporter itself. A crash is never a refusal."""
    found = errors(done.stderr)
    expected = found <= set(codes) if codes else FAULT not in found
    if not found or not expected or "Sanitizer" in done.stderr or done.returncode != exit_code(done.stderr):
        asked = " or ".join(codes) or "an error"
        raise Mismatch(f"not refused with {asked}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    if out is not None and out.exists():
        raise Mismatch(f"refused, and {out} was written\n{done.stderr}")
    return done.stderr


def export_command(
    model: Path,
    out: Path,
    *,
    opset: int = DEFAULT_OPSET,
    dynamic: Names | None = None,
    inputs: Sequence[str] = (),
    flags: Sequence[str] = (),
) -> list[str]:
    command = [str(LITHIFY), "export", str(model), "-o", str(out), "--opset", str(opset), "-q", "--skip-sync", *flags]
    for spec in inputs:
        command += ["--input", spec]
    for name, axes in (dynamic or {}).items():
        command += ["--dynamic", f"{name}:" + ",".join(f"{axis}={dim}" for axis, dim in axes.items())]
    return command


def check_names(model: onnx.ModelProto, dynamic: Names) -> None:
    """Every axis that was named has its name in the graph's inputs (any, for an empty one); every other has a fixed size."""
    found = {i.name: i.type.tensor_type.shape.dim for i in model.graph.input}
    for name, axes in dynamic.items():
        if name not in found:
            raise Mismatch(f"no input {name!r} in the graph, only {sorted(found)}")
        for axis, dim in axes.items():
            if not found[name][axis].dim_param or dim not in ("", found[name][axis].dim_param):
                raise Mismatch(f"axis {axis} of input {name!r} is {found[name][axis]}, not named {dim!r}")
    for name, dims in found.items():
        for axis, dim in enumerate(dims):
            if axis not in dynamic.get(name, {}) and not dim.HasField("dim_value"):
                raise Mismatch(f"axis {axis} of input {name!r} was not declared dynamic but is {dim.dim_param!r}")


class Session:
    """An ONNX file ready to run, on tensors of PyTorch, which also have bfloat16."""

    def __init__(self, path: Path, *, reference: bool = False) -> None:
        self.model = onnx.load(str(path), load_external_data=reference)
        self.names = [i.name for i in self.model.graph.input]
        self.outputs = [(o.name, o.type.tensor_type) for o in self.model.graph.output]
        self.of_tensors = all(o.type.HasField("tensor_type") for o in self.model.graph.output)
        if reference:
            self.evaluator = onnx.reference.ReferenceEvaluator(self.model)
            return
        self.evaluator = None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            self.ort = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise Mismatch(f"ONNX Runtime does not load the model: {error}") from error

    def run(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        if len(inputs) != len(self.names):
            raise Mismatch(f"the graph has inputs {self.names}, the model takes {len(inputs)}")
        feed = dict(zip(self.names, map(real, inputs), strict=False))
        try:
            if self.evaluator is not None:
                arrays = self.evaluator.run(None, {n: t.numpy() for n, t in feed.items()})
                return [torch.from_numpy(np.asarray(a)) for a in arrays]
            if not self.of_tensors:
                return self._flattened(self.ort.run(None, {n: t.numpy() for n, t in feed.items()}))
            values = self.ort.run_with_ort_values(None, {n: _to_ort(t) for n, t in feed.items()})
            return [_from_ort(v) for v in values]
        except Exception as error:
            shapes = {n: list(t.shape) for n, t in feed.items()}
            raise Mismatch(f"ONNX Runtime fails at {shapes}: {error}") from error

    def _flattened(self, arrays: list[Any]) -> list[torch.Tensor]:
        """The tensors of sequences, and of optionals that have one; `outputs` then says what each must be."""
        self.outputs, tensors = [], []
        for output, array in zip(self.model.graph.output, arrays, strict=True):
            kind = output.type.WhichOneof("value")
            of = output.type if kind == "tensor_type" else getattr(output.type, kind).elem_type
            items = array if isinstance(array, list) else [] if array is None else [array]
            tensors += [torch.from_numpy(np.asarray(a)) for a in items]
            self.outputs += [(output.name, of.tensor_type)] * len(items)
        return tensors


def _to_ort(tensor: torch.Tensor) -> onnxruntime.OrtValue:
    if tensor.dtype == torch.bfloat16:
        bits = tensor.contiguous().view(torch.int16).numpy()
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, onnx.TensorProto.BFLOAT16)
    return onnxruntime.OrtValue.ortvalue_from_numpy(tensor.contiguous().numpy())


def _from_ort(value: onnxruntime.OrtValue) -> torch.Tensor:
    if value.element_type() == onnx.TensorProto.BFLOAT16:
        shape = value.shape()
        raw = bytearray(ctypes.string_at(value.data_ptr(), 2 * int(np.prod(shape)))) if 0 not in shape else bytearray()
        return torch.frombuffer(raw, dtype=torch.bfloat16).reshape(shape) if raw else torch.empty(shape, dtype=torch.bfloat16)
    return torch.from_numpy(np.array(value.numpy()))


def compare(
    got: Sequence[torch.Tensor],
    expected: Sequence[torch.Tensor],
    *,
    rtol: float | None = None,
    atol: float | None = None,
    outputs: Iterable[tuple[str, Any]] = (),
) -> None:
    """The same number of tensors, of the same element types and shapes, with close values (NaN is equal to NaN)."""
    if len(got) != len(expected):
        raise Mismatch(f"{len(got)} outputs, eager PyTorch has {len(expected)}")
    expected = [real(e) for e in expected]
    for i, (g, e) in enumerate(zip(got, expected, strict=True)):
        if g.dtype != e.dtype:
            raise Mismatch(f"output {i} is {g.dtype}, eager PyTorch has {e.dtype}")
        if g.shape != e.shape:
            raise Mismatch(f"output {i} has the shape {list(g.shape)}, eager PyTorch has {list(e.shape)}")
        usual = TOLERANCE.get(e.dtype, (1e-4, 1e-5))
        relative, absolute = (u if given is None else given for u, given in zip(usual, (rtol, atol), strict=True))
        try:
            torch.testing.assert_close(g, e, rtol=relative, atol=absolute, equal_nan=True)
        except AssertionError as error:
            raise Mismatch(f"output {i} {list(e.shape)}: {error}\n  got      {_few(g)}\n  expected {_few(e)}") from None
    for i, ((name, tensor_type), e) in enumerate(zip(outputs, expected, strict=False)):
        sizes = [d.dim_value if d.HasField("dim_value") else None for d in tensor_type.shape.dim]
        if len(sizes) != e.dim() or any(s is not None and s != n for s, n in zip(sizes, e.shape, strict=False)):
            raise Mismatch(f"the graph has the shape {sizes} for output {i} ({name}), which has the shape {list(e.shape)}")


def flat(value: Any) -> list[torch.Tensor]:
    """The tensors of a result in the order in which they are outputs; a number is a 0-d tensor, a float one of float64."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for v in value.values() for t in flat(v)]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in flat(v)]
    if value is None:
        return []
    return [torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)]


def real(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as the exported model has it: complex numbers are their two parts along a last axis."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _few(tensor: torch.Tensor) -> str:
    values = tensor.flatten()[:8].tolist()
    return str([round(v, 6) if isinstance(v, float) else v for v in values]) + (" ..." if tensor.numel() > 8 else "")


def _shown(command: Sequence[str]) -> str:
    return " ".join(repr(part) if re.search(r"[^\w./=:,-]", part) else part for part in command)


# ---- cases ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Route:
    """One export of a case."""

    capture: str  # traced, scripted or exported
    dynamic: bool
    opset: int
    ones: bool = False

    def __str__(self) -> str:
        sizes = "dynamic sizes" if self.dynamic else "static sizes"
        return f"{self.capture}, {sizes}, opset {self.opset}" + (", sample of 1" if self.ones else "")


@dataclass(frozen=True)
class Captured:
    """A model file; of an exported program also the program, and the names that were asked for the axes which it leaves open."""

    path: Path
    open: Names | None = None
    program: torch.export.ExportedProgram | None = None

    def takes(self, inputs: Sequence[torch.Tensor]) -> bool:
        """Whether the sizes are within those of the program. Below 2 torch.export's own bounds are no need of the model."""
        shapes = [n.meta["val"].shape for n in self.program.graph.nodes if n.name in self.program.graph_signature.user_inputs]
        for shape, t in zip(shapes, inputs, strict=True):
            for size, n in zip(shape, t.shape, strict=True):
                expr = size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(size)
                ranges = self.program.range_constraints.get(expr)
                if (expr.is_number and expr != n) or (ranges and not (ranges.lower <= max(n, 2) and n <= ranges.upper)):
                    return False
        return True

    def run(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor] | None:
        """What the exported program itself gives; None where torch cannot run it."""
        try:
            return flat(self.program.module(check_guards=False)(*(t.clone() for t in inputs))) if self.program else None
        except Exception:
            return None


def routes(case: Case, opsets: str = "", every: bool = False) -> Iterator[Route]:
    """The default opset by all routes and two of the others; with `all`, or numbers, those opsets by one route.

    torch.export takes longer than all else together. Unless `every` case is to take all routes, it is left out, with one of the
    opsets, where an earlier case of the same operator has gone through them, but for every eighth."""
    dynamic = bool(case.dims)
    usable = [o for o in OPSETS if o in case.opsets]
    first = DEFAULT_OPSET if DEFAULT_OPSET in usable else usable[-1]
    others = [o for o in ORDER if o in usable and o != first]
    only = "traced" if case.trace else "scripted" if case.script else "exported"
    if opsets:
        asked = usable if opsets == "all" else [int(o) for o in opsets.split(",")]
        yield from (Route(only, dynamic, o) for o in usable if o in asked)
        return
    whole = every or case.first or _seed(case.name) % 8 == 0
    if others:
        start = _seed(case.name) % len(others)
        others = (others[start:] + others[:start])[: 2 if whole else 1]
    if not case.trace:
        yield from (Route(only, dynamic, opset) for opset in (first, *others))
        return
    yield Route("traced", False, first)
    if dynamic:
        yield Route("traced", True, first)
    if case.script:
        yield Route("scripted", dynamic, first)
    for i, opset in enumerate(others):
        yield Route("traced", dynamic, opset, ones=dynamic and case.ones and i % 2 == 0)
    if whole and case.export and not any(isinstance(v, torch.jit.ScriptFunction) for v in case.namespace.values()):
        yield Route("exported", dynamic, first)


def verify(case: Case, opsets: str = "", every: bool = False) -> dict[str, bool]:
    """Takes the case along its routes; at the first that fails, leaves a reproduction and reports where.

    Returns for each kind of capture that was tried whether torch can make it of this case."""
    with tempfile.TemporaryDirectory(prefix="lithify-") as name, torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(name)
        module = build(case)
        sizes = case.sizes()
        samples = [draw(case, at) for at in sizes] + list(case.also)
        sizes += [{} for _ in case.also]
        expected = [_eager(case, module, at, inputs) for at, inputs in zip(sizes, samples, strict=True)]
        saved: dict[tuple[str, bool], Captured | None] = {}
        for route in routes(case, opsets, every):
            capture = (route.capture, route.ones)
            if capture not in saved:
                sample = samples[sizes.index(case.dims)] if route.ones else samples[0]
                saved[capture] = _capture(case, module, sample, folder, route)
            model = saved[capture]
            if model is None:
                if not case.trace:
                    raise Mismatch(f"{case.place}: {case.name} could not be {route.capture}")
                continue
            runs = range(len(sizes) if route.dynamic else 1)
            if model.program is not None:
                runs = [i for i in runs if model.takes(samples[i])]
            chosen = [[of[i] for i in runs] for of in (sizes, samples, expected)]
            try:
                _verify_lowest(route, lambda at, model=model, chosen=chosen: _verify_route(case, at, model, *chosen))
            except Mismatch as error:
                where = _reproduction(case, route, model, *chosen[1:])
                message = (
                    f"{case.place}: {case.name}\n{route}\n{textwrap.indent(case.source, '    ')}{error}\nto reproduce: {where}"
                )
                raise Mismatch(message) from None
        return {capture: model is not None for (capture, _), model in saved.items()}


def build(case: Case) -> nn.Module:
    """The module that the case's source describes, with weights drawn from the case's seed."""
    filename = f"<{case.place}>"
    linecache.cache[filename] = (len(case.source), None, case.source.splitlines(keepends=True), filename)
    namespace = {"__name__": f"case_{_seed(case.name)}", **case.namespace}
    exec(compile(case.source, filename, "exec"), namespace)
    module: nn.Module = namespace["Case"]()
    generator = torch.Generator().manual_seed(_seed(case.name))
    for name, inner in case.modules.items():
        inner = copy.deepcopy(inner).eval()
        _draw_weights(inner, generator)
        module.add_module(name, inner)
    for name, buffer in case.buffers.items():
        module.register_buffer(name, buffer)
    return module.eval()


def _draw_weights(module: nn.Module, generator: torch.Generator) -> None:
    """No weight is left at 0 or 1, so that an error in any of them shows."""
    for parameter in module.parameters():
        if parameter.is_floating_point():
            fan_in = max(1, parameter[0].numel()) if parameter.dim() > 1 else 4
            parameter.copy_(normal(parameter.shape, generator) * fan_in**-0.5)
    for name, buffer in module.named_buffers():
        if name.endswith("running_var"):
            buffer.copy_(torch.rand(buffer.shape, generator=generator) + 0.5)
        elif name.endswith("running_mean"):
            buffer.copy_(normal(buffer.shape, generator) * 0.3)


def draw(case: Case, at: dict[str, int]) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(_seed(case.name))
    return tuple(spec.draw(at, generator) for spec in case.inputs.values())


def _eager(case: Case, module: nn.Module, at: dict[str, int], inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    try:
        if case.dequantized:
            with Dequantized():
                module(*(t.clone() for t in inputs))
        return [t.detach().clone() for t in flat(module(*(t.clone() for t in inputs)))]
    except WrongReference as error:
        raise Mismatch(f"{case.place}: {case.name} at {at}: {error}\n{case.source}") from None
    except Exception as error:
        hint = "does a dimension need a lower bound, as in H >= 3?"
        raise Mismatch(f"{case.place}: eager PyTorch itself fails at {at}: {error}\n{case.source}{hint}") from error


def _capture(case: Case, module: nn.Module, sample: tuple[torch.Tensor, ...], folder: Path, route: Route) -> Captured | None:
    """Saves the traced, scripted or exported module; None when torch cannot script or export it."""
    path = folder / f"{route.capture}{'_ones' if route.ones else ''}.pt"
    if route.capture == "traced":
        torch.jit.trace(module, tuple(t.clone() for t in sample), check_trace=False).save(str(path))
        return Captured(path)
    if route.capture == "exported":
        module = copy.copy(module)
        module.forward = _plain_result(module.forward)  # type: ignore[method-assign]
        return save_exported(module, sample, list(case.inputs), _axes(case), path.with_suffix(".pt2"))
    try:
        scripted = torch.jit.script(module)
        scripted(*(t.clone() for t in sample))
    except Exception:  # torch raises what it likes here; what cannot be scripted is nobody's model file
        return None
    scripted.save(str(path))
    return Captured(path)


def save_exported(
    module: nn.Module, sample: tuple[torch.Tensor, ...], names: Sequence[str], axes: Names, path: Path
) -> Captured | None:
    """Saves the exported program with these axes open, or with those of them that torch leaves open when it fixes some."""
    for dim in (torch.export.Dim.DYNAMIC, torch.export.Dim.AUTO):
        dims = tuple(dict.fromkeys(axes.get(name, {}), dim) or None for name in names)
        try:
            program = torch.export.export(module, tuple(t.clone() for t in sample), dynamic_shapes=dims, strict=False)
            torch.export.save(program, str(path))
        except Exception:  # as for scripting
            continue
        return Captured(path, _open_axes(program, axes), program)
    return None


def _open_axes(program: torch.export.ExportedProgram, axes: Names) -> Names:
    """The name for each open axis; equal sizes have the first's, and sizes that depend on others have any."""
    inputs = {n.name: n.meta["val"].shape for n in program.graph.nodes if n.op == "placeholder" and n.name in axes}
    first: dict[str, str] = {}
    names: Names = {}
    for name in axes:
        for axis, dim in axes[name].items():
            size = inputs[name][axis]
            if not isinstance(size, int) and not size.node.expr.is_number:
                lone = size.node.expr.is_symbol
                names.setdefault(name, {})[axis] = first.setdefault(str(size), dim) if lone else ""
    return names


def asked(axes: Names, open_axes: Names) -> Names:
    """The axes, without those that are not open."""
    kept = {name: {i: d for i, d in given.items() if i in open_axes.get(name, {})} for name, given in axes.items()}
    return {name: given for name, given in kept.items() if given}


def _plain_result(forward: Any) -> Any:
    """torch cannot save the named tuples of its own operators."""

    @functools.wraps(forward)
    def plain(*args: Any, **kwargs: Any) -> Any:
        result = forward(*args, **kwargs)
        return tuple(result) if type(result).__module__ == "torch.return_types" else result

    return plain


def _verify_lowest(route: Route, verify_at: Callable[[Route], None]) -> None:
    """The route; where its opset cannot express the case, the lowest that can is named: it does, and the one below not."""
    try:
        return verify_at(route)
    except NeedsOpset as error:
        named = error.opset
        if named <= route.opset:
            raise Mismatch(f"opset {route.opset} is refused, and opset {named} named: {error}") from None
    try:
        verify_at(replace(route, opset=named))
    except Mismatch as error:
        raise Mismatch(f"opset {named} is named for opset {route.opset}, and does not do: {error}") from None
    if named - 1 > route.opset:
        try:
            verify_at(replace(route, opset=named - 1))
        except NeedsOpset:
            return
        raise Mismatch(f"opset {named} is named for opset {route.opset}, but {named - 1} does already")


def _verify_route(
    case: Case,
    route: Route,
    model: Captured,
    sizes: list[dict[str, int]],
    samples: list[tuple[torch.Tensor, ...]],
    expected: list[list[torch.Tensor]],
) -> None:
    out = model.path.with_suffix(f".{route.opset}.onnx")
    options = _options(case, route, model, sizes[0])
    names = (_axes(case) if model.open is None else model.open) if route.dynamic else {}
    export(model.path, out, opset=route.opset, dynamic=options.dynamic, inputs=options.inputs, flags=options.flags, names=names)
    session = Session(out, reference=bool(case.reference))
    for at, inputs, e in zip(sizes, samples, expected, strict=True):
        got = session.run(*(t.clone() for t in inputs))
        try:
            compare(got, e, rtol=case.rtol, atol=case.atol, outputs=session.outputs)
        except Mismatch as error:
            # torch.export leaves the fast path of attention, which has other results for rows that are masked throughout.
            own = model.run(inputs)
            if own is None:
                raise Mismatch(f"at {at}: {error}" if at else str(error)) from None
            compare(got, own, rtol=case.rtol, atol=case.atol, outputs=session.outputs)


@dataclass(frozen=True)
class Options:
    dynamic: Names
    inputs: list[str]
    flags: tuple[str, ...] = ()


def _axes(case: Case) -> Names:
    axes = {n: {i: str(d) for i, d in enumerate(s.shape) if isinstance(d, Dim)} for n, s in case.inputs.items()}
    return {n: a for n, a in axes.items() if a}


def _options(case: Case, route: Route, model: Captured, at: dict[str, int]) -> Options:
    """A traced file has the sizes of its sample, a scripted one needs them as options, and an exported one has every size."""
    if model.open is not None:
        return Options(asked(_axes(case), model.open), [], ("--self-check",) if case.records else ())
    if route.capture == "traced":
        return Options(_axes(case) if route.dynamic else {}, [])
    return Options({}, [_input_option(name, spec, at, route.dynamic) for name, spec in case.inputs.items()])


def _input_option(name: str, spec: Spec, at: dict[str, int], dynamic: bool) -> str:
    sizes = [f"{d}={n}" if isinstance(d, Dim) and dynamic else str(n) for d, n in zip(spec.shape, spec.sizes(at), strict=True)]
    return f"{name}:{str(spec.type.dtype).removeprefix('torch.')}[{','.join(sizes)}]"


def _seed(name: str) -> int:
    return zlib.crc32(name.encode())


# ---- reproduction ---------------------------------------------------------------------------------

SCRIPT = '''"""{name} ({place}), {route}

{source}
Run with PyTorch, onnx and onnxruntime at hand; the program is build/lithify or $LITHIFY.
"""
import os
import subprocess
from pathlib import Path

import onnx
import onnxruntime
import torch

here = Path(__file__).resolve().parent
command = {command}
command[0] = os.environ.get("LITHIFY", command[0])
subprocess.run(command, cwd=here, check=True)
onnx.checker.check_model(str(here / "model.onnx"), full_check=True)
session = onnxruntime.InferenceSession(str(here / "model.onnx"))
for inputs, expected in torch.load(here / "runs.pt"):
    got = session.run(None, {{i.name: t.numpy() for i, t in zip(session.get_inputs(), inputs)}})
    print("inputs", [list(t.shape) for t in inputs])
    for g, e in zip(got, expected, strict=True):
        g = torch.from_numpy(g)
        same = g.shape == e.shape and g.dtype == e.dtype and torch.allclose(g, e, 1e-4, 1e-5, equal_nan=True)
        print("  same" if same else f"  DIFFERENT\\n    got      {{g}}\\n    expected {{e}}")
'''


def _reproduction(
    case: Case,
    route: Route,
    model: Captured,
    samples: list[tuple[torch.Tensor, ...]],
    expected: list[list[torch.Tensor]],
) -> Path:
    """A directory with the model, the inputs and outputs of eager PyTorch, and a script that shows the failure."""
    name = re.sub(r"[^\w.=-]+", "_", case.name)[:80]
    folder = FAILURES / f"{name}-{_seed(case.name):08x}"
    folder.mkdir(parents=True, exist_ok=True)
    saved = f"model{model.path.suffix}"
    shutil.copy(model.path, folder / saved)
    written = model.path.with_suffix(f".{route.opset}.onnx")
    if written.exists():
        shutil.copy(written, folder / "model.onnx")
    torch.save([(list(i), e) for i, e in zip(samples, expected, strict=True)], folder / "runs.pt")
    options = _options(case, route, model, case.sizes()[0])
    command = export_command(
        Path(saved),
        Path("model.onnx"),
        opset=route.opset,
        dynamic=options.dynamic,
        inputs=options.inputs,
        flags=options.flags,
    )
    script = folder / "reproduce.py"
    script.write_text(SCRIPT.format(name=case.name, place=case.place, route=route, source=case.source, command=command))
    return script
