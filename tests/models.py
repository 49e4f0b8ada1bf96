"""Whole models to export, with the sizes at which to compare them. Weights are random but seeded.

MODELS maps a name to a function that builds a Model. The first set of sizes is the sample that is traced; the others give each
dynamic axis three or more values, 1 among them wherever eager PyTorch itself takes it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from examples.models import LastStep, Reshape
from tests.driver import Session, compare, flat, widths
from tests.vision import torchvision

Inputs = tuple[torch.Tensor, ...]


@dataclass
class Model:
    module: nn.Module
    runs: list[Inputs]  # the first is the sample
    axes: list[dict[int, str]]  # the dynamic axes of each input
    nodes: int | None = None  # at most so many at opset 20
    settle: bool = False  # take the batch norms' statistics from the sample
    results: dict[int, list[torch.Tensor]] = field(default_factory=dict, init=False)  # of the runs that were asked for

    def expected(self, run: int) -> list[torch.Tensor]:
        """What eager PyTorch gives, computed once."""
        if run not in self.results:
            self.results[run] = flat(self.module(*self.runs[run]))
        return self.results[run]

    def trace(self, folder: Path) -> Path:
        """The file of the model as it was traced on the sample."""
        torch.jit.trace(self.module, self.runs[0], check_trace=False).save(str(folder / "model.pt"))
        return folder / "model.pt"

    def check(self, path: Path, runs: Sequence[int] | None = None) -> None:
        """Compares the exported model with eager PyTorch in these runs, or in all."""
        session = Session(path)
        for i in range(len(self.runs)) if runs is None else runs:
            expected = self.expected(i)
            scale = max(1.0, *(float(e.abs().max()) for e in expected if e.numel()))
            compare(session.run(*self.runs[i]), expected, rtol=1e-3, atol=2e-4 * scale, outputs=session.outputs)

    @property
    def names(self) -> list[str]:
        return list(inspect.signature(self.module.forward).parameters)[: len(self.axes)]

    @property
    def dynamic(self) -> dict[str, dict[int, str]]:
        return {name: axes for name, axes in zip(self.names, self.axes, strict=True) if axes}


MODELS: dict[str, Callable[[], Model]] = {}
LARGE: dict[str, Callable[[], Model]] = {}  # for the benchmark alone


def model(build: Callable[[], Model]) -> Callable[[], Model]:
    """Registers a function that builds a model; what it returns is in eval mode and has no weight at a neutral value."""
    name = build.func.__name__ if isinstance(build, partial) else build.__name__
    return add(name, build)


def add(name: str, build: Callable[[], Model], to: dict[str, Callable[[], Model]] = MODELS) -> Callable[[], Model]:
    def seeded() -> Model:
        torch.manual_seed(0)
        made = build()
        with torch.no_grad():
            unsettle(made.module)
            if made.settle:
                settle(made.module, made.runs[0])
        made.module.eval()
        return made

    to[name] = seeded
    return seeded


def unsettle(module: nn.Module) -> None:
    """Draws what initialisation leaves at 0 or 1, so that an error in it shows."""
    for m in module.modules():
        if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.running_mean is not None and m.running_var is not None:
            m.running_mean.normal_(0, 0.1)
            m.running_var.uniform_(0.5, 1.5)
        if isinstance(m, nn.Linear) and not m.weight.any():
            nn.init.normal_(m.weight, std=0.02)


def settle(module: nn.Module, sample: Inputs) -> None:
    """Deep narrow nets need this, or their output would not depend on their input."""
    for m in module.modules():
        if isinstance(m, nn.modules.batchnorm._BatchNorm):
            m.momentum = 1.0
    module.train()(*sample)


def floats(*sizes: tuple[int, ...]) -> list[Inputs]:
    return [(torch.randn(s),) for s in sizes]


# ---- small ----------------------------------------------------------------------------------------


@model
def linear() -> Model:
    return Model(nn.Linear(10, 5), floats((2, 10), (1, 10), (3, 10), (64, 10)), [{0: "batch"}])


def last_step(kind: type[nn.RNNBase]) -> Model:
    sizes = floats((2, 7, 10), (1, 7, 10), (4, 3, 10), (2, 1, 10), (5, 30, 10))
    return Model(LastStep(kind), sizes, [{0: "batch", 1: "seq"}], nodes=5)


for _kind in (nn.RNN, nn.LSTM, nn.GRU):
    add(_kind.__name__.lower(), partial(last_step, _kind))


class ViewShape(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(x.shape[0], -1) * 2


def view(kind: type[nn.Module]) -> Model:
    sizes = floats((2, 3, 4), (1, 3, 4), (4, 1, 4), (6, 5, 4), (3, 8, 4))
    return Model(kind(), sizes, [{0: "batch", 1: "seq"}], nodes=2)


add("view_shape", partial(view, ViewShape))
add("view_product", partial(view, Reshape))


def small_cnn() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)),
    )


@model
def cnn() -> Model:
    sizes = floats((1, 3, 224, 224), (2, 3, 4, 3), (3, 3, 128, 160), (4, 3, 256, 96))  # below 3, MaxPool2d has nothing left
    return Model(small_cnn(), sizes, [{0: "batch", 2: "height", 3: "width"}])


@model
def encoder() -> Model:
    layer = nn.TransformerEncoderLayer(768, 8, 2048, batch_first=True)
    sizes = floats((1, 10, 768), (2, 10, 768), (3, 25, 768), (1, 1, 768), (4, 7, 768))
    return Model(nn.TransformerEncoder(layer, 4), sizes, [{0: "batch", 1: "seq"}])


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(1000, 64)
        self.lstm = nn.LSTM(64, 128, num_layers=2, bidirectional=True, batch_first=True)
        self.fc = nn.Linear(256, 17)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.lstm(self.embedding(x))[0]).log_softmax(-1)


@model
def tagger() -> Model:
    return Model(Tagger(), [(ids(*s),) for s in ((2, 12), (1, 12), (3, 40), (2, 1), (4, 5))], [{0: "batch", 1: "seq"}], nodes=12)


# ---- torchvision ----------------------------------------------------------------------------------


BATCHES = ((2, 3, 224, 224), (1, 3, 224, 224), (3, 3, 224, 224), (4, 3, 224, 224))
IMAGES = ((2, 3, 224, 224), (1, 3, 160, 96), (3, 3, 1, 70), (4, 3, 97, 1))
LARGE_IMAGES = ((2, 3, 224, 224), (1, 3, 160, 96), (3, 3, 32, 70), (4, 3, 97, 33))


def vision(name: str, sizes: tuple[tuple[int, ...], ...] = IMAGES, **kwargs: Any) -> Model:
    axes = {0: "batch"} if sizes is BATCHES else {0: "batch", 2: "height", 3: "width"}
    return Model(torchvision().models.get_model(name, weights=None), floats(*sizes), [axes], **kwargs)


add("resnet18", partial(vision, "resnet18"))
add("resnet50", partial(vision, "resnet50", nodes=122))
add("mobilenet_v3_small", partial(vision, "mobilenet_v3_small", settle=True))
add("efficientnet_b0", partial(vision, "efficientnet_b0", settle=True))
add("shufflenet_v2_x1_0", partial(vision, "shufflenet_v2_x1_0", nodes=204, settle=True))
add("convnext_tiny", partial(vision, "convnext_tiny", LARGE_IMAGES))


@model
def vit_b_16() -> Model:
    sizes = {"num_heads": 12, "hidden_dim": 768, "mlp_dim": 3072} | widths(hidden_dim=192, mlp_dim=768)
    net = torchvision().models.VisionTransformer(image_size=224, patch_size=16, num_layers=12, **sizes)
    return Model(net, floats(*BATCHES), [{0: "batch"}])


add("swin_t", partial(vision, "swin_t", BATCHES, nodes=440))


class Segmentation(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)["out"]


@model
def deeplabv3_resnet50() -> Model:
    net = torchvision().models.get_model("deeplabv3_resnet50", weights=None, weights_backbone=None)
    return Model(Segmentation(net), floats(*IMAGES), [{0: "batch", 2: "height", 3: "width"}])


# ---- transformers ---------------------------------------------------------------------------------


@cache
def transformers() -> ModuleType:
    torchvision()  # transformers imports it
    import transformers

    return transformers


def ids(*sizes: int) -> torch.Tensor:
    return torch.randint(5, 1000, sizes)


def masked(batch: int, seq: int) -> Inputs:
    mask = torch.ones(batch, seq, dtype=torch.int64)
    if batch > 1:
        mask[0, seq - seq // 3 :] = 0
    return ids(batch, seq), mask


class Masked(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.inner(input_ids=input_ids, attention_mask=attention_mask, use_cache=False)[0]


class First(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)[0]


def text(inner: nn.Module, nodes: int) -> Model:
    runs = [masked(*s) for s in ((2, 16), (1, 16), (3, 40), (2, 7), (4, 1))]
    return Model(Masked(inner), runs, [{0: "batch", 1: "seq"}] * 2, nodes=nodes)


@model
def bert_base() -> Model:
    hf = transformers()
    config = hf.BertConfig(**widths(hidden_size=192, intermediate_size=768, vocab_size=1000))
    return text(hf.BertModel(config, add_pooling_layer=False), nodes=385)


@model
def gpt2() -> Model:
    hf = transformers()
    return text(hf.GPT2LMHeadModel(hf.GPT2Config(use_cache=False, **widths(n_embd=192, vocab_size=1000))), nodes=400)


def gpt2_24() -> Model:
    hf = transformers()
    return text(hf.GPT2LMHeadModel(hf.GPT2Config(n_layer=24, use_cache=False)), nodes=800)


add("gpt2_24", gpt2_24, LARGE)


@model
def llama() -> Model:
    hf = transformers()
    config = hf.LlamaConfig(
        hidden_size=512,
        intermediate_size=1376,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        use_cache=False,
        **({"vocab_size": 32000} | widths(vocab_size=1000)),
    )
    return text(hf.LlamaForCausalLM(config), nodes=265)


class EncoderDecoder(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, input_ids: torch.Tensor, decoder_input_ids: torch.Tensor) -> torch.Tensor:
        return self.inner(input_ids=input_ids, decoder_input_ids=decoder_input_ids, use_cache=False)[0]


@model
def t5_small() -> Model:
    hf = transformers()
    narrow = widths(d_model=128, d_kv=16, d_ff=512, vocab_size=1000)
    net = hf.T5ForConditionalGeneration(hf.T5Config(decoder_start_token_id=0, use_cache=False, **narrow))
    runs = [(ids(b, s), ids(b, d)) for b, s, d in ((2, 16, 9), (1, 16, 9), (3, 40, 20), (4, 7, 1), (2, 1, 3))]
    return Model(EncoderDecoder(net), runs, [{0: "batch", 1: "seq"}, {0: "batch", 1: "dec_seq"}], nodes=650)


@model
def whisper_tiny_encoder() -> Model:
    hf = transformers()
    config = hf.WhisperConfig(
        d_model=384,
        encoder_layers=4,
        encoder_attention_heads=6,
        encoder_ffn_dim=1536,
        decoder_layers=1,
        decoder_attention_heads=6,
        decoder_ffn_dim=1536,
        **widths(max_source_positions=300),
    )
    frames = 2 * config.max_source_positions
    return Model(First(hf.WhisperModel(config).encoder), floats(*((b, 80, frames) for b in (2, 1, 3, 4))), [{0: "batch"}])


class Clip(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, pixel_values: torch.Tensor) -> Inputs:
        y = self.inner(input_ids=input_ids, attention_mask=attention_mask, pixel_values=pixel_values)
        return y.logits_per_image, y.text_embeds, y.image_embeds


@model
def clip() -> Model:
    hf = transformers()
    sizes = ((2, 16, 3), (1, 16, 1), (3, 40, 2), (4, 1, 4))
    runs = [(*masked(b, s), torch.randn(n, 3, 224, 224)) for b, s, n in sizes]
    texts = {0: "texts", 1: "seq"}
    narrow = widths(hidden_size=192, intermediate_size=768)
    config = hf.CLIPConfig(text_config=narrow, vision_config=narrow)
    return Model(Clip(hf.CLIPModel(config)), runs, [texts, texts, {0: "images"}])


@model
def wav2vec2() -> Model:
    hf = transformers()
    sizes = ((2, 16000), (1, 16000), (3, 24000), (4, 9111), (2, 400))  # its convolutions need 400 samples
    config = hf.Wav2Vec2Config(**widths(hidden_size=192, intermediate_size=768, conv_dim=(64,) * 7))
    return Model(First(hf.Wav2Vec2Model(config)), floats(*sizes), [{0: "batch", 1: "samples"}])
