"""Options of the test suite, and what all tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.dequantized import choose_engine
from tests.driver import LITHIFY


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--opsets", default="", help="only these opsets, by one route: all, or numbers with commas")
    parser.addoption(
        "--every",
        action="store_true",
        help="take every case through torch.export, every model by every capture, and build the wheel",
    )


def pytest_configure() -> None:
    torch.set_num_threads(1)
    choose_engine()
    if not LITHIFY.exists():
        pytest.exit(f"there is no {LITHIFY}; `make build` makes it", returncode=1)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A file to write, alone in its folder."""
    folder = tmp_path / "out"
    folder.mkdir()
    return folder / "model.onnx"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests leave in their reports: the node counts of models, and the cases that torch.export does not capture."""
    reports = [r for outcome in ("passed", "failed") for r in terminalreporter.stats.get(outcome, [])]
    rows = sorted(value for r in reports for key, value in r.user_properties if key == "nodes")
    if rows:
        terminalreporter.section("nodes at opset 20")
        terminalreporter.write_line(f"{'model':<24}{'nodes':>8}{'at most':>10}")
        for name, count, limit in rows:
            terminalreporter.write_line(f"{name:<24}{count:>8}{limit:>10}{'' if count <= limit else '  too many'}")
    cases = [value for r in reports for key, value in r.user_properties if key == "exported"]
    missed = sorted(name for captured, name in cases if not captured)
    if cases:
        terminalreporter.section("torch.export")
        terminalreporter.write_line(f"captures {len(cases) - len(missed)} of {len(cases)} cases; not:")
        for name in missed:
            terminalreporter.write_line(f"  {name}")
