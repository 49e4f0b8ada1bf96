"""The one call: exports the parts of a generative model, checks them, and writes the folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lithify._errors import ExportError
from lithify._export import Result
from lithify._export import export as export_model

if TYPE_CHECKING:
    from lithify.llm._decoder import Decoder

MODEL = "model.onnx"
CHECKED = ((1, 0, 4), (3, 0, 5), (1, 6, 1), (3, 4, 1), (2, 3, 4))  # sizes of batch, past and sequence
BATCH, PAST, SEQUENCE = "batch_size", "past_sequence_length", "sequence_length"


@dataclass
class Folder:
    """What was written."""

    path: Path
    parts: dict[str, Result]  # by file

    def __str__(self) -> str:
        return "\n".join(f"{self.path / name}\n{result}" for name, result in self.parts.items())


def export(
    model: Any,
    folder: str | os.PathLike[str],
    tokenizer: Any = None,
    *,
    last_logits: bool = False,
    opset_version: int | str | None = None,
    verify: bool = True,
    progress: Callable[[str], object] | None = None,
    **options: Any,
) -> Folder:
    """Exports a generative model of transformers as a folder that onnxruntime-genai, and a few lines with onnxruntime, generate
    text from: `model.onnx`, one file for the prompt and for every further step; `genai_config.json`; `generation_config.json`;
    and the files of the tokenizer.

    last_logits: the logits of the last token only, which is all that generation needs.
    verify: compare the file with the model: at an empty and a filled cache, one and several tokens, batches, and padding.
    progress: called with the name of each step.

    The other options are those of `lithify.export`. Raises ExportError, and writes no model then.
    """
    from lithify.llm import _folder
    from lithify.llm._decoder import Decoder

    say = progress or (lambda _: None)
    _folder.check_model(model)
    _folder.check_tokenizer(tokenizer)
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    say("running the model")
    decoder = Decoder(model, last_logits=last_logits)
    say("exporting the decoder")
    result = _export_step(decoder, path / MODEL, opset_version, options)
    if verify:
        say("comparing the file with the model")
        _check(decoder, path / MODEL)
    _folder.write(path, decoder, result, tokenizer)
    return Folder(path, {MODEL: result})


def _export_step(decoder: Decoder, path: Path, opset_version: int | str | None, options: dict[str, Any]) -> Result:
    from lithify.llm._axes import dynamic_axes

    sample = decoder.arguments(2, 5, 3)
    axes = dynamic_axes(decoder.step(), decoder.arguments, {BATCH: 2, PAST: 5, SEQUENCE: 3})
    return export_model(
        decoder.step(), (), os.fspath(path), kwargs=sample, dynamic_axes=axes, opset_version=opset_version, **options
    )


def _check(decoder: Decoder, path: Path) -> None:
    """Raises ExportError where the file differs from the model, and removes it."""
    from lithify import _check
    from lithify._signature import bind

    if not _check.available():
        return
    step = decoder.step()
    checker = _check.Checker(step, bind(step, (), decoder.arguments(2, 5, 3)), [], path)
    for sizes in CHECKED:
        difference = checker.compare(bind(step, (), decoder.arguments(*sizes)).tensors)
        if difference:
            at = ", ".join(f"{name}={size}" for name, size in zip((BATCH, PAST, SEQUENCE), sizes, strict=True))
            path.unlink()
            raise ExportError(f"the exported model differs from the live one at {at}: {difference}")
