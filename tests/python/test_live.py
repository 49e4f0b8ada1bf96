"""No claim is wrong: live models at sizes drawn at random, inside and just outside of what is claimed."""

from __future__ import annotations

import copy
import random
from pathlib import Path

import pytest
import torch

import lithify
from tests.driver import Session, compare, flat
from tests.python.live_corpus import ANY, CHECKED, CORPUS, LIMITED, REFUSED, Live

DRAWN = 12
EDGES = (1, 2, 3, 4, 5, 6, 8, 9, 15, 16, 17, 24, 33)


def sizes(model: Live) -> list[dict[str, int]]:
    """The sample, each dimension alone at sizes around which code tends to decide, and all of them at random."""
    rng = random.Random(model.name)
    alone = [model.sample | {d: rng.choice(EDGES)} for d in model.dimensions for _ in range(4)]
    together = [model.sample | {d: rng.choice(EDGES) for d in model.dimensions} for _ in range(DRAWN)]
    return [model.sample, *(model.sample | at for at in model.sizes), *alone, *together]


def is_right(session: Session, module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> bool | None:
    """None where the model itself does not run."""
    try:
        with torch.no_grad():
            expected = flat(module(*copy.deepcopy(inputs)))
    except Exception:  # whatever the model raises at sizes that it cannot have
        return None
    try:
        compare(session.run(*inputs), expected, outputs=session.outputs)
    except Exception:  # of the comparison, or of the runtime
        return False
    return True


@pytest.mark.parametrize("model", CORPUS, ids=lambda m: m.name)
def test_claims_are_true(model: Live, out: Path) -> None:
    module = model.make().eval()
    if model.expected == REFUSED:
        with pytest.raises(lithify.ExportError):
            lithify.export(module, model.inputs(model.sample), out, dynamic_axes=model.axes)
        assert not out.exists()
        return
    result = lithify.export(module, model.inputs(model.sample), out, dynamic_axes=model.axes)
    claims, session = lithify.claims(out), Session(out)
    assert claims.holds(**{d: model.sample[d] for d in model.dimensions}) is True
    found = {}
    for at in sizes(model):
        held = claims.holds(**{d: at[d] for d in model.dimensions})
        right = is_right(session, module, model.inputs(at))
        assert not (held and right is False), f"wrong at {at}, which is claimed:\n{result}"
        if right is not None:
            found[tuple(at.items())] = held, right
    if model.expected == ANY:
        wrong = [at for at, outcome in found.items() if outcome != (True, True)]
        assert not wrong, f"not claimed, or wrong, at {wrong}:\n{result}"
    if model.expected in (LIMITED, CHECKED):
        assert any(held is not True for held, _ in found.values()) or model.expected == LIMITED, str(result)
