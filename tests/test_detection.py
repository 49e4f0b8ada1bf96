"""Object detection with all that goes before and after the network, scripted: right with many, one and no detections."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.driver import Session, compare, export, flat
from tests.vision import torchvision

# Each with the module that has the least score of a detection.
MODELS = {"ssdlite320_mobilenet_v3_large": "", "fasterrcnn_mobilenet_v3_large_320_fpn": "roi_heads"}


def picture(height: int, width: int) -> torch.Tensor:
    """Smooth, as pictures are: noise that is resized shows rounding errors."""
    y, x = torch.meshgrid(torch.linspace(0, 1, height), torch.linspace(0, 1, width), indexing="ij")
    return torch.stack([torch.sin(9 * x * y) / 2 + 0.5, torch.cos(7 * x + 3 * y) / 2 + 0.5, x * (1 - y)])


def build(name: str) -> nn.Module:
    import torchvision.models.detection as detection

    torch.manual_seed(0)
    most = {f"{'box_' if MODELS[name] else ''}detections_per_img": 10}
    net = getattr(detection, name)(weights=None, weights_backbone=None, num_classes=5, **most)
    # Untrained, all scores are nearly equal: weights as before training, and normalization as after it.
    for where, module in net.named_modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight)
            module.weight.data *= 1e-3 if where.endswith(("bbox_pred", "cls_score")) else 1
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 1.0
    with torch.no_grad():
        net.backbone(torch.randn(2, 3, 320, 320))
    return net.eval()


def found(net: nn.Module, image: torch.Tensor) -> Any:
    with torch.no_grad():
        return net([image])[0]


@pytest.mark.parametrize("name", MODELS)
def test_detection(name: str, tmp_path: Path) -> None:
    torchvision()
    net = build(name)
    scripted = torch.jit.script(net)
    limited, limited_scripted = net.get_submodule(MODELS[name]), scripted
    for part in filter(None, MODELS[name].split(".")):
        limited_scripted = getattr(limited_scripted, part)
    pictures = [picture(200, 300), picture(320, 180)]
    limited.score_thresh = 1e-4
    scores = found(net, pictures[0])["scores"]
    counts = set()
    for limit in (1e-4, (float(scores[0]) + float(scores[1])) / 2, 1.5):
        limited.score_thresh = limited_scripted.score_thresh = limit
        scripted.save(str(tmp_path / "net.pt"))
        export(
            tmp_path / "net.pt",
            tmp_path / "net.onnx",
            inputs=["images_0:float32[3,h=200,w=300]"],
            names={"images_0": {1: "h", 2: "w"}},
        )
        session = Session(tmp_path / "net.onnx")
        for image in pictures:
            expected = found(net, image)
            # A hundredth of a pixel: resizing and some fifty convolutions round differently, eager float32 by as much.
            compare(session.run(image), flat(expected), rtol=1e-3, atol=1e-2)
            counts.add(len(expected["scores"]))
    assert {0, 1} < counts
