"""The examples of the documentation, run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import pytest

from tests.cases import ROOT

EXAMPLES = {
    "control-flow.md": ["cell", "experts"],
    "python.md": ["dynamic_linear", "dynamic_rnn", "model", "pairs", "patched", "reshape", "vision"],
    "sizes.md": ["mean", "pieces", "short"],
    "switching.md": ["lstm"],
    "weights.md": ["half", "small"],
}


@pytest.mark.parametrize("page", EXAMPLES)
def test_examples(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.DOTALL)
    exec(compile("\n".join(blocks), f"docs/{page}", "exec"), {"__name__": "examples"})
    written = sorted(tmp_path.glob("*.onnx"))
    assert [path.stem for path in written] == EXAMPLES[page]
    for path in written:
        onnx.checker.check_model(str(path), full_check=True)


def test_site_has_every_page() -> None:
    listed = set(re.findall(r": ([\w-]+\.md)$", (ROOT / "docs/site/mkdocs.yml").read_text(), re.MULTILINE))
    assert {page.name for page in (ROOT / "docs").glob("*.md")} <= listed
