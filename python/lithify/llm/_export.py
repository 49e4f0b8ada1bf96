"""The one call: exports the parts of a generative model, checks them, and writes the folder."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lithify._errors import ExportError
from lithify._export import Result
from lithify._export import export as export_model

if TYPE_CHECKING:
    from lithify.llm._decoder import Decoder

BATCH, PAST, SEQUENCE, SOURCE = "batch_size", "past_sequence_length", "sequence_length", "encoder_sequence_length"


SMALLER = ("weights", "precision")  # arguments that change results


@dataclass
class Part:
    """A file of the folder: what is exported, and arguments of it at sizes of its dimensions."""

    file: str
    call: Callable[..., Any]
    arguments: Callable[..., dict[str, Any]]
    sample: dict[str, int]
    checked: list[tuple[int, ...]]  # sizes at which the file is compared with the model
    present: str = "present."  # the names of outputs of the cache begin with it


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
    text from: `model.onnx`, one file for the prompt and for every further step, or `encoder.onnx` and `decoder.onnx`;
    `genai_config.json`; `generation_config.json`; and the files of the tokenizer.

    last_logits: the logits of the last token only, which is all that generation needs.
    verify: compare the file with the model: at an empty and a filled cache, one and several tokens, batches, and padding.
    progress: called with the name of each step.

    The other options are those of `lithify.export`. Raises ExportError, and leaves the folder as it was then.
    """
    from lithify.llm import _folder

    say = progress or (lambda _: None)
    _folder.check_model(model)
    _folder.check_tokenizer(tokenizer)
    say("running the model")
    parts, decoder = _parts(model, last_logits)
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    results: dict[str, Result] = {}
    with _complete(path) as made:
        for part in parts:
            say(f"exporting {part.file}")
            # The results of smaller weights are others, so they are written when the file is known to be right.
            whole = options | {name: "unchanged" for name in SMALLER if name in options} if verify else options
            result = _export_part(part, made, opset_version, whole)
            if verify:
                say(f"comparing {part.file} with the model")
                _check(part, made, result)
            if options != whole:
                say(f"making {part.file} smaller")
                result = _export_part(part, made, opset_version, options)
            results[part.file] = _moved(result, path)
        _folder.write_saved(made, model, tokenizer)
        if decoder is not None:
            _folder.write_config(made, decoder, results[parts[0].file])
    return Folder(path, results)


@contextlib.contextmanager
def _complete(folder: Path) -> Iterator[Path]:
    """A folder whose files are in `folder` at the end. After an exception, that is as it was."""
    with tempfile.TemporaryDirectory(prefix=".lithify-", dir=folder) as made:
        yield Path(made)
        for file in Path(made).iterdir():
            file.replace(folder / file.name)


def _moved(result: Result, folder: Path) -> Result:
    """The result with the paths that its files get."""
    external = result.external_file
    return replace(
        result, path=folder / result.path.name if result.path else None, external_file=external and folder / external.name
    )


def _parts(model: Any, last_logits: bool) -> tuple[list[Part], Decoder | None]:
    """The files, and the decoder where there is no more."""
    if not getattr(model.config, "is_encoder_decoder", False):
        from lithify.llm._decoder import Decoder

        decoder = Decoder(model, last_logits=last_logits)
        sizes = [(1, 0, 4), (3, 0, 5), (1, 6, 1), (3, 4, 1), (2, 3, 4)]
        return [Part("model.onnx", decoder.step(), decoder.arguments, {BATCH: 2, PAST: 5, SEQUENCE: 3}, sizes)], decoder
    from lithify.llm._encoder_decoder import EncoderDecoder

    pair = EncoderDecoder(model, last_logits=last_logits)
    sample = {BATCH: 2, PAST: 5, SEQUENCE: 3, SOURCE: 7}
    encoder = Part("encoder.onnx", pair.encode(), pair.sources, {BATCH: 2, SOURCE: 7}, [(1, 4), (3, 9)], "present.encoder.")
    sizes = [(1, 0, 1, 6), (3, 0, 5, 4), (1, 6, 1, 9), (3, 4, 1, 5), (2, 3, 4, 8)]
    return [encoder, Part("decoder.onnx", pair.step(), pair.arguments, sample, sizes, "present.decoder.")], None


def _export_part(part: Part, folder: Path, opset_version: int | str | None, options: dict[str, Any]) -> Result:
    from lithify.llm._axes import dynamic_axes

    return export_model(
        part.call,
        (),
        os.fspath(folder / part.file),
        kwargs=part.arguments(*part.sample.values()),
        output_names=_output_names(part),
        dynamic_axes=dynamic_axes(part.call, part.arguments, part.sample),
        opset_version=opset_version,
        **options,
    )


def _output_names(part: Part) -> list[str]:
    from lithify._structure import Leaves, flatten
    from lithify.llm._runs import CACHE, undisturbed_runs

    leaves: Leaves = []
    with undisturbed_runs(part.call.__self__):  # type: ignore[attr-defined]
        flatten(part.call(**part.arguments(*part.sample.values())), "", leaves)
    return [name.replace(f"{CACHE}.", part.present, 1) for name, _ in leaves]


def _check(part: Part, folder: Path, result: Result) -> None:
    """Raises ExportError where the file differs from the model. Where it makes no claim about the sizes, what the model does
    there could not be captured."""
    from lithify import _check
    from lithify._signature import bind
    from lithify.llm._axes import TOTAL

    if not _check.available():
        return
    sample = bind(part.call, (), part.arguments(*part.sample.values()))
    checker = _check.Checker(part.call, sample, [], folder / part.file)
    for sizes in part.checked:
        difference = checker.compare(bind(part.call, (), part.arguments(*sizes)).tensors)
        if difference:
            at = dict(zip(part.sample, sizes, strict=True))
            text = ", ".join(f"{name}={size}" for name, size in at.items())
            every = at | {TOTAL: at.get(PAST, 0) + at.get(SEQUENCE, 0)}
            known = {d.name: every[d.name] for d in result.claims.dimensions}
            if not result.claims.holds(**known):
                raise ExportError(f"what the model does at {text} cannot be exported: {result.claims.why(**known)}")
            raise ExportError(f"the exported model differs from the live one at {text}: {difference}")
