"""The commands that need PyTorch: `python -m lithify verify` and `python -m lithify llm`. `lithify verify` is the same."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import typing
from typing import Any

from lithify import inspect, llm, verify
from lithify._errors import ExportError
from lithify._files import Precision, Weights

NEEDED = {
    "verify": ("torch", "onnx", "onnxruntime"),
    "llm": ("torch", "transformers", "onnxruntime"),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="lithify", description="the commands that need PyTorch")
    commands = parser.add_subparsers(required=True, dest="command")
    _add_verify(commands.add_parser("verify", help="compare a PyTorch model with the ONNX model that was exported from it"))
    _add_llm(commands.add_parser("llm", help="export a saved model of transformers as a folder that generates text"))
    asked = parser.parse_args()
    missing = [name for name in NEEDED[asked.command] if importlib.util.find_spec(name) is None]
    if missing:
        print(f"error: lithify {asked.command} needs {', '.join(missing)}: pip install {' '.join(missing)}", file=sys.stderr)
        return 2
    try:
        return asked.run(asked)  # type: ignore[no-any-return]
    except (ExportError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _add_verify(command: argparse.ArgumentParser) -> None:
    command.add_argument("reference", help="a file of torch.jit.save or torch.export.save")
    command.add_argument("model", help="the ONNX model")
    command.add_argument("--inputs", help="a file of torch.save with the tuple of arguments; random ones if it is left out")
    command.add_argument("--size", action="append", type=_size, help="sizes to run at: batch=4,seq=7")
    command.set_defaults(run=_verify)


def _verify(asked: argparse.Namespace) -> int:
    args = _saved(asked.inputs) if asked.inputs else _sample(asked.reference)
    seen = verify(asked.reference, asked.model, args, sizes=asked.size)
    print(seen)
    return 0 if seen else 1


def _add_llm(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", help="a folder of save_pretrained: a generative model, with its tokenizer if it has one")
    command.add_argument("-o", "--output", required=True, help="the folder to write")
    command.add_argument("--opset", help="ONNX opset, 'latest', or a runtime such as ort-1.17")
    command.add_argument("--last-logits", action="store_true", help="the logits of the last token only")
    command.add_argument("--no-verify", action="store_true", help="do not compare the files with the model")
    command.add_argument("--weights", choices=typing.get_args(Weights), default="unchanged", help="store large weights so")
    command.add_argument("--target", default="", help="'ort': operators that only ONNX Runtime has may be used")
    command.add_argument("--precision", choices=typing.get_args(Precision), default="unchanged", help="compute so")
    command.set_defaults(run=_llm)


def _llm(asked: argparse.Namespace) -> int:
    from lithify.llm._saved import loaded, tokenizer_of

    def say(step: str) -> None:
        print(f"{step} ...", file=sys.stderr, flush=True)

    say("reading the model")
    model, tokenizer = loaded(asked.model), tokenizer_of(asked.model)
    if tokenizer is None:
        print(f"note: {asked.model} has no tokenizer: the folder gets none", file=sys.stderr)
    opset = int(asked.opset) if asked.opset and asked.opset.isdecimal() else asked.opset
    written = llm.export(
        model,
        asked.output,
        tokenizer,
        last_logits=asked.last_logits,
        opset_version=opset,
        verify=not asked.no_verify,
        progress=say,
        weights=asked.weights,
        target=asked.target,
        precision=asked.precision,
    )
    print(written)
    return 0


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
