"""Kinds of generative models, small and random, and what a folder must get right: `python -m tests.llm` writes docs/llm.md."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

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


def causal(name: str, *, config_name: str | None = None, **options: Any) -> Callable[[], Any]:
    def make() -> Any:
        torchvision()  # transformers imports it
        import transformers

        torch.manual_seed(0)
        config = getattr(transformers, config_name or f"{name}Config")(
            **{k: v for k, v in (SIZES | options).items() if v is not None}
        )
        kind = getattr(transformers, f"{name}ForCausalLM", None) or getattr(transformers, f"{name}LMHeadModel")
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
    "Mamba": causal("Mamba", state_size=4, conv_kernel=4, time_step_rank=4),
    "Mamba 2": causal("Mamba2", state_size=4, conv_kernel=4, head_dim=8, num_heads=8, n_groups=2, chunk_size=4),
    "Jamba": causal(
        "Jamba",
        attn_layer_period=2,
        attn_layer_offset=1,
        expert_layer_period=2,
        expert_layer_offset=1,
        num_experts=2,
        mamba_d_state=4,
        mamba_d_conv=4,
        mamba_expand=2,
        mamba_dt_rank=4,
        use_mamba_kernels=False,
    ),
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


class Generator:
    """Generates with the model of a folder in plain onnxruntime."""

    def __init__(self, folder: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 3
        self.session = onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
        self.inputs = {i.name: i.shape for i in self.session.get_inputs()}
        self.outputs = [o.name for o in self.session.get_outputs()]

    def empty(self, batch: int) -> dict[str, Any]:
        """The cache before the first token."""
        sizes = {"batch_size": batch, "past_sequence_length": 0}
        caches = {n: shape for n, shape in self.inputs.items() if n.startswith("past_key_values.")}
        return {n: np.zeros([sizes.get(size, size) for size in shape], np.float32) for n, shape in caches.items()}

    def step(self, ids: Tensor, mask: Tensor, cache: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        """The logits and the cache after some more tokens; the mask is that of all tokens."""
        positions = (mask.cumsum(-1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        given = {"input_ids": ids, "attention_mask": mask, "position_ids": positions}
        feed = {name: tensor.numpy() for name, tensor in given.items() if name in self.inputs}
        logits, *present = self.session.run(self.outputs, feed | cache)
        return torch.from_numpy(logits), dict(zip(cache, present, strict=True))

    def greedy(self, ids: Tensor, mask: Tensor, tokens: int) -> Tensor:
        """The prompt and the tokens after it."""
        logits, cache = self.step(ids, mask, self.empty(len(ids)))
        for _ in range(tokens):
            ids = torch.cat([ids, logits[:, -1:].argmax(-1)], 1)
            mask = torch.cat([mask, torch.ones_like(mask[:, :1])], 1)
            logits, cache = self.step(ids[:, -1:], mask, cache)
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
    cache, past = generator.empty(len(ids)), 0
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
