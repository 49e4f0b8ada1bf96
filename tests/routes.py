"""Which routes the cases take, so that none is lost unnoticed.

A case is traced, scripted and exported. Cases that torch cannot script, or that torch.export does not capture, are in
`routes.txt`, beside the number of cases of each family by each route. A case that loses a route fails. So does one that gains
a route, until

    .venv/bin/python -m pytest -n 2 --every --record-routes tests/test_cases.py

has recorded it. With `-k`, the entries of the other cases are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.cases import Case
from tests.driver import Mismatch, routes

FILE = Path(__file__).with_suffix(".txt")
KINDS = ("traced", "scripted", "exported")
FIX = "If that is right, record it: pytest --every --record-routes tests/test_cases.py"


@dataclass
class Recorded:
    """The contents of the file: cases by family and route, and the routes that a case does not take."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    missing: dict[str, set[str]] = field(default_factory=dict)

    @staticmethod
    def read(text: str) -> Recorded:
        recorded = Recorded()
        for line in filter(None, text.splitlines()):
            first, *rest = line.split()
            if rest[0].isdecimal():
                recorded.counts[first] = Counter(dict(zip(KINDS, map(int, rest), strict=True)))
            elif first != "family":
                recorded.missing[rest[-1]] = {first, *rest[:-1]}
        return recorded

    def text(self) -> str:
        rows = [("family", *KINDS), *((family, *map(str, (of[k] for k in KINDS))) for family, of in self.counts.items())]
        table = [f"{row[0]:<14}" + "".join(f"{cell:>10}" for cell in row[1:]) for row in rows]
        lines = [f"{' '.join(k for k in KINDS if k in kinds):<18} {name}" for name, kinds in self.missing.items()]
        return "\n".join([*table, "", *lines, ""])

    def compare(self, case: Case, captured: Mapping[str, bool]) -> None:
        """Fails where a route was tried, and it does not go as the file says."""
        known = self.missing.get(case.name, set())
        lost = [k for k, done in captured.items() if not done and k not in known]
        gained = [k for k, done in captured.items() if done and k in known]
        if lost:
            raise Mismatch(
                f"{case.place}: {case.name} cannot be {' and '.join(lost)}, which tests/routes.txt does not have. {FIX}"
            )
        if gained:
            raise Mismatch(f"{case.place}: {case.name} can now be {' and '.join(gained)}. {FIX}")

    def update(self, cases: Iterable[Case], captured: Mapping[str, Mapping[str, bool]]) -> None:
        """Takes what these cases came to; keeps the rest of the cases that there are, and counts again."""
        before, self.missing, self.counts = self.missing, {}, {}
        for case in cases:
            kinds = before.get(case.name, set())
            tried = captured.get(case.name, {})
            kinds = {k for k in kinds if not tried.get(k)} | {k for k, done in tried.items() if not done}
            if kinds:
                self.missing[case.name] = kinds
            self.counts.setdefault(case.family, Counter()).update(k for k in asked(case) if k not in kinds)


def asked(case: Case) -> set[str]:
    """The routes that the case does not exclude itself."""
    return {route.capture for route in routes(case, every=True)}


def counted(cases: Iterable[Case], recorded: Recorded) -> dict[str, Counter[str]]:
    """The cases by family and route, as far as the file knows."""
    now = Recorded(missing=dict(recorded.missing))
    now.update(cases, {})
    return now.counts
