"""Exports a handful of models and runs them in ONNX Runtime at several sizes, beside eager PyTorch.

make demo                              the .pt and .onnx files are left in build/demo
"""

from __future__ import annotations

import subprocess
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from torch import nn

from examples.models import Classifier, LastStep, Reshape, encoder

ROOT = Path(__file__).resolve().parent.parent
LITHIFY = ROOT / "build" / "lithify"
FOLDER = ROOT / "build" / "demo"
TOLERANCE = 1e-4


@dataclass
class Example:
    name: str
    module: nn.Module
    dynamic: str  # as on the command line
    sizes: list[tuple[int, ...]]  # the first is traced


def examples() -> list[Example]:
    sequences = [(2, 7, 10), (1, 7, 10), (4, 3, 10), (2, 1, 10), (5, 30, 10)]
    images = [(1, 3, 224, 224), (2, 3, 224, 224), (3, 3, 128, 160), (1, 3, 256, 96)]
    return [
        Example("linear", nn.Linear(10, 5), "input:0=batch", [(2, 10), (1, 10), (3, 10), (64, 10)]),
        Example("rnn", LastStep(nn.RNN), "x:0=batch,1=seq", sequences),
        Example("lstm", LastStep(nn.LSTM), "x:0=batch,1=seq", sequences),
        Example("gru", LastStep(nn.GRU), "x:0=batch,1=seq", sequences),
        Example("reshape", Reshape(), "x:0=batch,1=seq", [(2, 3, 4), (1, 3, 4), (4, 1, 4), (6, 5, 4)]),
        Example("cnn", Classifier(), "x:0=batch,2=height,3=width", images),
        Example("encoder", encoder(), "src:0=batch,1=seq", [(1, 10, 768), (2, 10, 768), (3, 25, 768), (1, 1, 768)]),
    ]


def export(example: Example) -> tuple[Path, float]:
    """Traces and saves the model as any user does, then exports the file."""
    saved, out = FOLDER / f"{example.name}.pt", FOLDER / f"{example.name}.onnx"
    torch.jit.trace(example.module, torch.randn(example.sizes[0])).save(str(saved))
    start = time.perf_counter()
    subprocess.run([LITHIFY, "export", saved, "-o", out, "--dynamic", example.dynamic, "-q"], check=True)
    seconds = time.perf_counter() - start
    onnx.checker.check_model(str(out), full_check=True)
    return out, seconds


def show(example: Example) -> bool:
    """Prints the rows of one model; false when ONNX Runtime and PyTorch differ at any size."""
    out, seconds = export(example)
    nodes = len(onnx.load(str(out), load_external_data=False).graph.node)
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
        head = f"{example.name:<10}{nodes:>6}{seconds * 1000:>11.0f}" if i == 0 else " " * 27
        shape = f"{_shape(size)} -> {_shape(expected.shape)}"
        print(f"{head}   {shape:<34}{difference:>12.1e}{ms:>9.1f}{'' if difference <= TOLERANCE else '   DIFFERS'}")
    return agrees


def _shape(sizes: tuple[int, ...]) -> str:
    return "x".join(map(str, sizes))


def main() -> int:
    warnings.simplefilter("ignore")
    onnxruntime.set_default_logger_severity(3)
    torch.manual_seed(0)
    FOLDER.mkdir(parents=True, exist_ok=True)
    print(f"{'model':<10}{'nodes':>6}{'export ms':>11}   {'input -> output':<34}{'max abs diff':>12}{'run ms':>9}")
    agree = True
    with torch.no_grad():
        for example in examples():
            example.module.eval()
            try:
                agree = show(example) and agree
            except subprocess.CalledProcessError:  # the program has printed the reason
                agree = False
    print(f"\nEach model was exported once, from the first size; files in {FOLDER.relative_to(ROOT)}/.")
    print("ONNX Runtime agrees with PyTorch at every size." if agree else "Some models FAILED.")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
