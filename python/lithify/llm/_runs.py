"""Runs of a live model, and functions that are exported as methods of it."""

from __future__ import annotations

import contextlib
import inspect
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from lithify._restore import undisturbed

CACHE = "past_key_values"  # in the file, whatever the parameter is called


@contextlib.contextmanager
def undisturbed_runs(model: Any) -> Iterator[None]:
    """Runs of the model in evaluation mode, which leave it as it was."""
    with undisturbed(model, False), warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        yield


def method_of(model: Any, forward: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """A function as a method of the model, whose weights it uses, with parameters of these names."""

    def method(_: Any, *args: Any, **kwargs: Any) -> Any:
        return forward(*args, *(kwargs[name] for name in names[len(args) :]))

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    method.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in ("self", *names)])  # type: ignore[attr-defined]
    return types.MethodType(method, model)
