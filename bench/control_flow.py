"""Nodes of the control flow cases beside those that torch.onnx.export (dynamo=False) and OnnxSlim leave of them.

    .venv/bin/python -m bench.control_flow [--write]

The scripted cases of src/eval/control_cases.py are exported both ways. The 20 largest are shown, and with --write take the place
of the table in docs/control-flow.md. Constants are no nodes here, whether a file has them as initializers or as Constant; the
nodes of branches and bodies count. Ends with exit code 1 when a graph of ours is larger than a right one of torch's.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import sys
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

import onnx
import torch

from tests import driver
from tests.cases import Case, load

ROOT = Path(__file__).resolve().parent.parent
LARGEST = 20
OPSET = 18
PAGE = ROOT / "docs" / "control-flow.md"
TABLE = re.compile(r"(?<=<!-- nodes -->\n).*?(?=<!-- end -->)", re.DOTALL)


@dataclass
class Row:
    case: str
    ours: int
    theirs: int | None  # None where torch refuses
    right: bool  # theirs

    @property
    def larger(self) -> bool:
        return self.theirs is not None and self.right and self.ours > self.theirs

    def __str__(self) -> str:
        theirs = "refused" if self.theirs is None else f"{self.theirs}" if self.right else f"{self.theirs}, wrong"
        return f"| {self.case} | {self.ours} | {theirs} |"


def count(graph: onnx.GraphProto) -> int:
    inner = sum(count(a.g) for node in graph.node for a in node.attribute if a.type == onnx.AttributeProto.GRAPH)
    return inner + sum(node.op_type != "Constant" for node in graph.node)


def export_by_torch(case: Case, scripted: torch.jit.ScriptModule, sample: tuple[torch.Tensor, ...], out: Path) -> None:
    import onnxslim

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        torch.onnx.export(
            scripted,
            sample,
            str(out),
            dynamo=False,
            opset_version=OPSET,
            input_names=list(case.inputs),
            dynamic_axes=driver._axes(case),
        )
        onnxslim.slim(str(out), str(out))


def measure(case: Case, folder: Path) -> Row | None:
    module, sizes = driver.build(case), case.sizes()
    route = driver.Route("scripted", bool(case.dims), OPSET)
    samples = [driver.draw(case, at) for at in sizes]
    captured = driver._capture(case, module, samples[0], folder, route)
    if captured is None:
        return None
    options = driver._options(case, route, captured, sizes[0])
    ours = driver.export(captured.path, folder / "ours.onnx", opset=OPSET, inputs=options.inputs, names=driver._axes(case))
    out, right, name = folder / "theirs.onnx", True, case.name.removeprefix("control-").split("(")[0]
    try:
        export_by_torch(case, torch.jit.script(module), samples[0], out)
    except Exception:  # torch raises what it likes here
        return Row(name, count(ours.graph), None, False)
    try:
        session = driver.Session(out)
        for inputs in [*samples, *case.also]:
            driver.compare(session.run(*inputs), driver.flat(module(*(t.clone() for t in inputs))), rtol=1e-3, atol=1e-4)
    except Exception:  # of the runtime, or a difference
        right = False
    return Row(name, count(ours.graph), count(onnx.load(str(out)).graph), right)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put the table into docs/control-flow.md")
    args = parser.parse_args()
    rows = []
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in load():
            if case.place.startswith("src/eval/control_cases.py") and case.script and not case.trace and not case.xfail:
                with tempfile.TemporaryDirectory(prefix="lithify-") as folder:
                    rows.append(measure(case, Path(folder)))
    found = sorted((row for row in rows if row), key=lambda row: -row.ours)
    lines = ["| case | lithify | torch + OnnxSlim |", "|---|---|---|", *map(str, found[:LARGEST])]
    print("\n".join(lines))
    larger = [row for row in found if row.larger]
    print(f"\n{len(found)} cases; larger than torch's:", ", ".join(f"{r.case} ({r.ours}, {r.theirs})" for r in larger) or "none")
    refused, wrong = sum(r.theirs is None for r in found), sum(r.theirs is not None and not r.right for r in found)
    print(f"torch refuses {refused} and is wrong in {wrong}")
    if args.write:
        PAGE.write_text(TABLE.sub("\n".join(lines).replace("\\", "\\\\") + "\n", PAGE.read_text()))
    return 1 if larger else 0


if __name__ == "__main__":
    sys.exit(main())
