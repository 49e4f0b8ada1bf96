"""What a file claims: which sizes, in which words, and whether it is true; questions on the command line.

Runs on the program that $LITHIFY names, so that the same tests serve the build with sanitizers.
"""

from __future__ import annotations

import itertools
import json
import math
import random
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from onnx import TensorProto, helper
from torch import nn
from torch.export import Dim

from tests.driver import Session, compare, exit_code, flat
from tests.test_cli import SANITIZED, lithify, refused

Sizes = dict[str, int]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def at(**sizes: int) -> str:
    return ",".join(f"{name}={size}" for name, size in sizes.items())


def ask(model: Path, *sizes: str) -> dict[str, Any]:
    """The answers of the program, by the sizes."""
    done = lithify("check", model, "--json", *itertools.chain.from_iterable(("--at", s) for s in sizes))
    assert not done.stderr, done.stderr
    answers = json.loads(done.stdout)["at"]
    assert done.returncode == (0 if all(a["holds"] for a in answers.values()) else 1)
    return {s: answers[s] for s in sizes}


# ---- files with claims of our own making ------------------------------------------------------------------------------


def model_with(claims: Any, path: Path) -> Path:
    """A small ONNX model with these claims in its metadata; None for none."""
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["a"])
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["a"])
    model = helper.make_model(helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value], [out]))
    text = claims if isinstance(claims, str) else json.dumps(claims)
    helper.set_model_props(model, {"other": "1"} | ({} if claims is None else {"lithify.claims": text}))
    onnx.save(model, str(path))
    return path


def claim(*constraints: str, names: str = "abc", **more: Any) -> dict[str, Any]:
    dimensions = [{"name": n, "kind": "any size"} for n in names]
    return {"version": 1, "dimensions": dimensions, "constraints": [{"formula": c} for c in constraints]} | more


def test_answers(tmp_path: Path) -> None:
    model = model_with(claim("a % 32 == 0", "b <= 512", names="ab"), tmp_path / "m.onnx")
    done = lithify("check", model, "--at", "a=64,b=3", "--at", "b=600,a=32")
    assert done.returncode == 1 and not done.stderr
    assert done.stdout.splitlines() == [
        "a=64,b=3: claimed: every constraint holds",
        "b=600,a=32: excluded: b <= 512 does not hold at b=600",
    ]
    assert lithify("check", model, "--at", "a=64,b=3").returncode == 0
    unknown = model_with(claim("u <= a", names="a"), tmp_path / "u.onnx")
    done = lithify("check", unknown, "--at", "a=64")
    assert done.returncode == 1 and done.stdout == "a=64: not claimed: the sizes do not decide whether u <= a\n"


@pytest.mark.parametrize("text", ["a", "a=", "=3", "a=x", "a=1,", "a=1.5", ""])
def test_sizes_that_are_none(text: str, tmp_path: Path) -> None:
    done = lithify("check", model_with(claim(names="a"), tmp_path / "m.onnx"), f"--at={text}")
    assert done.returncode == 2 and ("is not of the form 'batch=3,seq=40'" in done.stderr or "--at" in done.stderr)


def test_names_that_are_none(tmp_path: Path) -> None:
    model = model_with(claim(names=["batch", "seq"]), tmp_path / "m.onnx")
    done = lithify("check", model, "--at", "bach=1,seq=2")
    assert done.returncode == 2 and "did you mean 'batch'?" in done.stderr
    assert "the dynamic dimensions are batch, seq" in done.stderr
    assert "the size of 'batch' is missing" in lithify("check", model, "--at", "seq=2").stderr


def test_files_without_claims(tmp_path: Path, out: Path) -> None:
    for name, data, words in [
        ("none.onnx", model_with(None, tmp_path / "none.onnx").read_bytes(), "has no claims: it was not made by Lithify"),
        ("text.onnx", b"a text", "is not an ONNX model"),
        ("zero.onnx", bytes(64), "is not an ONNX model"),
    ]:
        (tmp_path / name).write_bytes(data)
        refused(lithify("check", tmp_path / name, "--at", "a=1"), out.parent, words)
    refused(lithify("check", tmp_path / "missing.onnx", "--at", "a=1"), out.parent, codes=["LTH001"])
    later = claim() | {"version": 2}
    refused(lithify("check", model_with(later, tmp_path / "l.onnx"), "--at", "a=1"), out.parent, "later release")


def test_damaged_claims(tmp_path: Path) -> None:
    """Truncated and changed files are refused, or are good ones by chance."""
    draw = random.Random(3)
    model = model_with(claim("a % 4 == 0", "floor(b/2) >= 3", names="ab", paths=["T"], conditions=[{"formula": "a > 2"}]),
                       tmp_path / "m.onnx")  # fmt: skip
    good = model.read_bytes()
    changed = [good[:n] for n in range(0, len(good), 29 if SANITIZED else 7)]
    for _ in range(40 if SANITIZED else 200):
        data = bytearray(good)
        for _ in range(draw.randint(1, 4)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        changed.append(bytes(data))
    for data in changed:
        model.write_bytes(data)
        done = lithify("check", model, "--at", "a=4,b=6")
        assert done.returncode in (0, 1, 3) and bool(done.stdout) != bool(done.stderr), done


def test_hostile_claims(tmp_path: Path) -> None:
    deep = "(" * 50_000 + "a" + ")" * 50_000
    for formula in [deep, "-" * 50_000 + "a", "a" + " + a" * 30_000, "2**" * 200 + "2", "a**a**a**a", "not " * 5000 + "a"]:
        model = model_with(claim(formula, names="a"), tmp_path / "m.onnx")
        assert ask(model, at(a=9))[at(a=9)]["holds"] is None
    nested: Any = []
    for _ in range(600):
        nested = [nested]
    for bad in ["[" * 5000, json.dumps(claim() | {"dimensions": nested}), "{}", "null", claim(paths=["T"] * 2000)]:
        done = lithify("check", model_with(bad, tmp_path / "m.onnx"), "--at", "a=1")
        assert done.returncode == exit_code(done.stderr) != 0


# ---- formulas: the semantics of Python -----------------------------------------------------------------------------------

FUNCTIONS = {
    "min": min, "max": max, "abs": abs, "round": round, "int": int, "float": float, "floor": math.floor, "ceil": math.ceil,
    "trunc": math.trunc, "sqrt": math.sqrt, "log": math.log, "log2": math.log2, "log10": math.log10, "exp": math.exp,
    "sin": math.sin, "cos": math.cos, "gcd": math.gcd,
}  # fmt: skip


def grown(draw: random.Random, depth: int) -> str:
    if depth == 0:
        return draw.choice(["a", "b", "c", str(draw.randint(0, 12)), draw.choice(["0.5", "0.75", "1.5", "2.0", "3e2", ".25"])])
    x, y = grown(draw, depth - 1), grown(draw, draw.randint(0, depth - 1))
    kind = draw.randint(0, 9)
    if kind < 4:
        return f"({x} {draw.choice(['+', '-', '*', '/', '//', '%'])} {y})"
    if kind == 4:
        return f"{draw.choice(['min', 'max'])}({x}, {y})"
    if kind == 5:
        return f"{draw.choice(['abs', 'floor', 'ceil', 'round', 'trunc', 'int', 'float', 'sqrt', 'log2', 'exp', 'sin'])}({x})"
    if kind == 6:
        return f"({x} {draw.choice(['<', '<=', '>', '>=', '==', '!='])} {y})"
    if kind == 7:
        return f"({x} {draw.choice(['and', 'or'])} {y})"
    return f"-{x} % {y}" if kind == 8 else f"(not {x})"


def by_python(formula: str, sizes: Sizes) -> bool | None:
    try:
        value = eval(formula, {"__builtins__": {}}, FUNCTIONS | sizes)
        return None if isinstance(value, complex) else bool(value)
    except (ArithmeticError, ValueError, TypeError):
        return None


def test_formulas_mean_what_they_mean_in_python(tmp_path: Path) -> None:
    draw = random.Random(5)
    compared = 0
    for _ in range(60 if SANITIZED else 400):
        formula = (
            f"{grown(draw, draw.randint(1, 4))} {draw.choice(['<', '<=', '==', '!=', '>'])} {grown(draw, draw.randint(0, 2))}"
        )
        sizes = [dict(zip("abc", (draw.randint(1, 40) for _ in range(3)), strict=True)) for _ in range(6)]
        answers = ask(model_with(claim(formula), tmp_path / "m.onnx"), *(at(**s) for s in sizes))
        for s in sizes:
            expected = by_python(formula, s)
            assert answers[at(**s)]["holds"] is expected, (formula, s, expected)
            compared += expected is not None
    assert compared > 200


# ---- exported files --------------------------------------------------------------------------------------------------------

Axes = dict[str, dict[int, str]]


def captured(module: nn.Module, args: tuple[torch.Tensor, ...], route: str, axes: Axes, path: Path) -> list[str]:
    """Saves the model, and returns the arguments of `lithify export` for it."""
    names = list(axes)
    dynamic = [["--dynamic", f"{n}:" + ",".join(f"{k}={v}" for k, v in d.items())] for n, d in axes.items() if d]
    if route == "trace":
        torch.jit.trace(module, args, check_trace=False).save(str(path))
    elif route.startswith("script"):
        torch.jit.script(module).save(str(path))
        dynamic = []
        for name, arg in zip(names, args, strict=True):
            sample = "" if "without a sample" in route else "={}"
            sizes = [axes[name][k] + sample.format(s) if k in axes[name] else str(s) for k, s in enumerate(arg.shape)]
            dynamic.append(["--input", f"{name}:float32[{','.join(sizes)}]"])
    else:
        shapes = tuple(dict.fromkeys(axes[n], Dim.DYNAMIC) for n in names)
        torch.export.save(torch.export.export(module, args, dynamic_shapes=shapes), str(path))
    return [str(path), *itertools.chain.from_iterable(dynamic)]


def exported(module: nn.Module, args: tuple[torch.Tensor, ...], route: str, axes: Axes, out: Path, *more: str) -> list[str]:
    """Exports the model; returns what it prints of its dimensions."""
    path = out.parent.parent / f"model.{route}"
    done = lithify("export", *captured(module.eval(), args, route, axes, path), "-o", out, *more)
    assert done.returncode == 0, done.stderr
    return [line.split(maxsplit=1)[1] for line in done.stdout.splitlines() if line.startswith("  size ")]


class Squeezed(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.squeeze()


class Cut(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        a, b, c = torch.tensor_split(x, 3, 0)
        return a, b, c


class Chunks(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a, b = torch.chunk(x, 2)
        return a + 1, b


class Halved(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(x.shape[0] // 2, 2, -1)


class Rows(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(-1, 12)


class Branch(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] > 5:
            return x * 2
        return x + 1


class Several(nn.Module):
    """Conditions on two sizes, one through a float, and one on a size of 1."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if int(x.shape[1] * 0.75) > 4:
            x = x * 2
        if x.shape[0] % 2 == 0:
            x = x + 1
        if x.shape[0] == 1:
            x = x - 5
        if y.shape[0] != 2 * x.shape[1]:
            x = x * 3
        return x + y.sum()


class Table(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(16, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.table[: x.shape[1]]


class Halves(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        half = x.shape[1] // 2
        return x[:, :half] + x[:, half : 2 * half]


class Fourth(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, 3] + x[:, -2] + x.topk(5)[0].sum(1)


class Reversed(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, list(range(x.shape[1]))[::-1]]


class Pairs(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x[:, ::2].repeat_interleave(2, 1)


BATCH: Axes = {"x": {0: "batch"}}
SEQ: Axes = {"x": {1: "seq"}}
BOTH: Axes = {"x": {0: "batch", 1: "seq"}}


@pytest.mark.parametrize(
    ("module", "shape", "route", "axes", "expected"),
    [
        (Squeezed, (4, 1, 3), "trace", BATCH, ["batch: any size where batch >= 2, on the recorded path"]),
        (Squeezed, (4, 1, 3), "script", BATCH, ["batch: any size where batch >= 2"]),
        (Squeezed, (4, 1, 3), "export", BATCH, ["batch: any size where batch >= 2"]),
        (Squeezed, (4, 1, 3), "script without a sample", BATCH, ["batch: any size where batch >= 2"]),
        (Cut, (7, 3), "trace", BATCH, ["batch: any size, on the recorded path"]),
        (Cut, (7, 3), "script", BATCH, ["batch: any size"]),
        (Chunks, (7, 3), "script", BATCH, ["batch: any size where batch >= 2"]),
        (Halved, (6, 4), "script", BATCH, ["batch: any size where 2*batch % floor(batch/2) == 0"]),
        (Rows, (4, 6), "script", BOTH, ["batch: any size where batch*seq % 12 == 0", "seq: any size where batch*seq % 12 == 0"]),
        (Rows, (4, 9), "script", BATCH, ["batch: any size where batch % 4 == 0"]),
        (Branch, (3, 7), "trace", BOTH, ["batch: any size, on the recorded path", "seq: any size, on the recorded path"]),
        (Branch, (3, 7), "script", BOTH, ["batch: any size", "seq: any size"]),
        (Branch, (3, 7), "export", BOTH, ["batch: any size where batch >= 2", "seq: any size where seq >= 6"]),
        (Table, (3, 7, 4), "script", BOTH, ["batch: any size", "seq: any size where seq <= 16"]),
        (Fourth, (3, 7), "trace", SEQ, ["seq: any size where seq >= 5, on the recorded path"]),
        (Fourth, (3, 7), "script", SEQ, ["seq: any size where seq >= 5"]),
        (Pairs, (3, 8), "trace", SEQ, ["seq: any size where seq % 2 == 0, on the recorded path"]),
    ],
)
def test_words(module: type[nn.Module], shape: tuple[int, ...], route: str, axes: Axes, expected: list[str], out: Path) -> None:
    assert exported(module(), (torch.randn(shape),), route, axes, out) == expected


def claimed_is_right(module: nn.Module, make: Callable[[Sizes], tuple[torch.Tensor, ...]], out: Path, some: list[Sizes]) -> int:
    """Runs file and model at sizes, and returns at how many of them the file is claimed to be right, which it must be."""
    answers = ask(out, *(at(**s) for s in some))
    session = Session(out)
    claimed = [s for s in some if answers[at(**s)]["holds"]]
    for sizes in claimed:
        args = make(sizes)
        compare(session.run(*args), flat(module(*args)), outputs=session.outputs)
    return len(claimed)


@pytest.mark.parametrize("route", ["trace", "script", "export"])
def test_constraints_on_sizes_are_facts(route: str, out: Path) -> None:
    """At all sizes that are claimed, the file gives what the model gives; and each size that it could is claimed."""
    for module, least in ((Rows(), 12), (Halves(), 90), (Table(), 150)):
        last = (4,) if isinstance(module, Table) else ()
        exported(module, (torch.randn(6, 8, *last),), route, BOTH, out)
        some = [{"batch": b, "seq": s} for b in range(2, 12) for s in range(2, 20)]
        assert claimed_is_right(module, lambda z, last=last: (torch.randn(z["batch"], z["seq"], *last),), out, some) >= least


def test_a_condition_that_was_recorded_on_one_side(out: Path) -> None:
    """torch.export has one side of each branch on sizes, and the guards of it."""
    module, args = Several().eval(), (torch.randn(6, 8), torch.randn(9))
    exported(module, args, "export", {"x": {0: "b", 1: "s"}, "y": {0: "n"}}, out)
    some = [{"b": b, "s": s, "n": n} for b in range(1, 7) for s in range(1, 12) for n in range(1, 20, 3)]
    right = claimed_is_right(module, lambda z: (torch.randn(z["b"], z["s"]), torch.randn(z["n"])), out, some)
    assert right > 20
    answers = ask(out, "b=6,s=8,n=9", "b=5,s=8,n=9", "b=6,s=6,n=9", "b=6,s=8,n=16", "b=1,s=8,n=9")
    assert [a["holds"] for a in answers.values()] == [True, False, False, False, False]


@pytest.mark.parametrize(
    "branch",
    [
        lambda b, s: s % 4 == 0,
        lambda b, s: (b + s) % 2 == 0,
        lambda b, s: b <= s,
        lambda b, s: b != s,
        lambda b, s: b * s > 20,
        lambda b, s: max(s // 2, 2) < b,
        lambda b, s: 3 < s < 7,
        lambda b, s: s // 2 == 2,
        lambda b, s: int(s**0.5) == 2,
        lambda b, s: s / 2 > 2.6,
        lambda b, s: torch._check(s < 9) or s > 3,
    ],
)
@pytest.mark.parametrize("seq", [5, 8])
def test_guards(branch: Callable[[int, int], bool], seq: int, out: Path) -> None:
    """The file has the sample's side of a branch, which is claimed at sizes alone that take it."""
    module = Branching(branch)
    exported(module, (torch.randn(4, seq),), "export", BOTH, out)
    some = [{"batch": b, "seq": s} for b in range(1, 9) for s in range(1, 12)]
    assert claimed_is_right(module, lambda z: (torch.randn(z["batch"], z["seq"]),), out, some) >= 7


class Branching(nn.Module):
    def __init__(self, branch: Callable[[int, int], bool]) -> None:
        super().__init__()
        self.branch = branch

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if self.branch(x.shape[0], x.shape[1]) else x - 1


def test_a_guard_of_size_one(out: Path) -> None:
    exported(Branch(), (torch.randn(3, 7),), "export", BOTH, out)
    answers = ask(out, at(batch=2, seq=6), at(batch=1, seq=6), at(batch=2, seq=5))
    assert [a["holds"] for a in answers.values()] == [True, False, False]
    assert answers[at(batch=1, seq=6)]["why"] == "batch >= 2 does not hold at batch=1"


class Tied(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(-1, 2)[:, 0] + x.shape[0]


def test_a_size_that_is_a_formula(tmp_path: Path, out: Path) -> None:
    n = Dim("n", min=2, max=20)
    for module, sample, shape, sizes in (
        (Tied(), 6, 2 * n, {4: True, 5: False, 6: True, 42: False, 2: False}),
        (Doubled(), 7, 2 * n + 1, {5: True, 6: False, 7: True}),
    ):
        program = torch.export.export(module, (torch.randn(sample),), dynamic_shapes=({0: shape},))
        torch.export.save(program, str(tmp_path / "m.pt2"))
        done = lithify("export", tmp_path / "m.pt2", "-o", out, "--dynamic", "x:0=size")
        assert done.returncode == 0, done.stderr
        assert {s: ask(out, at(size=s))[at(size=s)]["holds"] for s in sizes} == sizes


class Doubled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class Numbers(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(1) / int(x.shape[1])


def test_an_unverified_constant_is_not_claimed_elsewhere(out: Path) -> None:
    printed = exported(Numbers(), (torch.randn(3, 7),), "trace", BOTH, out)
    assert printed[1] == "seq: any size, on the recorded path, 1 constant unverified"
    answers = ask(out, at(batch=3, seq=7), at(batch=4, seq=7), at(batch=3, seq=8))
    assert [a["holds"] for a in answers.values()] == [True, True, None]
    assert "the number 7 at test_claims.py:" in answers[at(batch=3, seq=8)]["why"]


def test_positions_up_to_the_last_of_the_sample_are_not_claimed_elsewhere(out: Path) -> None:
    printed = exported(Reversed(), (torch.randn(3, 7),), "trace", BOTH, out)
    assert printed[1] == "seq: any size where seq >= 7, on the recorded path, 1 constant unverified"
    answers = ask(out, at(batch=4, seq=7), at(batch=3, seq=6), at(batch=3, seq=8))
    assert [a["holds"] for a in answers.values()] == [True, False, None]


class Scripted(nn.Module):
    """A scripted module with a traced one in it."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) + 1


def test_traces_within_scripts_and_scripts_within_traces(out: Path) -> None:
    x = torch.randn(3, 7)
    traced = torch.jit.trace(Branch(), x, check_trace=False)
    assert exported(Scripted(traced), (x,), "script", BATCH, out) == ["batch: any size, on the recorded path"]
    assert exported(Scripted(torch.jit.script(Branch())), (x,), "script", BATCH, out) == ["batch: any size"]
    assert exported(Scripted(torch.jit.script(Branch())), (x,), "trace", BATCH, out) == ["batch: any size, on the recorded path"]


def test_where_a_constraint_comes_from(out: Path) -> None:
    exported(Rows(), (torch.randn(4, 9),), "script", BATCH, out)
    why = ask(out, at(batch=3))[at(batch=3)]["why"]
    assert why.startswith("batch % 4 == 0 does not hold at batch=3 (test_claims.py:"), why


def test_sizes_of_zero(out: Path) -> None:
    exported(Doubled(), (torch.randn(3, 7),), "script", BATCH, out)
    assert ask(out, at(batch=0))[at(batch=0)]["why"] == "batch >= 1 does not hold at batch=0"


def test_names_that_are_no_identifiers(out: Path) -> None:
    axes = {"x": {0: "past + 1", 1: "not"}}
    printed = exported(Rows(), (torch.randn(4, 6),), "trace", axes, out)
    assert printed[1] == "past + 1: any size where `past + 1`*`not` % 12 == 0, on the recorded path"
    done = lithify("check", out, "--at", "past + 1=4,not=3")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_model_without_dynamic_sizes(out: Path) -> None:
    exported(Doubled(), (torch.randn(3),), "trace", {"x": {}}, out)
    done = lithify("check", out, "--at", "batch=1")
    assert done.returncode == 2 and "the model has no dynamic dimension" in done.stderr


def test_json_of_an_export(out: Path, tmp_path: Path) -> None:
    arguments = captured(Rows().eval(), (torch.randn(4, 9),), "trace", BATCH, tmp_path / "m.pt")
    done = lithify("export", *arguments, "-o", out, "--json")
    result = json.loads(done.stdout)
    (dimension,) = result["dimensions"]
    assert dimension["kind"] == "recorded path" and dimension["constraints"] == ["batch % 4 == 0"]
    assert result["claims"]["dimensions"] == result["dimensions"]
    (props,) = [p.value for p in onnx.load(str(out)).metadata_props if p.key == "lithify.claims"]
    assert json.loads(props) == result["claims"]
