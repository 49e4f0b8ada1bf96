"""Traces of one model in files that diverge by a branch: merged where their sizes decide on its condition, and claimed at
these sizes only."""

from __future__ import annotations

import subprocess
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.driver import LITHIFY, Session, compare, export_command, refusal, run

AXES = {"x": {0: "batch", 1: "seq"}}
Forward = Callable[[Tensor], Tensor]


def longer(x: Tensor) -> Tensor:
    return x[:, :5].sum(1) if x.shape[1] > 5 else x.sum(1) * 2


def padded(x: Tensor) -> Tensor:
    rest = x.shape[1] % 4
    if rest != 0:
        x = F.pad(x, (0, 4 - rest))
    return x.view(x.shape[0], -1, 4).sum(-1)


def one(x: Tensor) -> Tensor:
    return x[0].cumsum(0)[None] if x.shape[0] == 1 else x * 2


def levels(x: Tensor) -> Tensor:
    n = int(x.shape[1])
    if n > 8:
        return x.view(-1, n).relu()
    return x.view(-1, n).exp() if n > 4 else x.view(-1, n).sin()


def wider(x: Tensor) -> Tensor:
    return x.sum(1) if x.shape[1] > x.shape[0] else x.mean(1)


def traced(forward: Forward, sizes: Sequence[tuple[int, int]], folder: Path) -> list[Path]:
    model = type("Model", (nn.Module,), {"forward": staticmethod(forward)})()
    files = []
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i, size in enumerate(sizes):
            files.append(folder / f"{i}.pt")
            torch.jit.trace(model, torch.randn(size), check_trace=False).save(str(files[-1]))
    return files


def command(files: Sequence[Path], out: Path) -> list[str]:
    return export_command(files[0], out, dynamic=AXES, flags=[f for also in files[1:] for f in ("--also", str(also))])


@pytest.mark.parametrize(
    ("forward", "sizes"),
    [
        (longer, [(2, 7), (3, 6), (4, 5), (2, 3)]),
        (padded, [(2, 7), (3, 8), (2, 12), (4, 10), (5, 13), (3, 4)]),
        (one, [(2, 7), (1, 7), (3, 5), (1, 4)]),
        (levels, [(2, 7), (3, 8), (4, 9), (2, 11), (3, 5), (2, 4), (4, 3)]),
        (wider, [(4, 5), (5, 5), (3, 7), (6, 2), (2, 9), (7, 3), (6, 8)]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_sizes_decide(forward: Forward, sizes: list[tuple[int, int]], tmp_path: Path) -> None:
    out = tmp_path / "model.onnx"
    done = run(command(traced(forward, sizes, tmp_path), out))
    assert done.returncode == 0, done.stderr
    session = Session(out)
    for size in sizes:
        x = torch.randn(size)
        compare(session.run(x), [forward(x)], outputs=session.outputs)
        assert is_claimed(out, *size)
    assert not is_claimed(out, 9, 40)


def is_claimed(file: Path, batch: int, seq: int) -> bool:
    return subprocess.run([LITHIFY, "check", file, "--at", f"batch={batch},seq={seq}"], capture_output=True).returncode == 0


@pytest.mark.parametrize(
    ("sizes", "reason"),
    [
        ([(2, 7), (2, 20)], "leave a choice of the number in 'seq > 7'"),
        ([(2, 6), (3, 5)], "leave a choice of the condition that decides between them: "),
        ([(2, 7), (3, 20)], "leave a choice of the condition that decides between them: "),
    ],
)
def test_nothing_is_guessed(sizes: list[tuple[int, int]], reason: str, tmp_path: Path) -> None:
    def at(x: Tensor) -> Tensor:
        return x.sum(1) if x.shape[1] == sizes[0][1] else x.mean(1)

    out = tmp_path / "model.onnx"
    assert reason in refusal(run(command(traced(at, sizes, tmp_path), out)), "LTH065", out=out)
