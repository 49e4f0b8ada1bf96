"""Cases of src/ops/linalg.cpp: elimination, triangles and powers of matrices."""

import torch

from tests.cases import B, N, S, case, f64, i64, x


def well(m: torch.Tensor) -> torch.Tensor:
    """Far from singular, with pivots that are not on the diagonal."""
    return m + 4 * torch.roll(torch.eye(m.size(-1), dtype=m.dtype), 1, 0)


def definite(m: torch.Tensor) -> torch.Tensor:
    return m @ m.mT + torch.eye(m.size(-1), dtype=m.dtype)


for n in (1, 2, 3, 4, 6):
    case(lambda m: torch.linalg.inv(well(m)), x[B, n, n])
    case(lambda m: torch.linalg.inv(well(m)), f64[n, n])
    case(lambda m: torch.linalg.det(m), (x | f64)[B, n, n])
    case(lambda m: torch.linalg.slogdet(m), x[B, n, n])
    case(lambda m: torch.linalg.cholesky(definite(m)), x[B, n, n])
    case(lambda m, y: torch.linalg.solve(well(m), y), x[B, n, n], x[B, n, S])
case(lambda m: torch.inverse(well(m)), x[B, S, 2, 2])
case(lambda m: well(m).inverse(), x[3, 3])
case(lambda m: torch.linalg.inv(m), x(values=(0, 1, 0, 1, 0, 0, 0, 0, 2))[3, 3])
case(lambda m: torch.linalg.inv(m), x(values=(0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 2, 0, 0, 4, 0))[4, 4])
case(lambda m: torch.linalg.inv_ex(well(m)), x[B, 4, 4], script=False)
case(lambda m: torch.det(m), x[S, S])
case(lambda m: torch.det(m), x[0, 0])
case(lambda m: m.logdet(), x(values=(2, 1, 0, 3))[2, 2])
case(lambda m: m.logdet(), x(values=(1, 2, 3, 0))[2, 2])
case(lambda m: torch.slogdet(definite(m)), f64[B, 3, 3])

case(lambda m, y: torch.linalg.solve(well(m), y), x[4, 4], x[4])
case(lambda m, y: torch.linalg.solve(well(m), y), x[B, 4, 4], x[B, 4])
case(lambda m, y: torch.linalg.solve(well(m), y), x[4, 4], x[B, 4, 2])
case(lambda m, y: torch.linalg.solve(well(m), y, left=False), x[B, 4, 4], x[B, S, 4])
case(lambda m, y: torch.linalg.solve(well(m), y), f64[B, 3, 3], f64[B, 3, 2])
case(lambda m, y: torch.linalg.solve_ex(well(m), y), x[B, 3, 3], x[B, 3, 2], script=False)
case(lambda m: torch.linalg.tensorinv(well(m).reshape(2, 2, 4)), x[4, 4])
case(lambda m, y: torch.linalg.tensorsolve(well(m).reshape(2, 2, 4), y), x[4, 4], x[2, 2])
case(lambda m, y: torch.linalg.tensorsolve(well(m).reshape(2, 2, 4), y, dims=(2,)), x[4, 4], x[2, 2])

for upper in (True, False):
    case(lambda m, y: torch.linalg.solve_triangular(well(m) + 4 * torch.eye(4), y, upper=upper), x[B, 4, 4], x[B, 4, S])
    case(lambda m, y: torch.linalg.solve_triangular(m, y, upper=upper, unitriangular=True), x[4, 4], x[B, 4, 2])
    case(lambda m, y: torch.linalg.solve_triangular(0.1 * m, y, upper=upper, unitriangular=True), x[B, 40, 40], x[40, 2])
    case(lambda m, y: torch.linalg.solve_triangular(m + 4 * torch.eye(m.size(0)), y, upper=upper), x[S, S], x[B, S, 3])
    case(lambda m, y: torch.linalg.solve_triangular(m + 4 * torch.eye(3), y, upper=upper, left=False), x[B, 3, 3], x[B, S, 3])
    case(lambda m: torch.linalg.cholesky(definite(m), upper=upper), f64[B, 3, 3])
    case(lambda m, y: torch.cholesky_solve(y, m + 4 * torch.eye(3), upper=upper), x[B, 3, 3], x[B, 3, S])
    case(lambda m: torch.cholesky_inverse(m + 4 * torch.eye(3), upper=upper), x[3, 3])
case(lambda m, y: torch.triangular_solve(y, m + 4 * torch.eye(3), upper=False, transpose=True)[0], x[B, 3, 3], x[B, 3, 2])
case(lambda m: torch.linalg.cholesky_ex(definite(m)), x[B, 3, 3], script=False)

for n in (0, 1, 2, 5):
    case(lambda m: torch.linalg.matrix_power(m, n), x[B, 3, 3])
case(lambda m: torch.matrix_power(well(m), -2), x[B, 3, 3])
case(lambda m: torch.linalg.matrix_power(m, 3), x[B, S, S])
case(lambda v: torch.linalg.vander(v), x[B, S >= 2])
case(lambda v: torch.linalg.vander(v, N=4), x[N])
case(lambda v: torch.linalg.vander(v, N=3), i64[B, 4])
case(lambda v: torch.linalg.vander(v, N=4), x[()])
