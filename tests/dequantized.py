"""Whether eager PyTorch is right about a quantized model, before a test takes it for the truth.

The engine and the processor decide which kernels it has for quantized tensors, and some are wrong: on processors with
AVX512-VNNI, the default engine `x86` has the transposed convolution of `onednn`, which is. So every operator on quantized
tensors is computed a second time, on the dequantized values in double precision, and rounded to the scheme of the result:

    with Dequantized():
        model(x)

A result may be one step off, where it lies between two steps, and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

# The engine that is right on every processor that has it. Tests choose it before a model is quantized: weights are packed for it.
ENGINE = "fbgemm"


class WrongReference(AssertionError):
    """Eager PyTorch is off its own dequantized computation: nothing can be compared with it."""


def choose_engine() -> None:
    if ENGINE in torch.backends.quantized.supported_engines:
        torch.backends.quantized.engine = ENGINE


class Dequantized(TorchDispatchMode):
    """Compares every operator on quantized tensors, or with packed weights, with its dequantized computation."""

    def __torch_dispatch__(
        self, op: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = {a.name: a.default_value for a in op._schema.arguments}
        given |= dict(zip(given, args, strict=False)) | dict(kwargs or {})
        expected = _expected(op, given) if _is_quantized(op, list(given.values())) else None
        result = op(*args, **(kwargs or {}))
        if expected is not None:
            check(str(op), result, expected)
        return result


def check(op: str, result: Any, expected: Any) -> None:
    """Raises WrongReference unless the results are as expected, but for one step where they are rounded to steps."""
    for got, exact in zip(_tensors(result), _tensors(expected), strict=True):
        if got.shape != exact.shape:
            raise WrongReference(f"eager PyTorch's {op} gives {list(got.shape)}, its dequantized computation {list(exact.shape)}")
        allowed, unit = torch.ones(()), "steps"
        if got.is_quantized:
            distance = (got.int_repr() - _steps(exact, got)).abs()
        elif exact.is_quantized:
            distance = (_steps(got, exact) - exact.int_repr()).abs()
        else:
            distance, unit = (got.double() - exact.double()).abs(), "in value"
            allowed = 1e-5 + 1e-4 * exact.double().abs()
        if not bool((distance <= allowed).all()):
            raise WrongReference(
                f"eager PyTorch is wrong, and cannot be the reference: its {op} is {distance.max().item():.3g} {unit} off "
                f"the same computation with dequantized values (quantized engine {torch.backends.quantized.engine})"
            )


def _is_quantized(op: Any, given: Any) -> bool:
    """Whether a quantized tensor or packed weights are among the arguments, and the operator computes something."""
    if str(op.overloadpacket) in _ACCESS:
        return False
    if isinstance(given, (list, tuple)):
        return any(_is_quantized(op, item) for item in given)
    return isinstance(given, torch.ScriptObject) or (isinstance(given, Tensor) and given.is_quantized)


def _expected(op: Any, given: dict[str, Any]) -> Any:
    """The operator on dequantized values, in double."""
    name = str(op.overloadpacket)
    given = {key: _exact(value) for key, value in given.items()}
    if name.startswith("aten.") and name not in COMPUTED:
        if name.endswith("_"):
            given["self"] = given["self"].clone()
        return op(**given)
    plain = name if name in COMPUTED else name.removesuffix("_relu")
    if plain not in COMPUTED:
        raise WrongReference(f"tests/dequantized.py does not have the dequantized computation of {name}")
    result = COMPUTED[plain](given)
    return result if plain == name else F.relu(result)


def _exact(value: Any) -> Any:
    if isinstance(value, Tensor):
        value = value.dequantize() if value.is_quantized else value
        return value.double() if value.is_floating_point() else value
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return [_exact(item) for item in value]
    return value


def _steps(exact: Tensor, scheme: Tensor) -> Tensor:
    """The integers that stand for the values in the scheme of the other tensor."""
    if scheme.qscheme() == torch.per_tensor_affine:
        scale, zero = torch.tensor(scheme.q_scale()), torch.tensor(scheme.q_zero_point())
    else:
        axis = [-1 if i == scheme.q_per_channel_axis() else 1 for i in range(scheme.dim())]
        scale, zero = scheme.q_per_channel_scales().reshape(axis), scheme.q_per_channel_zero_points().reshape(axis)
    range_of = torch.iinfo(scheme.int_repr().dtype)
    return (exact.double() / scale + zero).round().clamp(range_of.min, range_of.max)


def _tensors(value: Any) -> list[Tensor]:
    return [value] if isinstance(value, Tensor) else [t for item in value for t in _tensors(item)]


# ---- the dequantized computations -----------------------------------------------------------------

# Operators that read a quantized tensor, and compute nothing.
_ACCESS = {
    *("aten.dequantize", "aten.int_repr", "aten.q_scale", "aten.q_zero_point", "aten.q_per_channel_scales", "aten.detach"),
    *("aten.q_per_channel_zero_points", "aten.q_per_channel_axis", "quantized.linear_unpack"),
}


def _weights(given: dict[str, Any]) -> tuple[Tensor, Tensor | None]:
    return _exact(given.get("packed_weight", given.get("W_prepack")).unpack())


def _linear(given: dict[str, Any], x: Tensor | None = None) -> Tensor:
    return F.linear(given["X"] if x is None else x, *_weights(given))


def _convolution(given: dict[str, Any], x: Tensor | None = None) -> Tensor:
    x, packed = given["qx"] if x is None else x, given["packed_weight"]
    sizes = (list(of()) for of in (packed.stride, packed.padding, packed.dilation))
    more = (packed.transpose(), list(packed.output_padding()), packed.groups())
    if x.dim() > 3:
        return torch.ops.aten.convolution(x, *_weights(given), *sizes, *more)
    # One of one dimension is packed as one of two, the first of size 1.
    return torch.ops.aten.convolution(x.unsqueeze(2), *_weights(given), *sizes, *more).squeeze(2)


def _observed(x: Tensor, reduce_range: bool) -> Tensor:
    """The input of a dynamically quantized layer, quantized by its own range."""
    scale, zero = torch._choose_qparams_per_tensor(x.float(), reduce_range)
    return torch.quantize_per_tensor(x.float(), scale, zero, torch.quint8)


def _convolution_dynamic(given: dict[str, Any]) -> Tensor:
    """PyTorch rounds the result, too, to the scheme of the input."""
    x = _observed(given["qx"], given["reduce_range"])
    return torch.quantize_per_tensor(_convolution(given, _exact(x)).float(), x.q_scale(), x.q_zero_point(), torch.quint8)


def _recurrent(given: dict[str, Any], step: Callable[..., tuple[Tensor, ...]]) -> list[Tensor]:
    """A recurrent network; `step` gives the state after one step, from the products of the input and the hidden state."""
    hidden = given["hx"] if isinstance(given["hx"], list) else [given["hx"]]
    x = given["input"].transpose(0, 1) if given["batch_first"] else given["input"]
    directions = 2 if given["bidirectional"] else 1
    last = []
    for layer in range(given["num_layers"]):
        outputs = []
        for direction in range(directions):
            at = layer * directions + direction
            state = tuple(h[at] for h in hidden)
            of_input, of_hidden = _cell(given["params"][at])
            steps = of_input(x.flip(0) if direction else x)
            rows = []
            for row in steps:
                state = step(row, of_hidden(state[0]), *state)
                rows.append(state[0])
            outputs.append(torch.stack(rows[::-1] if direction else rows))
            last.append(state)
        x = torch.cat(outputs, -1)
    return [x.transpose(0, 1) if given["batch_first"] else x, *(torch.stack(of) for of in zip(*last, strict=True))]


def _cell(packed: torch.ScriptObject) -> list[Callable[[Tensor], Tensor]]:
    """The two linear layers of a cell: of the input, all steps at once, and of the hidden state."""
    kind, _, _, numbers, layers = packed.__getstate__()[0]

    def layer(packed: torch.ScriptObject) -> Callable[[Tensor], Tensor]:
        weight, bias = _exact(packed.unpack())
        return lambda x: F.linear(x if kind == "quantized_fp16" else _exact(_observed(x, bool(numbers[0]))), weight, bias)

    return [layer(packed) for packed in layers]


def _lstm_step(row: Tensor, of_hidden: Tensor, _: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    into, forget, new, out = (row + of_hidden).chunk(4, -1)
    cell = forget.sigmoid() * cell + into.sigmoid() * new.tanh()
    return out.sigmoid() * cell.tanh(), cell


def _gru_step(row: Tensor, of_hidden: Tensor, hidden: Tensor) -> tuple[Tensor]:
    (reset, update, new), (reset_h, update_h, new_h) = row.chunk(3, -1), of_hidden.chunk(3, -1)
    new = (new + (reset + reset_h).sigmoid() * new_h).tanh()
    update = (update + update_h).sigmoid()
    return (new + update * (hidden - new),)


_Computation = Callable[[dict[str, Any]], Any]
COMPUTED: dict[str, _Computation] = {
    "quantized.linear": _linear,
    "quantized.linear_dynamic": lambda a: _linear(a, _exact(_observed(a["X"], a["reduce_range"]))),
    "quantized.linear_dynamic_fp16": _linear,
    **{f"quantized.conv{kind}{n}d": _convolution for kind in ("", "_transpose") for n in (1, 2, 3)},
    **{f"quantized.conv{n}d_dynamic": _convolution_dynamic for n in (1, 2, 3)},
    "quantized.add": lambda a: a["qa"] + a.get("qb", a.get("b")),
    "quantized.mul": lambda a: a["qa"] * a.get("qb", a.get("b")),
    "quantized.add_scalar": lambda a: a["qa"] + a["b"],
    "quantized.mul_scalar": lambda a: a["qa"] * a["b"],
    "quantized.matmul": lambda a: a["qa"] @ a["qb"],
    "quantized.cat": lambda a: torch.cat(a["qx"], a["dim"]),
    "quantized.clamp": lambda a: torch.clamp(a["qx"], a["min"], a["max"]),
    "quantized.relu6": lambda a: F.relu6(a["qx"]),
    "quantized.sigmoid": lambda a: a["qx"].sigmoid(),
    "quantized.softmax": lambda a: a["qx"].softmax(a["dim"]),
    "quantized.elu": lambda a: torch.ops.aten.elu(a["self"], a["alpha"], a["scale"], a["input_scale"]),
    "quantized.celu": lambda a: F.celu(a["self"], a["alpha"]),
    "quantized.hardswish": lambda a: F.hardswish(a["input"]),
    "quantized.leaky_relu": lambda a: F.leaky_relu(a["qx"], a["negative_slope"]),
    "quantized.prelu": lambda a: F.prelu(a["qx"], a["weight"]),
    "quantized.max_pool2d": lambda a: F.max_pool2d(
        a["qx"], a["kernel_size"], a["stride"], a["padding"], a["dilation"], a["ceil_mode"]
    ),
    "quantized.layer_norm": lambda a: F.layer_norm(a["input"], a["normalized_shape"], a["weight"], a["bias"], a["eps"]),
    "quantized.group_norm": lambda a: F.group_norm(a["input"], a["num_groups"], a["weight"], a["bias"], a["eps"]),
    "quantized.instance_norm": lambda a: F.instance_norm(a["input"], None, None, a["weight"], a["bias"], eps=a["eps"]),
    **{
        f"quantized.batch_norm{n}d": lambda a: F.batch_norm(a["qx"], a["mean"], a["var"], a["weight"], a["bias"], eps=a["eps"])
        for n in (1, 2, 3)
    },
    "aten.quantized_lstm": lambda a: _recurrent(a, _lstm_step),
    "aten.quantized_gru": lambda a: _recurrent(a, _gru_step),
    "aten.quantized_max_pool1d": lambda a: F.max_pool1d(
        a["self"], a["kernel_size"], a["stride"] or None, a["padding"], a["dilation"], a["ceil_mode"]
    ),
    "aten.quantized_max_pool2d": lambda a: F.max_pool2d(
        a["self"], a["kernel_size"], a["stride"] or None, a["padding"], a["dilation"], a["ceil_mode"]
    ),
}
