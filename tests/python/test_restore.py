"""A model is left as it was by every kind of capture: attributes, caches, counters, tensors, and what its code keeps."""

from __future__ import annotations

import contextlib
import functools
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Any

import onnxruntime
import pytest
import torch
from torch import nn

import lithify
from lithify import _restore
from tests.vision import torchvision

Tensor = torch.Tensor


class Counter(nn.Module):
    n = 0
    runs = 0

    def forward(self, x: Tensor) -> Tensor:
        self.n += 1
        type(self).runs += 1
        return x * 2


class Filled(nn.Module):
    """Computes a table in the first run."""

    def __init__(self) -> None:
        super().__init__()
        self.table: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.table is None:
            self.table = torch.arange(x.shape[1]) * 2.0
        return x + self.table[: x.shape[1]]


class BySize(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cache: dict[int, Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        n = int(x.shape[1])
        if n not in self.cache:
            self.cache[n] = x.new_ones(n).cumsum(0)
        return x * self.cache[n]


class Containers(nn.Module):
    """Lists, sets, queues, nested ones, and an object that keeps something."""

    class Memory:
        def __init__(self) -> None:
            self.last: Tensor | None = None
            self.seen = [1]

    def __init__(self) -> None:
        super().__init__()
        self.memory = self.Memory()
        self.history: list[Any] = [torch.zeros(2)]
        self.shapes: set[Any] = {(1, 2)}
        self.recent: deque[Any] = deque([1, 2], maxlen=2)
        self.nested: dict[str, Any] = {"a": [1, {"b": []}], "c": ([1],)}
        self.ordered = OrderedDict(first=1)

    def forward(self, x: Tensor) -> Tensor:
        y = x + 1
        self.memory.last = y
        self.memory.seen.append(int(x.shape[0]))
        self.memory.added = y  # type: ignore[attr-defined]
        self.history.append(y)
        self.shapes.add(tuple(x.shape))
        self.recent.append(y)
        self.nested["a"][1]["b"].append(y)
        self.nested["c"][0].append(y)
        self.nested["new"] = y
        self.ordered.pop("first", None)
        self.ordered["other"] = y
        return y


class InPlace(nn.Module):
    """Writes to tensors that it holds: a buffer, an attribute, one in a list, a parameter, and through views."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))
        self.plain = torch.zeros(4)
        self.listed = [torch.zeros(2, 2)]
        self.shared = self.total[1:3]
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        y = x.sum(0)
        with torch.no_grad():
            self.total.add_(1)
            self.plain.mul_(2).add_(3)
            self.listed[0][0].fill_(5)
            self.weight.data.mul_(0.5)
        return y * 2


class Replaced(nn.Module):
    """Registers its buffer again, and sets new attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.ones(4), persistent=False)
        self.inner = nn.Sequential(nn.Linear(4, 4), Filled())

    def forward(self, x: Tensor) -> Tensor:
        self.register_buffer("table", torch.arange(x.shape[1]).float(), persistent=False)
        self.register_buffer("more", x.sum())
        self.size = x.shape
        self.last = x
        self.inner[0].note = x.shape[0]
        self.inner[0].training = True
        return self.inner(x) + self.table


@functools.lru_cache
def positions(n: int) -> Tensor:
    return torch.arange(n) + torch.zeros(n)


TABLES: dict[int, Tensor] = {}
LAST: Tensor | None = None


def table(n: int) -> Tensor:
    global LAST
    if n not in TABLES:
        TABLES[n] = LAST = positions(n) * 2
    return TABLES[n]


def memoized(function: Callable[[int], Tensor]) -> Callable[[int], Tensor]:
    known: dict[int, Tensor] = {}

    def call(n: int) -> Tensor:
        if n not in known:
            known[n] = function(n)
        return known[n]

    return call


@memoized
def ones(n: int) -> Tensor:
    return torch.ones(n)


class Global(nn.Module):
    """Its functions keep tables of their results."""

    @functools.lru_cache  # noqa: B019
    def scale(self, n: int) -> Tensor:
        return torch.full((n,), 3.0)

    def forward(self, x: Tensor) -> Tensor:
        n = int(x.shape[1])
        return x * table(n) + ones(n) * self.scale(n)


class Hooked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.seen: list[Tensor] = []
        self.fc.register_forward_hook(lambda _m, _i, out: self.seen.append(out))

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x)


MODELS = [Counter, Filled, BySize, Containers, InPlace, Replaced, Global, Hooked]


def state_of(value: Any, depth: int = 8) -> Any:
    """A deep picture of a value: identities of tensors and objects, with what they hold."""
    if isinstance(value, Tensor):
        return id(value), type(value), value.detach().tolist()
    if isinstance(value, OrderedDict | dict):
        return [(state_of(k, depth - 1), state_of(v, depth - 1)) for k, v in value.items()] if depth else id(value)
    if isinstance(value, list | tuple | deque):
        return type(value), [state_of(v, depth - 1) for v in value] if depth else id(value)
    if isinstance(value, set):
        return set(value)
    if isinstance(value, nn.Module | Containers.Memory):
        return id(value), state_of(vars(value), depth - 1) if depth else id(value)
    return value if isinstance(value, int | float | str | None) else id(value)


def state(model: nn.Module) -> Any:
    own = [state_of(vars(m)) for m in model.modules()]
    classes = [{k: state_of(v) for k, v in vars(type(m)).items() if k[:2] != "__"} for m in model.modules()]
    return own, classes, state_of(TABLES), state_of(LAST)


def captured(model: nn.Module, x: Tensor, how: Any) -> None:
    with contextlib.suppress(lithify.ExportError):  # it is left as it was all the same
        lithify.export(model, x, capture=how, dynamic_axes={"x": {0: "b", 1: "n"}}, state="frozen")


@pytest.fixture(autouse=True)
def empty_caches() -> Iterator[None]:
    """What eager runs leave in them."""
    yield
    TABLES.clear()
    positions.cache_clear()


@pytest.mark.parametrize("how", ["auto", "trace", "script", "export"])
@pytest.mark.parametrize("kind", MODELS, ids=lambda m: m.__name__)
@pytest.mark.parametrize("used", [False, True], ids=["fresh", "used"])
def test_a_capture_leaves_the_model_as_it_was(kind: type[nn.Module], how: Any, used: bool) -> None:
    x = torch.randn(3, 4)
    torch.manual_seed(0)
    model = kind().eval()
    torch.manual_seed(0)
    twin = kind().eval()
    if used:  # its caches are filled
        with torch.no_grad():
            model(x), twin(x)
    before, cached = state(model), positions.cache_info().currsize
    captured(model, x, how)
    assert state(model) == before
    assert positions.cache_info().currsize in (0, cached)  # one that grew is emptied
    with torch.no_grad():
        for size in (4, 4):
            given = torch.randn(2, size)
            torch.testing.assert_close(model(given), twin(given))


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.runs = 0

    def forward(self, x: Tensor) -> Tensor:
        self.runs += 1
        return x * self.runs


class CountsOnly(Counts):
    def forward(self, x: Tensor) -> Tensor:
        self.runs += 1
        return x * 2


def test_numbers_that_results_depend_on_and_every_run_changes() -> None:
    """A counter is state as a buffer is; one that nothing depends on is none."""
    x, dynamic = torch.randn(3, 4), {"x": {0: "batch"}}
    model = Counts()
    for how in ("auto", "trace", "export"):
        with pytest.raises(lithify.ExportError, match="LTH049: the results depend on 'runs', which every run changes"):
            lithify.export(model, x, dynamic_axes=dynamic, capture=how)  # type: ignore[arg-type]
    result = lithify.export(model, x, dynamic_axes=dynamic, state="frozen")
    assert model.runs == 0 and "'runs', which every run of the model changes" in str(result)
    assert not lithify.export(CountsOnly(), x, dynamic_axes=dynamic).messages


def test_a_function_leaves_its_tables_as_they_were() -> None:
    fc = nn.Linear(4, 4)
    seen: list[Tensor] = []

    def model(x: Tensor) -> Tensor:
        seen.append(x)
        return fc(x) * table(4)

    captured(model, torch.randn(2, 4), "trace")  # type: ignore[arg-type]
    assert seen == [] and TABLES == {} and positions.cache_info().currsize == 0


@pytest.mark.parametrize("fails", [False, True])
def test_verification_leaves_the_model_as_it_was(fails: bool) -> None:
    model, x = Containers().eval(), torch.randn(3, 4)
    result = lithify.export(model, x, capture="trace", dynamic_axes={"x": {0: "b"}}, verify=True, input_names=["x"])
    before = state(model)
    assert lithify.verify(model, result, x if not fails else x + 1)
    assert state(model) == before


def test_caches_of_transformers() -> None:
    torchvision()  # transformers imports it
    import transformers

    config = transformers.LlamaConfig(
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        vocab_size=30,
        max_position_embeddings=8,
        rope_parameters={"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0},
    )
    model = transformers.LlamaForCausalLM(config).eval()
    ids = torch.randint(0, 30, (2, 12))
    before = [state_of(vars(m), 3) for m in model.modules()]
    with _restore.undisturbed(model, None), torch.no_grad():
        first = model(ids).logits
        assert [state_of(vars(m), 3) for m in model.modules()] != before  # longer than the table of positions
    assert [state_of(vars(m), 3) for m in model.modules()] == before
    for how in ("trace", "export"):
        axes = {"input_ids": {0: "batch", 1: "sequence"}}
        with contextlib.suppress(lithify.ExportError):
            lithify.export(model, (ids,), capture=how, dynamic_axes=axes)  # type: ignore[arg-type]
        assert [state_of(vars(m), 3) for m in model.modules()] == before, how
    with torch.no_grad():
        torch.testing.assert_close(model(ids).logits, first)


def test_parameters_that_are_too_large_to_copy_are_named() -> None:
    class Decays(nn.Module):
        def __init__(self, size: int) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(size))

        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                self.weight.mul_(0.5)
            return x * 2

    small = Decays(1000)
    captured(small, torch.randn(2, 3), "trace")
    assert float(small.weight.detach()[0]) == 1
    with pytest.raises(lithify.ExportError, match="writes to its parameters when it runs, and they cannot be put back: weight"):
        lithify.export(Decays(_restore.COPIED), torch.randn(2, 3))


def test_assigned_data_and_generators_are_put_back() -> None:
    class Draws(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.generator = torch.Generator().manual_seed(3)
            self.weight = nn.Parameter(torch.zeros(4))

        def forward(self, x: Tensor) -> Tensor:
            self.weight.data = torch.rand(5, generator=self.generator)
            return x + 1

    model = Draws()
    weight, memory = model.weight, model.weight.data_ptr()
    drawn = model.generator.get_state()
    with _restore.undisturbed(model, None):
        model(torch.randn(2, 4))
        assert model.weight.shape == (5,)
    assert model.weight is weight and weight.data_ptr() == memory and weight.tolist() == [0, 0, 0, 0]
    assert torch.equal(model.generator.get_state(), drawn)


def test_flags_of_scripted_modules_are_put_back() -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.jit.script(nn.Sequential(nn.BatchNorm1d(4), nn.Dropout()))

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x)

    model = Outer().train()
    before = {name: t.clone() for name, t in model.state_dict().items()}
    lithify.export(model, torch.randn(3, 4))
    assert all(m.training for m in model.modules())
    lithify.export(model, torch.randn(3, 4), training=torch.onnx.TrainingMode.PRESERVE)
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())


def test_it_takes_no_time() -> None:
    model = nn.Sequential(*(nn.TransformerEncoderLayer(64, 4, 64) for _ in range(12)))
    modules = list(model.modules())

    def seconds() -> float:
        start = time.process_time()
        _restore._Snapshot(modules).restore()
        return time.process_time() - start

    assert min(seconds() for _ in range(5)) < 0.05


class Rolling(nn.Module):
    """Puts another tensor in the place of a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(4, 3))

    def forward(self, x: Tensor) -> Tensor:
        old = self.last[1:]
        self.last = torch.cat([old, x[None]])
        return self.last.mean(0) + old.sum(0)


class PlainState(nn.Module):
    """A tensor that is not a buffer."""

    def __init__(self, in_place: bool) -> None:
        super().__init__()
        self.sum, self.in_place = torch.zeros(3), in_place

    def forward(self, x: Tensor) -> Tensor:
        self.sum = self.sum.add_(x) if self.in_place else self.sum + x
        return self.sum * 2


class Listed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(x)
        return torch.stack(self.seen).sum(0)


class Tabled(nn.Module):
    """A buffer that is computed where the size is another than before: no state."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", None, persistent=False)
        self.n = 0

    def forward(self, x: Tensor) -> Tensor:
        if self.n != x.shape[1]:
            self.n = x.shape[1]
            self.table = torch.linspace(0, 1, self.n)
        return x + self.table


STATES = {
    "rolling": (Rolling, "last"),
    "plain": (lambda: PlainState(False), "sum"),
    "in place": (lambda: PlainState(True), "sum"),
    "list": (Listed, "seen"),
}


@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize("runs", [0, 2])
def test_tensors_that_a_model_keeps_are_state(name: str, runs: int) -> None:
    make, state = STATES[name]
    model = make()
    for _ in range(runs):
        model(torch.randn(3))
    with pytest.raises(lithify.ExportError, match=f"the results depend on '{state}'"):
        lithify.export(model, torch.randn(3))


def test_a_buffer_that_is_replaced_is_an_input_and_an_output() -> None:
    model = Rolling()
    model(torch.randn(3))
    result = lithify.export(model, torch.randn(3), state="io")
    session = onnxruntime.InferenceSession(result.bytes)
    state = model.last.numpy().copy()
    for _ in range(3):
        x = torch.randn(3)
        got, state = session.run(None, {"x": x.numpy(), "last": state})
        torch.testing.assert_close(torch.from_numpy(got), model(x))


@pytest.mark.parametrize("before", [None, 5, 7])
def test_a_table_of_another_run_is_not_state(before: int | None) -> None:
    model = Tabled()
    if before:
        model(torch.randn(2, before))
    result = lithify.export(model, torch.randn(2, 5), dynamic_axes={"x": {1: "n"}})
    session = onnxruntime.InferenceSession(result.bytes)
    for n in (5, 9, 2):
        x = torch.randn(2, n)
        assert result.claims.holds(n=n)
        torch.testing.assert_close(torch.from_numpy(session.run(None, {"x": x.numpy()})[0]), Tabled()(x))
