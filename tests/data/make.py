"""Writes the model files of this folder and what eager PyTorch computes with them.

    python3 tests/data/make.py        with the torch of Debian 12 (1.13), from its package python3-torch

The files show that what older releases wrote is still read. Each NAME.pt has a NAME.npz beside it, with the arrays
`RUN.in.I` and `RUN.out.I`; files.json holds the input specs for the exporter, as files of that time do not say them.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

HERE = Path(__file__).resolve().parent


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU6(), nn.MaxPool2d(2))
        self.head = nn.Linear(4, 3)
        self.body[1].running_mean.normal_(0, 0.2)
        self.body[1].running_var.uniform_(0.5, 1.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        return self.head(y.mean([2, 3]).view(x.size(0), -1))


class Recurrent(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.embedding = nn.Embedding(11, 6)
        self.lstm = nn.LSTM(6, 5, num_layers=2, bidirectional=True, batch_first=True)
        self.heads = nn.ModuleList([nn.Linear(10, 3), nn.Linear(10, 2)])

    def forward(self, ids: torch.Tensor) -> list[torch.Tensor]:
        y, (h, c) = self.lstm(self.embedding(ids))
        if self.kind == "last":
            y = y[:, -1]
        results = []
        for head in self.heads:
            results.append(head(y).softmax(-1))
        results.append(h + c)
        return results


class Upgraded(nn.Module):
    """The operators whose meaning or schema changed between file versions."""

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        scale = torch.full([4], 3) + torch.linspace(0, 1, 4)
        return F.gelu(x) * scale, n / 2, torch.div(n, 3, rounding_mode="floor")


def encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def floats(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes)


def ids(*sizes: int) -> torch.Tensor:
    return torch.randint(0, 11, sizes)


def write(name: str, model: nn.Module, runs: list[tuple[torch.Tensor, ...]], specs: list[str], script: bool) -> list[str]:
    model.eval()
    saved = torch.jit.script(model) if script else torch.jit.trace(model, runs[0], check_trace=False)
    saved.save(str(HERE / f"{name}.pt"))
    arrays = {}
    for i, inputs in enumerate(runs):
        outputs = model(*inputs)
        outputs = outputs if isinstance(outputs, (tuple, list)) else [outputs]
        arrays.update({f"{i}.in.{j}": t.numpy() for j, t in enumerate(inputs)})
        arrays.update({f"{i}.out.{j}": t.detach().numpy() for j, t in enumerate(outputs)})
    np.savez_compressed(HERE / f"{name}.npz", **arrays)
    return specs


def main() -> None:
    torch.manual_seed(0)
    at = [(2, 5), (1, 5), (3, 1), (4, 7)]
    images = [(floats(b, 3, h, w),) for b, h, w in [(2, 8, 6), (1, 8, 6), (3, 2, 9)]]
    with torch.no_grad():
        files = {
            "linear": write("linear", nn.Linear(4, 3), [(floats(b, 4),) for b in (2, 1, 5)], ["input:float32[B=2,4]"], False),
            "convolutions": write("convolutions", Convolutions(), images, ["x:float32[B=2,3,H=8,W=6]"], False),
            "recurrent": write("recurrent", Recurrent("last"), [(ids(*s),) for s in at], ["ids:int64[B=2,S=5]"], True),
            "upgraded": write(
                "upgraded",
                Upgraded(),
                [(floats(b, 4), ids(b, 4) - 5) for b in (2, 1, 3)],
                ["x:float32[B=2,4]", "n:int64[B=2,4]"],
                True,
            ),
            "encoder": write("encoder", encoder(), [(floats(*s, 8),) for s in at], ["src:float32[B=2,S=5,8]"], False),
        }
    (HERE / "files.json").write_text(json.dumps(files, indent=2) + "\n")


if __name__ == "__main__":
    main()
