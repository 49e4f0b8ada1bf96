"""What a model with an encoder and a decoder generates with: a step of each, and arguments of any sizes.

The encoder also computes the keys and values of the decoder's attention to it, once. So the decoder takes them as the part of the
cache that does not change, and one step of it serves the first token and all others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from lithify import _caches
from lithify._errors import ExportError
from lithify.llm._runs import CACHE, method_of, undisturbed_runs

MASK, SOURCE_MASK, HIDDEN = "attention_mask", "encoder_attention_mask", "encoder_hidden_states"


class EncoderDecoder:
    """A model of transformers that encodes `source` once and decodes token by token."""

    def __init__(self, model: Any, *, last_logits: bool = False) -> None:
        self.model, self.last_logits = model, last_logits
        self.config = model.config.get_text_config(decoder=True)
        self.source = model.main_input_name
        self.has_mask = self.source == "input_ids"  # sounds and images have a fixed length
        after = self._after(self.sources(2, 3), torch.zeros(2, 1, dtype=torch.long))
        if not hasattr(after.get(CACHE), "cross_attention_cache"):
            raise ExportError(f"{type(model).__name__} returns no cache of keys and values, which generation needs")
        self.width = after["encoder_last_hidden_state"].shape[-1]

    def encode(self) -> Callable[..., Any]:
        """The encoder: what it returns, and keys and values of it for each layer of the decoder."""

        def forward(*sources: Any) -> dict[str, Any]:
            given = dict(zip(self._names(), sources, strict=True))
            start = torch.zeros_like(sources[0].flatten(1)[:, :1], dtype=torch.long)
            after = self._after(given, start, undisturbed=False)
            return {HIDDEN: after["encoder_last_hidden_state"], CACHE: after[CACHE].cross_attention_cache}

        return method_of(self.model, forward, self._names())

    def step(self) -> Callable[..., Any]:
        """The decoder."""
        masks = [SOURCE_MASK] if self.has_mask else []

        def forward(input_ids: Any, *rest: Any) -> dict[str, Any]:
            cache = rest[-1]
            keys = cache.cross_attention_cache.layers[0].keys
            hidden = keys.new_zeros(keys.shape[0], keys.shape[2], self.width)  # only its sizes are used
            out = self.model(
                encoder_outputs=(hidden,),
                decoder_input_ids=input_ids,
                use_cache=True,
                return_dict=True,
                **{CACHE: cache},
                **dict(zip([MASK] if masks else [], rest, strict=False)),
            )
            logits = out.logits[:, -1:] if self.last_logits else out.logits
            return {"logits": logits, CACHE: out[CACHE].self_attention_cache}

        return method_of(self.model, forward, ["input_ids", *masks, CACHE])

    def sources(self, batch: int, length: int) -> dict[str, torch.Tensor]:
        """Arguments of the encoder. Rows of tokens have padding on the right, each more than the one before."""
        generator = torch.Generator().manual_seed(0)
        if not self.has_mask:
            config = self.model.config
            shape = batch, config.num_mel_bins, 2 * config.max_source_positions
            return {self.source: torch.randn(shape, generator=generator)}
        ids = torch.randint(0, self.config.vocab_size, (batch, length), generator=generator)
        return {
            self.source: ids,
            MASK: (torch.arange(length) < length - torch.arange(batch)[:, None].clamp(max=length - 1)).long(),
        }

    def arguments(self, batch: int, past: int, sequence: int, length: int) -> dict[str, Any]:
        """Of a step of the decoder after `past` tokens."""
        sources = self.sources(batch, length)
        ids = torch.randint(0, self.config.vocab_size, (batch, past + sequence), generator=torch.Generator().manual_seed(1))
        cache = self._after(sources, ids[:, : max(past, 1)])[CACHE]
        if not past:
            own = cache.self_attention_cache
            cache.self_attention_cache = _caches.emptied(type(own)(), own)
        masks = {SOURCE_MASK: sources[MASK]} if self.has_mask else {}
        return {"input_ids": ids[:, past:], **masks, CACHE: cache}

    def _names(self) -> list[str]:
        return [self.source, *([MASK] if self.has_mask else [])]

    def _after(self, sources: dict[str, Any], ids: Any, *, undisturbed: bool = True) -> Any:
        """The results after some tokens of the decoder."""
        given = {**sources, "decoder_input_ids": ids, "use_cache": True, "return_dict": True}
        if not undisturbed:
            return self.model(**given)
        with undisturbed_runs(self.model):
            return self.model(**given)
