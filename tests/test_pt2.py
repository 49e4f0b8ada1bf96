"""Archives of torch.export: layouts and releases, names of inputs, outputs and sizes, and files that are no good.

Runs on the program that $LITHIFY names, so that the same tests serve the build with sanitizers.
"""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import onnx
import pytest
import torch
from torch import nn
from torch.export import Dim

from tests.driver import Session, compare, flat
from tests.repack import as_in_2_1, as_in_2_5, layout_a, layout_b, records, saved
from tests.test_cli import MODEST, SANITIZED, answered_or_refused, file_of, lithify, refused, rezip


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Net(nn.Module):
    """Weights, buffers of both kinds, a constant, sizes in the program, and an optional tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.register_buffer("scale", torch.rand(3))
        self.register_buffer("shift", torch.rand(3), persistent=False)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = self.fc(x) * self.scale + self.shift + torch.tensor([1.0, 2.0, 3.0])
        z = torch.cat([z, y], 1).clamp(max=float("inf"))
        return z.reshape(z.shape[0] * z.shape[1], 3)[:, torch.tensor([2, 0])]


def write(module: nn.Module, args: tuple[Any, ...], path: Path, dims: Any = None, **kwargs: Any) -> Path:
    program = torch.export.export(module.eval(), args, dynamic_shapes=dims, **kwargs)
    torch.export.save(program, str(path))
    return path


@pytest.fixture(scope="session")
def net(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, nn.Module]:
    torch.manual_seed(0)
    module = Net().eval()
    dims = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC}, {0: Dim.DYNAMIC, 1: Dim.DYNAMIC})
    path = tmp_path_factory.mktemp("net") / "net.pt2"
    return write(module, (torch.randn(2, 5, 4), torch.randn(2, 3, 3)), path, dims), module


def export(model: Path, out: Path, *options: str) -> onnx.ModelProto:
    done = lithify("export", model, "-o", out, "-q", "--self-check", *options)
    assert done.returncode == 0, done.stderr
    onnx.checker.check_model(str(out), full_check=True)
    return onnx.load(str(out))


def same(module: nn.Module, out: Path, *runs: tuple[torch.Tensor, ...], **kwargs: Any) -> None:
    for run in runs:
        expected = flat(module(*(t.clone() for t in run), **kwargs))
        compare(Session(out).run(*run), expected)


def shapes(model: onnx.ModelProto) -> dict[str, list[str | int]]:
    values = [*model.graph.input, *model.graph.output]
    return {v.name: [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in values}


# ---- layouts --------------------------------------------------------------------------------------

LAYOUTS: dict[str, Callable[[Path, Path], Path]] = {
    "2.1": lambda path, out: layout_a(path, out, as_in_2_1),
    "2.5": lambda path, out: layout_a(path, out, as_in_2_5),
    "2.7": lambda path, out: layout_a(path, out),
    "2.8": layout_b,
    "now": lambda path, out: path,
}


@pytest.mark.parametrize("release", LAYOUTS)
def test_layout(release: str, net: tuple[Path, nn.Module], tmp_path: Path, out: Path) -> None:
    path, module = net
    model = LAYOUTS[release](path, tmp_path / "old.pt2")
    exported = export(model, out, "--dynamic", "x:0=batch,1=seq", "--dynamic", "y:1=more")
    assert shapes(exported)["x"] == ["batch", "seq", 4] and shapes(exported)["y"] == ["batch", "more", 3]
    assert {"fc.bias"} <= {i.name for i in exported.graph.initializer}
    same(module, out, *((torch.randn(b, s, 4), torch.randn(b, m, 3)) for b, s, m in ((2, 5, 3), (1, 1, 1), (4, 2, 7))))


def test_deflated_archives_are_read(net: tuple[Path, nn.Module], tmp_path: Path, out: Path) -> None:
    import zipfile

    export(file_of(tmp_path, rezip(net[0].read_bytes(), {}, zipfile.ZIP_DEFLATED)), out)


class Weights(nn.Module):
    """Views, shared storages, empty and 0-d tensors."""

    def __init__(self) -> None:
        super().__init__()
        base = torch.arange(24.0)
        self.register_buffer("turned", base.view(4, 6).t())
        self.register_buffer("part", base[6:18].view(3, 4))
        self.register_buffer("wide", torch.ones(1, 4).expand(3, 4))
        self.register_buffer("number", torch.tensor(3))
        self.register_buffer("empty", torch.zeros(0, 4))
        self.first, self.tied = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
        self.tied.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.tied(self.first(x)) + self.part + self.turned[:3, :4] * self.wide + self.number
        return torch.cat([y, self.empty])


@pytest.mark.parametrize("release", ["2.7", "2.8", "now"])
def test_weights(release: str, tmp_path: Path, out: Path) -> None:
    module = Weights()
    path = write(module, (torch.randn(3, 4),), tmp_path / "weights.pt2")
    exported = export(LAYOUTS[release](path, tmp_path / "old.pt2"), out)
    assert [len(i.raw_data) for i in exported.graph.initializer].count(64) == 1, "the tied weight is written once"
    same(module, out, (torch.randn(3, 4),))


# ---- inputs and outputs ---------------------------------------------------------------------------


class Tree(nn.Module):
    def forward(self, pair: Any, table: Any, *, flag: bool = True, scale: float = 2.0) -> Any:
        a, b = pair
        return {"sum": a + b * scale, "list": [table["k"] * 2, (a - b, None)], "int": 3, 7: a * 3}


class Point(NamedTuple):
    a: torch.Tensor
    b: torch.Tensor


torch.utils._pytree._register_namedtuple(Point, serialized_type_name="tests.Point")


class Named(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return Point(x + 1, x * 2), x - 1


def test_trees_give_names(tmp_path: Path, out: Path) -> None:
    args = ((torch.ones(2), torch.ones(2)), {"k": torch.zeros(1)})
    path = write(Tree(), args, tmp_path / "tree.pt2", kwargs={"scale": 3.0, "flag": False})
    exported = export(path, out)
    assert [i.name for i in exported.graph.input] == ["pair_0", "pair_1", "table_k"]
    assert [o.name for o in exported.graph.output] == ["sum", "list_0", "list_1_0", "int", "output_7"]
    path = write(Named(), (torch.ones(2),), tmp_path / "named.pt2")
    assert [o.name for o in export(path, out).graph.output] == ["output_0_a", "output_0_b", "output_1"]


class Mutating(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("c", torch.zeros(4))

    def forward(self, x: torch.Tensor, i: int) -> Any:
        self.c[0] = x[0]
        x[1:2].copy_(x[:1])
        x.mul_(2)
        return x + i, x.view(2, 2)[:, torch.tensor([0])], self.c + 0, x.unbind(0)


@pytest.mark.parametrize("functional", [False, True])
def test_writes_are_no_outputs(functional: bool, tmp_path: Path, out: Path) -> None:
    program = torch.export.export(Mutating(), (torch.randn(4), 3))
    path = tmp_path / "mutating.pt2"
    torch.export.save(program.run_decompositions({}) if functional else program, str(path))
    assert len(export(path, out, "--state", "frozen").graph.output) == 7
    x = torch.randn(4)
    compare(Session(out).run(x.clone()), flat(Mutating()(x.clone(), 3)))


# ---- sizes ----------------------------------------------------------------------------------------


class Tied(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x[1:] + y


def test_sizes_have_names_by_default(net: tuple[Path, nn.Module], out: Path) -> None:
    exported = export(net[0], out)
    assert shapes(exported)["x"] == ["x_dim0", "x_dim1", 4]
    assert shapes(exported)["y"] == ["x_dim0", "y_dim1", 3], "axes that must agree have one name"


def test_two_names_for_one_size(net: tuple[Path, nn.Module], out: Path) -> None:
    done = lithify("export", net[0], "-o", out, "--dynamic", "x:0=a", "--dynamic", "y:0=b")
    assert done.returncode == 0 and "warning" in done.stderr and "'a'" in done.stderr, done.stderr
    assert shapes(onnx.load(str(out)))["y"][0] == "a"


def test_sizes_that_depend_on_others(tmp_path: Path, out: Path) -> None:
    n = Dim("n", min=4, max=9)
    path = write(Tied(), (torch.randn(6), torch.randn(5)), tmp_path / "tied.pt2", ({0: n + 1}, {0: n}))
    exported = export(path, out, "--dynamic", "y:0=n")
    assert shapes(exported) == {"x": ["n + 1"], "y": ["n"], "output": ["n"]}
    expected = {"lithify.preconditions": "n >= 4, n <= 9", "lithify.dimension.n": "any size where n >= 4 and n <= 9"}
    assert {p.key: p.value for p in exported.metadata_props if p.key != "lithify.claims"} == expected
    same(Tied(), out, (torch.randn(9), torch.randn(8)))


class Sliced(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(-1, 2)[:, 0] + x.shape[0]


def test_a_size_that_is_a_multiple(tmp_path: Path, out: Path) -> None:
    n = Dim("n")
    path = write(Sliced(), (torch.randn(6),), tmp_path / "sliced.pt2", ({0: 2 * n},))
    assert shapes(export(path, out, "--dynamic", "x:0=twice"))["x"] == ["twice"]
    same(Sliced(), out, (torch.randn(6),), (torch.randn(2),), (torch.randn(10),))


def test_a_size_given_by_the_user(net: tuple[Path, nn.Module], out: Path) -> None:
    exported = export(net[0], out, "--input", "x:float32[7,seq,4]")
    assert shapes(exported)["x"] == [7, "seq", 4] and shapes(exported)["y"][0] == 7
    same(net[1], out, (torch.randn(7, 2, 4), torch.randn(7, 3, 3)))


def test_a_fixed_size_is_reported(net: tuple[Path, nn.Module], out: Path) -> None:
    done = lithify("export", net[0], "-o", out, "--dynamic", "x:2=features")
    refused(done, out.parent, "axis 2", "'x'", "4", "dynamic_shapes")


class Integer(nn.Module):
    def forward(self, x: torch.Tensor, i: int) -> torch.Tensor:
        return x[:i] * i


def test_an_integer_input(tmp_path: Path, out: Path) -> None:
    path = write(Integer(), (torch.randn(9, 2), 4), tmp_path / "integer.pt2", {"x": None, "i": Dim.DYNAMIC})
    exported = export(path, out)
    assert shapes(exported)["i"] == []
    x = torch.randn(9, 2)
    for i in (3, 1, 9):
        compare(Session(out).run(x, torch.tensor(i)), [x[:i] * i])


class Unbacked(nn.Module):
    def forward(self, x: torch.Tensor, n: torch.Tensor) -> Any:
        k = n.item()
        torch._check(k >= 0)
        torch._check(k <= x.shape[0])
        return x.narrow(0, 0, k), x.nonzero(), torch.ones(k)


def test_sizes_that_only_a_run_tells(tmp_path: Path, out: Path) -> None:
    path = write(Unbacked(), (torch.randn(8), torch.tensor(3)), tmp_path / "unbacked.pt2")
    export(path, out)
    same(Unbacked(), out, (torch.randn(8), torch.tensor(3)), (torch.zeros(8), torch.tensor(1)))


# ---- graphs in graphs -----------------------------------------------------------------------------


class Wrapped(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        with torch.no_grad():
            y = x * 2
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = torch.relu(y @ y.t()) + 1
        with torch.autocast("cpu", enabled=False):
            w = y @ y.t()
        return y, z.float(), w


def test_wrappers_are_taken_off(tmp_path: Path, out: Path) -> None:
    path = write(Wrapped(), (torch.randn(3, 3),), tmp_path / "wrapped.pt2")
    export(path, out)
    x = torch.randn(3, 3)
    compare(Session(out).run(x), flat(Wrapped()(x)), rtol=2e-2, atol=2e-2)


class Mapped(nn.Module):
    def forward(self, init: torch.Tensor, xs: torch.Tensor) -> Any:
        from torch._higher_order_ops.map import map as mapped
        from torch._higher_order_ops.scan import scan

        return scan(lambda c, x: (c + x, c * x), init, xs), mapped(lambda x, y: x + y, xs, init)


def test_loops_over_slices(tmp_path: Path, out: Path) -> None:
    path = write(Mapped(), (torch.zeros(3), torch.randn(4, 3)), tmp_path / "mapped.pt2")
    export(path, out)
    same(Mapped(), out, (torch.randn(3), torch.randn(4, 3)))


# ---- reports --------------------------------------------------------------------------------------


def test_inspect(net: tuple[Path, nn.Module]) -> None:
    done = lithify("inspect", net[0], "--json", "--code")
    report = json.loads(done.stdout)
    assert report["kind"] == "torch.export" and report["release"] == torch.__version__
    assert [i["shape"] for i in report["inputs"]] == [["x_dim0", "x_dim1", 4], ["x_dim0", "y_dim1", 3]]
    assert report["operators"]["aten::linear"] == 1 and report["weights"] == 6
    assert "def forward" in report["code"] and 'getattr(self, "fc.weight")' in report["code"]
    assert lithify("inspect", net[0]).returncode == 0


def test_check(net: tuple[Path, nn.Module]) -> None:
    done = lithify("check", net[0], "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["exportable"], done.stdout


class Inner(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.eigvals(x).abs()  # nobody expects this to be exported


def test_a_diagnostic_names_the_line(tmp_path: Path, out: Path) -> None:
    path = write(nn.Sequential(nn.ReLU(), Inner()), (torch.randn(3, 3),), tmp_path / "inner.pt2")
    done = lithify("export", path, "-o", out)
    line = 1 + next(i for i, text in enumerate(Path(__file__).read_text().splitlines()) if "nobody expects this" in text)
    refused(done, out.parent, f"test_pt2.py:{line}", "linalg_eigvals")


# ---- files that are no good -----------------------------------------------------------------------


def program_of(path: Path) -> Any:
    return json.loads(records(path)["models/model.json"])


def damaged(net: Path, tmp_path: Path, replaced: dict[str, bytes]) -> Path:
    return file_of(tmp_path, rezip(net.read_bytes(), replaced), "model.pt2")


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if way and way[-1] == "metadata":
        return
    if isinstance(value, (dict, list)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield (*way, key)
            yield from places(item, (*way, key))


WRONG = (None, True, -1, 9223372036854775807, 1e300, "", "x" * 100, [], {}, {"as_int": 5}, [[[]]], "\x1b[31m")


def test_wrong_fields(net: tuple[Path, nn.Module], tmp_path: Path, out: Path) -> None:
    """Fields that are missing or of another kind: the program is refused, or none the worse."""
    chosen = random.Random(0)
    ways = list(places(program_of(net[0])))
    for _ in range(60 if SANITIZED else 400):
        program = program_of(net[0])
        way = chosen.choice(ways)
        holder = program
        for key in way[:-1]:
            holder = holder[key]
        if chosen.random() < 0.4:
            del holder[way[-1]]
        else:
            holder[way[-1]] = chosen.choice(WRONG)
        model = damaged(net[0], tmp_path, {"models/model.json": json.dumps(program).encode()})
        done = lithify("export", model, "-o", out, cwd=tmp_path, limits=MODEST)
        if done.returncode == 0:
            out.unlink()
        else:
            refused(done, out.parent)


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


HOSTILE: dict[str, Callable[[Path], dict[str, bytes]]] = {
    "no JSON": lambda net: {"models/model.json": b"not JSON"},
    "empty": lambda net: {"models/model.json": b""},
    "half": lambda net: {"models/model.json": (text := records(net)["models/model.json"])[: len(text) // 2]},
    "deep": lambda net: {"models/model.json": b'{"graph_module": ' + nested(100_000) + b"}"},
    "a number beyond 64 bits": lambda net: {"models/model.json": b'{"schema_version": 99999999999999999999999999}'},
    "bytes that are no UTF-8": lambda net: {"models/model.json": b'{"schema_version": "\xff\xfe"}'},
    "another major version": lambda net: changed(net, ("schema_version", "major"), 9),
    "a deep formula": lambda net: with_size(net, "(" * 50_000),
    "a long formula": lambda net: with_size(net, "s1" + " + s1" * 50_000),
    "a huge power": lambda net: with_size(net, "s1**9223372036854775807"),
    "weights that reach outside": lambda net: with_weight(net, "sizes", [{"as_int": 1 << 40}, {"as_int": 1 << 40}]),
    "weights with an offset": lambda net: with_weight(net, "storage_offset", {"as_int": 1 << 60}),
    "weights from elsewhere": lambda net: with_path(net, "../../models/model.json"),
    "weights that are not there": lambda net: with_path(net, "weight_99"),
    "weights without contents": lambda net: {"data/weights/weight_0": b"", "data/weights/weight_1": b""},
    "weights of a strange type": lambda net: with_weight(net, "dtype", 33),
    "weights in a pickle": lambda net: with_pickle(net),
    "a name with control characters": lambda net: changed(net, ("graph_module", "graph", "nodes", 0, "target"), "\x1b[31m"),
}


def changed(net: Path, way: tuple[Any, ...], value: Any) -> dict[str, bytes]:
    program = program_of(net)
    holder = program
    for key in way[:-1]:
        holder = holder[key]
    holder[way[-1]] = value
    return {"models/model.json": json.dumps(program).encode()}


def with_size(net: Path, formula: str) -> dict[str, bytes]:
    return changed(net, ("graph_module", "graph", "tensor_values", "x", "sizes", 0, "as_expr", "expr_str"), formula)


def with_entry(net: Path, change: Callable[[Any], None]) -> dict[str, bytes]:
    name = "data/weights/model_weights_config.json"
    config = json.loads(records(net)[name])
    change(config["config"]["fc.weight"])
    return {name: json.dumps(config).encode()}


def with_weight(net: Path, key: str, value: Any) -> dict[str, bytes]:
    return with_entry(net, lambda entry: entry["tensor_meta"].update({key: value}))


def with_path(net: Path, name: str) -> dict[str, bytes]:
    return with_entry(net, lambda entry: entry.update({"path_name": name}))


def with_pickle(net: Path) -> dict[str, bytes]:
    class Sub(torch.Tensor):
        pass

    return with_entry(net, lambda entry: entry.update({"use_pickle": True})) | {
        "data/weights/weight_0": saved({"a": 1}),
        "data/weights/weight_1": saved({"a": 1}),
    }


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile(kind: str, net: tuple[Path, nn.Module], tmp_path: Path, out: Path) -> None:
    model = damaged(net[0], tmp_path, HOSTILE[kind](net[0]))
    refused(lithify("export", model, "-o", out, cwd=tmp_path, limits=MODEST), out.parent)
    for command in ("inspect", "check"):
        answered_or_refused(lithify(command, model, cwd=tmp_path, limits=MODEST))


def test_truncated(net: tuple[Path, nn.Module], tmp_path: Path, out: Path) -> None:
    data = net[0].read_bytes()
    for end in range(4, len(data), len(data) // (10 if SANITIZED else 60)):
        refused(lithify("export", file_of(tmp_path, data[:end]), "-o", out, limits=MODEST), out.parent)


def test_cut_program(net: tuple[Path, nn.Module], tmp_path: Path, out: Path) -> None:
    """Every so many prefixes of the program's text, under right checksums."""
    text = records(net[0])["models/model.json"]
    for end in range(0, len(text), len(text) // (10 if SANITIZED else 60)):
        model = damaged(net[0], tmp_path, {"models/model.json": text[:end]})
        refused(lithify("export", model, "-o", out, limits=MODEST), out.parent)
