"""Time and memory of `lithify export` beside those of torch.onnx.export and of copying the file, in one run.

    .venv/bin/python bench/run.py [resnet50 bert_base ...] [--opset 18]

Every torch.onnx.export has a separate process, and its time is that of the call alone, after all imports and with the model
built and a tiny one exported to warm up; the time of lithify is that of its whole process on the saved .pt, the best of several.
A model that ends in .pt2 ("gpt2_24.pt2") is saved by torch.export, and has no peers to compare with.
With --live, it is the whole call from a live model to a file: lithify.export beside both modes of torch.onnx.export, alternating
in one process after a warm-up, on all models of the tests or those that are named. Times are processor time, on one thread, and
the best of several.
With --slim, the nodes that OnnxSlim leaves of torch's files are counted as well. Ends with exit code 1 when a goal is missed (the
goals are in GOALS).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.models import Model

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "python")]
LITHIFY = os.environ.get("LITHIFY", str(ROOT / "build" / "lithify"))
REPEATS = 5
PEERS = ("dynamo", "torchscript")

# At least so many times faster; at most so much of the time of a copy and so many milliseconds more; at most so many MB.
GOALS = {"dynamo": 50.0, "torchscript": 10.0, "copy": 1.5, "copy_ms": 50.0, "copy_ms.pt2": 100.0, "memory": 100.0}

# Of lithify.export: the median of how many times faster, the least, and the MB above the model at its peak on one model.
LIVE_GOALS = {"dynamo": 10.0, "torchscript": 1.0, "memory": 150.0}
LIVE_MEMORY_OF = "gpt2"
LIVE_ROUNDS = 3, 50  # at least, and at most while they take less than a second


@dataclass
class Row:
    model: str
    megabytes: float
    lithify: float
    copy: float
    memory: float
    nodes: dict[str, int] = field(default_factory=dict)
    peers: dict[str, float] = field(default_factory=dict)


# ---- one measurement, in a separate process ------------------------------------------------------


def capture(model: str, out: Path) -> None:
    """Saves the traced or exported model, and how to name its axes beside it."""
    import torch

    from tests.models import LARGE, MODELS

    made = (MODELS | LARGE)[model.removesuffix(".pt2")]()
    with torch.no_grad():
        if model.endswith(".pt2"):
            program = torch.export.export(made.module, made.runs[0], dynamic_shapes=_open_axes(made))
            torch.export.save(program, str(out))
        else:
            torch.jit.trace(made.module, made.runs[0], check_trace=False).save(str(out))
    out.with_suffix(".json").write_text(json.dumps(made.dynamic))


def peer(kind: str, model: str, opset: int, out: Path) -> None:
    """Prints the seconds that torch.onnx.export takes."""
    from tests.models import MODELS

    _torch_export(kind, MODELS["linear"](), opset, out)
    print(json.dumps(_torch_export(kind, MODELS[model](), opset, out)))


def live(model: str, opset: int, out: Path) -> None:
    """Prints the seconds of lithify.export and both modes of torch.onnx.export, and by what MB memory grows in the first."""
    import torch

    import lithify
    from tests.models import MODELS

    torch.set_num_threads(1)

    def export(made: Model) -> list[float]:
        before = _memory("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        start = time.process_time()
        lithify.export(made.module, made.runs[0], out, dynamic_axes=made.dynamic, opset_version=opset, skip_sync=True)
        return [time.process_time() - start, _memory("VmHWM") - before]

    small = MODELS["linear"]()
    export(small)
    made = MODELS[model]()
    memory = export(made)[1]  # before torch.onnx.export takes some that it may give back
    times: dict[str, list[float]] = {kind: [] for kind in ("lithify", *PEERS)}
    for kind in PEERS:
        _torch_export(kind, small, opset, out)
        least, most = (1, 1) if kind == "dynamo" else LIVE_ROUNDS
        with contextlib.suppress(Exception):  # there are models that it cannot export
            while len(times[kind]) < least or (len(times[kind]) < most and sum(times[kind]) < 1):
                times["lithify"].append(export(made)[0])
                times[kind].append(_torch_export(kind, made, opset, out, time.process_time))
    print(json.dumps({"memory": memory, **times}))


def _memory(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field + ":")) / 1024


def _open_axes(made: Model) -> tuple[Any, ...]:
    import torch

    return tuple(dict.fromkeys(axes, torch.export.Dim.DYNAMIC) or None for axes in made.axes)


def _torch_export(kind: str, made: Model, opset: int, out: Path, clock: Callable[[], float] = time.perf_counter) -> float:
    import torch

    options: dict[str, Any] = {"input_names": made.names, "opset_version": opset}
    if kind == "dynamo":
        options |= {"dynamo": True, "dynamic_shapes": _open_axes(made), "verbose": False}
    else:
        options |= {"dynamo": False, "dynamic_axes": made.dynamic}
    with contextlib.redirect_stdout(sys.stderr):
        start = clock()
        torch.onnx.export(made.module, made.runs[0], str(out), **options)
        return clock() - start


# ---- the run --------------------------------------------------------------------------------------


def in_process(*args: str) -> str:
    env = os.environ | {"PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, __file__, *args], capture_output=True, text=True, env=env)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])
    return done.stdout


def lithify(model: Path, out: Path, opset: int) -> list[str]:
    axes = json.loads(model.with_suffix(".json").read_text())
    command = [LITHIFY, "export", str(model), "-o", str(out), "--opset", str(opset), "-q", "--skip-sync"]
    for name, dims in axes.items():
        command += ["--dynamic", f"{name}:" + ",".join(f"{axis}={dim}" for axis, dim in dims.items())]
    return command


def best(action: list[str] | tuple[Path, Path], out: Path) -> float:
    """The least seconds of several runs; each writes a new file."""
    times = []
    for _ in range(REPEATS):
        out.unlink(missing_ok=True)
        os.sync()
        start = time.perf_counter()
        if isinstance(action, tuple):
            shutil.copyfile(*action)
        else:
            subprocess.run(action, check=True)
        times.append(time.perf_counter() - start)
    return min(times)


def peak_anonymous(command: list[str]) -> float:
    """The highest RssAnon of the process in MB, looked at every millisecond."""
    peak = 0
    with subprocess.Popen(command) as process:
        status = Path(f"/proc/{process.pid}/status")
        while process.poll() is None:
            for line in status.read_text().splitlines():
                if line.startswith("RssAnon:"):
                    peak = max(peak, int(line.split()[1]))
            time.sleep(0.001)
    if process.returncode != 0:
        raise RuntimeError(f"exit code {process.returncode} from {command}")
    return peak / 1024


def count_nodes(path: Path) -> int:
    import onnx

    return len(onnx.load(str(path), load_external_data=False).graph.node)


def measure(model: str, opset: int, slim: bool, folder: Path) -> Row:
    exported = model.endswith(".pt2")
    saved, out = folder / (model if exported else f"{model}.pt"), folder / f"{model}.onnx"
    in_process("capture", model, str(saved))
    command = lithify(saved, out, opset)
    memory = peak_anonymous(command)
    seconds = best(command, out)
    row = Row(model, saved.stat().st_size / 2**20, seconds, best((saved, folder / "copy"), folder / "copy"), memory)
    row.nodes["lithify"] = count_nodes(out)
    for kind in () if exported else PEERS:
        theirs = folder / f"{model}.{kind}.onnx"
        try:
            row.peers[kind] = float(in_process("peer", kind, model, str(opset), str(theirs)))
            row.nodes[kind] = count_nodes(theirs)
            if slim:
                subprocess.run([Path(sys.executable).with_name("onnxslim"), theirs, theirs], check=True, capture_output=True)
                row.nodes[f"{kind}+slim"] = count_nodes(theirs)
        except (RuntimeError, subprocess.CalledProcessError) as error:
            print(f"{model}, {kind}: {str(error).strip().splitlines()[-1]}", file=sys.stderr)
    return row


def report(rows: list[Row]) -> bool:
    """Prints the tables; true when every goal is reached."""
    reached = True

    def goal(met: bool) -> str:
        nonlocal reached
        reached = reached and met
        return "" if met else " (!)"

    print(f"\n{'model':<14}{'file MB':>9}{'lithify s':>11}{'copy s':>9}{'of copy':>9}{'RssAnon MB':>12}", end="")
    print("".join(f"{kind + ' s':>15}{'faster':>12}" for kind in PEERS))
    for row in rows:
        more = GOALS["copy_ms.pt2" if row.model.endswith(".pt2") else "copy_ms"] / 1000
        within = row.lithify <= GOALS["copy"] * row.copy + more
        ratio = f"{row.lithify / row.copy:.2f}x{goal(within)}"
        memory = f"{row.memory:.0f}{goal(row.memory <= GOALS['memory'])}"
        print(f"{row.model:<14}{row.megabytes:>9.0f}{row.lithify:>11.3f}{row.copy:>9.3f}{ratio:>9}{memory:>12}", end="")
        for kind in PEERS:
            if kind in row.peers:
                times = row.peers[kind] / row.lithify
                print(f"{row.peers[kind]:>15.2f}{f'{times:.0f}x{goal(times >= GOALS[kind])}':>12}", end="")
            else:
                print(f"{'-':>15}{'':>12}", end="")
        print()
    kinds = list(dict.fromkeys(kind for row in rows for kind in row.nodes))
    print(f"\n{'nodes':<14}" + "".join(f"{kind:>18}" for kind in kinds))
    for row in rows:
        print(f"{row.model:<14}" + "".join(f"{row.nodes.get(kind, '-'):>18}" for kind in kinds))
    print(
        f"\ngoals: {GOALS['dynamo']:.0f}x and {GOALS['torchscript']:.0f}x faster than the two modes of torch.onnx.export, ",
        end="",
    )
    print(
        f"{GOALS['copy']}x a copy + {GOALS['copy_ms']:.0f} ms, RssAnon {GOALS['memory']:.0f} MB;",
        "all reached" if reached else "(!) missed",
    )
    return reached


def report_live(models: list[str], opset: int, folder: Path) -> bool:
    """Measures and prints a row for each model; true when every goal is reached."""
    print(f"{'model':<22}{'lithify s':>10}{'peak MB':>9}" + "".join(f"{kind + ' s':>15}{'faster':>9}" for kind in PEERS))
    ratios: dict[str, list[float]] = {kind: [] for kind in PEERS}
    reached = True
    for model in models:
        out = folder / f"{model}.onnx"
        times = json.loads(in_process("live", model, str(opset), str(out)))
        seconds, memory = min(times["lithify"]), times["memory"]
        reached = reached and (model != LIVE_MEMORY_OF or memory <= LIVE_GOALS["memory"])
        print(f"{model:<22}{seconds:>10.3f}{memory:>9.0f}", end="", flush=True)
        for kind in PEERS:
            if not times[kind]:
                print(f"{'-':>15}{'':>9}", end="")
                continue
            theirs = min(times[kind])
            ratios[kind].append(theirs / seconds)
            print(f"{theirs:>15.3f}{f'{theirs / seconds:.1f}x':>9}", end="", flush=True)
        print()
    median, least = statistics.median(ratios["dynamo"] or [0.0]), min(ratios["torchscript"], default=0.0)
    reached = reached and median >= LIVE_GOALS["dynamo"] and least >= LIVE_GOALS["torchscript"]
    print(
        f"\ndynamo: {median:.1f}x in the median, {LIVE_GOALS['dynamo']:.0f}x is wanted;",
        f"torchscript: {least:.1f}x at least, {LIVE_GOALS['torchscript']:.0f}x is wanted;",
        f"at most {LIVE_GOALS['memory']:.0f} MB for {LIVE_MEMORY_OF}:",
        "all reached" if reached else "missed",
    )
    return reached


def main() -> int:
    if len(sys.argv) > 1 and sys.argv[1] == "live":
        live(sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
        return 0
    if len(sys.argv) > 1 and sys.argv[1] == "capture":
        capture(sys.argv[2], Path(sys.argv[3]))
        return 0
    if len(sys.argv) > 1 and sys.argv[1] == "peer":
        peer(sys.argv[2], sys.argv[3], int(sys.argv[4]), Path(sys.argv[5]))
        return 0
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="*")
    parser.add_argument("--opset", type=int, default=18)
    parser.add_argument("--slim", action="store_true", help="count the nodes that OnnxSlim leaves as well")
    parser.add_argument("--live", action="store_true", help="from live models, by lithify.export")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lithify-bench-") as folder:
        if args.live:
            from tests.models import MODELS

            return 0 if report_live(args.models or list(MODELS), args.opset, Path(folder)) else 1
        rows = []
        for model in args.models or ["resnet50", "bert_base", "gpt2_24.pt2"]:
            print(f"measuring {model} ...", file=sys.stderr, flush=True)
            rows.append(measure(model, args.opset, args.slim, Path(folder)))
        return 0 if report(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
