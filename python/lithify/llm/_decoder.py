"""What a causal model generates with: the parameters of its forward, its cache, and arguments of any sizes."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import torch

from lithify import _caches
from lithify._errors import ExportError
from lithify.llm._runs import CACHE, method_of, undisturbed_runs

POSITIONS = "position_ids"
TOLERANCE = {torch.float16: 0.05, torch.bfloat16: 0.1}  # of logits, in parts of the largest: kernels differ


class Decoder:
    """A causal model of transformers. A step of it takes `input_ids`, the `attention_mask` of the past and of the input,
    `position_ids` where the model has them, and the cache. It returns the logits and the cache."""

    def __init__(self, model: Any, *, last_logits: bool = False) -> None:
        self.model, self.last_logits = model, last_logits
        self.config = model.config.get_text_config(decoder=True)
        self.parameters = inspect.signature(model.forward).parameters
        _check_takes_text(model, self.parameters)
        self.cache_name, self._cache_type = self._cache()
        self.has_positions = POSITIONS in self.parameters
        self.masks_sequence = False  # whether the model takes the mask of the input alone
        self._choose_mask()

    def step(self) -> Callable[..., Any]:
        """What is exported: a method of the model."""
        names = ["input_ids", "attention_mask", *([POSITIONS] if self.has_positions else []), CACHE]
        return method_of(self.model, lambda *args: self._run(**dict(zip(names, args, strict=True))), names)

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
        with undisturbed_runs(self.model):
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
        with undisturbed_runs(self.model):
            out = self.model(input_ids=ids, return_dict=True, **takes)
        found = [(name, value) for name, value in out.items() if name in self.parameters and _caches.is_cache(value)]
        if not found:
            raise ExportError(
                f"{type(self.model).__name__} returns no cache of keys and values, which generation needs: it has no use_cache"
                if not takes
                else f"{type(self.model).__name__} returns no cache with use_cache=True: it cannot generate token by token"
            )
        return found[0][0], type(found[0][1])

    def _choose_mask(self) -> None:
        """Finds which mask the model continues with. Raises ExportError where it does with none."""
        for self.masks_sequence in (False, True):
            with contextlib.suppress(RuntimeError, IndexError):
                if self._continues():
                    return
        raise ExportError(f"{type(self.model).__name__} gives other logits token by token than for all tokens at once")

    def _continues(self) -> bool:
        """Whether the last of some tokens has the same logits after the others as with them."""
        ids = torch.arange(8).view(2, 4) % self.config.vocab_size
        mask = torch.tensor([[1, 1, 1, 1], [0, 1, 1, 1]])
        cache = self.filled(ids[:, :3], mask[:, :3])
        with undisturbed_runs(self.model):
            whole = self._run(**self.given(ids, mask, self._fresh()))["logits"][:, -1]
            last = self._run(**self.given(ids[:, 3:], mask, cache))["logits"]
        near = TOLERANCE.get(whole.dtype, 0.01) * whole.abs().max()
        return bool(last.shape[1] == 1 and (last[:, -1] - whole).abs().max() <= near)


def _check_takes_text(model: Any, parameters: Iterable[str]) -> None:
    others = [name for name in parameters if name.startswith(("pixel_values", "input_features", "input_values"))]
    if others:
        raise ExportError(
            f"{type(model).__name__} takes {', '.join(others)} beside text, and models with images or sounds are not supported: "
            "export its parts with lithify.export"
        )


def _without_window(layer: Any) -> Any:
    if _caches.window(layer) is None:
        return layer
    from transformers.cache_utils import DynamicLayer, LinearAttentionAndFullAttentionLayer

    states = getattr(layer, "number_of_states", None)
    return DynamicLayer() if states is None else LinearAttentionAndFullAttentionLayer(states)
