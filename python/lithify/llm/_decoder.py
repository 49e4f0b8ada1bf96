"""What a causal model generates with: the parameters of its forward, its cache, and arguments of any sizes."""

from __future__ import annotations

import contextlib
import inspect
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from lithify import _caches
from lithify._errors import ExportError
from lithify._restore import undisturbed

CACHE = "past_key_values"  # in the file, whatever the parameter is called
POSITIONS = "position_ids"


class Decoder:
    """A causal model of transformers. A step of it takes `input_ids`, the `attention_mask` of the past and of the input,
    `position_ids` where the model has them, and the cache. It returns the logits and the cache."""

    def __init__(self, model: Any, *, last_logits: bool = False) -> None:
        self.model, self.last_logits = model, last_logits
        self.config = model.config.get_text_config(decoder=True)
        self.parameters = inspect.signature(model.forward).parameters
        self.cache_name, self._cache_type = self._cache()
        self.has_positions = POSITIONS in self.parameters
        self.masks_sequence = False  # whether the model takes the mask of the input alone
        self.masks_sequence = not self._takes_whole_mask()

    def step(self) -> Callable[..., Any]:
        """What is exported: a method of the model."""
        names = ["input_ids", "attention_mask", *([POSITIONS] if self.has_positions else []), CACHE]

        def forward(_: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
            return self._run(**dict(zip(names, args, strict=False)), **kwargs)

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = [inspect.Parameter(name, kind) for name in ("self", *names)]
        forward.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return types.MethodType(forward, self.model)

    def arguments(self, batch: int, past: int, sequence: int) -> dict[str, Any]:
        """Of a step after `past` tokens. Rows have padding on the left, each more than the one before, where there is a past."""
        total = past + sequence
        ids = torch.randint(0, self.config.vocab_size, (batch, total), generator=torch.Generator().manual_seed(0))
        mask = (torch.arange(total) >= torch.arange(batch)[:, None].clamp(max=total - 1)).long()
        cache = self.filled(ids[:, :past], mask[:, :past]) if past else self.empty(batch)
        return self.given(ids[:, past:], mask, cache)

    def given(self, ids: torch.Tensor, mask: torch.Tensor, cache: Any) -> dict[str, Any]:
        """The arguments of a step, as generate has them: positions are counted without padding."""
        positions = (mask.cumsum(-1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        return {"input_ids": ids, "attention_mask": mask, **({POSITIONS: positions} if self.has_positions else {}), CACHE: cache}

    def filled(self, ids: torch.Tensor, mask: torch.Tensor) -> Any:
        """The cache after some tokens."""
        with self._undisturbed():
            return self._run(**self.given(ids, mask, self._fresh()))[CACHE]

    def empty(self, batch: int) -> Any:
        """A cache of no tokens, with all of its tensors."""
        one = torch.zeros(batch, 1, dtype=torch.long)
        return _caches.emptied(self._fresh(), self.filled(one, torch.ones_like(one)))

    def _run(self, input_ids: Any, attention_mask: Any, past_key_values: Any, position_ids: Any = None) -> dict[str, Any]:
        given = {"input_ids": input_ids, "attention_mask": attention_mask, self.cache_name: past_key_values}
        if self.masks_sequence:
            sequence = input_ids.shape[1]
            given["attention_mask"] = attention_mask.narrow(1, attention_mask.shape[1] - sequence, sequence)
        if position_ids is not None:
            given[POSITIONS] = position_ids
        keeps = self.last_logits and "logits_to_keep" in self.parameters
        out = self.model(**given, use_cache=True, return_dict=True, **({"logits_to_keep": 1} if keeps else {}))
        logits = out.logits[:, -1:] if self.last_logits and not keeps else out.logits
        return {"logits": logits, CACHE: out[self.cache_name]}

    def _fresh(self) -> Any:
        """A cache without tensors. Layers with a window keep all tokens: a window is a matter of the mask then, and all layers
        have a past of the same length."""
        made = self._cache_type(config=self.model.config)
        made.layers = [_without_window(layer) for layer in made.layers]
        return made

    def _cache(self) -> tuple[str, type]:
        """The parameter that takes the cache, and its class: what the model returns under the same name."""
        ids = torch.zeros(1, 2, dtype=torch.long)
        takes = {"use_cache": True} if "use_cache" in self.parameters else {}
        with self._undisturbed():
            out = self.model(input_ids=ids, return_dict=True, **takes)
        found = [(name, value) for name, value in out.items() if name in self.parameters and _caches.is_cache(value)]
        if not found:
            raise ExportError(
                f"{type(self.model).__name__} returns no cache of keys and values, which generation needs: it has no use_cache"
                if not takes
                else f"{type(self.model).__name__} returns no cache with use_cache=True: it cannot generate token by token"
            )
        return found[0][0], type(found[0][1])

    def _takes_whole_mask(self) -> bool:
        """Whether the mask may have the tokens of the past as well."""
        try:
            given = self.arguments(2, 3, 2)
            with self._undisturbed():
                logits = self._run(**given)["logits"]
        except RuntimeError:
            return False
        return bool(logits.shape[1] == 2)

    @contextlib.contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """For runs of the model in evaluation mode, which leave it as it was."""
        with undisturbed(self.model, False), warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            yield


def _without_window(layer: Any) -> Any:
    if _caches.window(layer) is None:
        return layer
    from transformers.cache_utils import DynamicLayer, LinearAttentionAndFullAttentionLayer

    states = getattr(layer, "number_of_states", None)
    return DynamicLayer() if states is None else LinearAttentionAndFullAttentionLayer(states)
