"""Generative models: caches of every kind as inputs and outputs, folders that generate, and what cannot be exported."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import lithify
from lithify import __main__, _caches
from tests.cases import ROOT
from tests.driver import LITHIFY, Session, compare, flat
from tests.llm import FEW, KINDS, PAIRS, REFUSED, SIZES, WINDOW, Generator, causal, check_exported, prompt


@pytest.mark.parametrize("kind", FEW)
def test_a_folder_generates_the_tokens_of_the_model(kind: str, tmp_path: Path) -> None:
    check_exported((KINDS | PAIRS)[kind](), tmp_path)


# ---- caches of a sample ------------------------------------------------------------------------------------------------------


def dynamic(model: Any) -> Any:
    import transformers

    return transformers.DynamicCache(config=model.config)


def static(model: Any) -> Any:
    import transformers

    return transformers.StaticCache(config=model.config, max_cache_len=24)


class Step:
    """A step of a model with a cache of some kind, after some tokens."""

    def __init__(self, model: Any, cache: Callable[[Any], Any], *, masked: bool = True) -> None:
        self.model, self.cache, self.masked = model, cache, masked

    def arguments(self, batch: int, past: int, sequence: int) -> dict[str, Any]:
        ids, mask = prompt(batch, past + sequence)
        mask = torch.ones_like(mask) if past < 2 * batch else mask
        cache = self.cache(self.model)
        if past:
            with torch.no_grad():
                self.model(ids[:, :past], attention_mask=mask[:, :past], past_key_values=cache, use_cache=True)
        given = {"input_ids": ids[:, past:], "attention_mask": mask, "past_key_values": cache}
        return given if self.masked else {k: v for k, v in given.items() if k != "attention_mask"}

    def check(self, file: Path, *sizes: tuple[int, int, int]) -> None:
        session = Session(file)
        for at in sizes:
            given = self.arguments(*at)
            with torch.no_grad():
                expected = self.model(**copy.deepcopy(given)).logits
            cache = given.pop("past_key_values")
            state = [_caches.get(cache, path) for _, path in _caches.state(cache, "")]
            compare(session.run(*given.values(), *state)[:1], flat([expected]))


def axes(*, mask: str | None = "past+sequence", past: str | None = "past", layers: int = 2) -> dict[str, dict[int, str]]:
    out = {"input_ids": {0: "batch", 1: "sequence"}}
    if mask:
        out["attention_mask"] = {0: "batch", 1: mask}
    named = {0: "batch", **({2: past} if past else {})}
    return out | {f"past_key_values.{i}.{kind}": named for i in range(layers) for kind in ("key", "value")}


@pytest.mark.parametrize(("kind", "past"), [("Mistral with a window", 5), ("Mistral with a window", 12), ("Gemma 3", 5)])
def test_a_window_of_a_cache_follows_the_length_of_the_past(kind: str, past: int, out: Path) -> None:
    step = Step(KINDS[kind](), dynamic)
    result = lithify.export(step.model, (), out, kwargs=step.arguments(2, past, 3), dynamic_axes=axes())
    assert result.capture == "trace"
    step.check(out, (2, 5, 3), (1, 20, 1), (3, WINDOW - 2, 4), (1, WINDOW - 1, 1), (2, WINDOW, 3))


def test_a_window_without_a_mask_has_a_bound(out: Path) -> None:
    step = Step(KINDS["Mistral with a window"](), dynamic, masked=False)
    result = lithify.export(step.model, (), out, kwargs=step.arguments(2, 5, 3), dynamic_axes=axes(mask=None))
    assert result.claims.holds(batch=1, past=WINDOW - 2, sequence=2) is True
    assert result.claims.holds(batch=1, past=WINDOW - 1, sequence=2) is False
    step.check(out, (2, 5, 3), (1, WINDOW - 2, 2))


@pytest.mark.parametrize("mask", ["past+sequence", "total"])
def test_an_empty_cache_gets_its_tensors(mask: str, out: Path) -> None:
    import transformers

    step = Step(KINDS["Llama"](), lambda _: transformers.DynamicCache())
    given = step.arguments(2, 0, 3)
    result = lithify.export(step.model, (), out, kwargs=given, dynamic_axes=axes(mask=mask))
    assert [value.name for value in result.inputs[2:]] == [f"past_key_values.{i}.{k}" for i in (0, 1) for k in ("key", "value")]
    assert given["past_key_values"].get_seq_length() == 0 and not given["past_key_values"].layers
    step.check(out, (2, 5, 3), (1, 7, 1))


def test_states_of_layers_have_names(out: Path) -> None:
    step = Step(KINDS["Qwen3-Next"](), dynamic)
    result = lithify.export(step.model, (), out, kwargs=step.arguments(2, 5, 3))
    names = [f"{i}.{kind}" for i, kind in ((0, "conv_state"), (0, "recurrent_state"), (1, "key"), (1, "value"))]
    assert [v.name for v in result.inputs[2:]] == [f"past_key_values.{name}" for name in names]
    assert [v.name for v in result.outputs if "." in v.name] == [f"present.{name}" for name in names]
    step.check(out, (2, 5, 3))


def test_a_static_cache(out: Path) -> None:
    step = Step(KINDS["Llama"](), static)
    result = lithify.export(step.model, (), out, kwargs=step.arguments(2, 5, 3), dynamic_axes=axes(mask="total", past=None))
    assert "past_key_values.0.cumulative_length" in [value.name for value in result.inputs]
    step.check(out, (2, 5, 3), (1, 18, 1))


class Tuples(nn.Module):
    def forward(self, x: Tensor, past_key_values: Any) -> dict[str, Any]:
        return {
            "sum": x + sum(k.sum() for k, _ in past_key_values),
            "past_key_values": tuple((k + x, v * x) for k, v in past_key_values),
        }


def test_tuples_of_keys_and_values() -> None:
    past = tuple((torch.randn(3), torch.randn(3)) for _ in range(2))
    result = lithify.export(Tuples(), (torch.randn(3), past))
    names = [f"{i}.{kind}" for i in (0, 1) for kind in ("key", "value")]
    assert [v.name for v in result.inputs] == ["x", *(f"past_key_values.{name}" for name in names)]
    assert [v.name for v in result.outputs] == ["sum", *(f"present.{name}" for name in names)]


class OwnCache:
    def __init__(self, tensor: Tensor) -> None:
        self.kept = [tensor]


class Kept(nn.Module):
    def forward(self, x: Tensor, cache: OwnCache | None = None) -> Any:
        return x if cache is None else x + cache.kept[0]


class Returned(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return {"sum": x + 1, "cache": OwnCache(x)}


def test_a_cache_of_an_unknown_kind_is_refused_by_name() -> None:
    with pytest.raises(lithify.ExportError, match="the argument 'cache' is a OwnCache, whose tensors cannot become inputs"):
        lithify.export(Kept(), (torch.randn(3), OwnCache(torch.randn(3))))
    with pytest.raises(lithify.ExportError, match="the result 'cache' is a OwnCache, whose tensors cannot become outputs"):
        lithify.export(Returned(), torch.randn(3))


# ---- folders -----------------------------------------------------------------------------------------------------------------


def tokenizer() -> Any:
    """Of words, as many as the models of the tests have."""
    import tokenizers
    import transformers

    words = {word: i for i, word in enumerate(["<pad>", "<s>", "</s>", *(f"w{i}" for i in range(58))])}
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<pad>"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=model, pad_token="<pad>", bos_token="<s>", eos_token="</s>")


def test_a_folder_has_what_generation_needs(tmp_path: Path) -> None:
    model = KINDS["Llama"]()
    written = lithify.llm.export(model, tmp_path / "out", tokenizer(), last_logits=True)
    files = {path.name for path in written.path.iterdir()}
    assert files >= {"model.onnx", "genai_config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"}
    config = json.loads((written.path / "genai_config.json").read_text())["model"]
    assert config["decoder"]["num_hidden_layers"] == 2 and config["decoder"]["head_size"] == 8
    assert str(written.parts["model.onnx"].outputs[0].shape[1]) == "1"  # the last token only
    ids, mask = prompt(2, 6)
    expected = model.generate(ids, attention_mask=mask, max_new_tokens=6, eos_token_id=61, do_sample=False)
    assert torch.equal(Generator(written.path).greedy(ids, mask, 6), expected)


@pytest.mark.parametrize("kind", ["Llama", "Qwen3", "Phi-3", "Gemma 3"])
def test_onnxruntime_genai_generates_the_tokens_of_the_model(kind: str, tmp_path: Path) -> None:
    import onnxruntime_genai

    model = KINDS[kind]()
    lithify.llm.export(model, tmp_path, verify=False)
    loaded = onnxruntime_genai.Model(str(tmp_path))
    for batch, length, beams in ((1, 6, 1), (3, 2 * WINDOW + 3, 1), (1, 6, 3), (3, 7, 4)):
        ids = prompt(1, batch * length)[0].view(batch, length)
        search = {"num_beams": beams, "do_sample": False, "early_stopping": True, "length_penalty": 0.0}
        params = onnxruntime_genai.GeneratorParams(loaded)
        params.set_search_options(max_length=length + 24, batch_size=batch, **search)
        generator = onnxruntime_genai.Generator(loaded, params)
        generator.append_tokens(ids.int().numpy())
        while not generator.is_done():
            generator.generate_next_token()
        expected = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=24, **search)
        for row, tokens in enumerate(expected.tolist()):
            assert without_end(list(generator.get_sequence(row))) == without_end(tokens), (batch, beams, row)


def without_end(tokens: list[int]) -> list[int]:
    """Without what follows the last token: its mark and padding, of which one has more than the other."""
    while tokens and tokens[-1] in (0, 2):
        tokens = tokens[:-1]
    return tokens


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    KINDS["Llama"]().save_pretrained(tmp_path / "saved")
    tokenizer().save_pretrained(tmp_path / "saved")
    monkeypatch.setattr(sys, "argv", ["lithify", "llm", str(tmp_path / "saved"), "-o", str(tmp_path / "out")])
    assert __main__.main() == 0
    assert {"model.onnx", "tokenizer.json"} <= {path.name for path in (tmp_path / "out").iterdir()}


def test_a_folder_with_quantized_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = causal("Llama", hidden_size=128, intermediate_size=256)()
    model.save_pretrained(tmp_path / "saved")
    sizes, logits = {}, {}
    ids, mask = prompt(2, 6)
    for weights in ("unchanged", "int8"):
        out = tmp_path / weights
        monkeypatch.setattr(sys, "argv", ["lithify", "llm", str(tmp_path / "saved"), "-o", str(out), "--weights", weights])
        assert __main__.main() == 0
        sizes[weights] = (out / "model.onnx").stat().st_size
        generator = Generator(out)
        logits[weights], _ = generator.step(ids, mask, generator.model.empty(len(ids)))
    assert sizes["int8"] < 0.6 * sizes["unchanged"]
    difference = (logits["int8"] - logits["unchanged"]).abs().max()
    assert 0 < difference < 0.05 * logits["unchanged"].abs().max()


def test_a_folder_that_is_not_a_model(tmp_path: Path) -> None:
    command = [LITHIFY, "llm", tmp_path, "-o", tmp_path / "out"]
    environment = {"PATH": str(Path(sys.executable).parent), "PYTHONPATH": ":".join(sys.path)}
    ran = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1] == f"error: '{tmp_path}' is not a folder of save_pretrained: it has no config.json"


# ---- what cannot be exported -------------------------------------------------------------------------------------------------


def test_what_is_not_a_generative_model(tmp_path: Path) -> None:
    with pytest.raises(lithify.ExportError, match=r"^Linear is not a generative model of transformers"):
        lithify.llm.export(nn.Linear(2, 3), tmp_path / "out")
    with pytest.raises(lithify.ExportError, match=r"^the tokenizer is a str: pass a tokenizer of transformers, or None$"):
        lithify.llm.export(KINDS["Llama"](), tmp_path / "out", "tokenizer.json")
    assert not (tmp_path / "out").exists()


def test_a_model_without_a_cache(tmp_path: Path) -> None:
    import transformers

    config = transformers.OpenAIGPTConfig(vocab_size=61, n_embd=32, n_layer=1, n_head=4, n_positions=64)
    with pytest.raises(lithify.ExportError, match=r"^OpenAIGPTLMHeadModel returns no cache"):
        lithify.llm.export(transformers.OpenAIGPTLMHeadModel(config), tmp_path / "out")


def test_a_model_that_takes_images(tmp_path: Path) -> None:
    import transformers

    text = transformers.LlamaConfig(**SIZES)
    vision = transformers.CLIPVisionConfig(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2)
    model = transformers.LlavaForConditionalGeneration(transformers.LlavaConfig(vision_config=vision, text_config=text))
    with pytest.raises(lithify.ExportError, match=r"^LlavaForConditionalGeneration takes pixel_values beside text"):
        lithify.llm.export(model, tmp_path / "out")


def test_what_a_file_would_not_do_is_refused(tmp_path: Path) -> None:
    reason = r"(sequence_length != 1 does not hold|the file was not checked at .*sequence_length=1)"
    with pytest.raises(lithify.ExportError, match=f"sequence_length=1 cannot be exported: {reason}"):
        lithify.llm.export(REFUSED["Mamba"](), tmp_path)
    assert not (tmp_path / "model.onnx").exists()


# ---- the examples of docs/llm.md ----------------------------------------------------------------------------------------------


def test_the_examples_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"model": KINDS["Llama"](), "tokenizer": tokenizer()}
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "llm.md").read_text(), re.DOTALL):
        exec(compile(block, "docs/llm.md", "exec"), names)
    assert names["text"] == names["again"]
