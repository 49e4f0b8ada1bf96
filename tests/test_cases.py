"""Every case of `src/*/*_cases.py` by every route."""

from collections.abc import Callable

import pytest

from tests.cases import Case, load
from tests.driver import verify
from tests.routes import FILE, FIX, KINDS, Recorded, counted

RECORDED = Recorded.read(FILE.read_text())


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, id=c.name, marks=[pytest.mark.xfail(reason=c.xfail, strict=True)] if c.xfail else []) for c in load()],
)
def test_case(case: Case, pytestconfig: pytest.Config, record_property: Callable[[str, object], None]) -> None:
    captured = verify(case, pytestconfig.getoption("opsets"), pytestconfig.getoption("every"))
    record_property("routes", (case.name, captured))
    if not pytestconfig.getoption("record_routes"):
        RECORDED.compare(case, captured)


def test_routes_do_not_get_fewer() -> None:
    """Neither by a case that is gone, nor by one that excludes a route."""
    now = counted(load(), RECORDED)
    for family, counts in RECORDED.counts.items():
        for kind in KINDS:
            assert now[family][kind] >= counts[kind], f"fewer cases of {family} are {kind} than tests/routes.txt has. {FIX}"


def test_recorded_cases_exist() -> None:
    gone = RECORDED.missing.keys() - {c.name for c in load()}
    assert not gone, f"tests/routes.txt has cases that are gone. {FIX}\n" + "\n".join(sorted(gone))
