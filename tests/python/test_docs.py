"""The examples of docs/python.md, run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import pytest

from tests.cases import ROOT


def test_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 9
    exec(compile("\n".join(blocks), "docs/python.md", "exec"), {"__name__": "examples"})
    written = sorted(p.name for p in tmp_path.glob("*.onnx"))
    assert written == [
        "dynamic_linear.onnx",
        "dynamic_rnn.onnx",
        "model.onnx",
        "pairs.onnx",
        "patched.onnx",
        "reshape.onnx",
        "vision.onnx",
    ]
    for name in written:
        onnx.checker.check_model(str(tmp_path / name), full_check=True)
