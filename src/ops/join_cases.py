"""Cases of src/ops/join.cpp: several tensors made one."""

import torch
from torch.nn.utils.rnn import pad_sequence

from tests.cases import B, S, T, boolean, case, f16, f64, i8, i32, i64, u8, x

case(torch.cat, [x[B, 3], x[B, 4]], dim=-1)
case(torch.cat, [x[B, S], x[T, S]])
case(torch.cat, [x[B, S], x[B, T], x[B, 2]], 1)
case(torch.cat, [(f16 | f64 | i64 | i8 | boolean)[B, 2], x[B, 3]], 1)
case(torch.cat, [i32[B], i64[B], u8[B]])
case(torch.cat, [boolean[B], boolean[B]])
case(torch.cat, [x[B, 3]], 1)


def joined_into(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out = torch.empty(0)
    torch.cat([a, b], 1, out=out)
    torch.stack([out, out], out=(whole := torch.empty(0)))
    return whole


case(joined_into, x[B, S], x[B, 2], script=False, export=False)
case(torch.cat, [x[0], x[B, 3]], 1)
case(torch.cat, [x[0], i64[0]])
case(torch.cat, [x[0, 3], x[B, 3]])
case(torch.cat, [x[B, 3], f64[0]], 1)
case(lambda x: torch.cat([x, x], 1), x[B, S])
case(torch.concat, [x[B, 3], x[B, 4]], 1)
case(torch.concatenate, [x[B, 3], x[B, 4]], 1)
for dim in (0, 1, 2, -1, -3):
    case(torch.stack, [x[B, S], x[B, S]], dim)
    case(torch.stack, [x[B, 3], x[B, 3], x[B, 3], x[B, 3]], dim)
case(torch.stack, [x[B, S]], 1)
case(torch.stack, [x[()], x[()]])
case(torch.stack, [x[B], i64[B]])
case(torch.stack, [x[B, 3, S], x[B, 3, S], x[B, 3, S]], 1)
case(torch.hstack, [x[B], x[S]])
case(torch.hstack, [x[B, 3], x[B, S]])
case(torch.hstack, [x[()], x[()]])
case(torch.vstack, [x[3], x[B, 3]])
case(torch.vstack, [x[S], i64[S]])
case(torch.row_stack, [x[S], x[S]])
case(torch.dstack, [x[S], x[S]])
case(torch.dstack, [x[B, S], x[B, S]])
case(torch.dstack, [x[()], x[()]])
case(torch.column_stack, [x[S], x[S, 3]])
case(torch.column_stack, [x[()], x[()]])
case(torch.block_diag, x[2, 3], x[B, S], x[3], x[()])
case(torch.block_diag, i64[2, 3], x[2, 2])
case(torch.cartesian_prod, x[B], x[S])
case(torch.cartesian_prod, x[B], x[S], x[3])
case(torch.cartesian_prod, x[B])
case(torch.combinations, x[4])
case(torch.combinations, i64[5], 3, True)
case(torch.combinations, x[B])
case(lambda a: torch.combinations(a, 2, True), x[B])
case(torch.combinations, x[B], 3, xfail="three of a dynamic size")
for first, side in ((False, "right"), (True, "right"), (True, "left")):
    case(pad_sequence, [x[B, 3], x[S, 3], x[T, 3]], first, -1.5, side)
    case(pad_sequence, [x[B], x[S]], first, padding_side=side)
case(pad_sequence, [i64[B, 2, S], i64[4, 2, S]], True, 7.0)
case(pad_sequence, [x[B, 3]])
case(pad_sequence, [boolean[4], boolean[2]], True, 1.0)
case(pad_sequence, [i64[B], x[S]])
case(lambda x, n: pad_sequence([x[i, : n[i]] for i in range(2)], True), x[2, S >= 4], i64(values=(3, 1))[2], export=False)
