"""Exports a handful of models and runs them in ONNX Runtime at several sizes, beside eager PyTorch.

make demo                              the .pt and .onnx files are left in build/demo
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from torch import nn

from examples.models import Branch, Classifier, Counter, HardCoded, LastStep, Loop, Reshape, encoder

ROOT = Path(__file__).resolve().parent.parent
LITHIFY = ROOT / "build" / "lithify"
FOLDER = ROOT / "build" / "demo"
TOLERANCE = 1e-4


@dataclass
class Example:
    name: str
    module: nn.Module
    sizes: list[tuple[int, ...]]  # the first is the sample
    flags: list[str]  # of the command line
    scripted: bool = False


def examples() -> list[Example]:
    sequences = [(2, 7, 10), (1, 7, 10), (4, 3, 10), (5, 30, 10)]
    images = [(1, 3, 224, 224), (2, 3, 224, 224), (3, 3, 128, 160)]
    rows = [(4, 3), (1, 3), (9, 3)]

    def dynamic(axes: str) -> list[str]:
        return ["--dynamic", axes]

    return [
        Example("linear", nn.Linear(10, 5), [(2, 10), (1, 10), (64, 10)], dynamic("input:0=batch")),
        Example("rnn", LastStep(nn.RNN), sequences, dynamic("x:0=batch,1=seq")),
        Example("lstm", LastStep(nn.LSTM), sequences, dynamic("x:0=batch,1=seq")),
        Example("gru", LastStep(nn.GRU), sequences, dynamic("x:0=batch,1=seq")),
        Example("reshape", Reshape(), [(2, 3, 4), (1, 3, 4), (6, 5, 4)], dynamic("x:0=batch,1=seq")),
        Example("cnn", Classifier(), images, [*dynamic("x:0=batch,2=height,3=width"), "--opset", "13"]),
        Example("encoder", encoder(), [(1, 10, 768), (2, 10, 768), (3, 25, 768)], dynamic("src:0=batch,1=seq")),
        Example("hardcoded", HardCoded(), [(5, 6), (1, 6), (8, 6)], dynamic("x:0=batch")),
        Example("branch", Branch(), rows, ["--input", "x:float32[rows,3]"], scripted=True),
        Example("loop", Loop(), rows, ["--input", "x:float32[rows,3]"], scripted=True),
    ]


def lithify(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(LITHIFY), *map(str, words)], capture_output=True, text=True)


def saved(name: str, module: nn.Module, sample: torch.Tensor, scripted: bool = False) -> Path:
    """Captures and saves the model as any user does."""
    path = FOLDER / f"{name}.pt"
    program = torch.jit.script(module) if scripted else torch.jit.trace(module, sample, check_trace=False)
    program.save(str(path))
    return path


def export(example: Example) -> tuple[Path, float, dict[str, Any]]:
    """The file, the seconds that the program took, and what it reports."""
    path = saved(example.name, example.module, torch.randn(example.sizes[0]), example.scripted)
    start = time.perf_counter()
    done = lithify("export", path, *example.flags, "--json")
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        raise SystemExit(done.stdout)
    out = path.with_suffix(".onnx")
    onnx.checker.check_model(str(out), full_check=True)
    return out, seconds, json.loads(done.stdout)


def show(example: Example) -> bool:
    """Prints the rows of one model; false when ONNX Runtime and PyTorch differ at any size."""
    out, seconds, report = export(example)
    session = onnxruntime.InferenceSession(str(out), providers=["CPUExecutionProvider"])
    agrees = True
    for i, size in enumerate(example.sizes):
        x = torch.randn(size)
        expected = example.module(x).numpy()
        start = time.perf_counter()
        (got,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        ms = (time.perf_counter() - start) * 1000
        difference = float(np.abs(got - expected).max()) if got.shape == expected.shape else float("inf")
        agrees = agrees and difference <= TOLERANCE
        head = f"{example.name:<10}{sum(report['nodes'].values()):>6}{seconds * 1000:>10.0f}" if i == 0 else " " * 26
        shape = f"{_shape(size)} -> {_shape(expected.shape)}"
        print(f"{head}   {shape:<34}{difference:>12.1e}{ms:>9.1f}{'' if difference <= TOLERANCE else '   DIFFERS'}")
    for message in report["messages"]:
        if message["code"] == "LTH062":
            print(f"{'':<29}repaired: {message['text'][:68]}")
    return agrees


def show_refusal() -> bool:
    """What cannot be right is not written: the message, the line and the fix."""
    path = saved("counter", Counter(), torch.ones(2, 3))
    done = lithify("export", path)
    print(f"\n{_bold('A model that is refused')}, since its results depend on earlier runs (exit code {done.returncode}):")
    for line in done.stderr.splitlines():
        print(textwrap.fill(line, 100, initial_indent="  ", subsequent_indent="      "))
    return done.returncode == 1 and not path.with_suffix(".onnx").exists()


def _bold(text: str) -> str:
    return f"\033[1m{text}\033[0m" if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else text


def _shape(sizes: tuple[int, ...]) -> str:
    return "x".join(map(str, sizes))


def main() -> int:
    warnings.simplefilter("ignore")
    onnxruntime.set_default_logger_severity(3)
    torch.manual_seed(0)
    FOLDER.mkdir(parents=True, exist_ok=True)
    print(_bold(f"{'model':<10}{'nodes':>6}{'export ms':>10}   {'input -> output':<34}{'max abs diff':>12}{'run ms':>9}"))
    agree = True
    with torch.no_grad():
        for example in examples():
            example.module.eval()
            agree = show(example) and agree
    refused = show_refusal()
    folder = FOLDER.relative_to(ROOT)
    print(f"\nEach model was exported once, from its first size; the files are in {folder}/. Look into one:")
    print(f"  build/lithify show {folder}/encoder.onnx")
    print(f"  build/lithify diff {folder}/lstm.onnx {folder}/gru.onnx")
    print("ONNX Runtime agrees with PyTorch at every size." if agree and refused else "Some models FAILED.")
    return 0 if agree and refused else 1


if __name__ == "__main__":
    sys.exit(main())
