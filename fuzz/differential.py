"""Random programs that eager PyTorch runs, exported and compared with it in ONNX Runtime.

    python -m fuzz.differential --seconds 120
    python -m fuzz.differential --seed 4711      # one program, printed

A program follows from its seed. A refusal will do; an internal error, a file that does not load and other results are findings.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnxruntime
import torch
import torch.nn.functional as F
from torch import nn

import lithify

Tensor = torch.Tensor
REFUSALS = (RuntimeError, IndexError, ValueError, TypeError, AttributeError, AssertionError)  # of eager PyTorch
TOLERANCE = {torch.float32: 2e-4, torch.float64: 1e-6}


@dataclass
class Step:
    """One call: its text, of the names of earlier results, and what it computes."""

    text: str
    run: Callable[[Sequence[Tensor]], Tensor]


class Program(nn.Module):
    def __init__(self, steps: Sequence[Step], results: Sequence[int]) -> None:
        super().__init__()
        self.steps, self.results = steps, results

    def values(self, x: Tensor, y: Tensor) -> list[Tensor]:
        values = [x, y]
        for step in self.steps:
            values.append(step.run(values))
        return values

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        values = self.values(x, y)
        return tuple(values[i] for i in self.results)

    def text(self) -> str:
        lines = [f"v{i + 2} = {step.text}" for i, step in enumerate(self.steps)]
        return "\n".join(["v0, v1 = x, y", *lines, f"return {[f'v{i}' for i in self.results]}"])


def words(text: str) -> list[str]:
    return text.split()


class Generator:
    """Draws calls that fit the values that are there."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.steps: list[Step] = []

    # ---- choices ----------------------------------------------------------------------------------

    def dim(self, v: Tensor) -> int:
        return self.random.randrange(-v.ndim, v.ndim) if v.ndim else 0

    def inner(self, v: Tensor) -> int:
        """A dimension other than the first, which is dynamic."""
        return self.random.randrange(1, v.ndim) if v.ndim > 1 else -1

    def number(self) -> float:
        return self.random.choice([0.0, 1.0, -1.0, 0.5, 2.0, -2.5, 3.0])

    def integer(self) -> int:
        return self.random.choice([0, 1, 2, 3, -1, -2, 5])

    # ---- kinds of calls ---------------------------------------------------------------------------

    def unary(self, v: Tensor, name: str) -> tuple[str, Callable[[Tensor], Tensor]]:
        choose = self.random.choice
        plain = choose(
            words(
                "relu sigmoid tanh exp abs neg sqrt floor ceil round trunc frac sin cos erf sign reciprocal "
                "square log1p expm1 isnan isinf logical_not softsign tan atan asinh sinh rsqrt exp2 log2 t_ "
                "contiguous clone"
            )
        )
        if plain == "t_":
            return f"{name}.flip(0)", lambda t: t.flip(0)
        if plain == "softsign":
            return f"F.softsign({name})", F.softsign
        return f"{name}.{plain}()", lambda t: getattr(t, plain)()

    def activation(self, v: Tensor, name: str) -> tuple[str, Callable[[Tensor], Tensor]]:
        f = self.random.choice(
            words("gelu silu elu selu celu mish hardswish hardsigmoid softplus leaky_relu hardtanh relu6 logsigmoid hardshrink")
        )
        return f"F.{f}({name})", getattr(F, f)

    def with_number(self, v: Tensor, name: str) -> tuple[str, Callable[[Tensor], Tensor]]:
        op = self.random.choice(words("add sub mul div pow remainder fmod clamp gt le eq floor_divide rsub maximum"))
        n = self.random.choice([self.number(), self.integer()])
        if op == "clamp":
            return f"{name}.clamp(min={n})", lambda t: t.clamp(min=n)
        if op == "maximum":
            return f"torch.maximum({name}, torch.full_like({name}, {n}))", lambda t: torch.maximum(t, torch.full_like(t, n))
        return f"torch.{op}({name}, {n})", lambda t: getattr(torch, op)(t, n)

    def reduction(self, v: Tensor, name: str) -> tuple[str, Callable[[Tensor], Tensor]]:
        op = self.random.choice(words("sum mean prod amax amin argmax argmin std var logsumexp norm any all cumsum cumprod"))
        dim, keep = self.dim(v), self.random.random() < 0.5
        if op in ("cumsum", "cumprod"):
            return f"{name}.{op}({dim})", lambda t: getattr(t, op)(dim)
        if op == "norm":
            return f"{name}.norm(dim={dim}, keepdim={keep})", lambda t: t.norm(dim=dim, keepdim=keep)
        return f"{name}.{op}(dim={dim}, keepdim={keep})", lambda t: getattr(t, op)(dim=dim, keepdim=keep)

    def whole(self, v: Tensor, name: str) -> tuple[str, Callable[[Tensor], Tensor]]:
        op = self.random.choice(words("sum mean max min argmax any all std count_nonzero"))
        return f"{name}.{op}()", lambda t: getattr(t, op)()

    def along(self, v: Tensor, name: str) -> tuple[str, Callable[[Tensor], Tensor]]:
        op = self.random.choice(words("softmax log_softmax sort topk flip roll glu chunk narrow select slice unbind"))
        dim, n = self.inner(v), self.integer()
        if op == "sort":
            return f"{name}.sort({dim}, stable=True).values", lambda t: torch.sort(t, dim=dim, stable=True).values
        if op == "topk":
            return f"{name}.topk(2, {dim}).values", lambda t: t.topk(2, dim).values
        if op == "roll":
            return f"{name}.roll({n}, {dim})", lambda t: t.roll(n, dim)
        if op == "chunk":
            return f"{name}.chunk(2, {dim})[-1]", lambda t: t.chunk(2, dim)[-1]
        if op == "narrow":
            return f"{name}.narrow({dim}, 0, 2)", lambda t: t.narrow(dim, 0, 2)
        if op == "select":
            return f"{name}.select({dim}, {n})", lambda t: t.select(dim, n)
        if op == "unbind":
            return f"{name}.unbind({dim})[0]", lambda t: t.unbind(dim)[0]
        if op == "slice":
            start, step = self.integer(), self.random.choice([1, 2, 3])
            return f"{name}[..., {start}::{step}]", lambda t: t[..., start::step]
        if op == "glu":
            return f"F.glu({name}, {dim})", lambda t: F.glu(t, dim)
        return f"{name}.{op}({dim})", lambda t: getattr(t, op)(dim)

    def layout(self, v: Tensor, name: str) -> tuple[str, Callable[[Tensor], Tensor]]:
        op = self.random.choice(words("transpose unsqueeze squeeze flatten unflatten permute expand repeat tril pad movedim"))
        a, b = self.dim(v), self.dim(v)
        if op == "transpose":
            return f"{name}.transpose({a}, {b})", lambda t: t.transpose(a, b)
        if op == "flatten":
            return f"{name}.flatten(1)", lambda t: t.flatten(1)
        if op == "unflatten":
            return f"{name}.unflatten(-1, (2, -1))", lambda t: t.unflatten(-1, (2, -1))
        if op == "permute":
            order = list(range(v.ndim))
            self.random.shuffle(order)
            return f"{name}.permute({order})", lambda t: t.permute(order)
        if op == "expand":
            return f"{name}.unsqueeze(1).expand(-1, 3, *[-1] * {v.ndim - 1})", (
                lambda t: t.unsqueeze(1).expand(-1, 3, *[-1] * (t.ndim - 1))
            )
        if op == "repeat":
            times = [1, *self.random.choices([1, 2], k=max(v.ndim - 1, 0))]
            return f"{name}.repeat({times})", lambda t: t.repeat(times)
        if op == "tril":
            return f"{name}.tril({a})", lambda t: t.tril(a)
        if op == "pad":
            mode = self.random.choice(["constant", "reflect", "replicate", "circular"])
            size = self.random.choices([0, 1, 2], k=2)
            return f"F.pad({name}, {size}, {mode!r})", lambda t: F.pad(t, size, mode)
        if op == "movedim":
            return f"{name}.movedim({a}, {b})", lambda t: t.movedim(a, b)
        return f"{name}.{op}({a})", lambda t: getattr(t, op)(a)

    def window(self, v: Tensor, name: str) -> tuple[str, Callable[[Tensor], Tensor]]:
        op = self.random.choice(words("max_pool2d avg_pool2d adaptive_avg_pool2d interpolate unfold conv2d conv_transpose2d"))
        kernel, stride = self.random.choice([1, 2, 3]), self.random.choice([1, 2, 3])
        padding = self.random.randint(0, kernel // 2)
        if op == "max_pool2d":
            ceil = self.random.random() < 0.5
            return f"F.max_pool2d({name}, {kernel}, {stride}, {padding}, ceil_mode={ceil})", (
                lambda t: F.max_pool2d(t, kernel, stride, padding, ceil_mode=ceil)
            )
        if op == "avg_pool2d":
            ceil, count = self.random.random() < 0.5, self.random.random() < 0.5
            return f"F.avg_pool2d({name}, {kernel}, {stride}, {padding}, {ceil}, {count})", (
                lambda t: F.avg_pool2d(t, kernel, stride, padding, ceil, count)
            )
        if op == "adaptive_avg_pool2d":
            return f"F.adaptive_avg_pool2d({name}, {kernel})", lambda t: F.adaptive_avg_pool2d(t, kernel)
        if op == "interpolate":
            mode, scale = self.random.choice(["nearest", "bilinear", "bicubic", "area"]), self.random.choice([0.5, 2.0, 1.5])
            return f"F.interpolate({name}, scale_factor={scale}, mode={mode!r})", (
                lambda t: F.interpolate(t, scale_factor=scale, mode=mode)
            )
        if op == "unfold":
            return f"F.unfold({name}, {kernel}, padding={padding}, stride={stride})", (
                lambda t: F.unfold(t, kernel, padding=padding, stride=stride)
            )
        channels = v.shape[1] if v.ndim > 1 else 1
        groups = self.random.choice([1, channels])
        dilation = self.random.choice([1, 2])
        shape = (channels, channels // groups, kernel, kernel)
        weight = torch.arange(float(np.prod(shape))).reshape(shape).remainder(5).sub(2).div(4)
        f = getattr(F, op)
        return f"F.{op}({name}, weight{list(shape)}, None, {stride}, {padding}, groups={groups}, dilation={dilation})", (
            lambda t: f(t, weight.to(t.dtype), None, stride, padding, groups=groups, dilation=dilation)
        )

    def cast(self, v: Tensor, name: str) -> tuple[str, Callable[[Tensor], Tensor]]:
        to = self.random.choice([torch.float32, torch.float64, torch.int64, torch.int32, torch.bool, torch.uint8, torch.int8])
        return f"{name}.to({to})", lambda t: t.to(to)

    def write(self, v: Tensor, name: str) -> tuple[str, Callable[[Tensor], Tensor]]:
        """Writes in place, to a part of a copy."""
        n, at = self.number(), self.integer()
        op = self.random.choice(words("add_ mul_ fill_ clamp_ select slice masked_fill_ relu_"))

        def run(t: Tensor) -> Tensor:
            out = t.clone()
            if op == "select":
                out.select(-1, at).mul_(2)
            elif op == "slice":
                out[..., 1:] = n
            elif op == "masked_fill_":
                out.masked_fill_(out > 0, n)
            elif op == "relu_":
                out.relu_()
            else:
                getattr(out, op)(n)
            return out

        return f"write({name}, {op!r}, {n}, {at})", run

    def binary(self, names: tuple[str, str]) -> tuple[str, Callable[[Tensor, Tensor], Tensor]]:
        op = self.random.choice(
            words(
                "add sub mul div pow maximum minimum atan2 eq lt ge logical_and logical_xor remainder fmod "
                "floor_divide hypot matmul where cat stack outer gather index_select bmm masked copysign "
                "bitwise_and"
            )
        )
        dim = self.random.choice([0, 1, -1])
        a, b = names
        table: dict[str, tuple[str, Callable[[Tensor, Tensor], Tensor]]] = {
            "where": (f"torch.where({a} > 0, {a}, {b})", lambda s, t: torch.where(s > 0, s, t)),
            "cat": (f"torch.cat([{a}, {b}], {dim})", lambda s, t: torch.cat([s, t], dim)),
            "stack": (f"torch.stack([{a}, {b}], {dim})", lambda s, t: torch.stack([s, t], dim)),
            "outer": (f"torch.outer({a}.flatten(), {b}.flatten())", lambda s, t: torch.outer(s.flatten(), t.flatten())),
            "gather": (
                f"{a}.gather({dim}, {b}.long().clamp(0, 1))",
                lambda s, t: s.gather(dim, t.long().clamp(0, 1)),
            ),
            "index_select": (
                f"{a}.index_select({dim}, {b}.flatten().long().clamp(0, 1))",
                lambda s, t: s.index_select(dim, t.flatten().long().clamp(0, 1)),
            ),
            "masked": (f"{a}.masked_fill({b} > 0, 1)", lambda s, t: s.masked_fill(t > 0, 1)),
        }
        if op in table:
            return table[op]
        return f"torch.{op}({a}, {b})", lambda s, t: getattr(torch, op)(s, t)

    # ---- programs ---------------------------------------------------------------------------------

    def step(self, values: Sequence[Tensor]) -> Step:
        recent = range(max(0, len(values) - 4), len(values))
        i, j = self.random.choice(recent), self.random.choice(recent)
        if self.random.random() < 0.25:
            text, of_two = self.binary((f"v{i}", f"v{j}"))
            return Step(text, lambda all_values: of_two(all_values[i], all_values[j]))
        kinds = [self.unary, self.activation, self.with_number, self.reduction, self.whole, self.along, self.layout, self.cast]
        kinds += [self.write, self.with_number, self.along, self.layout]
        if values[i].ndim == 4:
            kinds += [self.window] * 6
        text, of_one = self.random.choice(kinds)(values[i], f"v{i}")
        return Step(text, lambda all_values: of_one(all_values[i]))

    def program(self, inputs: Sequence[Tensor]) -> Program:
        """Steps that eager PyTorch takes, of values that are not too large."""
        values, steps = list(inputs), []
        for _ in range(self.random.randint(1, 7)):
            for _ in range(20):
                step = self.step(values)
                try:
                    value = step.run(values)
                except REFUSALS:
                    continue
                if value.numel() > 100_000 or value.is_complex():
                    continue
                values.append(value)
                steps.append(step)
                break
        last = len(values) - 1
        results = sorted({last, self.random.randint(2, last)}) if last > 1 else [0]
        return Program(steps, results).eval()


SHAPES = [(2, 3, 8, 8), (2, 6), (3, 4, 5), (4,), (2, 1, 6), (2, 4, 6, 6)]


def inputs_of(seed: int, batch: int | None = None) -> tuple[Tensor, Tensor]:
    """Quarters of small integers: sums and products of them are exact."""
    chosen = random.Random(seed)
    shape = chosen.choice(SHAPES)
    other = chosen.choice([shape, shape, (shape[0], *[1] * (len(shape) - 1)), shape[-1:]])
    dtypes = [chosen.choice([torch.float32] * 4 + [torch.int64]) for _ in range(2)]
    drawn = torch.Generator().manual_seed(seed)
    out = []
    for sizes, dtype in zip((shape, other), dtypes, strict=True):
        if batch is not None and len(sizes) == len(shape) and (len(shape) > 1 or sizes == shape):
            sizes = (batch, *sizes[1:])
        out.append((torch.randint(-8, 9, sizes, generator=drawn) / 4).to(dtype))
    return out[0], out[1]


def differs(expected: Tensor, found: np.ndarray) -> bool:
    actual = torch.from_numpy(np.asarray(found))
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return True
    tolerance = TOLERANCE.get(expected.dtype, 0.0)
    return not torch.allclose(actual, expected, rtol=tolerance, atol=tolerance, equal_nan=True)


def is_finite(model: Program, inputs: Sequence[Tensor]) -> bool:
    """Whether no value is infinite or NaN: runtimes differ in what they make of these."""
    return all(bool(v.isfinite().all()) for v in model.values(*inputs))


def unstable(model: nn.Module, inputs: Sequence[Tensor]) -> bool:
    """Whether eager PyTorch itself gives other results for inputs that differ in their last digits, or at other precision."""
    expected = model(*inputs)
    for factor in (1 + 3e-7, 1 - 3e-7):
        moved = [t * factor if t.is_floating_point() else t for t in inputs]
        if any(differs(a, b.numpy()) for a, b in zip(expected, model(*moved), strict=True)):
            return True
    doubled = [t.double() if t.dtype == torch.float32 else t for t in inputs]
    try:
        others = model(*doubled)
    except REFUSALS:
        return False
    return any(differs(a, b.to(a.dtype).numpy()) for a, b in zip(expected, others, strict=True))


def run(seed: int, show: bool = False) -> str:
    """What came of one program: "same", "refused LTH...", "unstable", "not finite", or a finding, which contains a colon."""
    inputs = inputs_of(seed)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        model = Generator(seed).program(inputs)
        if show:
            print([(tuple(t.shape), t.dtype) for t in inputs], model.text(), sep="\n")
        dynamic = seed % 2 == 0
        rank = inputs[0].ndim
        names = [n for n, t in zip("xy", inputs, strict=True) if t.ndim == rank and t.shape[0] == inputs[0].shape[0]]
        axes = {n: {0: "batch"} for n in names} if dynamic else None
        try:
            exported = lithify.export(
                model,
                inputs,
                dynamic_axes=axes,
                input_names=["x", "y"],
                opset_version=9 + seed % 18,
                verify=False,
                capture="trace",
            )
        except lithify.ExportError as e:
            code = e.messages[0].code if getattr(e, "messages", None) else str(e)[:40]
            return f"finding: {e}" if "LTH099" in str(e) else f"refused {code}"
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        try:
            session = onnxruntime.InferenceSession(exported.bytes, options, providers=["CPUExecutionProvider"])
        except Exception as e:
            return f"not run by ONNX Runtime {str(e)[:60]!r}" if "NOT_IMPLEMENTED" in str(e) else f"finding: does not load: {e}"
        samples = [inputs, inputs_of(seed, 5)] if dynamic else [inputs]
        for sample in samples:
            try:
                expected = model(*sample)
            except REFUSALS:
                continue
            used = {i.name for i in session.get_inputs()}
            feeds = {n: t.numpy() for n, t in zip("xy", sample, strict=True) if n in used}
            try:
                found = session.run(None, feeds)
            except Exception as e:
                return f"finding: does not run: {e}"
            if any(differs(a, b) for a, b in zip(expected, found, strict=True)):
                if not is_finite(model, sample):
                    return "not finite"
                return "unstable" if unstable(model, sample) else "finding: other results"
    return "same"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--start", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.seed is not None:
        print(run(given.seed, show=True))
        return 0
    outcomes: Counter[str] = Counter()
    findings = 0
    end = time.monotonic() + given.seconds
    seed = given.start
    while time.monotonic() < end:
        outcome = run(seed)
        if ":" in outcome:
            findings += 1
            print(f"seed {seed}: {outcome}", flush=True)
        outcomes[outcome.split(":")[0]] += 1
        seed += 1
    total = sum(outcomes.values())
    print(
        f"differential: {total} runs from seed {given.start}, {findings} findings; {dict(outcomes.most_common(12))}", flush=True
    )
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
