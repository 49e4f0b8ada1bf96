"""Whole models whose samples hide their sizes: of size 1, or with sizes that a model computes windows from."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch

from tests.driver import Session, compare, export, export_command, flat, refusal, run
from tests.models import EncoderDecoder, First, Model, floats, ids, masked, text, torchvision, transformers


def vit_from_one() -> Model:
    net = torchvision().models.get_model("vit_b_16", weights=None)
    net.encoder.layers = net.encoder.layers[:2]
    return Model(net.eval(), floats(*((b, 3, 224, 224) for b in (1, 2, 3, 4, 5, 7))), [{0: "batch"}])


def swin_of_any_size() -> Model:
    net = torchvision().models.get_model("swin_t", weights=None).eval()
    # Up to 224, Python decides not to shift the windows of the last stage.
    sizes = ((1, 3, 256, 288), (2, 3, 288, 256), (1, 3, 240, 230), (1, 3, 257, 301), (1, 3, 352, 256), (1, 3, 230, 448))
    return Model(net, floats(*sizes), [{0: "batch", 2: "height", 3: "width"}])


SMALL = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}


def from_one_by_one(inner: torch.nn.Module) -> Model:
    made = text(inner.eval(), nodes=0)
    made.runs = [masked(*s) for s in ((1, 1), (2, 16), (1, 9), (3, 40), (4, 1), (2, 7))]
    return made


def gpt2_from_one() -> Model:
    hf = transformers()
    return from_one_by_one(hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=1000, n_layer=2, n_embd=64, n_head=4, use_cache=False)))


def llama_from_one() -> Model:
    hf = transformers()
    config = hf.LlamaConfig(**SMALL, vocab_size=1000, num_key_value_heads=2, use_cache=False)
    return from_one_by_one(hf.LlamaForCausalLM(config))


def t5() -> Model:
    hf = transformers()
    config = hf.T5Config(
        vocab_size=1000, d_model=64, d_kv=16, d_ff=96, num_layers=2, num_heads=4, decoder_start_token_id=0, use_cache=False
    )
    # A decoder of one step has no causal mask: that is Python's decision, and not in the trace.
    sizes = ((1, 1, 2), (2, 16, 9), (3, 40, 20), (4, 7, 1), (2, 1, 3), (1, 130, 5))
    runs = [(ids(b, s), ids(b, d)) for b, s, d in sizes]
    axes = [{0: "batch", 1: "seq"}, {0: "batch", 1: "dec_seq"}]
    return Model(EncoderDecoder(hf.T5ForConditionalGeneration(config).eval()), runs, axes)


def wav2vec2_of_any_length() -> Model:
    hf = transformers()
    config = hf.Wav2Vec2Config(**SMALL, conv_dim=[32] * 7, num_conv_pos_embeddings=16)
    sizes = ((1, 16000), (2, 16000), (3, 24000), (4, 9111), (2, 400), (1, 5000))
    return Model(First(hf.Wav2Vec2Model(config).eval()), floats(*sizes), [{0: "batch", 1: "samples"}])


BUILDS = [vit_from_one, swin_of_any_size, gpt2_from_one, llama_from_one, t5, wav2vec2_of_any_length]


@pytest.mark.parametrize("build", BUILDS, ids=lambda b: b.__name__)
def test_hidden_sizes(build: object, tmp_path: Path) -> None:
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        made = build()  # type: ignore[operator]
        pt, out = tmp_path / "model.pt", tmp_path / "model.onnx"
        torch.jit.trace(made.module, made.runs[0], check_trace=False).save(str(pt))
        export(pt, out, dynamic=made.dynamic)
        session = Session(out)
        for inputs in made.runs:
            compare(session.run(*inputs), flat(made.module(*inputs)), rtol=1e-3, atol=1e-4)


def test_one_step_of_a_decoder(tmp_path: Path) -> None:
    """Python makes no causal mask for one step: the trace has none, and the export reports the size as unverified."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = t5()
        pt = tmp_path / "model.pt"
        torch.jit.trace(made.module, (ids(2, 16), ids(2, 1)), check_trace=False).save(str(pt))
    command = [*export_command(pt, tmp_path / "model.onnx", dynamic=made.dynamic), "--strict"]
    assert "'dec_seq'" in refusal(run(command), "LTH064", out=tmp_path / "model.onnx")
