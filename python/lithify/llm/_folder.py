"""The files of a folder beside the model: what onnxruntime-genai reads, and what transformers has saved with the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lithify._errors import ExportError
from lithify._export import Result
from lithify.llm._decoder import POSITIONS, Decoder
from lithify.llm._runs import CACHE

# The name of onnxruntime-genai for a decoder with keys and values and nothing particular to one architecture.
PLAIN_DECODER = "llama"


def check_model(model: Any) -> None:
    if not hasattr(model, "config") or not hasattr(model, "generate"):
        raise ExportError(
            f"{type(model).__name__} is not a generative model of transformers, which has a config and the method generate: "
            "export it with lithify.export"
        )


def check_tokenizer(tokenizer: Any) -> None:
    if tokenizer is not None and not hasattr(tokenizer, "save_pretrained"):
        raise ExportError(f"the tokenizer is a {type(tokenizer).__name__}: pass a tokenizer of transformers, or None")


def write_saved(folder: Path, model: Any, tokenizer: Any) -> None:
    """What transformers saves with the model."""
    model.generation_config.save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)


def write_config(folder: Path, decoder: Decoder, result: Result) -> None:
    """The file of onnxruntime-genai, which takes keys and values of the same sizes in every layer, and no other state."""
    caches = [value for value in result.inputs if value.name.startswith(f"{CACHE}.")]
    plain = [f"{CACHE}.{i}.{kind}" for i in range(len(caches) // 2) for kind in ("key", "value")]
    if [value.name for value in caches] != plain or any(value.shape != caches[0].shape for value in caches):
        return
    (folder / "genai_config.json").write_text(json.dumps(genai_config(decoder, result), indent=2) + "\n")


def genai_config(decoder: Decoder, result: Result) -> dict[str, Any]:
    """What onnxruntime-genai reads: names, sizes, and the defaults of the search."""
    config, generation = decoder.config, decoder.model.generation_config
    names = [value.name for value in result.inputs]
    keys = [value for value in result.inputs if value.name.startswith(f"{CACHE}.") and value.name.endswith(".key")]
    context = getattr(config, "max_position_embeddings", None) or 1 << 20
    end = generation.eos_token_id if generation.eos_token_id is not None else config.eos_token_id
    first = end[0] if isinstance(end, list) else end
    inputs = {name: name for name in ("input_ids", "attention_mask", POSITIONS) if name in names}
    return {
        "model": {
            "type": PLAIN_DECODER,
            "bos_token_id": _first(generation.bos_token_id, config.bos_token_id, 0),
            "eos_token_id": _first(end, 0),
            "pad_token_id": _first(generation.pad_token_id, config.pad_token_id, first, 0),
            "context_length": context,
            "vocab_size": config.vocab_size,
            "decoder": {
                "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
                "filename": "model.onnx",
                "head_size": int(keys[0].shape[3]),
                "hidden_size": config.hidden_size,
                "num_attention_heads": config.num_attention_heads,
                "num_hidden_layers": len(keys),
                "num_key_value_heads": int(keys[0].shape[1]),
                "inputs": {
                    **inputs,
                    "past_key_names": f"{CACHE}.%d.key",
                    "past_value_names": f"{CACHE}.%d.value",
                },
                "outputs": {"logits": "logits", "present_key_names": "present.%d.key", "present_value_names": "present.%d.value"},
            },
        },
        "search": {
            "diversity_penalty": 0.0,
            "do_sample": bool(generation.do_sample),
            "early_stopping": True,
            "length_penalty": _first(generation.length_penalty, 1.0),
            "max_length": min(_first(generation.max_length, context), context),
            "min_length": 0,
            "no_repeat_ngram_size": 0,
            "num_beams": _first(generation.num_beams, 1),
            "num_return_sequences": 1,
            "past_present_share_buffer": False,
            "repetition_penalty": _first(generation.repetition_penalty, 1.0),
            "temperature": _first(generation.temperature, 1.0),
            "top_k": _first(generation.top_k, 50),
            "top_p": _first(generation.top_p, 1.0),
        },
    }


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)
