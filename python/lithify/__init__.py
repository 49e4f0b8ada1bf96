"""From a PyTorch model to ONNX. `lithify.export` takes the call of torch.onnx.export.

    import lithify

    lithify.export(model, (x,), "model.onnx", input_names=["x"], dynamic_axes={"x": {0: "batch"}})

torch is imported when a live model is exported, and onnxruntime when a result is verified; files need neither.
"""

from __future__ import annotations

from lithify import llm
from lithify._core import Claims, supported_operators
from lithify._core import version as __version__
from lithify._custom import ops
from lithify._errors import ExportError, ExportWarning
from lithify._export import Result, export
from lithify._files import check, claims, convert, diff, inspect, show
from lithify._patch import patch
from lithify._verify import Verification, verify

__all__ = [
    "Claims",
    "ExportError",
    "ExportWarning",
    "Result",
    "Verification",
    "__version__",
    "check",
    "claims",
    "convert",
    "diff",
    "export",
    "inspect",
    "llm",
    "ops",
    "patch",
    "show",
    "supported_operators",
    "verify",
]
