"""Cases of src/ops/factor.cpp. Vectors are unique up to their signs, so products of them are compared."""

import torch

from tests.cases import B, case, f32, f64, x

linalg = torch.linalg
LOW_RANK = torch.tensor([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])


def rebuilt(u: torch.Tensor, s: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return s, u[..., :3] * s.unsqueeze(-2) @ v[..., :3, :]


def spans(u: torch.Tensor, s: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return s, u.mT @ u, v @ v.mT


def rediagonal(w: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return w, v * w.unsqueeze(-2) @ v.mT


for mode in ("reduced", "complete"):
    case(lambda a: linalg.qr(a, mode), (f32 | f64)[B, 4, 3])
    case(lambda a: linalg.qr(a, mode), x[3, 5])
case(lambda a: linalg.qr(a, "r")[1], x[B, 4, 4])
case(torch.qr, x[B, 3, 3])
case(lambda a: linalg.qr(a * torch.eye(4)), x[4, 4])

for sizes in ((4, 3), (3, 5), (6, 6), (1, 4), (2, 1)):
    case(linalg.svdvals, (f32 | f64)[B, sizes[0], sizes[1]])
case(lambda a: linalg.svdvals(a + LOW_RANK), x(values=(0.0,))[4, 3])
for full in (False, True):
    case(lambda a: rebuilt(*linalg.svd(a, full)), x[B, 5, 3])
    case(lambda a: spans(*linalg.svd(a, full)), x[3, 3])
case(lambda a: spans(*linalg.svd(a + LOW_RANK, False)), x(values=(0.0,))[4, 3])
case(lambda a: torch.svd(a)[1], x[B, 2, 4])

for fn in (linalg.pinv, torch.pinverse):
    case(fn, (f32 | f64)[B, 4, 3], rtol=1e-3, why="the condition of a random matrix")
case(lambda a: linalg.pinv(a + LOW_RANK), x(values=(0.0,))[4, 3])
case(lambda a: linalg.pinv(a, rtol=0.3), x[B, 3, 4], rtol=1e-3, why="the condition of a random matrix")
case(lambda a: linalg.pinv(a, atol=0.5), x[B, 3, 4], rtol=1e-3, why="the condition of a random matrix")
case(linalg.matrix_rank, x[B, 4, 3])
case(lambda a: linalg.matrix_rank(a + LOW_RANK), x(values=(0.0,))[4, 3])
for order in ("nuc", 2, -2):
    case(lambda a: linalg.matrix_norm(a, order), x[B, 4, 3])
    case(lambda a: linalg.matrix_norm(a, order, (0, 2), True), x[4, B, 3])

for side in ("L", "U"):
    case(lambda a: linalg.eigvalsh(a, side), (f32 | f64)[B, 4, 4])
case(lambda a: rediagonal(*linalg.eigh(a + a.mT)), x[B, 5, 5])
case(lambda a: linalg.eigvalsh(a), x(values=(1.0, 0.0, 0.0, -1.0))[2, 2])

case(torch.matrix_exp, (f32 | f64)[B, 3, 3])
case(lambda a: torch.matrix_exp(a * 4), x(-1.0, 1.0)[4, 4])
case(torch.linalg.matrix_exp, x(values=(0.0,))[2, 2])
