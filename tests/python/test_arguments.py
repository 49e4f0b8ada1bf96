"""Every argument of lithify.export: what it does, or the error when it cannot."""

from __future__ import annotations

import inspect
import io
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

import lithify

X = torch.randn(3, 4)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 5)
        self.norm = nn.BatchNorm1d(5)
        self.drop = nn.Dropout(0.5)
        self.tied = self.fc

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(self.norm(self.fc(x)))


def loaded(result: lithify.Result) -> onnx.ModelProto:
    assert result.bytes is not None
    model = onnx.load_from_string(result.bytes)
    onnx.checker.check_model(model, full_check=True)
    return model


def close(result: lithify.Result, module: nn.Module, *args: torch.Tensor) -> None:
    session = onnxruntime.InferenceSession(result.bytes, providers=["CPUExecutionProvider"])
    got = session.run(None, {v.name: a.numpy() for v, a in zip(result.inputs, args, strict=True)})[0]
    with torch.no_grad():
        torch.testing.assert_close(torch.from_numpy(got), module(*args), rtol=1e-4, atol=1e-5)


def test_path_file_and_bytes_are_the_same(tmp_path: Path) -> None:
    net = Net().eval()
    plain = lithify.export(net, X).bytes
    lithify.export(net, X, tmp_path / "a.onnx")
    lithify.export(net, (X,), str(tmp_path / "b.onnx"))
    stream = io.BytesIO()
    assert lithify.export(net, X, stream).bytes is None
    assert plain == stream.getvalue() == (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


@pytest.mark.parametrize(("asked", "opset"), [(9, 9), (13, 13), (18, 18), (26, 26), ("latest", 26), ("ort-1.17", 20)])
def test_opset_version(asked: int | str, opset: int) -> None:
    assert loaded(lithify.export(Net().eval(), X, opset_version=asked)).opset_import[0].version == opset


def test_custom_ops(tmp_path: Path) -> None:
    library = torch.library.Library("lithify_test", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x + x, "CompositeExplicitAutograd")
    (tmp_path / "my.ops").write_text("lithify_test::twice(Tensor x) -> Tensor\n    Add(x, x)\n")

    class Twice(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.lithify_test.twice(x)

    close(lithify.export(Twice(), X, custom_ops=tmp_path / "my.ops"), Twice(), X)
    assert lithify.export(Twice(), X, allow_custom=True).nodes == {"twice": 1}
    with pytest.raises(lithify.ExportError, match="LTH040"):
        lithify.export(Twice(), X)


LIBRARY = torch.library.Library("lithify_table", "DEF")
LIBRARY.define("scaled(Tensor x, float alpha=2.0, int[]? dims=None) -> Tensor")
LIBRARY.define("both(Tensor[] xs, bool swap=False) -> (Tensor, Tensor)")
LIBRARY.impl("scaled", lambda x, alpha=2.0, dims=None: (x * alpha).sum(dims or []), "CompositeExplicitAutograd")
LIBRARY.impl("both", lambda xs, swap=False: (xs[1].neg(), xs[0] + 1) if swap else (xs[0], xs[1]), "CompositeExplicitAutograd")


class Custom(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = torch.ops.lithify_table.both([x, x * 3], True)
        return torch.ops.lithify_table.scaled(a - b, 0.5, [1])


def both(xs: Any, swap: bool) -> Any:
    assert swap is True
    return -xs[1], xs[0] + 1


def scaled(x: Any, alpha: float, dims: list[int]) -> Any:
    return lithify.ops.ReduceSum(x * alpha, dims, keepdims=0)


def scaled_by_onnxscript(x: Any, alpha: float, dims: list[int]) -> Any:
    from onnxscript import opset18 as op

    return op.ReduceSum(op.Mul(x, alpha), dims, keepdims=False)


@pytest.mark.parametrize("function", [scaled, scaled_by_onnxscript])
@pytest.mark.parametrize("how", ["trace", "export"])
def test_custom_translation_table(function: Any, how: Any) -> None:
    table = {torch.ops.lithify_table.both: both, torch.ops.lithify_table.scaled.default: function}
    result = lithify.export(Custom(), X, custom_translation_table=table, dynamic_axes={"x": {0: "n"}}, capture=how)
    assert result.nodes["ReduceSum"] == 1 and result.outputs[0].shape == ["n"]
    close(result, Custom(), torch.randn(7, 4))


def test_errors_of_a_translation_are_its_own() -> None:
    def fails(x: Any, alpha: float, dims: Any) -> Any:
        raise ZeroDivisionError("mine")

    table = {torch.ops.lithify_table.both: both, torch.ops.lithify_table.scaled: fails}
    with pytest.raises(ZeroDivisionError, match="mine"):
        lithify.export(Custom(), X, custom_translation_table=table)
    with pytest.raises(lithify.ExportError, match="not values of the graph"):
        lithify.export(Custom(), X, custom_translation_table=table | {torch.ops.lithify_table.scaled: lambda *a: 3})


def test_custom_opsets() -> None:
    class Kept(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.lithify_table.scaled(x)

    result = lithify.export(Kept(), X, allow_custom=True, custom_opsets={"lithify_table": 4, "unused": 2})
    versions = {o.domain: o.version for o in onnx.load_from_string(result.bytes or b"").opset_import}
    assert versions == {"": 18, "lithify_table": 4}


@pytest.mark.parametrize(
    ("axes", "name"), [({"x": {0: "batch"}}, "batch"), ({"x": [0]}, "x_dynamic_axes_1"), ({"x": {-2: "n"}}, "n")]
)
def test_dynamic_axes(axes: Any, name: str) -> None:
    net = Net().eval()
    result = lithify.export(net, X, dynamic_axes=axes)
    assert result.inputs[0].shape == [name, "4"]
    assert result.outputs[0].shape == [name, "5"]
    for size in (1, 2, 7, 64):
        close(result, net, torch.randn(size, 4))


BATCH = torch.export.Dim("batch")


@pytest.mark.parametrize(
    ("shapes", "name"),
    [
        ({"x": {0: BATCH}}, "batch"),
        (({0: "batch"},), "batch"),
        (((BATCH, None),), "batch"),
        ([{0: torch.export.Dim.DYNAMIC}], "x_dim_0"),
        ({"x": {0: torch.export.Dim.AUTO, 1: torch.export.Dim.STATIC}}, "x_dim_0"),
        ({"x": None}, "3"),
    ],
)
def test_dynamic_shapes(shapes: Any, name: str) -> None:
    assert lithify.export(Net().eval(), X, dynamic_shapes=shapes).inputs[0].shape == [name, "4"]


class Joined(nn.Module):
    def forward(self, x: torch.Tensor, past: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.cat([past, x], 1) * mask


def joined(past: int, sequence: int) -> tuple[torch.Tensor, ...]:
    return torch.randn(2, sequence), torch.randn(2, past), torch.rand(2, past + sequence)


@pytest.mark.parametrize("how", ["auto", "trace", "script", "export"])
@pytest.mark.parametrize("name", ["past+sequence", "sequence + past", "2*past - past + sequence"])
def test_a_name_that_is_a_formula(name: str, how: Any) -> None:
    axes = {"x": {1: "sequence"}, "past": {1: "past"}, "mask": {1: name}}
    result = lithify.export(Joined(), joined(5, 3), dynamic_axes=axes, capture=how)
    assert [v.shape[1] for v in result.inputs] == ["sequence", "past", "sequence + past"]
    assert [d.name for d in result.dimensions] == ["past", "sequence"] and result.messages == []
    for sizes in ((5, 3), (1, 1), (2, 7)):
        close(result, Joined(), *joined(*sizes))


def test_formulas_that_the_sample_contradicts_and_names_that_are_no_formulas() -> None:
    axes: Any = {"x": {1: "sequence"}, "past": {1: "past"}, "mask": {1: "past+sequence+1"}}
    words = r"the size 'past\+sequence\+1' of the input 'mask' is 8 in the sample, and the formula gives 9"
    with pytest.raises(lithify.ExportError, match=words):
        lithify.export(Joined(), joined(5, 3), dynamic_axes=axes)
    # There is no dimension 'len': these are names, as torch.onnx.export takes them.
    for name in ("seq-len", "seq len", "past/len"):
        assert lithify.export(Net().eval(), X, dynamic_axes={"x": {0: name}}).inputs[0].shape[0] == name


def test_dimensions_of_torch_that_are_formulas() -> None:
    class Repeated(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x.repeat(2, 1) + y

    shapes = {"x": {0: BATCH}, "y": {0: 2 * BATCH}}
    result = lithify.export(Repeated(), (X, torch.randn(6, 4)), dynamic_shapes=shapes, verify=True)
    assert [v.shape[0] for v in result.inputs] == ["batch", "2*batch"]


def test_a_name_that_is_nothing_is_an_error_with_the_name_that_is_meant() -> None:
    for axes, meant in [({"mask": {0: "n"}}, "the names are x, output"), ({"outptu": {0: "n"}}, "did you mean 'output'")]:
        with pytest.raises(lithify.ExportError, match=meant):
            lithify.export(Net().eval(), X, dynamic_axes={"x": {0: "n"}, **axes})
    with pytest.raises(lithify.ExportError, match="did you mean 'x'"):
        lithify.export(Net().eval(), X, dynamic_shapes={"xx": {0: BATCH}})


@pytest.mark.parametrize("how", ["module", "scripted"])
def test_axes_that_can_be_dynamic_are_detected(how: str) -> None:
    net = Net().eval()
    result = lithify.export(net if how == "module" else torch.jit.script(net), X, dynamic_axes="auto")
    assert [v.shape for v in result.inputs] == [["x_0", "4"]]
    close(result, net, torch.randn(7, 4))


def test_a_model_in_training_mode_is_exported_for_evaluation_and_left_as_it_was() -> None:
    net = Net()
    net.norm.eval()
    state = torch.get_rng_state()
    before = {n: t.clone() for n, t in net.state_dict().items()}
    result = lithify.export(net, X)
    assert any("training mode" in note for note in result.notes)
    assert (net.training, net.norm.training, net.drop.training) == (True, False, True)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(t, before[n]) for n, t in net.state_dict().items())
    close(result, net.eval(), X)


def test_buffers_that_forward_changes_are_put_back() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count.add_(1)
            return x + self.count

    net = Counter()
    with pytest.raises(lithify.ExportError, match="the results depend on 'count'"):
        lithify.export(net, X)
    assert float(net.count) == 0
    result = lithify.export(net, X, state="io")
    assert [i.name for i in result.inputs][1:] == ["count"] and [o.name for o in result.outputs][1:] == ["count.next"]
    lithify.export(net, X, training=torch.onnx.TrainingMode.PRESERVE, state="frozen")
    assert float(net.count) == 0


def test_weights_have_their_names_and_tied_ones_are_one() -> None:
    model = loaded(lithify.export(Net().eval(), X))
    names = [i.name for i in model.graph.initializer]
    assert "fc.weight" in names
    assert not any(n.startswith("tied.") for n in names)


@pytest.mark.parametrize(
    "change",
    [lambda w: w.t().contiguous().t(), lambda w: torch.cat([w, w], 1)[:, ::2], lambda w: w[:1].expand(5, 4)],
)
def test_weights_that_are_not_contiguous(change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    net = Net().eval()
    net.fc.weight = nn.Parameter(change(net.fc.weight.detach()))
    close(lithify.export(net, X), net, X)


def test_external_data(tmp_path: Path) -> None:
    net = nn.Linear(100, 100)
    result = lithify.export(net, torch.randn(1, 100), tmp_path / "m.onnx", external_data="always")
    assert result.external_file == tmp_path / "m.onnx.data"
    assert result.external_file.stat().st_size >= 40000
    assert lithify.export(net, torch.randn(1, 100), tmp_path / "t.onnx", external_data=True).external_file is not None
    assert lithify.export(net, torch.randn(1, 100), tmp_path / "n.onnx", external_data=False).external_file is None


@pytest.mark.parametrize("verbose", [None, False, True])
def test_prints_only_when_asked(verbose: bool | None, capfd: pytest.CaptureFixture[str]) -> None:
    lithify.export(Net().eval(), X, verbose=verbose)
    out, err = capfd.readouterr()
    assert ("Gemm" in out) == bool(verbose)
    assert err == ""


def test_report(tmp_path: Path) -> None:
    lithify.export(Net().eval(), X, report=True, artifacts_dir=tmp_path)
    assert "Gemm" in (tmp_path / "lithify_export_report.txt").read_text()


@pytest.mark.parametrize(
    "ignored",
    [{"dynamo": True}, {"optimize": False}, {"do_constant_folding": False}, {"autograd_inlining": False}, {"fallback": True}],
)
def test_choices_of_torch_change_nothing(ignored: dict[str, Any]) -> None:
    net = Net().eval()
    assert lithify.export(net, X, **ignored).bytes == lithify.export(net, X).bytes


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"export_params": False}, "export_params"),
    ({"keep_initializers_as_inputs": True}, "keep_initializers_as_inputs"),
    ({"custom_translation_table": {torch.relu: max}}, "which is not an operator"),
    ({"export_modules_as_functions": True}, "export_modules_as_functions"),
    ({"operator_export_type": torch.onnx.OperatorExportTypes.ONNX_ATEN}, "operator_export_type"),
    ({"dump_exported_program": True}, "dump_exported_program"),
    ({"profile": True}, "profile"),
    ({"opset_version": 5}, "opset 5"),
    ({"input_names": ["a", "b"]}, r"input names provided \(2\)"),
    ({"output_names": ["a", "b"]}, r"output names provided \(2\)"),
    ({"dynamic_axes": {"x": {0: "n"}}, "dynamic_shapes": ({0: "n"},)}, "both"),
    ({"dynamic_axes": {"x": {5: "n"}}}, "axis 5"),
    ({"dynamic_axes": {"x": 0}}, "neither a dict"),
    ({"dynamic_shapes": ({0: "n"}, None)}, "2 entries for 1"),
    ({"dynamic_shapes": {"y": {0: "n"}}}, "'y'"),
    ({"dynamic_shapes": ({0: BATCH * 2},)}, "formula of others"),
    ({"dynamic_shapes": ({0: 7},)}, "to 7; the sample has 3"),
]


@pytest.mark.parametrize(("options", "words"), REFUSED, ids=[s for _, s in REFUSED])
def test_what_cannot_be_done_is_reported(options: dict[str, Any], words: str) -> None:
    with pytest.raises(lithify.ExportError, match=words):
        lithify.export(Net().eval(), X, **options)


SAMPLES: list[tuple[Any, str]] = [
    (torch.randn(3, 7), r"(?s)x: float32\[3, 7\].*'fc', Linear\(in_features=4"),
    (torch.ones(3, 4, dtype=torch.int64), r"(?s)x: int64\[3, 4\].*'fc'"),
    ((X, X), r"forward\(x.*too many"),
    ((), r"missing a required argument"),
]


@pytest.mark.parametrize(("args", "words"), SAMPLES)
def test_a_wrong_sample_is_explained(args: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(lithify.ExportError) as caught:
        lithify.export(Net().eval(), args, tmp_path / "m.onnx")
    assert re.search(words, str(caught.value)), str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("how", ["trace", "script", "export"])
def test_ways_of_capture(how: Any) -> None:
    net = Net().eval()
    result = lithify.export(net, X, dynamic_axes={"x": {0: "batch"}}, capture=how)
    assert result.capture == how
    for size in (1, 5):
        close(result, net, torch.randn(size, 4))


def test_f_is_a_path_a_file_or_none() -> None:
    with pytest.raises(TypeError, match="f is a path"):
        lithify.export(Net(), X, 5)  # type: ignore[arg-type]


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, times: int = 1) -> torch.Tensor:  # type: ignore[override]
        ctx.save_for_backward(x)
        return x * 2**times


class Split(torch.autograd.Function):
    @staticmethod
    def forward(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # type: ignore[override]
        return x + 1, x - 1

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)


class OwnFunctions(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = Split.apply(x)
        return Doubled.apply(a, 3) * Doubled.apply(b)


def test_functions_of_autograd_are_traced_or_translated_by_the_table() -> None:
    axes = {"x": {0: "n"}}
    plain = lithify.export(OwnFunctions(), X, dynamic_axes=axes)
    assert plain.nodes == {"Mul": 3, "Add": 1, "Sub": 1}
    op = lithify.ops
    table = {Doubled: lambda x, times=1: op.Div(x, 0.5**times), Split: lambda x: (op.Add(x, 1.0), op.Sub(x, 1.0))}
    translated = lithify.export(OwnFunctions(), X, dynamic_axes=axes, custom_translation_table=table)
    assert translated.nodes == {"Div": 2, "Add": 1, "Mul": 1, "Sub": 1}
    for result in (plain, translated):
        close(result, OwnFunctions(), torch.randn(7, 4))


class ByNumbers(nn.Module):
    """One number is computed with, one chooses, one counts."""

    def forward(self, x: torch.Tensor, factor: float, flip: bool = False, times: int = 1) -> torch.Tensor:
        for _ in range(times):
            x = x * factor
        return -x if flip else x


def test_numbers_that_python_uses_are_no_inputs() -> None:
    result = lithify.export(ByNumbers().eval(), (X, 0.5, True, 2), input_names=["x", "factor", "flip", "times"])
    assert [v.name for v in result.inputs] == ["x", "factor"]
    assert [re.sub(" of a number at.*", "", n) for n in result.notes] == [
        "'times' is the constant 2 in the file, not an input: index",
        "'flip' is the constant True in the file, not an input: bool",
    ]
    assert result.constants == {"times": 2, "flip": True}
    for how in ("trace", "export"):
        made = lithify.export(ByNumbers().eval(), (X, 0.5, True, 2), capture=how, verify=True)  # type: ignore[arg-type]
        assert made.nodes["Neg"] == 1 and [v.name for v in made.inputs] == ["x", "factor"][: len(made.inputs)]
    scripted = lithify.export(ByNumbers().eval(), (X, 0.5, True, 2), capture="script")
    assert [str(v) for v in scripted.inputs] == ["x: float32[3, 4]", "factor: float64[]", "flip: bool[]", "times: int64[]"]
    session = onnxruntime.InferenceSession(scripted.bytes)
    for factor, flip, times in ((0.5, True, 2), (2.0, False, 0), (1.5, True, 5)):
        values = {"x": X.numpy(), "factor": np.float64(factor), "flip": np.bool_(flip), "times": np.int64(times)}
        got = session.run(None, {name: np.asarray(value) for name, value in values.items()})[0]
        torch.testing.assert_close(torch.from_numpy(got), ByNumbers()(X, factor, flip, times))
    skipped = lithify.export(ByNumbers().eval(), (X, 0.5, {"times": 2}), capture="script")  # and 'flip' has its default
    assert [v.name for v in skipped.inputs] == ["x", "factor", "times"] and "Loop" in skipped.nodes


def test_what_a_call_leaves_as_it_was() -> None:
    class Random(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.mul_(random.random() + np.random.rand()) + torch.rand(4)

    x = X.clone()
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index, union-attr]
    lithify.export(Random(), x)
    assert torch.equal(torch.get_rng_state(), before[0]) and torch.equal(x, X)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before[1:]  # type: ignore[index, union-attr]
    assert torch.jit._trace._trace_module_map is None and torch.is_grad_enabled()


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "bfloat16"])
def test_types_of_few_bits(dtype: str) -> None:
    class To(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.to(getattr(torch, dtype))

    first = 13 if dtype == "bfloat16" else 19
    result = lithify.export(To(), X, opset_version=first)
    assert result.outputs[0].dtype == dtype
    loaded(result)
    with pytest.raises(lithify.ExportError, match=f"from opset {first} on"):
        lithify.export(To(), X, opset_version=first - 1)


@torch.jit.script
def halved_until_small(x: torch.Tensor, most: int) -> torch.Tensor:
    for _ in range(most):
        if bool(x.abs().sum() > 1):
            x = x / 2
    return x


def test_functions_of_torchscript() -> None:
    result = lithify.export(halved_until_small, (X, 3))
    assert [v.name for v in result.inputs] == ["x", "most"] and "Loop" in result.nodes and result.capture == "script"

    class Calls(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return halved_until_small(x, 2)

    traced = lithify.export(Calls(), X)
    assert traced.capture == "trace" and traced.nodes["If"] == 2
    close(traced, Calls(), X / 100)


def test_wrappers() -> None:
    net = Net().eval()
    close(lithify.export(nn.DataParallel(net), X), net, X)
    assert lithify.export(torch.compile(net), X).bytes == lithify.export(net, X).bytes


def test_other_kinds_of_models() -> None:
    net = Net().eval()
    axes = {"x": {0: "n"}}
    close(lithify.export(torch.jit.script(net), X, dynamic_axes=axes), net, torch.randn(2, 4))
    close(lithify.export(torch.jit.trace(net, X), X, dynamic_axes=axes), net, torch.randn(2, 4))
    close(lithify.export(net.forward, X, dynamic_axes=axes), net, torch.randn(2, 4))
    program = torch.export.export(net, (X,), dynamic_shapes=({0: BATCH},))
    close(lithify.export(program, dynamic_axes=axes), net, torch.randn(2, 4))
    assert not any(t.is_meta for t in program.state_dict.values())
    assert lithify.export(torch.add, (X, X)).nodes == {"Add": 1}


def test_a_branch_on_data_is_never_left_out() -> None:
    class Branch(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1 if bool(x.sum() > 0) else helper(x)

    def helper(x: Any) -> Any:
        return {"a": x * 2}["a"] if not isinstance(x, str) else x  # TorchScript cannot have it

    for x in (X, X.abs() + 1, -X.abs() - 1):
        close(lithify.export(Branch(), X), Branch(), x)


def test_patch() -> None:
    before = torch.onnx.export
    with lithify.patch():
        assert isinstance(torch.onnx.export(Net().eval(), X), lithify.Result)
    assert torch.onnx.export is before


def test_files_need_no_torch(tmp_path: Path) -> None:
    torch.jit.trace(Net().eval(), X).save(str(tmp_path / "m.pt"))
    assert lithify.inspect(tmp_path / "m.pt").kind == "TorchScript"
    assert lithify.check(tmp_path / "m.pt")
    result = lithify.convert(tmp_path / "m.pt", tmp_path / "m.onnx", dynamic_axes={"x": {0: "batch"}})
    assert result.inputs[0].shape == ["batch", "4"]
    with pytest.raises(lithify.ExportError, match="LTH") as caught:
        lithify.convert(tmp_path / "m.onnx", tmp_path / "n.onnx")
    assert caught.value.messages[0].severity == "error"


def test_verify(tmp_path: Path) -> None:
    net = Net().eval()
    lithify.export(net, X, verify=True)
    lithify.export(net, X, tmp_path / "m.onnx", verify=True)
    with torch.no_grad():
        net.fc.bias.add_(1)
    with pytest.raises(lithify.ExportError, match="differs from the live"):
        lithify.verify(net, tmp_path / "m.onnx", X).check()


NODES = {"Gemm": 1, "BatchNormalization": 1}

# Every parameter with a value that is not its default, and what it shows in.
TABLE: dict[str, tuple[Any, Callable[[lithify.Result], bool]]] = {
    "args": ((X,), lambda r: r.inputs[0].shape == ["3", "4"]),
    "f": (io.BytesIO(), lambda r: r.path is None and r.bytes is None),
    "kwargs": ({}, lambda r: len(r.inputs) == 1),
    "verbose": (False, lambda r: bool(r.graph)),
    "input_names": (["a"], lambda r: r.inputs[0].name == "a"),
    "output_names": (["b"], lambda r: r.outputs[0].name == "b"),
    "opset_version": (15, lambda r: r.opset == 15),
    "dynamo": (True, lambda r: r.capture == "trace"),
    "external_data": (True, lambda r: r.external_file is None),
    "dynamic_shapes": (({0: "n"},), lambda r: r.inputs[0].shape == ["n", "4"]),
    "custom_translation_table": ({torch.ops.lithify_table.both: both}, lambda r: r.nodes == NODES),
    "report": (False, lambda r: True),
    "optimize": (False, lambda r: r.nodes == NODES),
    "verify": (True, lambda r: r.nodes == NODES),
    "profile": (False, lambda r: {"capture", "convert", "write"} <= set(r.seconds)),
    "dump_exported_program": (False, lambda r: True),
    "artifacts_dir": (".", lambda r: True),
    "export_params": (True, lambda r: r.weights >= 2),
    "keep_initializers_as_inputs": (None, lambda r: len(r.inputs) == 1),
    "dynamic_axes": ({"x": {0: "n"}}, lambda r: [str(d) for d in r.dimensions] == ["n: any size"]),
    "training": (torch.onnx.TrainingMode.EVAL, lambda r: r.notes == []),
    "operator_export_type": (torch.onnx.OperatorExportTypes.ONNX, lambda r: r.nodes == NODES),
    "do_constant_folding": (False, lambda r: r.nodes == NODES),
    "custom_opsets": ({"mine": 2}, lambda r: r.nodes == NODES),
    "export_modules_as_functions": (False, lambda r: r.nodes == NODES),
    "autograd_inlining": (False, lambda r: r.nodes == NODES),
    "fallback": (True, lambda r: r.nodes == NODES),
    "samples": ([torch.ones(3, 4)], lambda r: r.nodes == NODES),
    "capture": ("script", lambda r: r.capture == "script"),
    "progress": (lambda done, total: None, lambda r: r.file_bytes > 0),
    "custom_ops": (None, lambda r: True),
    "allow_custom": (True, lambda r: r.nodes == NODES),
    "state": ("io", lambda r: len(r.outputs) == 1),
    "recover": ("never", lambda r: r.nodes == NODES),
    "strict": (True, lambda r: r.messages == []),
    "unroll": (0, lambda r: r.nodes == NODES),
    "budget": (2, lambda r: r.nodes == NODES),
    "capture_runs": (0, lambda r: r.nodes == NODES),
    "capture_seconds": (0, lambda r: r.nodes == NODES),
    "target": ("ort-1.17", lambda r: r.opset == 20),
    "weights": ("int8", lambda r: [m.code for m in r.messages] == ["LTH082"]),
    "weights_block": (64, lambda r: r.nodes == NODES),
    "precision": ("float16", lambda r: [m.code for m in r.messages] == ["LTH083"]),
    "keep_weights": (["layer"], lambda r: r.nodes == NODES),
    "skip_sync": (True, lambda r: r.file_bytes > 0),
    "self_check": (True, lambda r: r.nodes == NODES),
}


def test_every_parameter_is_in_the_table() -> None:
    ours, theirs = inspect.signature(lithify.export).parameters, inspect.signature(torch.onnx.export).parameters
    assert set(theirs) <= set(ours)
    assert [ours[p].kind for p in theirs] == [theirs[p].kind for p in theirs]
    assert list(ours)[:3] == list(theirs)[:3]
    others = {p for p in theirs if ours[p].default != theirs[p].default}
    assert others <= {"dynamo", "external_data", "training", "operator_export_type", "verify"}, "a default is another"
    assert set(TABLE) == set(ours) - {"model"}


@pytest.mark.parametrize("name", TABLE)
def test_parameter(name: str) -> None:
    value, shows = TABLE[name]
    result = lithify.export(Net().eval(), **({"args": X} | {name: value}))
    assert shows(result), result


MISTAKES = [
    ("a class", lambda: lithify.export(Net, X), "Net is a class"),
    ("a state_dict", lambda: lithify.export(Net().state_dict(), X), "load_state_dict"),
    ("a path", lambda: lithify.export("model.pt", X), "lithify.convert"),
    ("a tensor", lambda: lithify.export(X, X), "type Tensor is not a model"),
    ("an opset as float", lambda: lithify.export(Net(), X, opset_version=17.0), "opset_version is an integer"),
    ("an opset as text", lambda: lithify.export(Net(), X, opset_version="17"), "opset_version is an integer"),
    ("an opset as bool", lambda: lithify.export(Net(), X, opset_version=True), "opset_version is an integer"),
    ("a generator", lambda: lithify.export(Net(), (x for x in [X])), "pass a tuple"),
    ("an array", lambda: lithify.export(Net(), (X.numpy(),)), "torch.from_numpy"),
    ("a shape", lambda: lithify.export(Net(), X.shape), "torch.randn"),
    ("weights without values", lambda: lithify.export(nn.Linear(4, 4, device="meta"), X), "device meta"),
    ("a sample elsewhere", lambda: lithify.export(nn.Linear(4, 4), X.to("meta")), "weights of the model are on cpu"),
    ("names as text", lambda: lithify.export(Net(), X, input_names="x"), "pass a list of names"),
    ("a number as name", lambda: lithify.export(Net(), X, output_names=[1]), "not a name"),
    ("axes as text", lambda: lithify.export(Net(), X, dynamic_axes="batch"), "pass a dict"),
    ("a file of text", lambda: lithify.export(Net(), X, io.StringIO()), "open for text"),
    ("versions as text", lambda: lithify.export(Net(), X, custom_opsets={"a": "b"}), "custom_opsets cannot be"),
    ("no directory", lambda: lithify.export(Net(), X, "nowhere/model.onnx"), "there is no directory"),
]


@pytest.mark.parametrize(("call", "said"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES])
def test_mistakes_are_reported_with_what_to_pass(call: Callable[[], Any], said: str) -> None:
    with pytest.raises((lithify.ExportError, ValueError, TypeError), match=re.escape(said)):
        call()


def test_one_tensor_needs_no_tuple_and_a_parallel_model_no_unwrapping() -> None:
    net = Net().eval()
    result = lithify.export(nn.DataParallel(net), X, dynamic_axes={"x": {0: "n"}})
    assert any("DataParallel" in note for note in result.notes)
    close(result, net, torch.randn(7, 4))


class Scaled(torch.autograd.Function):
    """One node of another domain, with all kinds of attributes."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, alpha: float) -> torch.Tensor:  # type: ignore[override]
        return x * alpha

    @staticmethod
    def symbolic(g: Any, x: Any, alpha: float) -> Any:
        return g.op("my.domain::Scaled", x, alpha_f=alpha, axes_i=[1, 2], mode_s="fast").setType(x.type())


class Summed(torch.autograd.Function):
    """Nodes of ONNX that compute the same in another way."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return x.sum(1) * 2

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        axes, half = g.op("Constant", value_t=torch.tensor([1])), g.op("Constant", value_t=torch.tensor(0.5))
        return g.op("Div", g.op("ReduceSum", x, axes, keepdims_i=0), half)


class Both(torch.autograd.Function):
    """Two results of a node without types."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # type: ignore[override]
        return x + 1, x.sum(1)

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        return g.op("my.domain::Both", x, outputs=2)


class ByFunction(nn.Module):
    def __init__(self, function: Any, *further: Any) -> None:
        super().__init__()
        self.function, self.further = function, further

    def forward(self, x: torch.Tensor) -> Any:
        return self.function.apply(x, *self.further)


def test_the_symbolic_method_of_a_function_makes_its_nodes() -> None:
    axes = {"x": {0: "n"}}
    scaled = lithify.export(ByFunction(Scaled, 0.5), X, dynamic_axes=axes, custom_opsets={"my.domain": 3})
    assert scaled.bytes is not None
    model = onnx.load_from_string(scaled.bytes)
    (node,) = model.graph.node
    assert (node.domain, node.op_type) == ("my.domain", "Scaled")
    values = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    assert values == {"alpha": 0.5, "axes": [1, 2], "mode": b"fast"}
    assert {o.domain: o.version for o in model.opset_import}["my.domain"] == 3
    assert scaled.outputs[0].shape == ["n", "4"]

    summed = lithify.export(ByFunction(Summed), X, dynamic_axes=axes)
    assert summed.nodes == {"Div": 1, "ReduceSum": 1}
    close(summed, ByFunction(Summed), torch.randn(7, 4))

    both = lithify.export(ByFunction(Both), X, dynamic_axes=axes)
    assert both.nodes == {"Both": 1}
    assert both.outputs[0].shape == ["n", "4"]
    assert lithify.export(ByFunction(Scaled, 0.5), X, dynamic_axes=axes, dynamo=True).nodes == {"Mul": 1}


@torch.library.custom_op("lithify_tests::shifted", mutates_args=())
def shifted(x: torch.Tensor, by: float, axes: list[int]) -> torch.Tensor:
    return x + by


@shifted.register_fake
def _(x: torch.Tensor, by: float, axes: list[int]) -> torch.Tensor:
    return torch.empty_like(x)


class Shifted(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.lithify_tests.shifted(x, 0.5, [0, 1]).erf()


def by_symbolic(symbolic: Callable[..., Any], forward: Callable[..., Any], *given: Any) -> Any:
    """A model of one autograd.Function."""
    members = {"symbolic": staticmethod(symbolic), "forward": staticmethod(lambda context, *args: forward(*args))}
    return ByFunction(type("Made", (torch.autograd.Function,), members), *given)


@pytest.mark.parametrize(
    ("symbolic", "forward", "nodes"),
    [
        (lambda g, x: g.op("Relu", x), torch.relu, ["Relu"]),
        (lambda g, x: g.op("Add", x, g.op("Constant", value_t=torch.arange(4.0))), lambda x: x + torch.arange(4.0), ["Add"]),
        (lambda g, x: g.op("Mul", x, g.op("Constant", value_t=torch.tensor([[2.0]]))), lambda x: x * 2, ["Mul"]),
        (lambda g, x: g.op("Transpose", x, perm_i=[1, 0]), torch.t, ["Transpose"]),
        (lambda g, x: g.op("Relu" if g.opset >= 18 else "Erf", x), torch.relu, ["Relu"]),
        (lambda g, x: g.op("my.domain::T", x, l_s=["a", "b"], v_f=[1.0], i_i=[1, 2]), lambda x: x * 1, ["T"]),
    ],
)
def test_what_symbolic_makes(symbolic: Callable[..., Any], forward: Callable[..., Any], nodes: list[str]) -> None:
    model = by_symbolic(symbolic, forward)
    result = lithify.export(model, X, dynamic_axes={"x": {0: "batch"}})
    made = onnx.load_from_string(result.bytes)
    assert [n.op_type for n in made.graph.node] == nodes
    assert not result.messages and result.claims.holds(batch=7)
    if not made.graph.node[0].domain:
        x = torch.randn(7, X.shape[1])
        session = onnxruntime.InferenceSession(result.bytes)
        torch.testing.assert_close(torch.from_numpy(session.run(None, {"x": x.numpy()})[0]), model(x))


def test_a_symbolic_method_that_fails_is_not_replaced_by_forward() -> None:
    for symbolic, error, text in (
        (lambda g, x: 1 / 0, ZeroDivisionError, "division"),
        (lambda g, x: None, lithify.ExportError, "returns None"),
        (lambda g, x: g.at("relu", x), lithify.ExportError, "makes a node aten::relu: only operators of ONNX"),
        (lambda g, x: g.block, AttributeError, "symbolic of Made uses g.block"),
        (lambda g, x: g.op("NoSuchOp", x), RuntimeError, "error LTH040: ONNX has no operator NoSuchOp"),
    ):
        with pytest.raises(error, match=text):
            lithify.export(by_symbolic(symbolic, torch.relu), X)


def test_functions_of_register_custom_op_symbolic_translate_operators() -> None:
    axes, name = {"x": {0: "n"}}, "lithify_tests::shifted"
    with pytest.raises(lithify.ExportError, match="lithify_tests::shifted is not supported"):
        lithify.export(Shifted(), X, dynamic_axes=axes)
    torch.onnx.register_custom_op_symbolic(
        name, lambda g, x, by, axes: g.op("Add", x, g.op("Constant", value_t=torch.tensor(by))), 9
    )
    torch.onnx.register_custom_op_symbolic("aten::erf", lambda g, x: g.op("my.domain::Erf", x).setType(x.type()), 9)
    try:
        close(lithify.export(Shifted(), X, dynamic_axes=axes), Shifted(), torch.randn(7, 4))
        torch.onnx.register_custom_op_symbolic(
            name, lambda g, x, by, axes: g.op("my.domain::Shifted", x, by_f=by, axes_i=axes).setType(x.type()), 15
        )
        result = lithify.export(Shifted(), X, dynamic_axes=axes)
        assert result.nodes == {"Shifted": 1, "Erf": 1} and result.outputs[0].shape == ["n", "4"]
        assert lithify.export(Shifted(), X, dynamic_axes=axes, opset_version=13).nodes == {"Add": 1, "Erf": 1}
    finally:
        for opset in (9, 15):
            torch.onnx.unregister_custom_op_symbolic(name, opset)
        torch.onnx.unregister_custom_op_symbolic("aten::erf", 9)


class Symbolic(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        x = torch.onnx.ops.symbolic("Relu", (x,), {}, dtype=x.dtype, shape=x.shape, version=18)
        given = {"alpha": 0.5, "axes": [1, 2], "mode": "fast", "flag": True}
        one = torch.onnx.ops.symbolic("my.domain::One", (x, None, x), given, dtype=torch.int64, shape=(x.shape[0], 7), version=3)
        shapes = (x.shape, (1,), (x.shape[0] + 1,))
        return one, *torch.onnx.ops.symbolic_multi_out(
            "my.domain::Several", (one, x), dtypes=(x.dtype,) * 3, shapes=shapes, version=3
        )


def test_symbolic_of_torch_onnx_ops_is_a_node() -> None:
    result = lithify.export(Symbolic(), X, dynamic_axes={"x": {0: "n"}})
    assert result.nodes == {"Relu": 1, "One": 1, "Several": 1} and result.bytes is not None
    assert [v.shape for v in result.outputs[:2]] == [["n", "7"], ["n", "4"]]
    assert result.outputs[2].shape == ["1"] and result.outputs[0].dtype == "int64" and len(result.outputs) == 4
    model = onnx.load_from_string(result.bytes)
    node = next(n for n in model.graph.node if n.op_type == "One")
    values = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    assert values == {"alpha": 0.5, "axes": [1, 2], "mode": b"fast", "flag": 1} and len(node.input) == 3 and not node.input[1]
    assert {o.domain: o.version for o in model.opset_import}["my.domain"] == 3


class Mixed(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return x + 1, None, "text", {"a": x * 2, "b": None}, 3


class MixedInScript(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None, str, int]:
        return x + 1, None, "text", 3


def test_results_that_are_no_tensors_keep_their_place_and_are_named() -> None:
    result = lithify.export(Mixed(), X, dynamic_axes={"x": {0: "n"}})
    assert [v.name for v in result.outputs] == ["output_0", "output_3_a", "output_4"]
    left_out = [n for n in result.notes if "not in the file" in n]
    assert [n.split("'")[1] for n in left_out] == ["output_1", "output_2", "output_3_b"]
    scripted = lithify.export(torch.jit.script(MixedInScript()), X, dynamic_axes={"x": {0: "n"}})
    assert [v.name for v in scripted.outputs] == ["output_0", "output_3"]
    assert [m.text.split("'")[1] for m in scripted.messages if "not in the file" in m.text] == ["output_1", "output_2"]


@pytest.mark.parametrize("returned", [lambda x: None, lambda x: (), lambda x: {"a": None}, lambda x: "text"])
@pytest.mark.parametrize("capture", ["trace", "export", "auto"])
def test_a_model_that_returns_no_tensor_is_refused(returned: Callable[..., Any], capture: str) -> None:
    with pytest.raises(lithify.ExportError, match="the model returns no tensor, and a file needs an output"):
        lithify.export(returned, X, capture=capture)


class Repeated(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        y = x + 1
        return y, x, y, {"again": x}


@pytest.mark.parametrize("capture", ["trace", "export"])
def test_each_result_is_an_output(capture: str) -> None:
    result = lithify.export(Repeated(), X, dynamic_axes={"x": {0: "n"}}, capture=capture)
    assert [v.name for v in result.outputs] == ["output_0", "output_1", "output_2", "output_3_again"]
    x = np.random.randn(7, 4).astype(np.float32)
    for got, expected in zip(onnxruntime.InferenceSession(result.bytes).run(None, {"x": x}), (x + 1, x, x + 1, x), strict=True):
        np.testing.assert_allclose(got, expected)


class Continued(nn.Module):
    """A state of no rows is built on the first call."""

    def forward(self, x: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if state.size(0) == 0:
            state = torch.zeros(1, x.size(1))
        return x + state.sum(0), torch.cat([state, x])


def test_a_size_of_0_in_the_sample_is_one_that_the_file_takes() -> None:
    axes = {"x": {0: "n"}, "state": {0: "rows"}}
    model = torch.jit.script(Continued())
    result = lithify.export(model, (X, torch.zeros(0, 4)), dynamic_axes=axes)
    assert result.claims.holds(n=3, rows=0)
    for rows in (0, 1, 5):
        state = torch.randn(rows, 4)
        session = onnxruntime.InferenceSession(result.bytes)
        got = session.run(None, {"x": X.numpy(), "state": state.numpy()})
        for g, e in zip(got, model(X, state), strict=True):
            np.testing.assert_allclose(g, e, rtol=1e-5)


class Small(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.float8_e4m3fn).to(torch.float32)


def test_without_an_opset_the_lowest_is_taken_that_can_express_the_model(tmp_path: Path) -> None:
    result = lithify.export(Small(), X, dynamic_axes={"x": {0: "n"}})
    assert result.opset == 19
    assert any("opset 19 is the lowest" in m.text for m in result.messages)
    close(result, Small(), torch.randn(7, 4))
    with pytest.raises(lithify.ExportError, match="opset_version=19"):
        lithify.export(Small(), X, opset_version=18)
    torch.jit.trace(Small(), X).save(str(tmp_path / "m.pt"))
    assert lithify.convert(tmp_path / "m.pt", tmp_path / "m.onnx").opset == 19
    with pytest.raises(lithify.ExportError, match="opset_version=19"):
        lithify.convert(tmp_path / "m.pt", tmp_path / "m.onnx", opset_version=18)


def test_a_model_that_returns_no_tensor_is_refused_with_one_reason() -> None:
    with pytest.raises(lithify.ExportError) as caught:
        lithify.export(lambda x: None, X)
    assert len(caught.value.messages) == 1 and "returns no tensor, and a file needs an output" in str(caught.value)


def test_a_sample_outside_of_the_bounds_of_its_dimension_is_refused() -> None:
    bounded = torch.export.Dim("s", min=4, max=16)
    with pytest.raises(lithify.ExportError, match="3 in the sample; s is from 4 to 16"):
        lithify.export(Net().eval(), X, dynamic_shapes={"x": {0: bounded}})


class Positions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(16, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 16 or x.shape[0] < 2:
            return x * 0
        return x + self.table[: x.shape[0]] if x.shape[0] > 4 else x


def test_bounds_of_dimensions_of_torch_limit_the_claims() -> None:
    bounded = torch.export.Dim("s", min=2, max=16)
    result = lithify.export(Positions().eval(), X, dynamic_shapes={"x": {0: bounded}}, verify=True)
    assert [result.claims.holds(s=s) for s in (1, 2, 4, 5, 16, 17)] == [False, True, True, True, True, False]
    assert {"s >= 2", "s <= 16"} <= {c.formula for c in result.claims.constraints}
    close(result, Positions().eval(), torch.randn(4, 4))
    plain = lithify.export(Net().eval(), X, dynamic_shapes={"x": {0: torch.export.Dim("s", min=1)}})
    assert str(plain.claims) == "s: any size" and plain.claims.holds(s=1) is True


def test_a_number_that_cannot_be_an_input_is_a_constant() -> None:
    result = lithify.export(lambda x, dim: x.softmax(dim) + 1, (X, 1), dynamic_axes={"x": {0: "n"}})
    assert [v.name for v in result.inputs] == ["x"] and result.constants == {"dim": 1}


def test_texts_of_sizes_are_not_those_of_the_symbols_of_torch_export() -> None:
    def by_text(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if "{}".format(x.shape[0]) == "8" else x  # noqa: UP032

    try:
        result = lithify.export(by_text, X, dynamic_axes={"x": {0: "n"}})
    except lithify.ExportError:
        return
    assert result.claims.holds(n=8) is not True


def test_quantized_tensors_are_dequantized_values() -> None:
    x = torch.quantize_per_tensor(X, 0.5, 10, torch.quint8)
    result = lithify.export(lambda x: torch.relu(x), (x,))
    assert [v.dtype for v in (*result.inputs, *result.outputs)] == ["float32", "float32"]
    assert all("scale 0.5 and the zero point 10" in note for note in result.notes) and len(result.notes) == 2


def test_sizes_that_have_to_be_equal_are_a_constraint() -> None:
    axes = {"x": {0: "batch"}, "y": {0: "n"}}
    result = lithify.export(lambda x, y: torch.cat([x, y], 1), (X, X), dynamic_axes=axes)
    assert result.claims.holds(batch=5, n=5) is True and result.claims.holds(batch=5, n=4) is False


# The rows of the table in docs/python.md that are about no argument, and what tests them.
BEHAVIORS: dict[str, Callable[..., None]] = {
    "`symbolic` of an `autograd.Function`": test_the_symbolic_method_of_a_function_makes_its_nodes,
    "`register_custom_op_symbolic`": test_functions_of_register_custom_op_symbolic_translate_operators,
    "`torch.onnx.ops.symbolic`, `symbolic_multi_out`": test_symbolic_of_torch_onnx_ops_is_a_node,
    "a model in training mode": test_a_model_in_training_mode_is_exported_for_evaluation_and_left_as_it_was,
    "None, texts and objects among results": test_results_that_are_no_tensors_keep_their_place_and_are_named,
    "a result twice, or an input as a result": test_each_result_is_an_output,
    "no tensor among results": test_a_model_that_returns_no_tensor_is_refused,
    "numbers among arguments": test_numbers_that_python_uses_are_no_inputs,
    "quantized tensors": test_quantized_tensors_are_dequantized_values,
    "sizes that have to be equal": test_sizes_that_have_to_be_equal_are_a_constraint,
    "a branch on contents": test_a_branch_on_data_is_never_left_out,
    "an exception": test_what_cannot_be_done_is_reported,
}


def test_the_documented_table_has_a_row_for_every_argument_and_a_test_for_every_row() -> None:
    text = (Path(__file__).parents[2] / "docs" / "python.md").read_text()
    lines = text.partition("## The call of torch.onnx.export")[2].partition("\n## ")[0].splitlines()
    rows = [line.split(" | ")[0].removeprefix("| ") for line in lines if line.startswith("| ")][1:]
    assert [row for row in rows if row in BEHAVIORS] == list(BEHAVIORS)
    arguments = re.findall(r"`(\w+)`", " ".join(row for row in rows if row not in BEHAVIORS))
    assert sorted(arguments) == sorted(inspect.signature(torch.onnx.export).parameters)
    assert set(arguments) - {"model"} <= set(TABLE)


def test_numbers_are_not_names_and_models_are_not_files() -> None:
    with pytest.raises(lithify.ExportError, match="3 for the name of a dimension: pass a text"):
        lithify.export(Net().eval(), X, dynamic_axes={"x": {0: 3}})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match=r"lithify\.export exports models"):
        lithify.convert(Net(), "net.onnx")  # type: ignore[arg-type]


def test_element_types_that_are_refused_by_name() -> None:
    four_bits = torch.arange(4, dtype=torch.uint8).view(torch.int4)
    stored = Net()
    stored.register_buffer("packed", four_bits)
    for model, sample, text in (
        (Net(), four_bits, "'x' is a tensor of int4"),
        (stored, X, "'packed' is a tensor of int4"),
    ):
        with pytest.raises(lithify.ExportError, match=text):
            lithify.export(model, sample)
