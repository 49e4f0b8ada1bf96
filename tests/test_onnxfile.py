"""`lithify show` and `lithify diff`: ONNX files of all exporters, and damaged and hostile ones.

Runs on the program that $LITHIFY names, so that the same tests serve the build with sanitizers.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from tests.driver import refusal
from tests.schema import validate
from tests.test_cli import DATA, MODEST, SANITIZED, SPECS, file_of, lithify


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(torch.relu(self.linear(x)))


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(Block(), Block()).eval()


def by_torch(module: nn.Module, path: Path, *, dynamo: bool) -> Path:
    program = torch.onnx.export(
        module, (torch.ones(2, 4),), None if dynamo else str(path), dynamo=dynamo, opset_version=18, verbose=False
    )
    if dynamo:
        assert program is not None
        program.save(str(path))
    return path


def by_lithify(module: nn.Module, path: Path, *flags: str) -> Path:
    torch.jit.trace(module, torch.ones(2, 4)).save(str(path.with_suffix(".pt")))
    done = lithify("export", path.with_suffix(".pt"), "-o", path, *flags)
    assert done.returncode == 0, done.stderr
    return path


EXPORTERS: dict[str, Callable[[nn.Module, Path], Path]] = {
    "lithify": by_lithify,
    "torchscript": lambda module, path: by_torch(module, path, dynamo=False),
    "dynamo": lambda module, path: by_torch(module, path, dynamo=True),
}


def shown(path: Path) -> dict[str, Any]:
    done = lithify("show", path, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    validate(report, "show")
    return report


def differences(a: Path, b: Path) -> dict[str, Any]:
    done = lithify("diff", a, b, "--json")
    report = json.loads(done.stdout)
    validate(report, "diff")
    assert done.returncode == (0 if report["same"] else 1)
    assert lithify("diff", a, b).returncode == done.returncode
    return report


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_show(exporter: str, tmp_path: Path) -> None:
    path = EXPORTERS[exporter](model(), tmp_path / "model.onnx")
    report, loaded = shown(path), onnx.load(str(path))
    assert report["opsets"]["ai.onnx"] == 18 and report["ir_version"] == loaded.ir_version
    assert [v["name"] for v in report["inputs"]] == [v.name for v in loaded.graph.input]
    assert report["inputs"][0]["shape"] == [2, 4] and report["inputs"][0]["dtype"] == "float32"
    assert sum(report["nodes"].values()) == len(loaded.graph.node)
    assert report["weights"] == len(loaded.graph.initializer)
    assert report["weight_bytes"] == sum(numpy_helper.to_array(i).nbytes for i in loaded.graph.initializer)
    assert {"0.linear", "1.norm"} <= set(report["modules"]), report["modules"]
    text = lithify("show", path).stdout
    assert "float32[2, 4]" in text and "1.norm" in text and "largest weights" in text


def test_bodies_functions_and_other_types(tmp_path: Path) -> None:
    body = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "body", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    )
    nodes = [
        helper.make_node("If", ["c"], ["z"], then_branch=body, else_branch=body),
        helper.make_node("Gelu", ["z"], ["w"], domain="com.microsoft"),
        helper.make_node("SequenceConstruct", ["w"], ["s"]),
    ]
    inputs = [
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", None, 3]),
    ]
    outputs = [
        helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None),
        helper.make_value_info("o", helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.INT64, [2]))),
    ]
    twice = helper.make_function("mine", "twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [])
    made = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs), functions=[twice])
    onnx.save(made, str(tmp_path / "m.onnx"))
    report = shown(tmp_path / "m.onnx")
    assert report["nodes"] == {"Relu": 2, "If": 1, "com.microsoft::Gelu": 1, "SequenceConstruct": 1, "Add": 1}
    assert report["functions"] == ["mine::twice"]
    assert report["inputs"][1]["shape"] == ["batch", None, 3]
    assert [v["dtype"] for v in report["outputs"]] == ["sequence of float32", "optional int64"]
    assert report["outputs"][0]["shape"] is None
    assert differences(tmp_path / "m.onnx", tmp_path / "m.onnx")["same"]


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_equal_files(exporter: str, tmp_path: Path) -> None:
    a, b = (EXPORTERS[exporter](model(), tmp_path / name) for name in ("a.onnx", "b.onnx"))
    report = differences(a, b)
    assert report["same"] and report["same_graph"] and report["equal_weights"] > 0, report


def test_names_do_not_matter(tmp_path: Path) -> None:
    a = by_torch(model(), tmp_path / "a.onnx", dynamo=False)
    loaded = onnx.load(str(a))
    renamed = {o: f"value_{i}" for i, o in enumerate(o for n in loaded.graph.node for o in n.output)}
    del renamed[loaded.graph.output[0].name]
    for i, node in enumerate(loaded.graph.node):
        node.name = f"{node.name}_{i}"
        for names in (node.input, node.output):
            for j, name in enumerate(names):
                names[j] = renamed.get(name, name)
    onnx.save(loaded, str(tmp_path / "b.onnx"))
    assert differences(a, tmp_path / "b.onnx")["same"]


def test_weights(tmp_path: Path) -> None:
    a, b = (by_lithify(model(), tmp_path / name) for name in ("a.onnx", "b.onnx"))
    loaded = onnx.load(str(b))
    weights = {i.name: i for i in loaded.graph.initializer}
    changed = numpy_helper.to_array(weights["0.linear.bias"]).copy()
    changed[1] += 0.5
    weights["0.linear.bias"].CopyFrom(numpy_helper.from_array(changed, "0.linear.bias"))
    typed = weights["1.norm.weight"]  # the same numbers, not as raw bytes
    typed.CopyFrom(helper.make_tensor("1.norm.weight", TensorProto.FLOAT, [4], numpy_helper.to_array(typed)))
    weights["1.linear.bias"].name = "head.bias"
    for node in loaded.graph.node:
        for i, name in enumerate(node.input):
            node.input[i] = "head.bias" if name == "1.linear.bias" else name
    onnx.save(loaded, str(b))
    report = differences(a, b)
    assert not report["same"] and report["same_graph"], report
    found = {c["what"]: c for c in report["weights"]}
    assert set(found) == {"contents", "renamed"} and not report["added"] and not report["removed"]
    assert found["contents"]["changed"] == 1 and found["contents"]["largest"] == pytest.approx(0.5)
    assert (found["renamed"]["name"], found["renamed"]["other"]) == ("1.linear.bias", "head.bias")
    printed = lithify("diff", a, b).stdout
    assert "1 elements differ, by 0.5 at most" in printed and "1.linear.bias is now head.bias" in printed


def test_structure(tmp_path: Path) -> None:
    a = by_lithify(model(), tmp_path / "a.onnx")
    other = model()
    other[1] = nn.Sequential(other[1].linear, nn.Sigmoid())  # type: ignore[index]
    report = differences(a, by_lithify(other, tmp_path / "b.onnx"))
    assert not report["same_graph"] and "+ 1 Sigmoid" in report["operators"] and "- 2 Relu" in report["operators"]
    assert any(line.startswith("- 1.norm: ") for line in report["modules"]), report["modules"]
    assert {t["name"] for t in report["removed"]} >= {"1.norm.weight"}
    report = differences(a, by_lithify(model(), tmp_path / "c.onnx", "--dynamic", "input:0=batch", "--opset", "17"))
    assert "- opset ai.onnx 18" in report["interface"] and "+ input input: float32[batch, 4]" in report["interface"]
    assert report["same_graph"] and not report["weights"]


def test_exporters_beside_each_other(tmp_path: Path) -> None:
    made = [exporter(model(), tmp_path / f"{name}.onnx") for name, exporter in EXPORTERS.items()]
    assert all(not differences(made[0], other)["same"] for other in made[1:])


def test_external_data(tmp_path: Path) -> None:
    torch.jit.trace(nn.Linear(64, 64), torch.ones(2, 64)).save(str(tmp_path / "large.pt"))
    a, b = tmp_path / "a.onnx", tmp_path / "b.onnx"
    for out, where in ((a, "never"), (b, "always")):
        assert lithify("export", tmp_path / "large.pt", "-o", out, "--external-data", where).returncode == 0
    assert shown(b)["external_files"] == ["b.onnx.data"]
    assert differences(a, b)["same"], "where the weights are does not matter"
    data = tmp_path / "b.onnx.data"
    data.write_bytes(data.read_bytes()[:8])
    refusal(lithify("diff", a, b), "LTH006")
    data.unlink()
    refusal(lithify("diff", a, b), "LTH001")
    for location in ("../a.onnx", "/etc/passwd", ""):
        loaded = onnx.load(str(b), load_external_data=False)
        for tensor in loaded.graph.initializer:
            for entry in tensor.external_data:
                if entry.key == "location":
                    entry.value = location
        onnx.save(loaded, str(tmp_path / "c.onnx"))
        refusal(lithify("diff", a, tmp_path / "c.onnx"), "LTH006")


# ---- damaged and hostile files ------------------------------------------------------------------------


def field(number: int, contents: bytes) -> bytes:
    """A field of bytes."""
    return varint(number << 3 | 2) + varint(len(contents)) + contents


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def nested(levels: int) -> bytes:
    """Bodies inside each other."""
    graph = b""
    for _ in range(levels):
        graph = field(1, field(4, b"If") + field(5, field(1, b"then_branch") + field(6, graph)))
    return graph


def nested_type(levels: int) -> bytes:
    kind = b""
    for _ in range(levels):
        kind = field(4, field(1, kind))
    return field(11, field(1, b"x") + field(2, kind))


HOSTILE: dict[str, bytes] = {
    "empty": b"",
    "text": b"not a model at all",
    "no_graph": b"\x08\x08",
    "graph_is_a_number": b"\x38\x01",
    "two_graphs": field(7, b"") * 2,
    "longer_than_the_file": b"\x3a\xff\xff\xff\xff\x0f",
    "endless_varint": b"\x08" + b"\xff" * 20,
    "group": b"\x0b\x0c" + field(7, b""),
    "tag_of_zero": b"\x00\x00",
    "name_is_a_number": field(7, field(1, b"\x18\x01")),
    "deep_bodies": field(7, nested(3000)),
    "deep_types": field(7, nested_type(3000)),
    "packed_dims_cut_off": field(7, field(5, field(1, b"\xff\xff"))),
}
HARMLESS: dict[str, bytes] = {
    "huge_dims": field(7, field(5, field(1, varint(2**62) * 4) + b"\x10\x01")),
    "negative_dims": field(7, field(5, field(1, varint(2**64 - 1)) + b"\x10\x01")),
    "unknown_type": field(7, field(5, b"\x10\x63")),
    "many_empty_nodes": field(7, field(1, b"") * 200_000),
    "many_empty_weights": field(7, field(5, b"") * 200_000),
    "escape_codes": field(7, field(1, field(3, b"/\x1b[2J/x") + field(4, b"\x1b]0;x\x07"))),
    "not_utf8": field(7, field(1, field(4, b"\xff\xfe"))),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile(kind: str, tmp_path: Path) -> None:
    path = file_of(tmp_path, HOSTILE[kind], "model.onnx")
    good = by_lithify(model(), tmp_path / "good.onnx")
    for words in (["show", path], ["diff", path, good], ["diff", good, path]):
        refusal(lithify(*words, limits=MODEST), "LTH001", "LTH002", "LTH010")


@pytest.mark.parametrize("kind", HARMLESS)
def test_strange_but_harmless(kind: str, tmp_path: Path) -> None:
    path = file_of(tmp_path, HARMLESS[kind], "model.onnx")
    for words in (["show", path], ["show", path, "--verbose"], ["diff", path, path]):
        done = lithify(*words, limits=MODEST)
        assert done.returncode == 0, done.stderr
        assert "\033" not in done.stdout and "\a" not in done.stdout
    shown(path)


def test_damage(tmp_path: Path) -> None:
    """Cut off anywhere, or with other bytes: an answer or an error, and never a crash."""
    done = lithify("export", DATA / "linear.pt", "-o", tmp_path / "good.onnx", "--input", SPECS["linear"][0])
    assert done.returncode == 0
    data = (tmp_path / "good.onnx").read_bytes()
    draw = random.Random(0)
    files = [data[: draw.randrange(len(data))] for _ in range(10 if SANITIZED else 40)]
    for _ in range(20 if SANITIZED else 100):
        changed = bytearray(data)
        for _ in range(draw.randint(1, 4)):
            changed[draw.randrange(len(data))] = draw.randrange(256)
        files.append(bytes(changed))
    for contents in files:
        path = file_of(tmp_path, contents, "model.onnx")
        for words in (["show", path], ["diff", path, tmp_path / "good.onnx"]):
            done = lithify(*words, limits=MODEST)
            assert done.returncode in (0, 1) or (done.returncode == 3 and "error LTH" in done.stderr), done


def test_typed_contents(tmp_path: Path) -> None:
    """Elements in the fields of their types are those of raw bytes."""
    arrays = {
        "f": np.arange(4, dtype=np.float32),
        "d": np.arange(4, dtype=np.float64),
        "i": np.arange(-2, 2, dtype=np.int32),
        "l": np.arange(-2, 2, dtype=np.int64),
        "b": np.array([True, False]),
        "u": np.arange(3, dtype=np.uint64),
        "c": np.arange(-1, 3, dtype=np.int8),
    }
    paths = []
    for raw in (False, True):
        tensors = [
            helper.make_tensor(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape, a.tobytes() if raw else a, raw=raw)
            for n, a in arrays.items()
        ]
        paths.append(tmp_path / f"{raw}.onnx")
        onnx.save(helper.make_model(helper.make_graph([], "g", [], [], tensors)), str(paths[-1]))
    assert differences(*paths)["same"]
