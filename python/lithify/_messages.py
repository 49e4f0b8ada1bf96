"""What an export reports besides its result: warnings of Python, and lines of the log "lithify"."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from lithify._core import Message
from lithify._errors import ExportWarning

_LOG = logging.getLogger("lithify")
_PACKAGE = str(Path(__file__).parent)


def announce(messages: Sequence[Message], notes: Sequence[str] = ()) -> None:
    """Warnings are given at the line of the model's source that they are about, or at that of the call; notes are logged."""
    for note in notes:
        _LOG.info("%s", note)
    for message in messages:
        if message.severity != "warning":
            _LOG.info("%s %s", message.code, message.text)
            continue
        file, line = (message.file, message.line) if message.file else _caller()
        warnings.warn_explicit(f"{message.code}: {message.text}", ExportWarning, file, max(line, 1))


def _caller() -> tuple[str, int]:
    """The innermost line outside of this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno
