"""Checks of contents that only raise, as `if torch.isnan(x).any(): raise ValueError`.

Where the model has results, the outcome of such a check is the recorded one, so it is no reason to refuse a trace. To find them,
the model is run again with the other outcome of a question: it has to raise in the function that asked, or at once.
"""

from __future__ import annotations

import dis
from collections.abc import Callable
from types import CodeType
from typing import Any

from lithify._follow import Follower, Question, Stopped, UsedByPython

MOST_REPLAYS = 8


def found(follower: Follower, run: Callable[[Follower], Any]) -> set[str]:
    """The questions that a follower met and that only guard, by their texts. `run` records the model with another one."""
    questions = {(q.code, q.instruction): q for q in reversed(follower.questions)}
    if len(questions) > MOST_REPLAYS:
        return set()
    others = {q.text for q in questions.values() if not _only_raises(q, follower.inverted(q), run)}
    return {q.text for q in follower.questions} - others


def _only_raises(question: Question, replay: Follower, run: Callable[[Follower], Any]) -> bool:
    try:
        run(replay)
    except Exception as error:
        return replay.since_inverted == 0 or (replay.since_inverted is not None and _raises_in(error, question.code))
    except (Stopped, UsedByPython):
        pass
    return False


def _raises_in(error: Exception, code: CodeType | None) -> bool:
    """Whether the error comes from a raise or an assert statement of the function."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    if at is None or at.tb_frame.f_code is not code:
        return False
    return dis.opname[at.tb_frame.f_code.co_code[at.tb_lasti]] == "RAISE_VARARGS"
