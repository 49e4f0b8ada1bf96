"""Every case of `src/ops/*_cases.py` by every route."""

import pytest

from tests.cases import Case, load
from tests.driver import verify


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, id=c.name, marks=[pytest.mark.xfail(reason=c.xfail, strict=True)] if c.xfail else []) for c in load()],
)
def test_case(case: Case, opsets: str) -> None:
    verify(case, opsets)
