"""Every case of `src/*/*_cases.py` by every route."""

from collections.abc import Callable

import pytest

from tests.cases import Case, load
from tests.driver import verify


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, id=c.name, marks=[pytest.mark.xfail(reason=c.xfail, strict=True)] if c.xfail else []) for c in load()],
)
def test_case(case: Case, pytestconfig: pytest.Config, record_property: Callable[[str, object], None]) -> None:
    captured = verify(case, pytestconfig.getoption("opsets"), pytestconfig.getoption("every"))
    if "exported" in captured:
        record_property("exported", (captured["exported"], case.name))
