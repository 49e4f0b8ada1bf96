"""python -m lithify verify: an exported model beside the file that it was made from. `lithify verify` is the same."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from typing import Any

from lithify import inspect, verify
from lithify._errors import ExportError


def main() -> int:
    parser = argparse.ArgumentParser(prog="lithify", description="the commands that need PyTorch")
    command = parser.add_subparsers(required=True).add_parser(
        "verify", help="compare a PyTorch model with the ONNX model that was exported from it"
    )
    command.add_argument("reference", help="a file of torch.jit.save or torch.export.save")
    command.add_argument("model", help="the ONNX model")
    command.add_argument("--inputs", help="a file of torch.save with the tuple of arguments; random ones if it is left out")
    command.add_argument("--size", action="append", type=_size, help="sizes to run at: batch=4,seq=7")
    asked = parser.parse_args()
    missing = [name for name in ("torch", "onnx", "onnxruntime") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"error: lithify verify needs {', '.join(missing)}: pip install {' '.join(missing)}", file=sys.stderr)
        return 2
    try:
        args = _saved(asked.inputs) if asked.inputs else _sample(asked.reference)
        seen = verify(asked.reference, asked.model, args, sizes=asked.size)
    except (ExportError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(seen)
    return 0 if seen else 1


def _size(text: str) -> dict[str, int]:
    return {name: int(size) for name, _, size in (item.partition("=") for item in text.split(","))}


def _saved(path: str) -> Any:
    import torch

    return torch.load(path, weights_only=True)


def _sample(reference: str) -> tuple[Any, ...]:
    """Arguments of the types and sizes that the model was captured with, as the file has them. Integers are 0 and 1: they may be
    positions in tables."""
    import torch

    torch.manual_seed(0)
    made = []
    for value in inspect(os.fspath(reference)).inputs:
        dtype = getattr(torch, value.dtype, None)
        if dtype is None or not all(size.isdigit() for size in value.shape):
            raise ExportError(f"the file does not have the type and sizes of the input '{value.name}': specify it with --inputs")
        shape = [int(size) for size in value.shape]
        made.append(torch.randn(shape).to(dtype) if dtype.is_floating_point else torch.randint(0, 2, shape).to(dtype))
    return tuple(made)


if __name__ == "__main__":
    sys.exit(main())
