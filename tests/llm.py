"""Kinds of generative models, small and random, and what a folder must get right: `python -m tests.llm` writes docs/llm.md."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import lithify
from tests.cases import ROOT
from tests.vision import torchvision

VOCABULARY = 61
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
MHA = {"num_key_value_heads": 4}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "decoder_sparse_step": 1}
WINDOW = 8


def causal(name: str, *, config_name: str | None = None, head: str = "ForCausalLM", **options: Any) -> Callable[[], Any]:
    def make() -> Any:
        torchvision()  # transformers imports it
        import transformers

        torch.manual_seed(0)
        config = getattr(transformers, config_name or f"{name}Config")(**SIZES | options)
        kind = getattr(transformers, f"{name}{head}", None) or getattr(transformers, f"{name}LMHeadModel")
        model = kind(config).eval()
        for parameter in model.parameters():  # logits that differ from token to token
            parameter.data *= 3 if parameter.dim() > 1 else 1
        return model

    return make


KINDS: dict[str, Callable[[], Any]] = {
    "Llama": causal("Llama"),
    "Qwen2": causal("Qwen2"),
    "Qwen3": causal("Qwen3", head_dim=8),
    "Mistral": causal("Mistral", sliding_window=None),
    "Mistral with a window": causal("Mistral", sliding_window=WINDOW),
    "Mixtral": causal("Mixtral", num_local_experts=4, num_experts_per_tok=2, sliding_window=None),
    "Gemma 2": causal("Gemma2", head_dim=8, sliding_window=WINDOW, query_pre_attn_scalar=8),
    "Gemma 3": causal(
        "Gemma3",
        config_name="Gemma3TextConfig",
        head_dim=8,
        sliding_window=WINDOW,
        query_pre_attn_scalar=8,
        layer_types=["sliding_attention", "full_attention"],
    ),
    "Phi-3": causal("Phi3", sliding_window=None),
    "GPT-2": causal("GPT2", n_embd=32, n_layer=2, n_head=4, n_positions=128),
    "GPT-NeoX": causal("GPTNeoX", rotary_pct=0.5, **MHA),
    "Falcon": causal("Falcon", num_kv_heads=2, new_decoder_architecture=True),
    "OPT": causal("OPT", ffn_dim=48, word_embed_proj_dim=32),
    "Bloom": causal("Bloom", n_layer=2, n_head=4),
    "Qwen3-MoE": causal("Qwen3Moe", head_dim=8, **EXPERTS),
    "GPT-OSS": causal("GptOss", head_dim=8, sliding_window=WINDOW, num_local_experts=4, num_experts_per_tok=2),
    "DeepSeek-V3": causal(
        "DeepseekV3",
        n_routed_experts=4,
        n_shared_experts=1,
        n_group=1,
        topk_group=1,
        num_experts_per_tok=2,
        moe_intermediate_size=16,
        first_k_dense_replace=1,
        q_lora_rank=16,
        kv_lora_rank=16,
        qk_rope_head_dim=8,
        qk_nope_head_dim=8,
        v_head_dim=8,
        **MHA,
    ),
    "StableLM": causal("StableLm"),
    "Cohere": causal("Cohere"),
    "OLMo 2": causal("Olmo2"),
    "Granite": causal("Granite"),
    "Mamba 2": causal("Mamba2", state_size=4, conv_kernel=4, head_dim=8, num_heads=8, n_groups=2, chunk_size=4),
    "Qwen3-Next": causal(
        "Qwen3Next",
        head_dim=8,
        linear_conv_kernel_dim=4,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        layer_types=["linear_attention", "full_attention"],
        shared_expert_intermediate_size=16,
        **EXPERTS,
    ),
}

# Their code counts the tokens of a prompt in a loop of Python, and does something else for one token.
REFUSED: dict[str, Callable[[], Any]] = {
    "Mamba": causal("Mamba", state_size=4, conv_kernel=4, time_step_rank=4),
}


def pair(name: str, **options: Any) -> Callable[[], Any]:
    return causal(name, head="ForConditionalGeneration", decoder_start_token_id=1, forced_eos_token_id=None, **options)


WIDTHS = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
FEEDFORWARD = {"encoder_ffn_dim": 48, "decoder_ffn_dim": 48}
PAIRS: dict[str, Callable[[], Any]] = {
    "T5": pair("T5", d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4),
    "BART": pair("Bart", **WIDTHS, **FEEDFORWARD),
    "Whisper": pair(
        "Whisper",
        **WIDTHS,
        **FEEDFORWARD,
        num_mel_bins=8,
        max_source_positions=12,
        max_target_positions=64,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    ),
}

# A third of them, with every kind of cache, for `make test`.
FEW = ["Llama", "Mistral with a window", "Gemma 3", "Bloom", "GPT-OSS", "DeepSeek-V3", "Mamba 2", "Qwen3-Next", "T5"]


class Loaded:
    """A model of a folder in plain onnxruntime."""

    def __init__(self, file: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 3
        self.session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        self.inputs = {i.name: i.shape for i in self.session.get_inputs()}
        self.outputs = [o.name for o in self.session.get_outputs()]

    def run(self, given: dict[str, Any]) -> dict[str, Any]:
        feed = {name: np.asarray(value) for name, value in given.items() if name in self.inputs}
        return dict(zip(self.outputs, self.session.run(self.outputs, feed), strict=True))

    def empty(self, batch: int) -> dict[str, Any]:
        """The cache before the first token."""
        sizes = {"batch_size": batch, "past_sequence_length": 0, "encoder_sequence_length": 0}
        caches = {n: shape for n, shape in self.inputs.items() if n.startswith("past_key_values.")}
        return {n: np.zeros([sizes.get(size, size) for size in shape], np.float32) for n, shape in caches.items()}


def as_past(results: dict[str, Any]) -> dict[str, Any]:
    """The cache of the next step."""
    return {n.replace("present.", "past_key_values.", 1): value for n, value in results.items() if n.startswith("present.")}


class Generator:
    """Generates with a causal model."""

    def __init__(self, folder: Path) -> None:
        self.model = Loaded(folder / "model.onnx")

    def step(self, ids: Tensor, mask: Tensor, cache: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        """The logits and the cache after some more tokens; the mask is that of all tokens."""
        positions = (mask.cumsum(-1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        results = self.model.run({"input_ids": ids, "attention_mask": mask, "position_ids": positions} | cache)
        return torch.from_numpy(results["logits"]), as_past(results)

    def greedy(self, ids: Tensor, mask: Tensor, tokens: int) -> Tensor:
        """The prompt and the tokens after it."""
        logits, cache = self.step(ids, mask, self.model.empty(len(ids)))
        for _ in range(tokens):
            ids = torch.cat([ids, logits[:, -1:].argmax(-1)], 1)
            mask = torch.cat([mask, torch.ones_like(mask[:, :1])], 1)
            logits, cache = self.step(ids[:, -1:], mask, cache)
        return ids


class PairGenerator:
    """Generates with an encoder and a decoder."""

    def __init__(self, folder: Path) -> None:
        self.encoder, self.decoder = Loaded(folder / "encoder.onnx"), Loaded(folder / "decoder.onnx")

    def greedy(self, source: dict[str, Tensor], start: int, tokens: int) -> Tensor:
        encoded = as_past(self.encoder.run(source))
        batch = len(next(iter(source.values())))
        ids, cache = torch.full((batch, 1), start), self.decoder.empty(batch) | encoded
        mask = {"encoder_attention_mask": source.get("attention_mask")}
        for _ in range(tokens):
            results = self.decoder.run({"input_ids": ids[:, -1:]} | mask | cache)
            ids = torch.cat([ids, torch.from_numpy(results["logits"])[:, -1:].argmax(-1)], 1)
            cache = encoded | as_past(results)
        return ids


def prompt(batch: int, length: int) -> tuple[Tensor, Tensor]:
    """Tokens of rows with padding on the left, each with two more than the one before."""
    ids = torch.randint(3, VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(batch))
    mask = (torch.arange(length) >= 2 * torch.arange(batch)[:, None]).long()
    return ids * mask, mask


def check_kind(model: Any, folder: Path, tokens: int = 24) -> None:
    """The folder against the model: its tokens, and logits of a prompt in pieces."""
    generator = Generator(folder)
    for batch, length in ((1, 5), (3, 2 * WINDOW + 3)):
        ids, mask = prompt(batch, length)
        expected = model.generate(ids, attention_mask=mask, max_new_tokens=tokens, eos_token_id=VOCABULARY, do_sample=False)
        assert torch.equal(generator.greedy(ids, mask, tokens), expected), f"batch of {batch}"
        check_pieces(model, generator, ids, mask)


def check_pieces(model: Any, generator: Generator, ids: Tensor, mask: Tensor) -> None:
    """A prompt in two pieces and one token, against one run of the model."""
    cache, past = generator.model.empty(len(ids)), 0
    with torch.no_grad():
        whole = model(ids, attention_mask=mask, **positions_of(model, mask)).logits
    for end in (ids.shape[1] - 3, ids.shape[1] - 1, ids.shape[1]):
        logits, cache = generator.step(ids[:, past:end], mask[:, :end], cache)
        real = mask[:, past:end].bool()
        torch.testing.assert_close(logits[real], whole[:, past:end][real], rtol=1e-3, atol=1e-3)
        past = end


def positions_of(model: Any, mask: Tensor) -> dict[str, Tensor]:
    takes = "position_ids" in inspect.signature(model.forward).parameters
    return {"position_ids": (mask.cumsum(-1) - 1).clamp(min=0)} if takes else {}


def check_pair(model: Any, folder: Path, tokens: int = 24) -> None:
    """The folder of an encoder and a decoder against the model."""
    generator = PairGenerator(folder)
    for batch, length in ((1, 5), (3, 11)):
        ids, mask = prompt(batch, length)
        source = {"input_ids": ids.flip(1), "attention_mask": mask.flip(1)}
        if model.main_input_name != "input_ids":
            source = {model.main_input_name: torch.randn(batch, model.config.num_mel_bins, 2 * model.config.max_source_positions)}
        search = {"max_new_tokens": tokens, "eos_token_id": VOCABULARY, "do_sample": False, "num_beams": 1}
        expected = model.generate(**source, **search)
        start = model.generation_config.decoder_start_token_id or model.config.decoder_start_token_id
        assert torch.equal(generator.greedy(source, start, tokens)[:, 1:], expected[:, -tokens:]), f"batch of {batch}"


@pytest.mark.parametrize("kind", [kind for kind in KINDS | PAIRS if kind not in FEW])
def test_kind(kind: str, tmp_path: Path) -> None:
    check_exported((KINDS | PAIRS)[kind](), tmp_path)


def check_exported(model: Any, folder: Path) -> lithify.llm.Folder:
    written = lithify.llm.export(model, folder)
    (check_pair if model.config.is_encoder_decoder else check_kind)(model, folder)
    return written


# ---- the table of docs/llm.md ------------------------------------------------------------------------------------------------

PAGE = ROOT / "docs" / "llm.md"


def row(kind: str, folder: Path) -> str:
    """What is in the folder of a model that passes all checks."""
    parts = check_exported((KINDS | PAIRS)[kind](), folder).parts
    states = {v.name.rpartition(".")[2] for part in parts.values() for v in part.inputs if "." in v.name}
    return f"| {kind} | {', '.join(sorted(states))} | {', '.join(f'`{file}`' for file in parts)} |"


def write_table() -> None:
    lines = ["| kind | state of a layer | files |", "|---|---|---|"]
    for kind in KINDS | PAIRS:
        with tempfile.TemporaryDirectory() as folder:
            lines.append(row(kind, Path(folder)))
            print(lines[-1], flush=True)
    head, _, rest = PAGE.read_text().partition("| kind | state of a layer")
    tail = rest[rest.index("\n\n") :] if "\n\n" in rest else "\n"
    PAGE.write_text(head + "\n".join(lines) + tail)


if __name__ == "__main__":
    torch.set_num_threads(1)
    write_table()
