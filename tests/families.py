"""A small model of many families of timm and transformers: traced, exported, and compared with eager PyTorch at every size.

Not part of `make test`: `make test-models` runs it. docs/models.md has the results for all families.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.driver import export
from tests.models import EncoderDecoder, Masked, Model, floats, ids, masked, settle, transformers, unsettle
from tests.vision import torchvision

# The smallest of each family, with the size of its images where 224 is not asked for.
TIMM = {
    "convit_tiny": 224,
    "convmixer_768_32": 64,
    "convnext_atto": 96,
    "crossvit_tiny_240": 240,
    "densenet121": 64,
    "dla34": 64,
    "edgenext_xx_small": 96,
    "efficientnet_lite0": 64,
    "ghostnet_050": 64,
    "gmixer_12_224": 224,
    "hardcorenas_a": 64,
    "levit_128s": 224,
    "mixer_s32_224": 224,
    "mobilevit_xxs": 64,
    "poolformer_s12": 64,
    "regnety_002": 64,
    "repvgg_a0": 64,
    "res2net50_26w_4s": 64,
    "vit_tiny_patch16_224": 224,
    "xcit_nano_12_p16_224": 224,
}

# Most configurations have these names for their sizes; the others have their own.
SMALL = {"vocab_size": 1000, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
DECODERS = {"num_key_value_heads": 2, "head_dim": 8}
TEXT: dict[str, dict[str, Any]] = {
    "albert": {"embedding_size": 16},
    "bert": {},
    "deberta": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    "distilbert": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64},
    "electra": {"embedding_size": 16},
    "falcon": {},
    "gemma": DECODERS,
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4},
    "gpt_neox": {},
    "gptj": {"n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4},
    "llama": DECODERS,
    "mistral": DECODERS,
    "mpnet": {},
    "opt": {"ffn_dim": 64, "word_embed_proj_dim": 32},
    "phi": {},
    "qwen2": DECODERS,
    "qwen3": DECODERS,
    "roberta": {},
}
PAIRS: dict[str, dict[str, Any]] = {
    "t5": {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4},
    "bart": {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64},
}


def image_model(name: str, size: int) -> Model:
    torchvision()  # timm imports it
    import timm

    net = timm.create_model(name, num_classes=10)
    sizes = floats(*((batch, 3, size, size) for batch in (2, 1, 3)))
    settle(net, sizes[0])
    return Model(net, sizes, [{0: "batch"}])


def config(kind: str, options: dict[str, Any]) -> Any:
    # Identifiers that a small vocabulary has, and no cache of keys and values.
    return transformers().AutoConfig.for_model(
        kind, **SMALL | options, pad_token_id=0, bos_token_id=1, eos_token_id=2, use_cache=False
    )


def text_model(kind: str, options: dict[str, Any]) -> Model:
    runs = [masked(*sizes) for sizes in ((2, 9), (1, 9), (3, 14), (2, 1))]
    return Model(Masked(hf_model(kind, options)), runs, [{0: "batch", 1: "seq"}] * 2)


def pair_model(kind: str, options: dict[str, Any]) -> Model:
    runs = [(ids(b, s), ids(b, d)) for b, s, d in ((2, 9, 5), (1, 9, 7), (3, 14, 1), (2, 1, 3))]
    return Model(EncoderDecoder(hf_model(kind, options)), runs, [{0: "batch", 1: "seq"}, {0: "batch", 1: "dec_seq"}])


def hf_model(kind: str, options: dict[str, Any]) -> nn.Module:
    return transformers().AutoModel.from_config(config(kind, options))


FAMILIES = (
    {f"timm {name}": (image_model, name, size) for name, size in TIMM.items()}
    | {f"transformers {kind}": (text_model, kind, options) for kind, options in TEXT.items()}
    | {f"transformers {kind}": (pair_model, kind, options) for kind, options in PAIRS.items()}
)


@pytest.mark.parametrize("family", FAMILIES)
def test_family(family: str, tmp_path: Path) -> None:
    build, *options = FAMILIES[family]
    torch.manual_seed(0)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = build(*options)
        unsettle(made.module)
        made.module.eval()
        export(made.trace(tmp_path), tmp_path / "model.onnx", opset=20, dynamic=made.dynamic)
        made.check(tmp_path / "model.onnx")
