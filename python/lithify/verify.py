"""Compares an exported model, run by ONNX Runtime, with the live model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lithify._errors import ExportError
from lithify._export import Result

TOLERANCE = {"float16": (1e-2, 1e-3), "bfloat16": (5e-2, 1e-2), "float64": (1e-7, 1e-7)}  # relative, absolute


@dataclass
class Comparison:
    """One line for each output: its name, and what is wrong with it or nothing."""

    outputs: list[tuple[str, str]]

    def check(self) -> None:
        """Raises ExportError with all that is wrong."""
        wrong = [f"{name}: {what}" for name, what in self.outputs if what]
        if wrong:
            raise ExportError("the exported model differs from the live one\n  " + "\n  ".join(wrong))


def verify(
    model: Any, exported: Result | str | os.PathLike[str], args: Any, *, kwargs: Mapping[str, Any] | None = None
) -> Comparison:
    """Runs both on the sample. Needs onnxruntime."""
    import onnxruntime
    import torch

    from lithify._capture import undisturbed
    from lithify._signature import bind, split_kwargs
    from lithify._structure import Leaves, flatten

    file = (exported.path or exported.bytes) if isinstance(exported, Result) else exported
    if file is None:
        raise ExportError("a model that was written to a file object cannot be verified: give its path")
    session = onnxruntime.InferenceSession(
        file if isinstance(file, bytes) else os.fspath(file), providers=["CPUExecutionProvider"]
    )
    positional, named = split_kwargs(args, kwargs)
    forward = model.forward if isinstance(model, torch.nn.Module) else model
    arguments = bind(forward, positional, named)
    feed = {i.name: t.detach().cpu().numpy() for i, t in zip(session.get_inputs(), arguments.tensors, strict=True)}
    got = session.run(None, feed)
    leaves: Leaves = []
    with undisturbed(model if isinstance(model, torch.nn.Module) else None, False), torch.no_grad():
        given, by_name = arguments.rebuild(arguments.tensors)
        flatten(model(*given, **by_name), "", leaves)
    if len(got) != len(leaves):
        raise ExportError(f"the exported model has {len(got)} outputs, and the live one {len(leaves)}")
    rows = []
    for output, array, (_, expected) in zip(session.get_outputs(), got, leaves, strict=True):
        relative, absolute = TOLERANCE.get(str(expected.dtype).removeprefix("torch."), (1e-3, 1e-4))
        scale = max(1.0, float(expected.abs().max())) if expected.numel() and expected.dtype != torch.bool else 1.0
        try:
            torch.testing.assert_close(
                torch.from_numpy(array), expected.cpu(), rtol=relative, atol=absolute * scale, equal_nan=True
            )
            rows.append((output.name, ""))
        except AssertionError as error:
            rows.append((output.name, " ".join(str(error).split())))
    return Comparison(rows)
