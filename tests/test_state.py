"""Models that keep state from one run to the next: refused, or the state goes in and out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.driver import Session, compare, export, flat, refusal
from tests.test_cli import lithify

INPUT = ["x:float32[batch=3,4]"]


class Hidden(nn.Module):
    """Sets a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Linear(4, 4)
        self.register_buffer("hidden", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(self.cell(x) + self.hidden)
        self.hidden = y.sum(0)
        return y


class Average(nn.Module):
    """Writes to a buffer, through a view as well, and on one path only."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.ones(4))
        self.register_buffer("most", torch.zeros(2, 4))

    def forward(self, x: Tensor) -> Tensor:
        self.mean.mul_(0.9).add_(x.mean(0) * 0.1)
        if x.sum() > 0:
            self.most[1] = torch.maximum(self.most[1], x.amax(0))
        return x - self.mean + self.most[1]


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Hidden()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) * 2


class Kept(nn.Module):
    """Nothing depends on what is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("last", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        self.last = y[0]
        return y


class Counter(nn.Module):
    """Numbers of all kinds, in a branch as well."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.scale = 1.5
        self.warm = False

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        if self.warm:
            x = x * self.scale
        if x.sum() > 0:
            self.scale = self.scale * 0.5
        self.warm = self.calls > 1
        return x * self.calls


class OuterCounter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Counter()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) + self.inner.calls


class Counted(nn.Module):
    """Nothing depends on the number."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * 2


class Cache(nn.Module):
    """What is kept has no one shape."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[Tensor] = [torch.zeros(1, 4)]

    def forward(self, x: Tensor) -> Tensor:
        self.rows.append(x)
        return torch.cat(self.rows)


class Last(nn.Module):
    """None at first."""

    def __init__(self) -> None:
        super().__init__()
        self.last = None

    def forward(self, x: Tensor) -> Tensor:
        last = self.last
        y = x if last is None else x + last.sum()
        self.last = y
        return y


Last.__annotations__ = {"last": Tensor | None}  # as TorchScript reads it: no text


def scripted(net: nn.Module, path: Path) -> Path:
    torch.jit.script(net).save(str(path.with_suffix(".pt")))
    return path.with_suffix(".pt")


def exported(net: nn.Module, path: Path) -> Path:
    program = torch.export.export(net, (torch.randn(3, 4),), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},), strict=False)
    torch.export.save(program, str(path.with_suffix(".pt2")))
    return path.with_suffix(".pt2")


def command(path: Path, out: Path, *flags: str) -> tuple[str, ...]:
    inputs = [] if path.suffix == ".pt2" else ["--input", *INPUT]
    return ("export", str(path), "-o", str(out), *inputs, *flags)


@pytest.mark.parametrize(
    ("make", "save", "names"),
    [
        (Hidden, scripted, ["hidden"]),
        (Hidden, exported, ["hidden"]),
        (Average, scripted, ["mean", "most"]),
        (Outer, scripted, ["inner.hidden"]),
    ],
)
def test_state_goes_in_and_out(
    make: Callable[[], nn.Module], save: Callable[[nn.Module, Path], Path], names: list[str], tmp_path: Path, out: Path
) -> None:
    net = make().eval()
    path = save(net, tmp_path / "net")
    net = make().eval() if not list(net.parameters()) else net
    messages = refusal(lithify(*command(path, out)), "LTH049", out=out)
    assert f"'{names[0]}', which every run changes" in messages and "--state io" in messages, messages
    assert lithify(*command(path, out, "--state", "io")).returncode == 0
    session = Session(out)
    assert session.names == ["x", *names] and [n for n, _ in session.outputs][1:] == [f"{n}.next" for n in names]
    state = [net.get_buffer(name).clone() for name in names]
    for rows in (3, 1, 5):
        x = torch.randn(rows, 4)
        with torch.no_grad():
            expected = net(x)
        y, *state = session.run(x, *state)
        compare([y, *state], [expected, *(net.get_buffer(name) for name in names)])


def test_frozen(tmp_path: Path, out: Path) -> None:
    net = Hidden().eval()
    path = scripted(net, tmp_path / "net")
    assert lithify(*command(path, out, "--state", "frozen")).returncode == 0
    x = torch.randn(2, 4)
    compare(Session(out).run(x), flat(net(x).detach()))


@pytest.mark.parametrize("training", [True, False])
def test_what_no_result_depends_on(training: bool, tmp_path: Path, out: Path) -> None:
    net = Kept().train(training)
    path = scripted(net, tmp_path / "net")
    export(path, out, inputs=INPUT, names={"x": {0: "batch"}})
    x = torch.randn(5, 4)
    compare(Session(out).run(x), flat(net(x).detach()))


@pytest.mark.parametrize("make", [Counter, OuterCounter])
def test_numbers_go_in_and_out(make: Callable[[], nn.Module], tmp_path: Path, out: Path) -> None:
    path = scripted(make(), tmp_path / "net")
    messages = refusal(lithify(*command(path, out)), "LTH049", out=out)
    assert "calls', which every run changes" in messages and "test_state.py" in messages, messages
    assert lithify(*command(path, out, "--state", "io")).returncode == 0
    session = Session(out)
    prefix = "" if make is Counter else "inner."
    names = [prefix + name for name in ("calls", "scale", "warm")]
    assert session.names == ["x", *names] and [n for n, _ in session.outputs][1:] == [f"{n}.next" for n in names]
    net = make()
    counter = net if make is Counter else net.inner
    state = [torch.tensor(0), torch.tensor(1.5, dtype=torch.float64), torch.tensor(False)]
    for i in range(5):
        x = torch.randn(3, 4).abs() * (-1) ** i
        y, *state = session.run(x, *state)
        compare([y], flat(net(x)))
        assert [t.item() for t in state] == [counter.calls, counter.scale, counter.warm]


def test_a_number_that_no_result_depends_on(tmp_path: Path, out: Path) -> None:
    path = scripted(Counted(), tmp_path / "net")
    done = lithify(*command(path, out))
    assert done.returncode == 0 and "calls" not in done.stderr, done.stderr
    assert Session(out).names == ["x"]


def test_a_list_that_grows(tmp_path: Path, out: Path) -> None:
    path = scripted(Cache(), tmp_path / "net")
    for flags in ((), ("--state", "io")):
        messages = refusal(lithify(*command(path, out, *flags)), "LTH049", out=out)
        assert "every run appends to the list 'rows'" in messages and "--state frozen" in messages, messages
    assert lithify(*command(path, out, "--state", "frozen")).returncode == 0
    x = torch.randn(2, 4)
    compare(Session(out).run(x), flat(Cache()(x)))


def test_what_cannot_go_in_and_out_is_reset(tmp_path: Path, out: Path) -> None:
    path = scripted(Last(), tmp_path / "net")
    done = lithify(*command(path, out))
    assert done.returncode == 0 and "warning LTH049: every run sets 'last'" in done.stderr, done.stderr
    assert "test_state.py" in done.stderr  # the line
    x = torch.randn(2, 4)
    compare(Session(out).run(x), flat(Last()(x)))


class Shifted(nn.Module):
    """Computes a part of a tensor in place from another part of it."""

    def __init__(self, change: Callable[[torch.Tensor], object]) -> None:
        super().__init__()
        self.change = change

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        self.change(x)
        return x


@pytest.mark.parametrize(
    ("change", "overlap"),
    [
        (lambda x: x[:, 1:].copy_(x[:, :-1]), "error"),
        (lambda x: x[:, 1:].add_(x[:, :-1]), "error"),
        (lambda x: x.sub_(x[:, :1]), "error"),
        (lambda x: x[1:, 1:].mul_(x[:-1, :-1]), "error"),
        (lambda x: x[1:, :-1].mul_(x[:-1, 1:]), "error"),
        (lambda x: torch.add(x[:, :-1], 1, out=x[:, 1:]), "error"),
        (lambda x: x[:, :4].copy_(x[:, 2:6]), "warning"),
        (lambda x: x[:, :-1].copy_(x[:, 1:]), "warning"),
        (lambda x: x[:-1, :-1].mul_(x[1:, 1:]), "warning"),
        (lambda x: x[:, :2].copy_(x[:, 2:4]), ""),
        (lambda x: x[:, -2:].copy_(x[:, -4:-2]), ""),
        (lambda x: x[:, ::2].add_(x[:, 1::2]), ""),
        (lambda x: x[:, 0].add_(x[:, 1]), ""),
        (lambda x: x.chunk(2, 0)[0].add_(x.chunk(2, 0)[1]), ""),
        (lambda x: x[:, 1:].add_(x[:, 1:]), ""),
    ],
)
def test_writes_to_an_overlapping_part(change: Callable[[torch.Tensor], object], overlap: str, tmp_path: Path, out: Path) -> None:
    """PyTorch reads and writes in any order then, and reads first where what is read lies ahead."""
    model = Shifted(change)
    torch.jit.trace(model, torch.randn(4, 6)).save(str(tmp_path / "shifted.pt"))
    done = lithify("export", tmp_path / "shifted.pt", "-o", out, "--dynamic", "x:1=seq")
    reports = [line.split()[0] for line in done.stderr.splitlines() if "overlaps it" in line]
    assert reports == [overlap] * bool(overlap) and (done.returncode == 0) == (overlap != "error"), done.stderr
    for size in (6, 40) if overlap != "error" else ():
        x = torch.randn(4, size)
        compare(Session(out).run(x), flat(model(x)))
