"""Control flow that depends on the contents or the sizes of tensors: both branches, and no, one and many iterations."""
# ruff: noqa: SIM108, B905, RUF005 -- branches are what is tested; TorchScript has no zip(strict=), and no [*a, b]

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.cases import B, H, N, S, T, case, i64, x

up, down = torch.full((2, 4), 1.0), torch.full((2, 4), -1.0)
either = [(up,), (down,)]

# ---- branches ---------------------------------------------------------------------------------------------------------


def add_or_subtract(x: Tensor) -> Tensor:
    if x.sum() > 0:
        y = x + 1
    else:
        y = x - 1
    return y


case(add_or_subtract, x[B, 4], trace=False, also=either)


def only_one_branch(x: Tensor) -> Tensor:
    if x.sum() > 0:
        x = x * 2
    return x + 1


case(only_one_branch, x[B, 4], trace=False, also=either)


def several_results(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    a, b = x, x
    if x.mean() > 0:
        a, b = x.exp(), x.sin()
    else:
        a = x.cos()
    return a, b, a + b


case(several_results, x[B, 4], trace=False, also=either)


def nested(x: Tensor) -> Tensor:
    if x.sum() > 0:
        if x.max() > 2:
            y = x * 2
        else:
            y = x * 3
    else:
        if x.min() < -2:
            y = x * 5
        else:
            y = x * 7
    return y


case(nested, x[B, 4], trace=False, also=[(up,), (3 * up,), (down,), (3 * down,)])


def chain(x: Tensor) -> Tensor:
    m = x.mean()
    if m > 1:
        y = x + 1
    elif m > 0:
        y = x + 2
    elif m > -1:
        y = x + 3
    else:
        y = x + 4
    return y


case(chain, x[B, 4], trace=False, also=[(2 * up,), (0.5 * up,), (0.5 * down,), (2 * down,)])


def one_after_the_other(x: Tensor) -> Tensor:
    if x.sum() > 0:
        x = x + 1
    if x.max() > 1:
        x = x * 2
    if x.min() < 0:
        x = -x
    return x


case(one_after_the_other, x[B, 4], trace=False, also=either)


def on_a_size(x: Tensor) -> Tensor:
    if x.size(0) > 2:
        y = x[:2]
    else:
        y = x * 2
    return y


case(on_a_size, x[B, 4], trace=False)


def on_two_sizes(x: Tensor, y: Tensor) -> Tensor:
    if x.size(0) > y.size(0) and x.size(0) > 1:
        return x.sum(0)
    return y.sum(0)


case(on_two_sizes, x[B, 4], x[S, 4], trace=False)


def sizes_differ(x: Tensor) -> Tensor:
    if x.sum() > 0:
        y = torch.cat([x, x])
    else:
        y = x
    return y.sum(1)


case(sizes_differ, x[B, 4], trace=False, also=either)


def sizes_differ_and_are_used(x: Tensor) -> tuple[Tensor, int]:
    if x.sum() > 0:
        y = torch.cat([x, x])
    else:
        y = x[:1]
    return y.reshape(y.size(0) * 2, -1) + torch.arange(y.size(0) * 2).unsqueeze(1), y.size(0)


case(sizes_differ_and_are_used, x[B, 4], trace=False, also=either)


def integer(x: Tensor) -> Tensor:
    n = 2
    if x.sum() > 0:
        n = 3
    return x * n + torch.ones(n, 4).sum()


case(integer, x[B, 4], trace=False, also=either)


def real(x: Tensor) -> Tensor:
    scale = 0.5
    if x.sum() > 0:
        scale = 2.5
    return x * scale + scale


case(real, x[B, 4], trace=False, also=either)


def flag(x: Tensor) -> Tensor:
    positive = False
    if x.sum() > 0:
        positive = True
    if positive:
        x = x * 2
    if not positive:
        x = x * 3
    return x


case(flag, x[B, 4], trace=False, also=either)


def two_flags(x: Tensor) -> Tensor:
    a = bool(x.sum() > 0)
    b = bool(x.max() > 2)
    if a and not b:
        x = x + 1
    elif a or b:
        x = x + 2
    return x


case(two_flags, x[B, 4], trace=False, also=[*either, (3 * up,)])


def early_return(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return x * 2
    y = x.exp()
    if y.mean() > 0.5:
        return y
    return y - 1


case(early_return, x[B, 4], trace=False, also=[*either, (0.1 * down,)])


def in_place(x: Tensor) -> Tensor:
    y = x.clone()
    if x.sum() > 0:
        y.add_(1)
    else:
        y.mul_(2)
    return y + x


case(in_place, x[B, 4], trace=False, also=either)


def in_place_through_a_view(x: Tensor) -> Tensor:
    y = x.clone()
    row = y[0]
    if x.sum() > 0:
        row.zero_()
    else:
        y[:, 1] = 5.0
    return y * 2 + row


case(in_place_through_a_view, x[B, 4], trace=False, also=either)


def tuples(x: Tensor) -> tuple[Tensor, Tensor]:
    pair = (x, x + 1)
    if x.sum() > 0:
        pair = (pair[1], x * 2)
    return pair


case(tuples, x[B, 4], trace=False, also=either)


def list_elements(x: Tensor) -> Tensor:
    parts = [x, x + 1]
    if x.sum() > 0:
        parts[0] = x * 2
    else:
        parts[1] = x * 3
    return torch.cat(parts)


case(list_elements, x[B, 4], trace=False, also=either)


def append_in_both(x: Tensor) -> Tensor:
    parts = [x]
    if x.sum() > 0:
        parts.append(x * 2)
    else:
        parts.append(x * 3)
    return torch.cat(parts, 1)


case(append_in_both, x[B, 4], trace=False, also=either)


def append_in_one(x: Tensor) -> Tensor:
    parts = [x]
    if x.sum() > 0:
        parts.append(x * 2)
    return torch.stack(parts).sum(0) + len(parts)


case(append_in_one, x[B, 4], trace=False, also=either)


def dict_elements(x: Tensor) -> Tensor:
    d = {"a": x, "b": x + 1}
    if x.sum() > 0:
        d["a"] = x * 2
    else:
        d["b"] = d["a"] - 1
    return d["a"] * d["b"]


case(dict_elements, x[B, 4], trace=False, also=either)


def raises(x: Tensor) -> Tensor:
    if x.sum() > 1000:
        raise ValueError("too much")
    return x + 1


case(raises, x[B, 4], trace=False, also=either)


def raises_in_a_branch(x: Tensor) -> Tensor:
    if x.sum() > 0:
        y = x + 1
    else:
        if x.min() < -1000:
            raise ValueError("too little")
        y = x - 1
    assert y.sum() < 1e6
    return y


case(raises_in_a_branch, x[B, 4], trace=False, also=either)


def optional(x: Tensor, use: bool = True) -> Tensor:
    y: Tensor | None = None
    if use:
        y = x * 2
    if y is not None:
        x = x + y
    return x


case(optional, x[B, 4], trace=False)


def both_are_outer(x: Tensor, y: Tensor) -> Tensor:
    z = x
    if x.sum() > y.sum():
        z = y
    return z * 2


case(both_are_outer, x[B, 4], x[B, 4], trace=False, also=[(up, down), (down, up)])


def element_type_kept(x: Tensor) -> Tensor:
    if x.sum() > 0:
        i = x.argmax(1)
    else:
        i = x.argmin(1)
    return F.one_hot(i, 4)


case(element_type_kept, x[B, 4], trace=False, also=either)


class Gate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.small = nn.Linear(4, 4)
        self.large = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))

    def forward(self, x: Tensor) -> Tensor:
        if x.abs().mean() > 0.8:
            return self.large(x)
        return self.small(x)


case(Gate(), x[B, 4], trace=False, also=[*either, (0.1 * up,)])


class EarlyExit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        done = False
        for layer in self.layers:
            if not done:
                x = torch.tanh(layer(x))
                done = bool(self.head(x).softmax(-1).max() > 0.6)
        return self.head(x)


case(EarlyExit(), x[B, 4], trace=False, also=[*either, (5 * up,), (5 * down,)])


class Memory(nn.Module):
    """An attribute that a branch sets, and that is read after it."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.last = torch.zeros(4)

    def forward(self, x: Tensor) -> Tensor:
        self.last = x.sum(0)
        if x.sum() > 0:
            self.last = self.lin(x).sum(0)
        return x + self.last


case(Memory(), x[B, 4], trace=False, also=either)


class Pair(NamedTuple):
    value: Tensor
    count: Tensor


def named_tuple(x: Tensor) -> Pair:
    if x.sum() > 0:
        p = Pair(x, (x > 0).sum())
    else:
        p = Pair(-x, (x < 0).sum())
    return p


case(named_tuple, x[B, 4], trace=False, also=either)

# ---- loops ------------------------------------------------------------------------------------------------------------


def count_rows(x: Tensor) -> Tensor:
    total = torch.zeros(4)
    for i in range(x.size(0)):
        total = total + x[i] * i
    return total


case(count_rows, x[B, 4], trace=False, empty=True)


def rows(x: Tensor) -> Tensor:
    total = torch.zeros(4)
    for row in x:
        total = torch.tanh(total + row)
    return total


case(rows, x[S, 4], trace=False, empty=True)


def collect(x: Tensor) -> Tensor:
    out = []
    for i in range(x.size(0)):
        out.append(x[i] * i)
    return torch.stack(out)


case(collect, x[B, 4], trace=False)


def collect_behind(x: Tensor) -> Tensor:
    out = [torch.ones(4)]
    h = torch.zeros(4)
    for i in range(x.size(0)):
        h = torch.tanh(h + x[i])
        out.append(h)
    return torch.stack(out, 1)


case(collect_behind, x[S, 4], trace=False)


def collect_two(x: Tensor) -> tuple[Tensor, Tensor]:
    a, b = [], []
    for i in range(x.size(0)):
        a.append(x[i])
        a.append(x[i] + 1)
        b.append(x[i : i + 1] * 2)
    return torch.stack(a), torch.cat(b)


case(collect_two, x[B, 4], trace=False)


def growing(x: Tensor) -> Tensor:
    y = x
    for _ in range(x.size(0)):
        y = torch.cat([y, x[:1]])
    return y * y.size(0)


case(growing, x[B, 4], trace=False, empty=True)


def growing_together(x: Tensor) -> Tensor:
    k, v = x, x * 2
    for i in range(x.size(0)):
        k = torch.cat([k, k[i : i + 1]])
        v = torch.cat([v, k[:1] + v[:1]])
    return (k.softmax(0) * v).sum(0)


case(growing_together, x[B, 4], trace=False)


def until(x: Tensor) -> Tensor:
    while x.abs().max() > 0.5:
        x = x * 0.5
    return x


case(until, x[B, 4], trace=False, also=[(0.1 * up,), (up,), (100 * up,)])


def until_counted(x: Tensor) -> tuple[Tensor, int]:
    n = 0
    while bool(x.abs().max() > 0.5) and n < 5:
        x = x * 0.5
        n += 1
    return x, n


case(until_counted, x[B, 4], trace=False, also=[(0.1 * up,), (up,), (1000 * up,)])


def doubling(x: Tensor) -> Tensor:
    n = 1
    while n < x.size(0):
        n *= 2
    return torch.cat([x, torch.zeros(n, 4)])


case(doubling, x[S, 4], trace=False)


def breaks(x: Tensor) -> Tensor:
    total = torch.zeros(4)
    for i in range(x.size(0)):
        if total.sum() > 2:
            break
        total = total + x[i].abs()
    return total


case(breaks, x[S, 4], trace=False, also=[(torch.ones(5, 4),), (torch.zeros(5, 4),)])


def continues(x: Tensor) -> Tensor:
    total = torch.zeros(4)
    for i in range(x.size(0)):
        if x[i].sum() < 0:
            continue
        total = total + x[i]
    return total


case(continues, x[S, 4], trace=False, also=either)


def returns_from_a_loop(x: Tensor) -> Tensor:
    for i in range(x.size(0)):
        if x[i].sum() > 1:
            return x[i] * 10
    return x.sum(0)


case(returns_from_a_loop, x[S, 4], trace=False, also=either)


def nested_loops(x: Tensor) -> Tensor:
    total = torch.zeros(())
    for i in range(x.size(0)):
        for j in range(x.size(1)):
            total = total + x[i, j] * (i + 2 * j)
    return total


case(nested_loops, x[B, S], trace=False, empty=True)


def loop_in_a_branch(x: Tensor) -> Tensor:
    y = x.sum(0)
    if x.sum() > 0:
        for i in range(x.size(0)):
            y = y * 0.5 + x[i]
    return y


case(loop_in_a_branch, x[B, 4], trace=False, also=either)


def branch_in_a_loop(x: Tensor) -> Tensor:
    y = torch.zeros(4)
    for i in range(x.size(0)):
        if x[i].sum() > 0:
            y = y + x[i]
        else:
            y = y * 0.5
    return y


case(branch_in_a_loop, x[S, 4], trace=False, also=either)


def in_place_in_a_loop(x: Tensor) -> Tensor:
    y = torch.zeros(x.size(0), 4)
    for i in range(x.size(0)):
        y[i] = x[i] + i
    return y


case(in_place_in_a_loop, x[B, 4], trace=False, empty=True)


def accumulate_in_place(x: Tensor) -> Tensor:
    y = torch.zeros(4)
    for i in range(x.size(0)):
        y += x[i]
        y.mul_(0.5)
    return y


case(accumulate_in_place, x[B, 4], trace=False)


def carried_numbers(x: Tensor) -> Tensor:
    scale, sign, steps = 1.0, True, 0
    for _ in range(x.size(0)):
        scale = scale * 0.5
        sign = not sign
        steps = steps + 2
    if sign:
        x = -x
    return x * scale + steps


case(carried_numbers, x[B, 4], trace=False)


def carried_tuple(x: Tensor) -> Tensor:
    state = (torch.zeros(4), torch.ones(4))
    for i in range(x.size(0)):
        h, c = state
        c = c * 0.5 + x[i] + h
        state = (torch.tanh(c), c)
    return state[0] + state[1]


case(carried_tuple, x[S, 4], trace=False, empty=True)


def dict_state(x: Tensor) -> Tensor:
    d = {"h": torch.zeros(4), "c": torch.ones(4)}
    for i in range(x.size(0)):
        d["c"] = d["c"] + x[i]
        d["h"] = torch.tanh(d["c"]) + d["h"]
    return d["h"] * d["c"]


case(dict_state, x[S, 4], trace=False)


def last_of_the_list(x: Tensor) -> Tensor:
    out = [torch.zeros(4)]
    for i in range(x.size(0)):
        out.append(torch.tanh(out[-1] + x[i]))
    return torch.stack(out)


case(last_of_the_list, x[S, 4], trace=False)


def numbers_in_a_list(x: Tensor) -> Tensor:
    out = [0]
    for i in range(x.size(0)):
        out.append(i * i)
    return torch.tensor(out)


case(numbers_in_a_list, x[B, 4], trace=False)


def item_in_a_loop(x: Tensor) -> Tensor:
    n = int(x.sum())
    y = x.float()
    for _ in range(n):
        y = y * 0.5
    return y


case(item_in_a_loop, i64(0, 2)[B, 4], trace=False, also=[(torch.zeros(2, 4, dtype=torch.int64),)])


def enumerated(x: Tensor, y: Tensor) -> Tensor:
    total = torch.zeros(4)
    for i, (a, b) in enumerate(zip(x, y)):
        total = total + a * b * i
    return total


case(enumerated, x[B, 4], x[B, 4], trace=False)


def backwards(x: Tensor) -> Tensor:
    out = torch.zeros(4)
    for i in range(x.size(0) - 1, -1, -1):
        out = torch.tanh(out + x[i])
    return out


case(backwards, x[S, 4], trace=False)


def in_steps(x: Tensor) -> Tensor:
    out = torch.zeros(4)
    for i in range(0, x.size(0), 2):
        out = out * 0.5 + x[i]
    return out


case(in_steps, x[S, 4], trace=False)


def many_turns(x: Tensor) -> Tensor:
    for _ in range(1000):
        x = x * 0.999
    return x


case(many_turns, x[B, 4], trace=False)


def few_turns(x: Tensor) -> Tensor:
    for i in range(3):
        x = x * i + 1
    return x


case(few_turns, x[B, 4], trace=False)


def invariant(x: Tensor, w: Tensor) -> Tensor:
    h = torch.zeros(4)
    for i in range(x.size(0)):
        h = torch.tanh(h @ (w @ w.t()) + x[i])
    return h


case(invariant, x[S, 4], x[4, 4], trace=False)


class Lstm(nn.Module):
    """A cell over time, by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(4, 6)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h, c = torch.zeros(x.size(1), 6), torch.zeros(x.size(1), 6)
        out = []
        for t in range(x.size(0)):
            h, c = self.cell(x[t], (h, c))
            out.append(h)
        return torch.stack(out), c


case(Lstm(), x[T, B, 4], trace=False)


class Greedy(nn.Module):
    """Greedy decoding: the next token is appended until the end token comes."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.out = nn.Linear(8, 11)

    def forward(self, tokens: Tensor, most: int = 6) -> Tensor:
        while tokens.size(0) < most:
            h = self.embed(tokens).mean(0)
            token = self.out(h).argmax(-1, keepdim=True)
            tokens = torch.cat([tokens, token])
            if bool(token == 3):
                break
        return tokens


case(Greedy(), i64(0, 11)[S], trace=False, also=[(torch.tensor([i]),) for i in range(4)])


class BeamStep(nn.Module):
    """One step of beam search for every position of a sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Linear(4, 9)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        scores = torch.zeros(1)
        beams = torch.zeros(1, 1, dtype=torch.int64)
        for t in range(x.size(0)):
            step = (scores.unsqueeze(1) + self.score(x[t]).log_softmax(-1)).flatten()
            scores, index = step.topk(3)
            beams = torch.cat([beams[index // 9], (index % 9).unsqueeze(1)], 1)
        return scores, beams


case(BeamStep(), x[T, 4], trace=False)


class Refine(nn.Module):
    """Iterative refinement until the change is small."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, int]:
        y, change, steps = x, 1.0, 0
        while change > 0.01 and steps < 20:
            new = torch.tanh(self.lin(y) * 0.5 + x)
            change = float((new - y).abs().max())
            y = new
            steps += 1
        return y, steps


case(Refine(), x[B, 4], trace=False, also=either)


class Experts(nn.Module):
    """Recursion over submodules with a condition at each."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.gate = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        weight = self.gate(x).softmax(-1).mean(0)
        y = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            if weight[i] > 0.3:
                y = y + expert(x) * weight[i]
        return y


case(Experts(), x[B, 4], trace=False, also=either)

# ---- lists that loops do more with than append ------------------------------------------------------------------------


def stack_of_work(x: Tensor) -> Tensor:
    stack = [x[0], x[1]]
    total = torch.zeros_like(x[0])
    while float(total.sum()) < 10 and len(stack) > 0:
        top = stack.pop()
        total = total + top.abs() + 0.1
        if float(top.sum()) > 0.5:
            stack.append(top * 0.5)
            stack.append(top * 0.25)
    return total + len(stack)


case(stack_of_work, x[S >= 2, 4], trace=False, also=either)


def slot_of_the_run(x: Tensor) -> Tensor:
    best = [x[0], x[0] * 0]
    for i in range(x.size(0)):
        best[i % 2] = torch.maximum(best[0], x[i]) + best[i % 2]
    return best[0] - best[1]


case(slot_of_the_run, x[S, 4], trace=False)


def last_is_replaced(x: Tensor) -> Tensor:
    out = [x[0]]
    for i in range(x.size(0)):
        out.append(x[i])
        out[-1] = out[-1] + out[-2]
    return torch.stack(out)


case(last_is_replaced, x[S, 4], trace=False)


def window_of_three(x: Tensor) -> Tensor:
    kept = [x[0]]
    for i in range(x.size(0)):
        kept.append(x[i] + kept[-1])
        if len(kept) > 3:
            kept.pop(0)
    return torch.stack(kept).sum(0)


case(window_of_three, x[S, 4], trace=False)


def inserted_in_front(x: Tensor) -> Tensor:
    out: list[Tensor] = []
    for i in range(x.size(0)):
        out.insert(0, x[i] + len(out))
    return torch.stack(out)


case(inserted_in_front, x[S, 4], trace=False)


def reversed_and_joined(x: Tensor) -> Tensor:
    out: list[Tensor] = []
    for i in range(x.size(0)):
        out.append(x[i] * 2)
    out.reverse()
    return torch.stack(out[:2] + out[1:])


case(reversed_and_joined, x[S >= 2, 4], trace=False)


def seen_before(x: Tensor) -> Tensor:
    seen = [0]
    total = x.sum() * 0
    for i in range(x.size(0)):
        k = int(x[i].sum()) % 3
        if k not in seen:
            seen.append(k)
            total = total + k
    return total


case(seen_before, x[S, 4], trace=False, also=either)


# ---- lists whose elements differ in their sizes: sequences --------------------------------------------------------------


def prefixes(x: Tensor) -> Tensor:
    out: list[Tensor] = []
    for i in range(x.size(0)):
        out.append(x[: i + 1] * 2)
    return torch.cat(out)


case(prefixes, x[S, 4], trace=False)


def pieces_by_while(x: Tensor) -> Tensor:
    i = 0
    total = torch.zeros(4)
    while i < x.size(0):
        piece = x[i : i + 2]
        total = total + piece.sum(0) * piece.size(0)
        i += 2
    return total


case(pieces_by_while, x[S, 4], trace=False)


def padded_prefixes(x: Tensor) -> tuple[Tensor, Tensor]:
    parts: list[Tensor] = []
    for i in range(x.size(0)):
        parts.append(x[i:])
    filled = torch.ops.aten.pad_sequence(parts, True, -1.0)
    return filled, torch.ops.aten.pad_sequence(parts, padding_side="left") + x.size(0)


case(padded_prefixes, x[S, 4], trace=False)


def padded_rows(x: Tensor) -> Tensor:
    rows: list[Tensor] = []
    for i in range(x.size(0)):
        rows.append(x[i] * i)
    return torch.ops.aten.pad_sequence(rows)


case(padded_rows, x[S, 4], trace=False)


def prefixes_by_index(x: Tensor) -> tuple[Tensor, int]:
    parts: list[Tensor] = []
    for i in range(x.size(0)):
        parts.append(x[i:])
    total = torch.zeros(4)
    for i in range(len(parts)):
        total = total + parts[i].sum(0) * parts[-1 - i].size(0)
    return total, len(parts)


case(prefixes_by_index, x[S, 4], trace=False)


def over_the_elements(x: Tensor) -> Tensor:
    parts = [x]
    for i in range(x.size(0)):
        parts.append(x[i : i + 2])
    total = torch.zeros(4)
    for part in parts:
        total = total + part.amax(0)
    return total


case(over_the_elements, x[S, 4], trace=False)


def list_is_the_result(x: Tensor) -> list[Tensor]:
    out: list[Tensor] = []
    for i in range(x.size(0)):
        out.append(x[: i + 1])
    return out


case(list_is_the_result, x[S, 4], trace=False)


def rows_are_the_result(x: Tensor) -> tuple[Tensor, list[Tensor]]:
    out: list[Tensor] = []
    for i in range(x.size(0)):
        out.append(x[i] * i)
    return x * 2, out


case(rows_are_the_result, x[S, 4], trace=False)


def joined_with_the_last(x: Tensor) -> Tensor:
    out = [x[:1]]
    for i in range(x.size(0)):
        out.append(torch.cat([out[-1], x[i : i + 1]]))
    return out[-1] + out[0]


case(joined_with_the_last, x[S, 4], trace=False)


def stack_of_halves(x: Tensor) -> Tensor:
    stack = [x]
    total = torch.zeros(4)
    while len(stack) > 0:
        top = stack.pop()
        n = top.size(0)
        if n > 1:
            stack.append(top[: n // 2])
            stack.append(top[n // 2 :])
        else:
            total = torch.tanh(total + top[0])
    return total


case(stack_of_halves, x[S, 4], trace=False)


def longer_on_one_path(x: Tensor) -> Tensor:
    parts = [x[:1], x]
    if x.sum() > 0:
        parts.append(x * 3)
    return torch.cat(parts) * len(parts)


case(longer_on_one_path, x[B, 4], trace=False, also=either)


def empty_on_one_path(x: Tensor) -> list[Tensor]:
    parts: list[Tensor] = []
    if x.sum() > 0:
        parts.append(x)
        parts.append(x[1:])
    return parts


case(empty_on_one_path, x[B, 4], trace=False, also=either)


def rows_on_one_path(x: Tensor) -> Tensor:
    if x.sum() > 0:
        parts = [x, x + 1]
    else:
        parts = [x, x[:1], x * 2]
    return torch.cat(parts)


case(rows_on_one_path, x[B, 4], trace=False, also=either)


def chosen_by_the_run(x: Tensor) -> Tensor:
    parts = [x, x[:1], torch.cat([x, x])]
    return parts[int(x.sum() > 0) + 1] * 2


case(chosen_by_the_run, x[B, 4], trace=False, also=either)


def replaced_by_the_run(x: Tensor) -> Tensor:
    parts = [x, x[:1], torch.cat([x, x])]
    for i in range(x.size(0)):
        parts[i % 3] = torch.cat([parts[i % 3], x[i : i + 1]])
        parts[-2] = parts[-2] * 2
        parts[-1] = parts[-1] + 1
    return torch.cat(parts)


case(replaced_by_the_run, x[S, 4], trace=False)


def taken_out_and_put_in(x: Tensor) -> Tensor:
    parts = [x, x[:1]]
    for i in range(x.size(0)):
        parts.insert(0, x[i:])
        parts.insert(-1, x[: i + 1] * 2)
        parts.pop(0)
        del parts[1]
        parts.append(x[:1] * i)
    return torch.cat(parts)


case(taken_out_and_put_in, x[S, 4], trace=False)


def cut_reversed_and_joined(x: Tensor) -> Tensor:
    parts: list[Tensor] = []
    for i in range(x.size(0)):
        parts.append(x[: i + 1] + i)
    more = parts[1:] + parts[:-1] + parts[::2]
    more.reverse()
    more.extend(parts)
    more += [x]
    return torch.cat([x] + more, 0)


case(cut_reversed_and_joined, x[S, 4], trace=False)


def scanned_behind_others(x: Tensor) -> Tensor:
    parts = [x]
    for i in range(x.size(0)):
        parts.append(x[i : i + 1])
    return torch.cat(parts)


case(scanned_behind_others, x[S, 4], trace=False)


def stacked_from_a_sequence(x: Tensor) -> Tensor:
    parts: list[Tensor] = []
    for i in range(x.size(0)):
        parts.append(x[: i + 1])
    for i in range(len(parts)):
        parts[i] = parts[i].sum(0)[None]
    return torch.stack(parts, 1)


case(stacked_from_a_sequence, x[S, 4], trace=False)


def lists_in_nested_loops(x: Tensor) -> Tensor:
    out: list[Tensor] = []
    for i in range(x.size(0)):
        for j in range(i):
            out.append(x[j : i + 1])
    out.append(x)
    return torch.cat(out)


case(lists_in_nested_loops, x[S, 4], trace=False)


def selected_in_a_loop(x: Tensor) -> tuple[Tensor, int]:
    """What is found in each row, as detectors do it for each image."""
    found: list[Tensor] = []
    most = 0
    for i in range(x.size(0)):
        row = x[i][x[i] > 0]
        most = max(most, row.size(0))
        found.append(row)
    return torch.cat(found), most


case(selected_in_a_loop, x[S, 4], trace=False, also=either)


def over_unbound(x: Tensor) -> Tensor:
    total = torch.zeros(4)
    for row in x.unbind(0):
        total = total * 0.5 + row
    columns = x.t().unbind(1)
    return total + columns[0] * len(columns)


case(over_unbound, x[S, 4], trace=False)


def written_in_a_list(x: Tensor) -> Tensor:
    out: list[Tensor] = []
    for i in range(x.size(0)):
        out.append(x[i] * 2)
        out[i] += 1
    out[0].mul_(3)
    last = out[-1]
    last.add_(5)
    return torch.stack(out) + last


case(written_in_a_list, x[S, 4], trace=False)


def written_by_the_run(x: Tensor) -> Tensor:
    parts = [x[0] * 1, x[0] * 2]
    for i in range(x.size(0)):
        parts[i % 2] += x[i]
        parts[0].mul_(0.5)
    return parts[0] - parts[1]


case(written_by_the_run, x[S, 4], trace=False)

# ---- None on one path ---------------------------------------------------------------------------------------------------


def none_on_one_path(x: Tensor) -> Tensor:
    y: Tensor | None = None
    if x.sum() > 0:
        y = x * 2
    if y is None:
        return x - 1
    return x + y


case(none_on_one_path, x[B, 4], trace=False, also=either)


def either_is_none(x: Tensor) -> Tensor:
    a: Tensor | None = x + 1
    b: Tensor | None = None
    if x.sum() > 0:
        a, b = None, x * 3
    y = x
    if a is not None and b is None:
        y = y + a
    if b is not None:
        y = y * b
    return y


case(either_is_none, x[B, 4], trace=False, also=either)


def none_before_the_loop(x: Tensor) -> Tensor:
    best: Tensor | None = None
    for i in range(x.size(0)):
        if best is None:
            best = x[i]
        else:
            best = torch.maximum(best, x[i])
    assert best is not None
    return best


case(none_before_the_loop, x[S, 4], trace=False)


def none_until_found(x: Tensor) -> Tensor:
    found: Tensor | None = None
    for i in range(x.size(0)):
        if x[i].sum() > 1:
            found = x[i : i + 2]
        elif x[i].sum() < -3:
            found = None
    if found is None:
        return torch.zeros(1, 4)
    return found


case(none_until_found, x[S, 4], trace=False, also=either)


def index_or_none(x: Tensor) -> Tensor:
    at: int | None = None
    scale: float | None = None
    for i in range(x.size(0)):
        if x[i].sum() > 1:
            at = i
            scale = 0.5
    if at is not None and scale is not None:
        return x[at] * scale
    return x[0]


case(index_or_none, x[S, 4], trace=False, also=either)


class Recurrent(nn.Module):
    """A state of two tensors that is None at first, and again where the input asks for it."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        state: tuple[Tensor, Tensor] | None = None
        for i in range(x.size(0)):
            if x[i].sum() > 3:
                state = None
            else:
                state = self.cell(x[i : i + 1], state)
        return x if state is None else state[0] + state[1]


case(Recurrent(), x[S, 4], trace=False, also=either)


def given_to_a_function(y: Tensor | None, x: Tensor) -> Tensor:
    return x if y is None else x * y


def optional_argument(x: Tensor) -> Tensor:
    y: Tensor | None = None
    if x.sum() > 0:
        y = x.exp()
    return given_to_a_function(y, x) + given_to_a_function(None, x)


case(optional_argument, x[B, 4], trace=False, also=either)


def optional_result(x: Tensor) -> tuple[Tensor, Tensor | None]:
    y: Tensor | None = None
    if x.sum() > 0:
        y = x.sum(0)
    return x * 2, y


case(optional_result, x[B, 4], trace=False, also=either)


# ---- sizes that depend on the data --------------------------------------------------------------------------------------


def positive_elements(x: Tensor) -> Tensor:
    y = x[x > 0]
    if y.numel() > 0:
        y = y - y.max()
    return y.sum() + y.size(0)


case(positive_elements, x[B, 4], trace=False, also=either)


def over_nonzero(x: Tensor) -> Tensor:
    total = torch.zeros(())
    for row in torch.nonzero(x > 0):
        total = total + x[row[0], row[1]]
    return total


case(over_nonzero, x[B, 4], trace=False, also=either)


def padded(x: Tensor, n: Tensor) -> Tensor:
    k = int(n.max())
    y = torch.zeros(x.size(0), k)
    if k > x.size(1):
        y[:, : x.size(1)] = x
    return y.sum(1)


case(padded, x[B, 4], i64(1, 8)[N], trace=False, also=[(up, torch.tensor([2])), (up, torch.tensor([6]))])


def cut(x: Tensor) -> Tensor:
    n = x.size(1)
    if n > 6:
        x = x[:, :6]
    elif n < 3:
        x = F.pad(x, [0, 3 - n])
    return x * 2


case(cut, x[B, H], trace=False)


def rounded_up(x: Tensor) -> Tensor:
    """Sizes rounded in floating point, as image code pads."""
    h = int(math.ceil(float(x.size(0)) / 4.0) * 4.0)
    w = int(float(x.size(1)) / 2.0)
    return F.pad(x, [0, 0, 0, h - x.size(0)])[:, :w] + math.floor(float(x.size(0)) * 3.0 / 2.0)


case(rounded_up, x[B, S], trace=False)


def empty_of_other_rank(x: Tensor) -> Tensor:
    y = x[x > 0]
    n = y.size(0)
    z = y
    if n > 0:
        z = y.reshape(n, 1, 1) * 2
    return z.reshape(-1)


case(empty_of_other_rank, x[B, 4], trace=False, also=either)
