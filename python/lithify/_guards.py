"""Questions about contents that are no branches: checks that only raise, as `if torch.isnan(x).any(): raise ValueError`, and
those whose outcome changes nothing. Likewise texts of numbers for calls without a result that change nothing, as messages.

Where the model has results, the outcome of a check is the recorded one, so it is no reason to refuse a trace. To find them, the
model is run again with the other outcome of a question: it has to raise in the function that asked, or at once. Where it gives
the same program instead, with the other outcome of all questions of that place, the outcome changes nothing.
"""

from __future__ import annotations

import dis
import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any

from lithify._follow import Follower, Question, Stopped, UsedByPython

MOST_REPLAYS = 8
OTHER_TEXTS = (1, 10**12)  # the next number, and one with many digits


@dataclass
class Found:
    """By their texts: questions that are checks, and those whose outcome changes nothing; and where texts change nothing."""

    checks: set[str]
    idle: set[str]
    texts: set[str]


def found(follower: Follower, file: bytes, run: Callable[[Follower], Any]) -> Found:
    """Of what a follower met. `file` is the program that it recorded; `run` records the model with another one."""
    questions = {q.place: q for q in reversed(follower.questions)}
    texts = follower.watch.texts
    program = _program(file) if questions or texts else {}
    checks: set[str] = set()
    idle: set[str] = set()
    others: set[str] = set()
    for q in questions.values() if len(questions) <= MOST_REPLAYS else ():
        if _only_raises(q, follower.inverted(q), run):
            checks.add(q.text)
        else:
            (idle if _changes_nothing(follower.inverted(q, everywhere=True), program, run) else others).add(q.text)
    unused = texts and all(_changes_nothing(follower.inverted(None, other_text=other), program, run) for other in OTHER_TEXTS)
    return Found(checks - others, idle - checks - others, set(texts) if unused else set())


def _only_raises(question: Question, replay: Follower, run: Callable[[Follower], Any]) -> bool:
    try:
        run(replay)
    except Exception as error:
        return replay.since_inverted == 0 or (replay.since_inverted is not None and _raises_in(error, question.code))
    except (Stopped, UsedByPython):
        pass
    return False


def _changes_nothing(replay: Follower, program: dict[str, bytes], run: Callable[[Follower], Any]) -> bool:
    try:
        return _program(run(replay).file) == program
    except (Exception, Stopped, UsedByPython):
        return False


def _program(file: bytes) -> dict[str, bytes]:
    """What a file has, but for the lines of the code that led to it, and a checksum over them."""
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        names = [n for n in archive.namelist() if not n.endswith((".debug_pkl", "/serialization_id"))]
        return {name: archive.read(name) for name in names}


def _raises_in(error: Exception, code: CodeType | None) -> bool:
    """Whether the error comes from a raise or an assert statement of the function."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    if at is None or at.tb_frame.f_code is not code:
        return False
    return dis.opname[at.tb_frame.f_code.co_code[at.tb_lasti]] == "RAISE_VARARGS"
