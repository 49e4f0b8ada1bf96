"""Small models of every kind, as a user would write them. None of them knows of ONNX."""

from __future__ import annotations

import torch
from torch import nn


class LastStep(nn.Module):
    """A recurrent layer, and a linear one on its last step."""

    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.rnn = kind(10, 20, batch_first=True)
        self.fc = nn.Linear(20, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, _ = self.rnn(x)
        return self.fc(y[:, -1, :])


class Reshape(nn.Module):
    """Sizes computed from the input's own."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(x.size(0), x.size(1) * x.size(2)) * 2


class Classifier(nn.Module):
    """Convolutions, and an average over whatever height and width the image has."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1)),
        )
        self.fc = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.body(x).flatten(1))


def encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(768, 8, 2048, batch_first=True)
    return nn.TransformerEncoder(layer, 4)


class HardCoded(nn.Module):
    """A size taken as a Python integer: a trace has it as the number of the sample."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(int(x.shape[0]), -1, 2).sum(-1)


class Branch(nn.Module):
    """A decision on contents."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            x = torch.relu(x) + 1
        return x * 2


class Loop(nn.Module):
    """A loop over the rows, however many there are."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = torch.zeros(x.size(1))
        rows: list[torch.Tensor] = []
        for i in range(x.size(0)):
            state = torch.tanh(x[i] + 0.5 * state)
            rows.append(state)
        return torch.stack(rows)


class Counter(nn.Module):
    """A result that depends on how often the model has run, which an ONNX model cannot know."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x * self.count
