"""What an export can fail with. Needs neither torch nor the extension module, which raises it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lithify._core import Message


class ExportError(RuntimeError):
    """The model cannot be exported. `messages` has every reason; the text of the error has all of them as well."""

    def __init__(self, messages: Sequence[Message] | str) -> None:
        super().__init__(messages if isinstance(messages, str) else "\n".join(str(m) for m in messages))
        self.messages: list[Message] = [] if isinstance(messages, str) else list(messages)


class ExportWarning(UserWarning):
    """A file was written, and something about it is worth a look. It has the line of the model's source."""


class CannotCapture(ExportError):
    """The program of a model cannot be captured in one way; there may be others."""


class CannotRun(CannotCapture):
    """The model itself fails on the arguments, whatever captures it."""


class CannotCheck(ExportError):
    """An exported model cannot be compared with the live one: the runtime lacks something that it needs."""
