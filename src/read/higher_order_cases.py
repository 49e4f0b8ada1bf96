"""Control flow of torch.export: cond, while_loop, scans and map, on inputs that take each branch and 0, 1 and many iterations."""

from typing import Any

import torch
from torch import Tensor, nn
from torch._higher_order_ops.associative_scan import associative_scan_op
from torch._higher_order_ops.map import map as mapped
from torch._higher_order_ops.scan import scan

from tests.cases import B, S, case, f64, i64, x

cond, while_loop = torch.cond, torch.while_loop
only: dict[str, Any] = {"trace": False, "script": False}
up, down = torch.arange(8.0).reshape(2, 4) + 1, -torch.arange(8.0).reshape(2, 4) - 1
either = [(up,), (down,)]

# ---- cond ---------------------------------------------------------------------------------------------------------------

case(lambda x: cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,)), x[B, 4], **only, also=either)
case(lambda x: cond(x.sum() > 0, lambda: x.sin(), lambda: x.cos() * 2, ()), x[B, 4], **only, also=either)
case(lambda x: cond((x > 0).all(), lambda x: (x * 2, x.sum()), lambda x: (x + 2, x.mean()), (x,)), x[B, 4], **only, also=either)
case(lambda x: cond(x.size(0) > 2, lambda x: x * 2, lambda x: -x, (x,)), x[B, 4], **only)
case(lambda x: cond(x.sum() > 0, lambda x: x.t() + 1, lambda x: x.t() * 3, (x,)).softmax(0), x[B, 4], **only, also=either)
case(lambda x: cond(x.max() > 0, lambda x: x.argmax(1), lambda x: x.argmin(1), (x,)), x[B, 4], **only, also=either)
case(lambda x: cond(x.max() > 2, lambda x: x.sort(1)[0], lambda x: x.flip(1), (x,)), f64[B, 4], **only, also=[(up.double(),)])


def nested(x: Tensor) -> Tensor:
    def positive(x: Tensor) -> Tensor:
        return cond(x.max() > 5, lambda x: x / 10, lambda x: x * 10, (x,))

    return cond(x.sum() > 0, positive, lambda x: -x, (x,))


case(nested, x[B, 4], **only, also=[*either, (up / 10,)])


def one_after_another(x: Tensor) -> Tensor:
    y = cond(x.sum() > 0, lambda x: x + 3, lambda x: x - 3, (x,))
    return cond(y.mean() > 2, lambda y, x: y * x, lambda y, x: y - x, (y, x))


case(one_after_another, x[B, 4], **only, also=either)


class Routed(nn.Module):
    """The weights of either branch stay outside it."""

    def __init__(self) -> None:
        super().__init__()
        self.small = nn.Linear(4, 3)
        self.large = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, x: Tensor) -> Tensor:
        return cond(x.abs().mean() > 1, lambda x: self.large(x), lambda x: self.small(x), (x,))


case(Routed(), x[B, 4], **only, also=[(up,), (up / 100,)])


class EarlyExit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x).relu()
        sure = self.head(h).softmax(-1).max() > 0.9
        return self.head(cond(sure, lambda h: h.clone(), lambda h: self.second(h).relu(), (h,)))


case(EarlyExit(), x[B, 4], **only, also=[(up * 10,), (up / 10,)])

# ---- while_loop ---------------------------------------------------------------------------------------------------------


def count(n: Tensor, x: Tensor) -> Any:
    return while_loop(lambda i, x: i > 0, lambda i, x: (i - 1, x * 2 + 1), (n, x))


case(count, i64(2, 3)[()], x[B, 4], **only, also=[(torch.tensor(k), up) for k in (0, 1, 7)])


def until_small(x: Tensor) -> Any:
    return while_loop(lambda x: x.abs().max() > 1, lambda x: (x / 2,), (x,))


case(until_small, x[B, 4], **only, also=[(up,), (up * 100,), (up / 100,)])


def newton(x: Tensor) -> Any:
    def far(i: Tensor, r: Tensor) -> Tensor:
        return ((r * r - x).abs().max() > 1e-4) & (i < 50)

    return while_loop(far, lambda i, r: (i + 1, (r + x / r) / 2), (torch.zeros((), dtype=torch.int64), torch.ones_like(x)))


case(newton, x(0.5, 4.0)[B, 4], **only, also=[(torch.ones(2, 4),), (up * 100,)])


def sum_of_rows(x: Tensor) -> Any:
    zero = torch.zeros((), dtype=torch.int64)
    return while_loop(
        lambda i, total: i < x.size(0),
        lambda i, total: (i + 1, total + x.index_select(0, i.reshape(1)).squeeze(0)),
        (zero, torch.zeros(4)),
    )[1]


case(sum_of_rows, x[B, 4], **only)


def loop_in_loop(x: Tensor) -> Any:
    def body(i: Tensor, x: Tensor) -> Any:
        inner = while_loop(lambda j, x: j < i, lambda j, x: (j + 1, x + j), (torch.zeros_like(i), x))
        return i + 1, inner[1]

    return while_loop(lambda i, x: i < 4, body, (torch.zeros((), dtype=torch.int64), x))


case(loop_in_loop, x[B, 4], **only)


def choice_in_loop(x: Tensor) -> Any:
    def body(i: Tensor, x: Tensor) -> Any:
        return i + 1, cond(x.sum() > 10, lambda x: x / 4, lambda x: x * 3 + 1, (x,))

    return while_loop(lambda i, x: i < 6, body, (torch.zeros((), dtype=torch.int64), x))


case(choice_in_loop, x[B, 4], **only, also=either)


def loop_in_branch(x: Tensor) -> Any:
    def halved(x: Tensor) -> Tensor:
        return while_loop(lambda x: x.sum() > 1, lambda x: (x / 2,), (x,))[0]

    return cond(x.sum() > 4, halved, lambda x: x + 1, (x,))


case(loop_in_branch, x[B, 4], **only, also=either)


class Refine(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.step = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Any:
        return while_loop(
            lambda i, y: i < 5, lambda i, y: (i + 1, torch.tanh(self.step(y)) + x), (torch.zeros((), dtype=torch.int64), x)
        )[1]


case(Refine(), x[B, 4], **only)


def greedy(x: Tensor, n: Tensor) -> Any:
    """Decodes one token an iteration into a buffer of eight."""
    tokens = torch.zeros(8, dtype=torch.int64)

    def body(i: Tensor, last: Tensor, tokens: Tensor) -> Any:
        best = (x * (last + 1)).sum(0).argmax() + i
        return i + 1, best, torch.where(torch.arange(8) == i, best, tokens)

    start = torch.zeros((), dtype=torch.int64)
    return while_loop(lambda i, last, tokens: i < n, body, (start, start.clone(), tokens))[2]


case(greedy, x[B, 4], i64(3, 4)[()], **only, also=[(up, torch.tensor(k)) for k in (0, 1, 8)])

# ---- scan and map -------------------------------------------------------------------------------------------------------

case(lambda x: scan(lambda c, x: (c + x, c * x), torch.zeros(4), x), x[B, 4], **only)
case(lambda x: scan(lambda c, x: (c * 0.5 + x, c.clone()), torch.ones(4), x, reverse=True), x[B, 4], **only)
case(lambda x: scan(lambda c, x: (c + x, c.max()), torch.zeros(x.size(0)), x, dim=1), x[B, S], **only)
case(lambda x: mapped(lambda row: row.softmax(0) * 2, x), x[B, 4], **only)
case(lambda x, y: mapped(lambda row, y: (row + y).relu(), x, y), x[B, 4], x[4], **only)
case(lambda x, y: mapped(lambda row, y: (row @ y, row.sum()), x, y), x[B, 4], x[4, S], **only)


def two_states(x: Tensor) -> Any:
    def step(carry: Any, x: Tensor) -> Any:
        mean, n = carry
        n = n + 1
        mean = mean + (x - mean) / n
        return (mean, n), (mean.clone(), x - mean)

    return scan(step, (torch.zeros(4), torch.zeros(())), x)


case(two_states, x[B, 4], **only)


class Cell(nn.Module):
    """A recurrent network by hand, over time."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(3, 5)

    def forward(self, x: Tensor) -> Any:
        def step(h: Tensor, x: Tensor) -> Any:
            h = self.cell(x, h)
            return h, h.clone()

        return scan(step, torch.zeros(x.size(1), 5), x)


case(Cell(), x[S, B, 3], **only)

# ---- associative_scan, as it is kept for the devices that have it ---------------------------------------------------------

case(lambda x: associative_scan_op(lambda a, b: [a * b], [x], ())[0], x[B, 4], **only)
case(lambda x, y: associative_scan_op(lambda a, b, c, d: [a * c, b * c + d], [x, y], ()), x[5, 4], x[5, 4], **only)


def greatest_so_far(x: Tensor) -> Any:
    def larger(a: Tensor, at: Tensor, b: Tensor, other: Tensor) -> Any:
        return [torch.maximum(a, b), torch.where(a >= b, at, other)]

    return associative_scan_op(larger, [x.t(), torch.arange(x.size(1)).unsqueeze(1) + torch.zeros_like(x.t())], ())


case(greatest_so_far, x[B, 4], **only)


# ---- what torch.export leaves around ------------------------------------------------------------------------------------


def region_without_results(x: Tensor) -> Tensor:
    with torch.enable_grad():
        x.double().mul(2)
    return x + 1


def bound_beyond_64_bits(x: Tensor) -> Tensor:
    repeated = x[x.sum(1) > 0].unsqueeze(1).expand(-1, 16, -1).reshape(-1, 4)
    return repeated[repeated.sum(1) > 1].sum(0)


case(region_without_results, x[B, 4], **only)
case(bound_beyond_64_bits, x[B, 4], **only, also=either)
