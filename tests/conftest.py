"""Options of the test suite, and what all tests share."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch

from tests import driver
from tests.cases import load
from tests.dequantized import choose_engine
from tests.driver import LITHIFY
from tests.routes import FILE, Recorded


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--opsets", default="", help="only these opsets, by one route: all, or numbers with commas")
    parser.addoption(
        "--every",
        action="store_true",
        help="take every case through torch.export, every model by every capture and as wide as it is, and build the wheel",
    )
    parser.addoption("--record-routes", action="store_true", help="write tests/routes.txt: which routes each case takes")


def pytest_configure(config: pytest.Config) -> None:
    torch.set_num_threads(1)
    driver.full_widths = config.getoption("every")
    choose_engine()
    if not LITHIFY.exists():
        pytest.exit(f"there is no {LITHIFY}; `make build` makes it", returncode=1)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """What a test or its fixtures draw does not depend on the tests that the same process ran before."""
    torch.manual_seed(0)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A file to write, alone in its folder."""
    folder = tmp_path / "out"
    folder.mkdir()
    return folder / "model.onnx"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests leave in their reports: the node counts of models, and the routes of cases."""
    reports = [r for outcome in ("passed", "failed") for r in terminalreporter.stats.get(outcome, [])]
    rows = sorted(value for r in reports for key, value in r.user_properties if key == "nodes")
    if rows:
        terminalreporter.section("nodes at opset 20")
        terminalreporter.write_line(f"{'model':<24}{'nodes':>8}{'at most':>10}")
        for name, count, limit in rows:
            terminalreporter.write_line(f"{name:<24}{count:>8}{limit:>10}{'' if count <= limit else '  too many'}")
    captured = dict(value for r in reports for key, value in r.user_properties if key == "routes")
    if captured:
        counts = Counter(kind for of in captured.values() for kind, done in of.items() if done)
        terminalreporter.section("routes")
        terminalreporter.write_line(", ".join(f"{count} cases {kind}" for kind, count in counts.items()))
    if terminalreporter.config.getoption("record_routes"):
        recorded = Recorded.read(FILE.read_text())
        recorded.update(load(), captured)
        FILE.write_text(recorded.text())
