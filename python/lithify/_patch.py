"""torch.onnx.export as lithify.export, for code that cannot change."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from lithify._export import export


@contextlib.contextmanager
def patch() -> Iterator[None]:
    """While it is entered, torch.onnx.export is lithify.export."""
    import torch

    before = torch.onnx.export
    torch.onnx.export = export
    try:
        yield
    finally:
        torch.onnx.export = before
