"""What programs do with their inputs and weights, whatever the operators."""

import torch
from torch import nn

from tests.cases import B, S, case, i64, x


def masked(a: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    a = a.clone()
    a[m > 0] = 0
    return a


class Tied(nn.Module):
    """One weight as the table of an embedding and as the last layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 6)
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, i: torch.Tensor) -> torch.Tensor:
        return self.head(self.embedding(i))


class Again(nn.Module):
    """A module that is called twice, and its weight used by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, a: torch.Tensor) -> torch.Tensor:
        return self.layer(torch.relu(self.layer(a))) + self.layer.weight.sum()


case(masked, x[B, S], i64(0, 2)[B, S])
case(lambda m: (1.0 - m) * -10000.0, i64(0, 2)[B, S])
case(lambda a: a, x[B, 4])
case(nn.Identity(), x[B, 4])
case(lambda a: (a, a), x[B, 4])
case(lambda a: (a, a * 2, a), x[B, 4])
case(lambda a, b: a + a * b, x[B, 4], x[B, 4])
case(lambda a, b: a * 2, x[B, 4], x[B, 3])
case(lambda a, b, c: c.relu(), x[B, 4], i64[B], x[3])
case(Tied(), i64(0, 11)[B, S])
case(nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6)), x[B, 4])
case(nn.Sequential(nn.Linear(4, 6, bias=False), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)), x[B, 4])
case(Again(), x[B, 4])
case(nn.Sequential(nn.Embedding(11, 6), nn.Linear(6, 3)), i64(0, 11)[S, B], empty=True)
case(lambda a: a.sum(0) + a.cumsum(0).sum(), x[S, 4], empty=True)
