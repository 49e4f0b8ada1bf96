"""What a capture learns of sizes that Python uses: conditions and escapes, with their formulas and lines."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import Any, cast

import torch

from lithify import _places, _torch
from lithify._errors import CannotCapture
from lithify._formula import COMPARISONS, Constant, Term, apply, leaf

MOST_CONDITIONS = 2000  # of one run, which may not end


@dataclass(frozen=True)
class Condition:
    """A question about sizes, or about what inputs hold, whose outcome Python asked for."""

    formula: str  # over s0, s1, ...; empty for one about numbers that inputs hold
    outcome: bool
    where: str  # "model.py:12"
    question: str | None = None  # which one it is of those about what inputs hold, if it is one
    other_raises: bool = False  # whether the other outcome leads to a raise


@dataclass(frozen=True)
class Escape:
    """A number that Python took."""

    formula: str  # over s0, s1, ...; empty for one of numbers that inputs hold
    value: float
    what: str  # "index", "float", "text", "hash", ...
    where: str
    of_contents: bool = False  # it may depend on what inputs hold
    only_here: bool = False  # torch.export is likely to follow it


@dataclass
class Followed:
    """What is known of sizes outside of the program; see capture.hpp. The last results of the program are the outcomes of the
    conditions, in this order, and then the sizes s0, s1, ..."""

    conditions: list[Condition] = field(default_factory=list)
    escapes: list[Escape] = field(default_factory=list)
    sizes: int = 0


@dataclass(frozen=True)
class Level:
    """How much is followed. A model that breaks on symbolic numbers is captured at the next level."""

    sizes: bool = True  # False: nothing is followed
    symbolic: bool = True  # False: sizes are plain numbers, and each that Python asks for is an escape
    constructors: bool = True  # int(n) and float(n) are followed; False: they are escapes
    hashes: bool = False  # hashes of sizes are escapes; False: they raise TypeError, as those of torch.SymInt do


class Watch:
    """Hears of the numbers of one capture: see _numbers.Watch. `ask` is called for a condition on contents, with a text and the
    outcome. It returns a text that is only this question's, or None where that is the only outcome, and the outcome to go on
    with."""

    def __init__(
        self, level: Level, ask: Callable[[str, bool], tuple[str | None, bool]], idle_texts: Container[str] = ()
    ) -> None:
        self.is_open = True
        self.texts: set[str] = set()  # where numbers become texts for calls whose results are dropped
        self.other_text = 0  # in a replay, texts are of numbers that are larger by this
        self._idle_texts = idle_texts  # where they change nothing
        self.level = level
        self.refused_hash = False
        self._conditions: dict[str, tuple[Condition, Term]] = {}
        self._escapes: dict[tuple[str, str], tuple[Escape, Term]] = {}
        self._asked: set[object] = set()  # where something was asked that is the same in each iteration of a loop
        self._names: dict[int, tuple[str, Term]] = {}
        self._sizes: dict[tuple[int, int], Term] = {}  # by value and axis: those that positions are below
        self._tensors: dict[int, tuple[torch.Tensor, Term]] = {}
        self._program: _torch.Program | None = None
        self._thread = threading.get_ident()
        self._made: list[weakref.ref[Any]] = []
        self._ask = ask
        self._key: Term | None = None

    def made(self, number: Any) -> None:
        self._made.append(weakref.ref(number))

    def condition(self, term: Term) -> bool:
        key = _text_by_identity(term) if term.of_contents else term.text(self._name)
        known = self._conditions.get(key)
        if known is None:
            where, outcome = _places.place(), bool(term.value)
            if len(self._conditions) == MOST_CONDITIONS:
                raise CannotCapture(f"its code asks more than {MOST_CONDITIONS} questions about sizes, at last at {where}")
            question: str | None = None
            if term.of_contents:
                if (certain := self._in_bounds(term)) is not None:
                    return certain
                question, outcome = self._ask(f"condition on data at {where}", outcome)
                if question is None:
                    return outcome
            raises = not term.of_contents and _places.raises_unless(outcome)
            if raises and self.is_asked_again(term.text(lambda _: "size")):
                return outcome
            known = self._conditions[key] = Condition(self._formula(term), outcome, where, question, raises), term
            self.tensor(term)  # here, where the paths part
            if term.of_contents:  # what follows is not of both paths, and gives it no line
                self._traced().locate_by(term.first_source())
        return known[0].outcome

    def is_asked_again(self, what: str = "") -> bool:
        """Whether the running code has asked this before, as the iterations of a loop do."""
        at = _places.calls(), what
        if at in self._asked:
            return True
        self._asked.add(at)
        return False

    def _in_bounds(self, term: Term) -> bool | None:
        """The outcome of a comparison that no position along an axis has otherwise: `i < n`, where i is one of nonzero(), and the
        axis has n elements at most."""
        compared = _torch.comparison_with_constant(term.source[0]) if term.source else _comparison_with_constant(term)
        if compared is None or not self.level.symbolic:
            return None
        op, value, constant = compared
        along = _torch.positions_along(value)
        beyond = constant + (op in ("<=", ">"))
        if along is None or op not in _BEYOND or _torch.sizes_in(along[0])[along[1]] > beyond:
            return None
        size = leaf(along[0], along[1], _torch.sizes_in(along[0])[along[1]])
        size = self._sizes.setdefault((_torch.key_of(along[0]), along[1]), size)
        added = self._traced().added()
        is_beyond = self.condition(cast(Term, apply("<=", size, beyond)))
        self._traced().put_behind(along[0], added)
        return _BEYOND[op] if is_beyond else None

    def escape(self, term: Term, what: str) -> Constant:
        self._escaped(term, what)
        return term.value

    def text(self, term: Term) -> Constant:
        where = _places.place()
        if term.of_contents and self.level.symbolic and type(term.value) is int and _places.is_in_key_of_modules():
            self._key = term
            return term.value
        if where in self._idle_texts or _places.is_for_message():
            return term.value
        self._escaped(term, "text")
        if not _places.is_in_call_without_result():
            return term.value
        self.texts.add(where)
        return term.value + self.other_text

    def taken_key(self) -> Term | None:
        """The number whose text was made for a key of modules, once."""
        term, self._key = self._key, None
        return term

    def hash(self, term: Term) -> int:
        if not self.level.hashes:
            self.refused_hash = True
            raise TypeError("unhashable type: 'SymInt'")
        self._escaped(term, "hash")
        return hash(term.value)

    def tensor(self, term: Term) -> torch.Tensor:
        if threading.get_ident() != self._thread:
            with _torch.without_functions():
                return torch.tensor(self.escape(term, "thread"))
        made = self._tensors.get(id(term))
        if made is None:
            program = self._traced()
            made = self._tensors[id(term)] = program.tensor(term.scalar(program), term.value), term
        return made[0]

    def locate(self, result: Any) -> None:
        """The statements for numbers that a function got have the line of that function, whose result this is."""
        if self._program is not None:
            self._program.locate(result)

    def settle(self, term: Term) -> None:
        term.named, term.weight = True, 1
        term.scalar(self._traced())

    def _escaped(self, term: Term, what: str) -> None:
        formula = self._formula(term)
        if formula and what == "text":
            formula = f"str({formula})"
        key, where = formula or _text_by_identity(term), _places.place()
        if (key, where) not in self._escapes and not _places.is_logged():
            escape = Escape(formula, float(term.value.real), what, where, term.of_contents, only_here=what == "vmap")
            self._escapes[key, where] = escape, term

    def _formula(self, term: Term) -> str:
        """The formula of sizes; empty for a term of numbers that inputs hold."""
        return "" if _is_held(term) else term.text(self._name)

    def _name(self, term: Term) -> str:
        named = self._names.get(id(term))
        if named is None:
            named = self._names[id(term)] = f"s{len(self._names)}", term
        return named[0]

    def _traced(self) -> _torch.Program:
        if self._program is None:
            self._program = _torch.Program()
        return self._program

    # What is known at the end of the run.

    def results(self) -> list[torch.Tensor]:
        """The outcomes of the conditions and the sizes, as the last results of the program."""
        terms = [term for _, term in self._conditions.values()] + [term for _, term in self._names.values()]
        return [self.tensor(term) for term in terms]

    def followed(self) -> Followed:
        escapes = [escape for escape, _ in self._escapes.values()]
        return Followed([condition for condition, _ in self._conditions.values()], escapes, len(self._names))

    def close(self) -> None:
        """From here on, the numbers are plain, and where the model has kept some, it gets plain ones."""
        self.is_open = False
        self._tensors.clear()
        self._program = None
        kept = [number for ref in self._made if (number := ref()) is not None]
        self._made.clear()
        if kept:
            _replace(kept)


_BEYOND = {"==": False, "!=": True, "<": True, "<=": True, ">": False, ">=": False}  # of any position with a number beyond all


def _comparison_with_constant(term: Term) -> tuple[str, _torch.Value, int] | None:
    """Of an integer that a tensor holds with a constant: the operator, the tensor and the constant."""
    if term.op not in COMPARISONS:
        return None
    number, constant = term.operands
    if not isinstance(number, Term) or number.source is None or number.source[1] is not None or type(constant) is not int:
        return None
    return term.op, number.source[0], constant


def _text_by_identity(term: Term) -> str:
    """A text that only the same operations on the same numbers have."""
    return term.text(lambda t: f"n{id(t)}")


def _is_held(term: Term) -> bool:
    """Whether it is computed from a number that an input holds."""
    if not term.of_contents:
        return False
    if term.source:
        return term.source[1] is None
    return any(_is_held(o) for o in term.operands if isinstance(o, Term))


def _replace(numbers: list[Any]) -> None:
    """Puts plain numbers in the place of others, in lists, dicts and attributes."""
    plain = {id(number): number.value for number in numbers}
    for holder in gc.get_referrers(*numbers):
        if type(holder) is dict:
            items = [(key, plain[id(value)]) for key, value in holder.items() if id(value) in plain]
            holder.update(items)
        elif type(holder) is list and holder is not numbers:
            holder[:] = [plain.get(id(item), item) for item in holder]
