"""Models that save_pretrained has written."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any

from lithify._errors import ExportError

_TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json", "spiece.model")


def loaded(path: str | os.PathLike[str]) -> Any:
    """The model in a folder, of the class that it was saved from."""
    folder = Path(path)
    if not (folder / "config.json").is_file():
        raise ExportError(f"'{path}' is not a folder of save_pretrained: it has no config.json")
    try:
        names = json.loads((folder / "config.json").read_text()).get("architectures") or []
    except ValueError as error:
        raise ExportError(f"'{folder / 'config.json'}' is not JSON: {error}") from None
    import transformers

    transformers.logging.set_verbosity_error()
    name = names[0] if names else "AutoModelForCausalLM"
    try:
        kind = getattr(transformers, name)
    except (AttributeError, ImportError) as error:
        raise ExportError(f"transformers {transformers.__version__} cannot load {name}, which '{path}' needs: {error}") from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kind.from_pretrained(folder)


def tokenizer_of(path: str | os.PathLike[str]) -> Any:
    """The tokenizer in a folder; None where it has none."""
    if not any((Path(path) / name).is_file() for name in _TOKENIZERS):
        return None
    import transformers

    return transformers.AutoTokenizer.from_pretrained(path)
