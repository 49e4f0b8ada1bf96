"""Choosing an opset: by number, as the latest, by a runtime; and the advice of `check`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import onnx
import onnxruntime
import pytest
import torch

from tests.driver import LITHIFY, Session, compare, errors, export, refusal


class Norm(torch.nn.Module):
    """LayerNorm is one node from opset 17 on, gelu from opset 20 on."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(self.norm(x))


class Rms(torch.nn.Module):
    """Spelled out, as models do; one node from opset 23 on."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.axis = axis
        self.weight = torch.nn.Parameter(torch.randn(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(self.axis, keepdim=True) + 1e-3))


class Xor(torch.nn.Module):
    """Integers have it from opset 18 on."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x ^ 5


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("opsets") / "model.pt"
    torch.manual_seed(0)
    torch.jit.trace(Norm().eval(), torch.randn(2, 6)).save(str(path))
    return path


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(LITHIFY), *map(str, arguments)], capture_output=True, text=True, timeout=60)


def opset_of(model: Path, out: Path, *flags: str) -> int:
    done = run("export", model, "-o", out, *flags)
    assert done.returncode == 0, done.stderr
    return next(d.version for d in onnx.load(str(out)).opset_import if d.domain == "")


def test_latest_and_targets(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.onnx"
    assert opset_of(model, out, "--opset", "latest") == 26
    assert opset_of(model, out, "--target", "ort-1.17") == 20
    assert opset_of(model, out, "--target", "ort-0.3") == 9
    assert opset_of(model, out, "--target", "ort-1.17.3") == 20
    assert opset_of(model, out, "--target", "ort-1.25") == 23, "of 1.23, the last before it that is known"
    assert opset_of(model, out, "--target", "ort-2.0") == 26
    installed = ".".join(onnxruntime.__version__.split(".")[:2])
    if installed == "1.31":  # the release of the table that is at hand
        assert opset_of(model, out, "--target", f"ort-{installed}") == 26
        Session(out)


def test_unknown_target_names_the_table(model: Path, tmp_path: Path) -> None:
    for name in ("ort-7", "ort-0.2", "ort-1.17x", "1.17", "ort--1.2"):
        done = run("export", model, "-o", tmp_path / "x.onnx", "--target", name)
        assert "ort-1.17" in refusal(done, "LTH020", out=tmp_path / "x.onnx")
    both = run("export", model, "-o", tmp_path / "x.onnx", "--target", "ort-1.17", "--opset", 18)
    assert both.returncode == 2 and "--opset excludes --target" in both.stderr


@pytest.mark.parametrize("opset", ["8", "27", "newest"])
def test_opsets_that_cannot_be_written(model: Path, tmp_path: Path, opset: str) -> None:
    done = run("export", model, "-o", tmp_path / "x.onnx", "--opset", opset)
    assert done.returncode == 2 and not (tmp_path / "x.onnx").exists()
    assert errors(done.stderr) == {"LTH023"} or "could not convert: --opset" in done.stderr, done.stderr


def test_every_opset_loads_and_is_right(model: Path, tmp_path: Path) -> None:
    x = torch.randn(2, 6)
    expected = torch.jit.load(str(model))(x)
    for opset in range(9, 27):
        out = tmp_path / f"{opset}.onnx"
        assert opset_of(model, out, "--opset", str(opset)) == opset
        onnx.checker.check_model(str(out), full_check=True)
        compare(Session(out).run(x), [expected.detach()])


@pytest.mark.parametrize(("axis", "opset", "fused"), [(-1, 22, False), (-1, 23, True), (-1, 26, True), (0, 23, False)])
def test_norm_that_is_spelled_out(axis: int, opset: int, fused: bool, tmp_path: Path) -> None:
    x, module = torch.randn(6, 6), Rms(axis).eval()
    torch.jit.trace(module, x).save(str(tmp_path / "model.pt"))
    loaded = export(tmp_path / "model.pt", tmp_path / "model.onnx", opset=opset, dynamic={"x": {0: "batch"}})
    assert ([n.op_type for n in loaded.graph.node] == ["RMSNormalization"]) == fused
    for batch in (6, 1, 3):
        part = x[:batch]
        compare(Session(tmp_path / "model.onnx").run(part), [module(part).detach()])


def test_check_advises(model: Path) -> None:
    done = run("check", model, "--json")
    report = json.loads(done.stdout)
    nodes = {o["opset"]: o["nodes"] for o in report["opsets"]}
    assert list(nodes) == list(range(9, 27)) and report["lowest_opset"] == 9
    assert report["fewest_nodes_opset"] == 20 and nodes[20] == 2
    assert nodes[16] > nodes[17] > nodes[20]
    loads = {o["opset"]: o["runtimes"] for o in report["opsets"]}
    assert "ort-1.17" in loads[20] and "ort-1.17" not in loads[21]
    table = run("check", model).stdout
    assert "ort-1.12, tensorrt-8.5" in table and "fewest nodes from opset 20" in table


def test_check_names_the_lowest_opset(tmp_path: Path) -> None:
    path = tmp_path / "xor.pt"
    torch.jit.trace(Xor(), torch.arange(4)).save(str(path))
    report = json.loads(run("check", path, "--opset", 17, "--json").stdout)
    assert not report["exportable"] and report["lowest_opset"] == 18
    assert not any(o["exportable"] for o in report["opsets"] if o["opset"] < 18)


class Float8(torch.nn.Module):
    """ONNX has the type from opset 19 on."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.float8_e4m3fn).to(torch.float32)


def test_without_an_opset_the_lowest_that_can_express_the_model(model: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "float8.pt", tmp_path / "float8.onnx"
    torch.jit.trace(Float8(), torch.randn(4)).save(str(path))
    assert opset_of(model, out) == 18
    assert opset_of(path, out) == 19
    assert "opset 19 is the lowest from 18 on" in run("export", path, "-o", out).stderr
    report = json.loads(run("check", path, "--json").stdout)
    assert report["exportable"] and report["opset"] == 19
    assert errors(run("export", path, "-o", out, "--opset", 18).stderr) == {"LTH043"}
