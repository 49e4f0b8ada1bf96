"""Operators that the exporter does not know: the example of docs/custom-operators.md, and what is refused."""

from __future__ import annotations

import os
import re
from pathlib import Path

import onnx
import pytest
import torch

from tests.cases import ROOT
from tests.driver import LITHIFY, Session, compare, export, refusal, run

PAGE = (ROOT / "docs" / "custom-operators.md").read_text()


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found
    return found[1]


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, torch.nn.Module]:
    """The page's model, saved; the operators stay registered as long as the fixture lives."""
    folder = tmp_path_factory.mktemp("custom")
    namespace: dict[str, object] = {"__name__": "custom_example"}
    before = Path.cwd()
    os.chdir(folder)
    try:
        exec(compile(block("python"), "custom-operators.md", "exec"), namespace)
    finally:
        os.chdir(before)
    (folder / "demo.ops").write_text(block("text"))
    model = namespace["model"]
    assert isinstance(model, torch.nn.Module)
    model.library = namespace["library"]  # type: ignore[assignment]
    return folder, model


def refused(model: Path, declarations: str, tmp_path: Path) -> str:
    (tmp_path / "bad.ops").write_text(declarations)
    command = [str(LITHIFY), "export", str(model), "-o", str(tmp_path / "out.onnx"), "--custom-ops", str(tmp_path / "bad.ops")]
    return refusal(run(command), "LTH020", out=tmp_path / "out.onnx")


def test_declared_operators_run(example: tuple[Path, torch.nn.Module], tmp_path: Path) -> None:
    folder, model = example
    for opset in (9, 18, 26):
        out = tmp_path / f"{opset}.onnx"
        flags = ["--custom-ops", str(folder / "demo.ops")]
        loaded = export(folder / "model.pt", out, opset=opset, dynamic={"x": {0: "batch"}}, flags=flags)
        assert {d.domain: d.version for d in loaded.opset_import} == {"": opset, "com.microsoft": 1}
        session = Session(out)
        for batch in (1, 2, 5):
            x = torch.randn(batch, 8)
            with torch.no_grad():
                compare(session.run(x), [model(x)], outputs=session.outputs)


def test_unknown_operators_are_kept(example: tuple[Path, torch.nn.Module], tmp_path: Path) -> None:
    folder, _ = example
    out = tmp_path / "kept.onnx"
    command = [str(LITHIFY), "export", str(folder / "model.pt"), "-o", str(out), "--allow-custom"]
    done = run(command)
    assert done.returncode == 0, done.stderr
    assert "demo::quick_gelu" in done.stderr and "demo::scaled_softmax" in done.stderr
    kept = [n for n in onnx.load(str(out)).graph.node if n.domain == "demo"]
    assert [n.op_type for n in kept] == ["quick_gelu", "scaled_softmax"]
    assert {a.name: onnx.helper.get_attribute_value(a) for a in kept[0].attribute} == {"arg1": 1.5}


def test_unknown_operators_are_refused_without_being_asked(example: tuple[Path, torch.nn.Module], tmp_path: Path) -> None:
    folder, _ = example
    command = [str(LITHIFY), "export", str(folder / "model.pt"), "-o", str(tmp_path / "out.onnx")]
    assert "--custom-ops" in refusal(run(command), "LTH040", out=tmp_path / "out.onnx")


@pytest.mark.parametrize(
    ("declarations", "words"),
    [
        ("    Relu(x)\n", "before the first schema"),
        ("demo::quick_gelu(Tensor x) -> Tensor\n", "no nodes below"),
        ("demo::quick_gelu\n", "not a schema"),
        ("demo::quick_gelu(Tensor x, float alpha) -> Tensor\n  Relu(y)\n", "no 'y'"),
        ("demo::quick_gelu(Tensor x, float alpha) -> Tensor\n  my::Op(x)\n", "needs the type"),
        ("demo::quick_gelu(Tensor x, float alpha) -> Tensor\n  my::Op(x) : float99[1]\n", "element type"),
        ("demo::quick_gelu(Tensor x, float alpha) -> Tensor\n  my::Op@0(x) : like x\n", "not a version"),
        ("demo::quick_gelu(Tensor x, float alpha) -> Tensor\n  my::Op<a=(x) : like x\n", "not closed"),
    ],
)
def test_errors_in_a_file_are_reported(
    example: tuple[Path, torch.nn.Module], tmp_path: Path, declarations: str, words: str
) -> None:
    text = refused(example[0] / "model.pt", declarations, tmp_path)
    assert words in text
