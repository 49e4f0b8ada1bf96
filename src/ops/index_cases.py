"""Cases of index.cpp, gather.cpp, mask.cpp, embedding.cpp, flip.cpp and pad.cpp."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.cases import B, H, N, S, T, W, boolean, case, f16, f32, f64, i8, i16, i32, i64, inf, nan, u8, x

kinds = f32 | i64 | boolean
some = f32 | f16 | f64 | i64 | i32 | i16 | i8 | u8 | boolean
at = i64(-5, 5)  # positions on a dimension of 5

# ---- slices and single positions
case(lambda x: x[:, -1], some[B, S, 3])
case(lambda x: x[0], x[B, S])
case(lambda x: x[:, 2], x[B, S >= 3])
case(lambda x: x[1, :, -2], x[B >= 2, S, 3])
case(lambda x: x[-1], x[S])
case(lambda x: x[:, 0], x[B, 1, S])
case(lambda x: x[:, x.size(1) - 1], x[B, S])
case(lambda x, y: x[:, y.size(0) - 1], x[B, 16], x[S])
case(lambda x: x.select(-1, -2), x[B, 4])
case(lambda x: x[:], x[B, S])
case(lambda x: x[:, 1:3], some[B, 6])
case(lambda x: x[:, 1:], x[B, S])
case(lambda x: x[:, :-1], x[B, S])
case(lambda x: x[:, -2:], x[B, S])
case(lambda x: x[:, 1:-1], x[B, S])
case(lambda x: x[:, 2:100], x[B, S])
case(lambda x: x[:, -100:2], x[B, S])
case(lambda x: x[:, 4:2], x[B, 6])
case(lambda x: x[:, ::2], x[B, S])
case(lambda x: x[:, 1::3], x[B, S])
case(lambda x: x[1:, :-1, ::2], x[B, S, 5])
case(lambda x: x[..., :2], x[B, S, 3])
case(lambda x: x[:, : x.size(1) - 1], x[B, S])
case(lambda x: x[:, x.size(1) - 2 :], x[B, S])
case(lambda x: x[:, x.size(1) - 3 :], x[B, S])
case(lambda x: x[:, : x.size(1) // 2], x[B, S])
case(lambda x: x[:, x.size(1) // 2 :], x[B, S])
case(lambda x, y: x[:, : y.size(1)] + y, x[1, 32], x[B, S])
case(lambda x, y: x[:, :, y.size(1) - y.size(1) : y.size(1), : y.size(1)], boolean[1, 1, 32, 32], x[B, S])
case(lambda x, y: x[: y.size(0)], x[S], x[T])
case(lambda x, y: x[y.size(0) :, :2], x[16, S], x[T])
case(lambda x: x[0:0], x[B, S])
case(lambda x: x.slice_scatter(torch.zeros(2, 2), 1, 1, 3), x[2, 6])
case(torch.slice_scatter, x[B, 6], x[B, 2], 1, 1, 5, 2)
case(torch.slice_scatter, x[B, S >= 2], x[B, 2], 1, -2)
case(torch.slice_scatter, some[B, 6], some[B, 2], -1, 3, 5)
case(torch.select_scatter, some[B, 4], some[B], 1, 2)
case(torch.select_scatter, x[B, S], x[S], 0, -1)
case(torch.select_scatter, x[B, S], x[B], 1, -1)
case(torch.select_scatter, x[B, S], x[B], 1, 0)
case(torch.diagonal_scatter, kinds[4, 4], kinds[4])
case(torch.diagonal_scatter, x[B, 4, 5], x[B, 3], -1, 1, 2)

# ---- indexing by tensors
case(lambda x, y: x[y], some[5, S], at[B, 3])
case(lambda x, y: x[y], x[5, S], i32(0, 5)[B])
case(lambda x, y: x[:, y], x[B, 5], at[S])
case(lambda x, y: x[:, y], x[B, 5, 3], at[S, 2])
case(lambda x, y: x[y], x[5, S], at[()], script=False)
case(lambda x, y, z: x[y, z], some[5, 5, S], at[B], at[B])
case(lambda x, y, z: x[y, z], x[5, 5], at[B, 1], at[S])
case(lambda x, y, z: x[:, y, z], x[B, 5, 5, 2], at[S], at[S])
case(lambda x, y, z: x[y, :, z], x[5, S, 5], at[B], at[B])
case(lambda x, y, z: x[:, y, :, z], x[2, 5, S, 5], at[B, 2], at[2])
case(lambda x, y: x[torch.arange(x.size(0)), y], x[B, 5], at[B])
case(lambda x, y: x[torch.arange(x.size(0)), y], x[B, 5, 3], at[B])
case(lambda x, y: x[torch.arange(x.size(0))[:, None], y], x[B, 5, 3], at[B, S])
case(lambda x: x[:, [0, 2]], x[B, 4])
case(lambda x: x[:, [0, 2], [1, -1]], x[B, 4, 3, S])
case(lambda x: x[[0, 2], [1, -1]], x[4, 3, S])
case(lambda x: x[:, torch.tensor([[0, 1], [2, 3]])], x[B, 4])
case(lambda x: x[:, None, torch.tensor([0, 1])], x[B, 4])
case(lambda x, y: x[y], some[B, S], boolean[B, S])
case(lambda x, y: x[y], x[B, S, 3], boolean[B])
case(lambda x, y: x[y], x[B, S, 3], boolean[B, S])
case(lambda x, y: x[:, y], x[B, S, 3], boolean[S])
case(lambda x, y: x[:, y], x[B, S, 3], boolean[S, 3])
case(lambda x, y: x[y], x[B, S], u8(0, 2)[B, S])
case(lambda x, y, z: x[y, z], x[S, 5], boolean[S], i64(0, 5)[1])
case(lambda x: x[x > 0], x[B, S])
case(lambda x: x[x > 0] * 2 + x[x > 0], x[B, S])
case(lambda x: x[x.sum(1) > 0].size(0), x[B, S])
case(lambda x: x[x.sum(1) > 0].view(-1, 2, 3), x[B, 6])

# ---- writing by tensors
case(lambda x, y, z: x.index_put((y,), z), some[5, S], i64(values=(0, 2, 4))[3], some[3, S])
case(lambda x, y, z: x.index_put((y,), z), x[5, S], i64(values=(0, -2, 2))[3], x[S])
case(lambda x, y, z: x.index_put((y,), z), x[5, S], i64(values=(0, -2, 2))[3], x[()])
case(lambda x, y, z: torch.ops.aten.index_put(x, [None, y], z), x[B, 5, S], i64(values=(0, 2, 4))[3], x[B, 3, S])
case(lambda x, y, z: torch.ops.aten.index_put(x, [None, y], z), x[B, 5], i64(values=(0, 2, 4, 1))[2, 2], x[()])
case(lambda x, y, z, u: x.index_put((y, z), u), x[5, 5, S], i64(values=(0, 2, 4))[3], i64(values=(1, -1))[3], x[3, S])
case(lambda x, y, z, u: torch.ops.aten.index_put(x, [None, y, z], u), x[B, 5, 5], i64(values=(0, 2, 4))[3], i64(0, 5)[3], x[B, 3])
case(lambda x, y, z, u: torch.ops.aten.index_put(x, [y, None, z], u), x[5, B, 5], i64(values=(0, 2, 4))[3], i64(0, 5)[3], x[3, B])
case(lambda x, y, z: x.index_put((y,), z, accumulate=True), (f32 | i64)[5, S], at[B], (f32 | i64)[B, S])
case(lambda x, y, z: torch.ops.aten.index_put(x, [None, y], z, accumulate=True), x[B, 5], at[S], x[()])
case(lambda x, y, z, u: x.index_put((y, z), u, accumulate=True), x[5, 5], at[S], at[S], x[S])
case(lambda x, y: x.index_put((y,), torch.tensor(2.0)), x[B, S], boolean[B, S])
case(lambda x, y: x.index_put((y,), torch.tensor(2.0)), x[B, S, 3], boolean[B, S])
case(lambda x, y, z: x.index_put((y,), z), x[B, S, 3], boolean[B, S], x[3])
case(lambda x, y, z: x.index_put((y,), z), x[B, S, 3], boolean[B, S], x[1, 3])
case(lambda x, y, z: x.index_put((y,), z, accumulate=True), x[B, S], boolean[B, S], x[()])
case(lambda x: torch.zeros_like(x).index_put((x > 0,), x[x > 0] * 2), x[B, S])
case(lambda x, y: torch.ops.aten.index_put(x, [None, y], torch.tensor(2.0)), x[B, S], boolean[S])


def put_mask(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[y] = 0
    return x


def put_mask_rows(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[y] = x[y] * 2
    return x


def put_rows(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[:, y] = x[:, y] * 2
    return x


def put_first(x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[0] = x[0] * 2
    return x


def put_column(x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[:, 1] = x[:, 0]
    return x


def put_column_zero(x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[:, -1] = 0
    return x


def put_middle(x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[:, 1:3] = x[:, 3:5]
    return x


def put_middle_zero(x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[:, 1:3] = 0
    return x


def put_start(x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[:, :2] *= 2
    return x


def put_end(x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[:, 1:] *= 2
    return x


def put_last(x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[:, -1:] *= 2
    return x


def put_inner(x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[:, 1:-1] *= 2
    return x


def put_even(x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[..., 0::2] = x[..., 0::2] + 1
    return x


def put_box(x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[:, 0, 1:3, :2] = 5
    return x


def put_shifted(x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros_like(x)
    y[:, 1:] = x[:, :-1]
    y[:, 0] = 7
    return y


def interleave(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.zeros(x.size(0), 2 * x.size(1))
    z[:, 0::2] = x
    z[:, 1::2] = y
    return z


case(put_mask, some[B, S], boolean[B, S])
case(put_mask, x[B, S, 2], boolean[B])
case(put_mask_rows, x[B, S, 2], boolean[B, S])
# Assignment drops leading sizes of 1 from the value by a view, which tracing hard-codes.
case(put_rows, x[B, 5, 2], i64(values=(0, 2, 3))[3], ones=False)
for fn in (put_first, put_column_zero, put_start, put_end, put_last, put_even):
    case(fn, x[B, S])
    case(fn, x[B, 6])
    case(fn, i64[3, 6, S])
case(put_column, x[B, S >= 2])
case(put_column, some[B, 3])
case(put_middle, x[B, S >= 5])
case(put_middle, x[B, 6])
case(put_middle_zero, x[B, S])
case(put_middle_zero, some[B, 6])
case(put_inner, x[B, S])
case(put_inner, x[B, 6])
case(put_box, x[B, 3, 4, 5])
case(put_box, x[B, 3, H >= 3, W])
case(put_shifted, x[B, S])
case(put_shifted, x[B, 4, S])
case(interleave, x[B, S], x[B, S])
case(interleave, x[B, 4], x[B, 4])

# ---- along one dimension
case(torch.take, some[B, 5], at[S])
case(torch.take, x[B >= 2, 5], at[S, 2])
case(torch.take, x[()], i64(0, 1)[S])
case(torch.put, x[3, 5], i64(values=(0, -3, 4))[3], x[3])
case(torch.put, x[3, 5], at[S], x[S], accumulate=True)
case(torch.index_select, some[B, 5], 1, i64(0, 5)[S])
case(torch.index_select, x[B, 5, 3], -2, i32(0, 5)[S])
case(torch.index_select, x[B, 5], 1, i64(0, 5)[()])
case(torch.index_select, x[()], 0, i64(0, 1)[1])
case(torch.index_add, (f32 | i64)[5, S], 0, i64(0, 5)[B], (f32 | i64)[B, S])
case(torch.index_add, x[B, 5], 1, i64(0, 5)[S], x[B, S], alpha=0.5)
case(torch.index_add, f16[5, S], 0, i64(0, 5)[B], f16[B, S])
case(lambda x, i, y: x.scatter_reduce(0, i, y, "amax"), f16[5, 4], i64(0, 5)[B, 4], f16[B, 4])
case(lambda x, i, y: x.index_put((i,), y, accumulate=True), f16[5, 4], i64(0, 5)[B], f16[B, 4])
case(torch.index_copy, some[5, S], 0, i64(values=(3, 0, 1))[3], some[3, S])
case(torch.index_copy, x[B, 5], -1, i64(values=(3, 0, 1))[3], x[B, 3])
case(torch.index_fill, some[B, 5], 1, i64(0, 5)[S], 2)
case(torch.index_fill, x[5, B], 0, i64(0, 5)[S], -1.5)
case(torch.index_fill, x[5, B], 0, torch.tensor([1, -2]), 2.0)
case(torch.index_fill, x[B, 5], 1, torch.tensor([1, 2]), x[()])
case(torch.index_fill, x[B, S >= 3], 1, torch.tensor([1, 2]), 2.0)
case(lambda x, y, z: x.index_reduce(0, y, z, "prod"), x[5, S], i64(0, 5)[B], x[B, S])
case(lambda x, y, z: x.index_reduce(1, y, z, "amax", include_self=False), x[B, 5], i64(0, 5)[S], x[B, S])
case(lambda x, y, z: x.index_reduce(0, y, z, "mean"), x[5, S], i64(0, 5)[B], x[B, S])
case(torch.gather, some[B, 5], 1, i64(0, 5)[B, S])
case(torch.gather, x[5, 6], 0, i64(0, 5)[3, 4])
case(torch.gather, x[B, S, 5], -1, i64(0, 5)[B, S, 1])
case(torch.gather, x[()], 0, i64(0, 1)[()])
case(torch.scatter, some[B, 6], 1, i64(values=(0, 3, 5))[B, 3], some[B, 3])
case(torch.scatter, x[B, 6], 1, i64(values=(0, 3, 5))[B, 3], x[B, 4])
case(torch.scatter, x[6, 4], 0, i64(values=(0, 3, 5, 2))[1, 4], x[2, 4])
case(torch.scatter, some[B, 6], -1, i64(0, 6)[B, S], 1)
case(torch.scatter, x[B, 6], -1, i64(0, 6)[B, S], 2.5)
case(torch.scatter, x[()], 0, i64(0, 1)[()], 2.5)
case(lambda x, y: torch.zeros(x.size(0), 6).scatter_(1, y, x), x[B, 2], i64(values=(0, 4))[B, 2])
case(lambda x, y, z: x.scatter(1, y, z, reduce="add"), x[B, 6], i64(0, 6)[B, S], x[B, S])
case(lambda x, y, z: x.scatter(1, y, z, reduce="multiply"), x[B, 6], i64(0, 6)[B, S], x[B, S])
case(lambda x, y: x.scatter(1, y, 2.0, reduce="multiply"), x[B, 6], i64(0, 6)[B, S])
case(torch.scatter_add, (f32 | f64 | i64 | i32)[B, 6], 1, i64(0, 6)[B, S], (f32 | f64 | i64 | i32)[B, S])
case(torch.scatter_add, x[4, B], 0, i64(0, 4)[S, B], x[S, B])
for how in ("sum", "prod", "mean", "amax", "amin"):
    for include in (True, False):
        case(
            torch.scatter_reduce,
            (f32 | i64)[B, 6],
            1,
            i64(0, 6)[B, S],
            (f32 | i64)[B, S],
            how,
            include_self=include,
        )
    if how.startswith("a"):
        case(torch.scatter_reduce, boolean[B, 6], 1, i64(0, 6)[B, S], boolean[B, S], how)
case(torch.take_along_dim, some[B, 5], i64(0, 5)[B, S], 1)
case(torch.take_along_dim, x[B, 5], i64(0, 5)[1, S], -1)
case(torch.take_along_dim, x[1, 5], i64(0, 5)[B, S], 1)
case(torch.take_along_dim, x[B, 5], i64(0, 5)[S])

# ---- masks and positions
case(torch.masked_fill, some[B, S], boolean[B, S], 1)
case(torch.masked_fill, (f32 | f16)[B, S], boolean[B, S], -inf)
case(torch.masked_fill, x[S], boolean[B, 1], 1.5)
case(torch.masked_fill, x[B, 2, S, S], boolean[B, 1, 1, S], -1e4)
case(torch.masked_fill, x[B, S], boolean[B, S], x[()])
case(torch.masked_fill, i64[B, S], boolean[B, S], 3)
case(lambda x, y: x.masked_fill_(y == 0, nan), x[B, S], i64(0, 2)[B, S])
case(torch.masked_select, some[B, S], boolean[B, S])
case(torch.masked_select, x[B, S], boolean[S])
case(torch.masked_select, x[S], boolean[B, 1])
case(torch.masked_select, x[()], boolean[()])
case(torch.masked_scatter, some[B, S], boolean[B, S], some[B, S])
case(torch.masked_scatter, x[B, S], boolean[S], x[B, S])
case(torch.masked_scatter, x[B, S, 4], boolean[B, S, 1], x[N, 40])
case(torch.nonzero, some[B, S])
case(torch.nonzero, i64(0, 2)[S])
case(torch.nonzero, i64(values=(0,))[()])
case(torch.nonzero, i64(values=(3,))[()])
case(torch.nonzero, i64(0, 2)[B, S], as_tuple=True)
case(lambda x: torch.where(x > 0), x[B, S])
case(lambda x: torch.where(x > 0)[0], x[S])
case(torch.argwhere, x[B, S, 2])
case(lambda x: torch.nonzero_static(x, size=7, fill_value=-2), i64(0, 2)[B, S])
case(lambda x: torch.nonzero(x).size(0) + x.size(0), i64(0, 2)[B, S])
case(torch.searchsorted, torch.tensor([-1.0, 0.0, 0.5, 0.5, 2.0]), x[B, S])
case(torch.searchsorted, torch.tensor([-1.0, 0.0, 0.5, 0.5, 2.0]), x(values=(0.5, -1, 3, nan))[4], right=True)
case(torch.searchsorted, torch.arange(12.0).view(2, 6), x(0, 12)[2, S], side="right")
case(torch.searchsorted, i64(values=(0, 2, 4))[3], i64[B, S], out_int32=True)
case(lambda x: torch.searchsorted(x, 1.5), x(values=(0, 1, 2, 3))[4])
case(lambda x, y, z: torch.searchsorted(x, y, sorter=z), x(values=(3, 1, 2))[3], x(0, 4)[S], i64(values=(1, 2, 0))[3])
case(torch.bucketize, x[B, S], torch.tensor([-1.0, 0.0, 1.0]))
case(torch.bucketize, i64[B, S], torch.tensor([-1, 0, 3]), right=True)
case(torch.bucketize, x[()], torch.tensor([-1.0, 0.0, 1.0]), out_int32=True)

# ---- embeddings
case(nn.Embedding(10, 4), i64(0, 10)[B, S])
case(nn.Embedding(10, 4, padding_idx=0), i32(0, 10)[B, S])
case(F.embedding, i64(0, 10)[()], x[10, 4])
w = torch.arange(40.0).view(10, 4)
for mode in ("sum", "mean", "max"):
    case(nn.EmbeddingBag(10, 4, mode=mode), i64(0, 10)[3, 4], script=False)
    case(nn.EmbeddingBag(10, 4, mode=mode), i64(0, 10)[6], torch.tensor([0, 2, 4]))
    case(nn.EmbeddingBag(10, 4, mode=mode), i64(0, 10)[7], i64(values=(0, 2, 5))[3])
    case(nn.EmbeddingBag(10, 4, mode=mode, include_last_offset=True), i64(0, 10)[6], torch.tensor([0, 2, 2, 6]))
case(
    lambda x, y: F.embedding_bag(x, w, torch.tensor([0, 3]), per_sample_weights=y, mode="sum"),
    i64(0, 10)[6],
    x[6],
)
# Bags of any lengths, empty ones too, and rows that are left out.
for mode in ("sum", "mean", "max"):
    case(nn.EmbeddingBag(10, 4, mode=mode), i64(0, 10)[S >= 4], torch.tensor([0, 2, 2]))
    case(nn.EmbeddingBag(10, 4, mode=mode), i64(0, 10)[B, S], records=False, opsets=range(11, 27))
    case(nn.EmbeddingBag(4, 4, mode=mode, padding_idx=3), i64(0, 4)[S >= 4], torch.tensor([0, 2]))
    case(nn.EmbeddingBag(4, 4, mode=mode, padding_idx=3), i64(0, 4)[B, S], records=False, opsets=range(11, 27))
    case(nn.EmbeddingBag(4, 4, mode=mode, padding_idx=3), i64(values=(3, 3, 1, 2, 3, 0))[3, 2])
case(
    lambda i, y: F.embedding_bag(i, w, mode="sum", per_sample_weights=y, padding_idx=2), i64(0, 10)[B, S], x[B, S], records=False
)

# ---- order along dimensions
case(torch.flip, some[B, S], (1,))
case(torch.flip, x[B, S, 3], (0, -1))
case(torch.flip, x[B, S], (0, 1))
case(torch.flip, x[()], ())
case(torch.flip, x[1, S], (0,))
case(torch.fliplr, x[B, S])
case(torch.flipud, x[B, S])
case(torch.roll, some[B, 5], 2, 1)
case(torch.roll, x[B, 5], -1, 1)
case(torch.roll, x[B, 5], 12, -1)
case(torch.roll, x[B, 5], 5, 1)
case(torch.roll, x[B, S], 1, 1)
case(torch.roll, x[B, S], 3, 1)
case(torch.roll, x[B, S], -1, 1)
case(torch.roll, x[B, S], -3, 1)
case(torch.roll, x[B, 7, 7, 3], (-3, 3), (1, 2))
case(torch.roll, x[B, S, T, 3], (-3, 3), (1, 2))
case(torch.roll, x[B, 5], 3)
case(torch.roll, x[B, S], 3)
case(torch.roll, x[()], 3)
for k in (-1, 0, 1, 2, 3, 5):
    case(torch.rot90, x[B, S, 3], k)
case(torch.rot90, x[B, S, 3], 1, (2, -2))

# ---- padding
case(F.pad, some[B, S], (1, 2))
case(F.pad, x[B, S, 3], (1, 2, 0, 1), value=1.5)
case(F.pad, x[B, S, 3], (0, 0, 1, 0, 2, 1), value=-inf)
case(F.pad, x[B, 5], (-1, 2))
case(F.pad, x[B, 5], (1, -2))
case(F.pad, x[B, S], (0, 0))
case(F.pad, i64[B, S], (1, 1), value=3)
case(F.pad, boolean[B, S], (1, 1), value=True)
case(F.pad, (f16 | f64)[B, S], (1, 1), value=3)
case(lambda x, y: F.pad(x, (0, y.size(0))), x[B, S], x[T])
case(lambda x: F.pad(x, (0, 8 - x.size(1) % 8)), x[B, S])
case(lambda x: F.pad(x, (0, 0, 0, (4 - x.size(1) % 4) % 4)).view(x.size(0), -1, 4, 3), x[B, S, 3])
case(torch.constant_pad_nd, x[B, S], (1, 0), 2)
case(torch.constant_pad_nd, i64[B, S], (1, 0), 2)
case(F.pad, (f32 | i64)[B, 3, S >= 3], (2, 1), mode="reflect")
case(F.pad, x[B, 3, H >= 3, W >= 3], (2, 1, 1, 0), mode="reflect")
case(F.pad, x[2, 3, 4, 5, 6], (2, 1, 1, 0, 1, 1), mode="reflect")
case(F.pad, x[3, 6], (2, -1), mode="reflect")
case(F.pad, (f32 | i64)[B, 3, S], (2, 1), mode="replicate")
case(F.pad, x[B, 3, H, W], (2, 1, 1, 0), mode="replicate")
case(F.pad, x[B, 2, 3, H, W], (2, 1, 1, 0, 0, 1), mode="replicate")
case(F.pad, x[3, 6], (-2, 1), mode="replicate")
case(F.pad, (f32 | i64)[B, 3, S >= 3], (2, 1), mode="circular")
case(F.pad, x[B, 3, H >= 3, W >= 3], (2, 1, 0, 3), mode="circular")
case(F.pad, x[2, 3, 4, 5, 6], (2, 1, 1, 0, 1, 1), mode="circular")
case(F.pad, x[B, 3, 6], (2, -1), mode="circular")
case(F.pad, x[B, 3, 4, W >= 5], (-1, 1, 2, -1), mode="circular")
case(nn.ReflectionPad1d(2), x[3, S >= 3])
case(nn.ReflectionPad2d((1, 2, 0, 1)), x[B, 3, H >= 3, W >= 3])
case(nn.ReflectionPad3d(1), x[B, 2, 3, 4, 5])
case(nn.ReplicationPad1d((3, 1)), x[B, 3, S])
case(nn.ReplicationPad2d(2), x[B, 3, H, W])
case(nn.ReplicationPad3d(1), x[B, 2, 3, 4, 5])
case(nn.CircularPad1d(2), x[B, 3, S >= 2])
case(nn.CircularPad2d((1, 2, 0, 1)), x[B, 3, H >= 2, W >= 2])
case(nn.ConstantPad1d((1, 2), 3.5), x[B, 3, S])
case(nn.ZeroPad2d((1, 2, -1, 1)), x[B, 3, H >= 2, W])

table = torch.randn(7, 4)
case(lambda i: F.embedding(i, table.clone(), max_norm=1.0), i64(0, 7)[B, S], script=False)
case(lambda i: F.embedding(i, table.clone(), max_norm=0.5, norm_type=1.0), i64(0, 7)[S], script=False)
case(lambda a, m, i: torch.ops.aten._unsafe_masked_index(a, m, [None, i], 2.5), x[B, 4], boolean[5], i64(-3, 9)[5])
case(
    lambda a, m, i, v: torch.ops.aten._unsafe_masked_index_put_accumulate(a, m, [i], v),
    x[4],
    boolean[S],
    i64(0, 4)[S],
    x[S],
)
case(torch.fliplr, x[3, 0, 2])

# Positions that count down, or from the end.
case(lambda x: x.index_select(1, torch.arange(x.shape[1] - 1, -1, -1)), x[B, S])
case(lambda x: x.index_select(0, torch.arange(x.shape[0] - 1, -1, -1)), x[B, S])
case(lambda x: x[:, torch.arange(-2, 0)], x[B, S >= 2])
case(lambda x: x[:, torch.arange(-x.shape[1], 0)], x[B, S])
case(lambda x: x[torch.arange(x.shape[0] - 1, -1, -2)], x[B, S])

# ---- a step that is known only at run time
case(lambda a, b: a[:: b.size(0)], x[S, 3], x[B])
case(lambda a, b: a[:, 1 : -1 : b.size(0) + 1], x[2, S >= 3], x[B])


def written_in_steps(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    a = a.clone()
    a[1 :: b.size(0)] = 7
    a[:, :: b.size(0)] *= 2
    return a


case(written_in_steps, x[S >= 2, 3], x[B])
