"""Exports in several threads, beside a training in another: none of them notices the others."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import lithify

THREADS = 8


def models() -> list[nn.Module]:
    """Small models with state that an export must not change: dropout, statistics, random numbers, and training flags."""
    torch.manual_seed(0)
    return [
        nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)),
        nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Tanh()),
        nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.GELU()),
        nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 2, 3), nn.Flatten()),
    ]


def exported(model: nn.Module) -> bytes:
    return lithify.export(model, torch.ones(2, 4), dynamic_axes={"input": {0: "batch"}}, input_names=["input"]).bytes


def train(steps: int) -> list[torch.Tensor]:
    """What a training leaves: parameters and statistics. It has a generator of its own: the one of torch is shared by threads."""
    drawn = torch.Generator().manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
    for parameter in model.parameters():
        nn.init.normal_(parameter, generator=drawn)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(torch.randn(16, 4, generator=drawn)).square().mean()
        loss.backward()
        optimizer.step()
        assert model.training
    return [*model.state_dict().values(), torch.rand(4, generator=drawn)]


def test_exports_beside_training(request: pytest.FixtureRequest) -> None:
    each, steps = (50, 2000) if request.config.getoption("every") else (4, 150)
    alone = [exported(m) for m in models()]
    expected = train(steps)
    made = [models() for _ in range(THREADS)]  # before the training, which draws random numbers as they do
    found: list[list[torch.Tensor]] = []
    training = threading.Thread(target=lambda: found.append(train(steps)))
    training.start()

    def work(thread: int) -> list[bytes]:
        return [exported(made[thread][(thread + i) % len(alone)]) for i in range(each)]

    with ThreadPoolExecutor(THREADS) as pool:
        results = list(pool.map(work, range(THREADS)))
    training.join()
    for thread, files in enumerate(results):
        for i, file in enumerate(files):
            assert file == alone[(thread + i) % len(alone)], f"export {i} of thread {thread}"
    assert len(found) == 1, "the training failed"
    for a, b in zip(expected, found[0], strict=True):
        assert torch.equal(a, b)
