"""Options of the test suite, and what all tests share."""

from __future__ import annotations

import pytest
import torch


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--opsets", default="", help="other opsets to take each case through: all, or numbers with commas")


def pytest_configure() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def opsets(request: pytest.FixtureRequest) -> str:
    return str(request.config.getoption("--opsets"))
