"""Numbers of scripted programs: of sizes and of contents, in lists, dicts and texts. Cases of numbers, lists, dicts, strings."""
# ruff: noqa: B905 -- TorchScript has no zip(strict=), and no [*a, b]

import math
from typing import Dict, List, Optional  # noqa: UP035 -- TorchScript annotates empty containers so

import torch
from torch import Tensor

from tests.cases import B, S, T, boolean, case, f16, f64, i64, x

several = [(torch.tensor([v]),) for v in (-7.25, -2.5, -0.5, 0.25, 1.5, 2.5, 3.0)]

# ---- numbers of sizes -------------------------------------------------------------------------------------------------


def true_division(x: Tensor) -> tuple[Tensor, Tensor, Tensor, float]:
    n = x.shape[1]
    third = 1 / n
    return x * third, x * (x.shape[0] / n) + third, x * (-n / 2), n / 7


def division_of_integers(x: Tensor) -> tuple[Tensor, Tensor, Tensor, int, int]:
    n = 3 - x.shape[1]
    return x * (n // 2), x * (n % 4), x * (-x.shape[1] // 3), n // -3, n % -3


def quotients(x: Tensor) -> tuple[int, int, int, int, int, Tensor]:
    n = x.shape[1]
    return math.ceil(n / 3), math.floor(n / 3), math.ceil(-n / 3), int(-n / 3), math.floor(-n * 2 / 4), x * round(n / 2)


def roundings(x: Tensor) -> tuple[int, int, int, int, Tensor, Tensor]:
    v = x.shape[1] * 0.7
    return math.ceil(v), math.floor(v), int(v), int(-v), x[:, : int(v) + 1], torch.zeros(math.ceil(v), 2)


def powers(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    n = x.shape[1]
    return x * n**2, x * n**0.5, x * n**-1, x * 2**n, x * 0.5**n, x * (n - 3) ** 3


def powers_are_floats(x: Tensor) -> tuple[float, float, Tensor]:
    n = x.shape[1]
    return math.pow(n, 2), math.pow(2, n), torch.zeros(int(n**2))


def powers_of_data(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    n = int((x > 0).sum())
    return x * n**2, x * 2**n, x * (n + 1) ** -2, x * n**0.5


def functions_of_sizes(x: Tensor) -> tuple[float, float, float, float, float, float, float, float, float, float]:
    n = x.shape[1]
    return (
        math.sqrt(n),
        math.log(n),
        math.exp(-n),
        math.sin(n),
        math.cos(n),
        math.tan(n),
        math.tanh(n / 8),
        math.log10(n),
        math.log1p(n),
        math.log(n, 3),
    )


def more_functions(x: Tensor) -> tuple[float, float, float, float, float, float, float, float, int]:
    v = 1 / (x.shape[1] + 1)
    return (
        math.asin(v),
        math.acos(v),
        math.atan(v),
        math.atan2(v, -2.0),
        math.copysign(2.0, v - 0.2),
        math.degrees(v),
        math.radians(v),
        math.fmod(-x.shape[1], 3),
        math.gcd(x.shape[1], 4),
    )


def bits(x: Tensor) -> tuple[int, int, int, int, int, Tensor]:
    n = x.shape[1]
    return n & 1, n | 1, n ^ 5, n << 2, n >> 1, x[:, : (n & 3) + 1].sum(1)


def flags(x: Tensor) -> tuple[int, float, int, Tensor, bool]:
    n = x.shape[1]
    return int(n > 4), float(n % 2 == 0), int(n > 4) + int(x.shape[0] > 1), x * (n > 4), (n > 4) != (n % 2 == 0)


def extremes(x: Tensor) -> tuple[int, int, float, Tensor, int, int, int]:
    a, b = x.shape[0], x.shape[1]
    return min(a, b), max(a, 4), min(b / 2, 1.5), x * max(a, 2.5), min([a, b, 3]), sum([a, b, 1]), abs(a - b)


def quotient_and_rest(x: Tensor) -> tuple[int, int, int, int]:
    a, b = divmod(x.shape[1], 3)
    c, d = divmod(-x.shape[1], 3)
    return a, b, c, d


for number in (
    true_division,
    division_of_integers,
    quotients,
    roundings,
    powers,
    powers_are_floats,
    powers_of_data,
    functions_of_sizes,
    more_functions,
    bits,
    flags,
    extremes,
    quotient_and_rest,
):
    case(number, x[B, S], trace=False, export=False)

# ---- numbers of contents ----------------------------------------------------------------------------------------------


def arithmetic(x: Tensor) -> tuple[float, float, float, float, float, float, float]:
    v = float(x.sum())
    return v + 0.1, v * 3, 1 / v, v - 1e-9, v**2, abs(v), -math.fabs(v)


def floors(x: Tensor) -> tuple[float, float, float, float, float, float]:
    v = float(x.sum())
    return v // 2, v % 1.5, v // -0.75, v % -2.0, math.fmod(v, 2.0), divmod(v, 2.0)[1]


def to_integers(x: Tensor) -> tuple[int, int, int, Tensor, Tensor, Tensor]:
    v = float(x.sum()) * 1.7
    return int(v), math.ceil(v), math.floor(v), torch.tensor(int(v)), torch.tensor(math.ceil(v)), x * round(v)


def to_tensors(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    v = float(x.sum())
    as_double = torch.tensor(v, dtype=torch.float64)
    return torch.tensor(v), torch.tensor([v, 1.0]), torch.full((2,), v), as_double, torch.tensor([int(v), 2])


def comparisons(x: Tensor) -> tuple[bool, bool, bool, int, float]:
    v = float(x.sum())
    return v > 0, v == 3, math.isnan(v / 1), int(v > 1) + 1, max(v, 0.5) + min(v, 1)


def item(x: Tensor) -> tuple[float, Tensor, Tensor]:
    v = x.sum().item()
    return float(v), x * v, torch.full_like(x, v)


for number in (arithmetic, floors, to_integers, to_tensors, comparisons, item):
    case(number, x[1], trace=False, export=False, also=several)

for dtype in (f64, i64, boolean):
    case(lambda a: float(a.sum()) / 3, dtype[B, 4], trace=False, export=False)
for dtype in (f16, f64, i64, boolean):
    case(lambda a: a * (float(a.sum()) / 4), dtype[B, 4], trace=False, export=False)
    case(lambda a: a * (1 / a.shape[0]), dtype[B, 4], trace=False, export=False)


def with_tensors(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    v = float(b.sum())
    mask = a > 0
    return (
        torch.clamp(a, min=v),
        torch.where(mask, a, v),
        a.masked_fill(mask, v),
        torch.add(a, a, alpha=v),
        torch.pow(torch.abs(a) + 1, v),
        torch.lerp(a, a * 2, v),
        torch.addcmul(a, a, a, value=v),
    )


def written(a: Tensor, b: Tensor) -> Tensor:
    v = float(b.sum()) / 3
    a = a.clone()
    a[0] = v
    a[:, 1] += v
    a[a > 1] = v * 2
    a.add_(v).mul_(1 / a.shape[0])
    return a


def comparing_tensors(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    v = float(b.sum())
    return a > v, a == v, torch.maximum(a, torch.tensor(v)), v - a


case(with_tensors, x[B, 4], x(0.1, 0.9)[1], trace=False, export=False)
case(written, x[B, 4], x[1], trace=False, export=False)
case(comparing_tensors, x[B, 4], x[1], trace=False, export=False)

# ---- loops and branches on numbers ------------------------------------------------------------------------------------


def halving(x: Tensor) -> Tensor:
    n = x.shape[1]
    k = 0
    while n > 1:
        n = n // 2
        k += 1
        x = x + float(k) / n
    return x * k


def mean_of_steps(x: Tensor) -> tuple[Tensor, float]:
    total = 0.0
    for i in range(x.shape[1]):
        total += float(x[0, i]) / (i + 1)
    return x * (total / x.shape[1]), total


def chosen(x: Tensor) -> tuple[Tensor, float]:
    if x.shape[1] > 4:
        scale = 1 / x.shape[1]
    elif x.shape[0] == 2 or x.shape[1] % 2 == 0:
        scale = float(x.shape[0])
    else:
        scale = 3.0
    return x * scale, scale


def first_large(x: Tensor) -> tuple[Tensor, int]:
    count = 0
    for i in range(x.shape[1]):
        if bool(x[0, i] > 1):
            break
        count += 1
        if i % 2 == 1:
            continue
        x = x + 1 / (i + 1)
    return x, count


def pairs(x: Tensor, y: Tensor) -> Tensor:
    out = torch.zeros(x.shape[0])
    for a, b in zip(x.unbind(1), y.unbind(0)):
        out = out + a * b / y.shape[0]
    return out


for model in (halving, mean_of_steps, chosen, first_large):
    case(model, x[B, S], trace=False, export=False)
case(pairs, x[B, S], x[T], trace=False, export=False)

# ---- lists, dicts and texts -------------------------------------------------------------------------------------------


def ordered(x: Tensor) -> tuple[int, int, int, Tensor]:
    sizes = [x.shape[1], 3, x.shape[0]]
    sizes.sort()
    largest = [x.shape[0], x.shape[1]]
    largest.sort(reverse=True)
    return sizes[0], sizes[1], sizes[2], torch.zeros(largest)


def ordered_reals(x: Tensor) -> list[float]:
    return sorted([float(x.sum()), 1 / x.shape[0], 0.5, float(x[0, 0])])


def places(x: Tensor) -> tuple[int, int, int]:
    sizes = [1, 3, x.shape[1], 5, x.shape[1]]
    return sizes.index(x.shape[1]), sizes.count(x.shape[1]), [1, 2, 5, 5].count(x.shape[1])


def membership(x: Tensor) -> tuple[bool, bool, bool, bool]:
    n = x.shape[1]
    return n in [1, 4, 7], n not in [5, 2], n in {1: 2.0, 5: 3.0}, float(n) in [1.0, 5.0]


def reversed_sizes(x: Tensor) -> tuple[Tensor, list[int], list[int], bool]:
    sizes = list(x.shape)
    return x.reshape(sizes[::-1]), [1, 2, 3, 4, 5][-2:0:-2], [1, 2, 3][::-1], sizes == sizes[::-1]


def by_size(x: Tensor) -> tuple[Tensor, Tensor]:
    table = {1: 0.5, 5: 2.0, 7: 3.0}
    n = x.shape[1]
    return x * table.get(n, 1.0), x * table[n] if n in table else x


def maybe_by_size(x: Tensor) -> Tensor:
    scale = {1: 0.5, 7: 3.0}.get(x.shape[1])
    if scale is not None:
        x = x * scale
    return x


def tensors_by_size(x: Tensor) -> Tensor:
    table = {5: torch.ones(2), 7: torch.full((3,), 2.0)}
    return table.get(x.shape[1], torch.zeros(1)).sum() + x


def sizes_as_keys(x: Tensor) -> int:
    table: Dict[int, int] = {}  # noqa: UP006
    table[x.shape[0] + x.shape[1]] = 3
    table[x.shape[0] + x.shape[1]] += 4
    return table[x.shape[1] + x.shape[0]]


def by_counted(x: Tensor) -> Tensor:
    table = {0: 1.5, 1: 2.5, 2: 3.5, 3: 4.5, 4: 5.5}
    return x * table[int((x[0, :4] > 0).sum())] + [1.0, 2.0, 3.0][int((x[0, :2] > 0).sum())]


def messages(x: Tensor) -> Tensor:
    message = f"a batch of {x.shape[0]}"
    assert x.shape[1] > 0, message
    if x.shape[1] > 1000:
        raise ValueError("too long: {}".format(x.shape))  # noqa: UP032
    print(message, x.shape[1])
    return x * len(f"{x.dim()} of {1.0}")


def maybe_scaled(x: Tensor, scale: Optional[float] = None) -> Tensor:  # noqa: UP045
    sizes: List[int] = []  # noqa: UP006
    for i in range(x.dim()):
        sizes.append(x.shape[i])
    if scale is None:
        scale = 1 / sizes[-1]
    return x * scale


for model in (
    ordered,
    ordered_reals,
    places,
    membership,
    reversed_sizes,
    by_size,
    maybe_by_size,
    tensors_by_size,
    sizes_as_keys,
    by_counted,
    messages,
    maybe_scaled,
):
    case(model, x[B, S], trace=False, export=False)
