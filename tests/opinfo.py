"""PyTorch's own operator database (op_db, thousands of samples) through the exporter, and the table of what passes.

    .venv/bin/python -m tests.opinfo [NAME ...] [--dtypes float32] [--routes trace,export] [--samples 4] [--out FILE]

Each sample is captured by tracing and by torch.export. It is exported with static sizes, and again
with a dynamic first axis: that of the first input, and of the inputs that have the same size. The
results in ONNX Runtime are compared with eager PyTorch: at the sample's size, and with a dynamic
axis also at another size that eager PyTorch and torch.export accept. The opset is 18, or the lowest
above it that has the operator. An ATen operator passes when every captured sample with it passes.
Only shapes and types are compared for results that differ between two eager runs, and for the
positions of equal elements in argsort, kthvalue, sort and topk. A dash means that it was not tried.
tests/tiers.txt lists the operators: tier 1 for those that real models use, 2 for rarer ones.
"""

from __future__ import annotations

import argparse
import collections
import json
import multiprocessing
import multiprocessing.connection
import os
import re
import sys
import tempfile
import unittest.mock
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from tests.driver import Mismatch, Session, compare, export, flat, real

ROOT = Path(__file__).resolve().parent.parent
ROUTES = ("trace", "export")
SIZES = ("static", "dynamic")
SECONDS = 300  # for one operator of the database
TIES = ("argsort", "kthvalue", "sort", "topk")  # PyTorch leaves open which of equal elements is where
NOTES = {"matrix_exp": "eager's own result is less exact, by the one in float64"}
Names = dict[str, dict[int, str]]


@dataclass
class Outcome:
    """The result for one sample on one route."""

    entry: str  # of the database
    dtype: str
    route: str
    sample: int
    operators: list[str]  # in the captured program; empty when torch could not capture it
    static: str | None = None  # the reason of a failure, empty for none; None when it was not tried
    dynamic: str | None = None

    @property
    def captured(self) -> bool:
        return bool(self.operators)


# ---- one sample -----------------------------------------------------------------------------------


def module_of(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[nn.Module, list[torch.Tensor]]:
    """A module whose inputs are the tensors among the arguments; all others are constants."""
    leaves, spec = tree_flatten((list(args), kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def call(*tensors: torch.Tensor) -> Any:
        filled = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            filled[place] = tensor
        args, kwargs = tree_unflatten(filled, spec)
        return function(*args, **kwargs)

    names = ", ".join(f"x{i}" for i in range(len(places)))
    namespace: dict[str, Any] = {"call": call, "nn": nn}
    exec(f"class Sample(nn.Module):\n    def forward(self, {names}):\n        return call({names})", namespace)
    return namespace["Sample"](), [leaves[i].detach().clone() for i in places]


def capture(
    route: str, module: nn.Module, inputs: list[torch.Tensor], folder: Path, asked: Sequence[str] = SIZES
) -> tuple[dict[str, tuple[Path, Names]], list[str]]:
    """The file to export with static, and that with dynamic sizes, the axes that are open in each, and the operators in them."""
    sample = tuple(t.clone() for t in inputs)
    if route == "trace":
        traced = torch.jit.trace(module, sample, check_trace=False)
        path = folder / "model.pt"
        traced.save(str(path))
        files = {sizes: (path, dynamic_axes(inputs) if sizes == "dynamic" else {}) for sizes in asked}
        return files, _operators(n.kind() for n in _nodes(traced.inlined_graph))
    files = {}
    for sizes in asked:
        named = dynamic_axes(inputs) if sizes == "dynamic" else {}
        dims = tuple(dict.fromkeys(named.get(f"x{i}", ()), torch.export.Dim.AUTO) or None for i in range(len(inputs)))
        program = torch.export.export(module, sample, dynamic_shapes=dims)
        given = program.graph_signature.user_inputs
        shapes = [n.meta["val"].shape for n in program.graph.nodes if n.op == "placeholder" and n.name in given]
        found = {f"x{i}": {0: ""} for i, shape in enumerate(shapes) if is_open(next(iter(shape), 0))}
        files[sizes] = folder / f"{sizes}.pt2", found
        torch.export.save(program, files[sizes][0])
    targets = (str(n.target) for n in program.graph.nodes if n.op == "call_function")
    return files, _operators(t.replace(".", "::", 1) for t in targets)


def is_open(size: int | torch.SymInt) -> bool:
    return isinstance(size, torch.SymInt) and not size.node.expr.is_number


def _nodes(graph: Any) -> Iterator[Any]:
    for node in graph.nodes():
        yield node
        for block in node.blocks():
            yield from _nodes(block)


def _operators(names: Iterable[str]) -> list[str]:
    return sorted({re.sub(r"\..*", "", n) for n in names if "::" in n and not n.startswith(("prim::", "onnx::"))})


def dynamic_axes(inputs: list[torch.Tensor]) -> Names:
    first = inputs[0].shape[:1]
    return {f"x{i}": {0: "batch"} for i, t in enumerate(inputs) if t.shape[:1] == first and first > (1,)}


def expected_of(module: nn.Module, inputs: list[torch.Tensor], name: str) -> tuple[list[torch.Tensor], list[bool]]:
    """Eager's results, and which of them have values that can be compared."""
    runs = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        with unittest.mock.patch("torch.manual_seed"):  # the database sets it in every random operator
            runs.append([real(t.detach().clone()) for t in flat(module(*(t.clone() for t in inputs)))])
    undefined = "empty" in name or name == "bernoulli"  # of one element, which is often the same
    same = [not undefined and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)) for a, b in zip(*runs, strict=True)]
    if name in TIES and not _all_differ(inputs[0]):
        same[-1] = False
    return runs[0], same


def _all_differ(values: torch.Tensor) -> bool:
    return values.unique().numel() == values.numel()


def resized(inputs: list[torch.Tensor], names: Names) -> list[torch.Tensor]:
    """One longer where an axis is open: the first row again, so that all values stay valid."""
    return [torch.cat([t, t[:1]]) if f"x{i}" in names else t for i, t in enumerate(inputs)]


Run = tuple[list[torch.Tensor], list[torch.Tensor], list[bool]]  # inputs, what eager makes of them, which of it can be compared


def try_sample(outcome: Outcome, function: Callable[..., Any], sample: Any, sizes: Sequence[str]) -> None:
    module, inputs = module_of(function, (sample.input, *sample.args), sample.kwargs)
    runs = [(inputs, *expected_of(module, inputs, outcome.entry))]
    with tempfile.TemporaryDirectory(prefix="lithify-") as name:
        try:
            models, outcome.operators = capture(outcome.route, module, inputs, Path(name), sizes)
        except Exception:  # torch raises what it likes here
            return
        for kind, (model, names) in models.items():
            if kind == "dynamic":
                try:
                    longer = resized(inputs, names)
                    runs.append((longer, *expected_of(module, longer, outcome.entry)))
                except Exception:
                    names = {}  # eager takes no other size here
                if not names:
                    continue
            setattr(outcome, kind, _failure(kind, model, names, runs))


def _failure(kind: str, model: Path, names: Names, runs: list[Run]) -> str:
    out = model.with_suffix(f".{kind}.onnx")
    named = names if model.suffix == ".pt" else {}
    try:
        try:
            export(model, out, dynamic=named, names=names)
        except Mismatch as error:
            needed = re.search(r"LTH043: .* needs opset (\d+)", str(error))
            if not needed:
                raise
            export(model, out, dynamic=named, names=names, opset=int(needed[1]))
        session = Session(out)
        for inputs, expected, comparable in runs:
            got = session.run(*(t.clone() for t in inputs))
            compare([g if c else e.to(g.dtype) for g, e, c in zip(got, expected, comparable, strict=True)], expected)
            if any(g.shape != e.shape for g, e in zip(got, expected, strict=True)):
                return f"shapes {[list(g.shape) for g in got]}, eager has {[list(e.shape) for e in expected]}"
    except (Mismatch, ValueError) as error:
        return _short(str(error))
    return ""


def _short(message: str) -> str:
    """The one line of a failure that says what is wrong."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    message = next((line for line in lines if re.search(r"LTH\d+|error:", line)), lines[0] if lines else "?")
    return re.sub(r"/\S*/", "", message)[:160]


# ---- the database ---------------------------------------------------------------------------------


def database() -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    return {f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name: op for op in op_db}


def samples_of(op: Any, dtype: torch.dtype, count: int) -> list[Any]:
    if not op.supports_dtype(dtype, "cpu"):
        return []
    torch.manual_seed(0)
    with_tensors = (s for s in op.sample_inputs("cpu", dtype, requires_grad=False) if _has_tensor(s))
    return list(islice(with_tensors, count))


def _has_tensor(sample: Any) -> bool:
    leaves = tree_flatten((sample.input, sample.args, sample.kwargs))[0]
    return any(isinstance(leaf, torch.Tensor) for leaf in leaves)


def try_entry(name: str, op: Any, options: argparse.Namespace) -> Iterator[Outcome]:
    torch.set_num_threads(1)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dtype in options.dtypes:
            try:
                samples = samples_of(op, getattr(torch, dtype), options.samples)
            except Exception:  # some entries need what is not installed here
                continue
            for i, sample in enumerate(samples):
                for route in options.routes:
                    outcome = Outcome(name, dtype, route, i, [])
                    try:
                        try_sample(outcome, op.op, sample, options.sizes)
                    except Exception as error:
                        outcome.static = outcome.dynamic = _short(f"{type(error).__name__}: {error}")
                    yield outcome


def run(names: Sequence[str], options: argparse.Namespace) -> Iterator[Outcome]:
    """Every entry in a process of its own, several at a time; one that dies or hangs counts as failed."""
    entries = database()
    context = multiprocessing.get_context("fork")
    waiting = [n for n in entries if not names or n in names]
    running: dict[Any, tuple[str, Any]] = {}

    def work(name: str, sender: multiprocessing.connection.Connection) -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        for outcome in try_entry(name, entries[name], options):
            sender.send(outcome)

    while waiting or running:
        while waiting and len(running) < options.jobs:
            name = waiting.pop(0)
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=work, args=(name, sender))
            process.start()
            sender.close()
            running[receiver] = (name, process)
        ready = multiprocessing.connection.wait(list(running), timeout=SECONDS)
        for receiver in ready or list(running):
            name, process = running[receiver]
            try:
                if not ready:
                    raise EOFError
                yield receiver.recv()
            except EOFError:
                del running[receiver]
                if not ready:
                    process.kill()
                process.join()
                if process.exitcode != 0:
                    yield Outcome(name, options.dtypes[0], options.routes[0], -1, [], *["the process died"] * 2)


# ---- the table ------------------------------------------------------------------------------------


def tiers() -> dict[str, int]:
    lines = (ROOT / "tests" / "tiers.txt").read_text().split("\n")
    return {name: int(tier) for tier, name in (line.split() for line in lines if line)}


def table(outcomes: list[Outcome]) -> str:
    """A summary by tier, element type and route, then one line for each operator that does not pass everywhere."""
    known = tiers()
    cells: dict[tuple[str, str, str], list[Outcome]] = collections.defaultdict(list)
    for o in outcomes:
        for operator in o.operators:
            if operator in known:
                cells[operator, o.dtype, o.route].append(o)
    columns = sorted({(dtype, route) for _, dtype, route in cells})
    out = ["# PyTorch's operator database", "", __doc__.split("\n\n")[2].strip(), "", "## Operators that pass", ""]
    out += ["| tier | element type | route | captured | static | dynamic |", "|---|---|---|---|---|---|"]
    for tier in (1, 2):
        for dtype, route in columns:
            met = [cells[n, dtype, route] for n in known if known[n] == tier and cells[n, dtype, route]]
            passing = [_count(sum(all(not getattr(o, sizes) for o in group) for group in met), met, sizes) for sizes in SIZES]
            out.append(f"| {tier} | {dtype} | {route} | {len(met)} | {passing[0]} | {passing[1]} |")
    out += ["", "## Operators that do not", "", "| operator | tier | element type | route | samples | static | dynamic | why |"]
    out += ["|---|---|---|---|---|---|---|---|"]
    for (name, dtype, route), group in sorted(cells.items()):
        failed = [o for o in group if o.static or o.dynamic]
        if failed:
            counts = [_count(sum(not getattr(o, sizes) for o in group), [group], sizes) for sizes in SIZES]
            why = min(((o.static or o.dynamic, o.entry) for o in failed), key=lambda w: len(w[0]))
            reason = f"{why[1]}: {NOTES.get(why[1], why[0])}".replace("|", "\\|")
            out.append(f"| {name} | {known[name]} | {dtype} | {route} | {len(group)} | {counts[0]} | {counts[1]} | {reason} |")
    return "\n".join(out) + "\n"


def _count(passing: int, groups: list[list[Outcome]], sizes: str) -> str:
    return str(passing) if any(getattr(o, sizes) is not None for group in groups for o in group) else "-"


def logged(path: Path) -> list[Outcome]:
    return [Outcome(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def asked(o: Outcome, options: argparse.Namespace) -> bool:
    return o.dtype in options.dtypes and o.route in options.routes and (not options.names or o.entry in options.names)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    comma = lambda text: text.split(",")  # noqa: E731
    parser.add_argument("names", nargs="*", help="entries of the database; all by default")
    parser.add_argument("--dtypes", type=comma, default=["float32"])
    parser.add_argument("--routes", type=comma, default=list(ROUTES))
    parser.add_argument("--sizes", type=comma, default=list(SIZES))
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, help="write the table here")
    parser.add_argument(
        "--log", type=Path, help="keep every outcome here, as lines of JSON: those of other entries and types stay in the table"
    )
    options = parser.parse_args()
    outcomes = [o for o in logged(options.log) if not asked(o, options)] if options.log else []
    if options.log:
        options.log.write_text("".join(json.dumps(asdict(o)) + "\n" for o in outcomes))
    for outcome in run(options.names, options):
        outcomes.append(outcome)
        if options.log:
            with options.log.open("a") as log:
                log.write(json.dumps(asdict(outcome)) + "\n")
        if options.names and (outcome.static or outcome.dynamic):
            print(f"{outcome.entry} {outcome.dtype} {outcome.route} {outcome.sample}: {outcome.static or outcome.dynamic}")
    text = table(outcomes)
    if options.out:
        options.out.write_text(text)
    print(text if not options.names else f"{len(outcomes)} outcomes", file=sys.stdout)


if __name__ == "__main__":
    main()
