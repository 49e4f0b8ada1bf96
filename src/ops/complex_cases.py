"""Cases of src/ops/complex.cpp and of complex numbers in the other families."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.cases import B, N, S, T, boolean, c64, c128, case, f64, i64, inf, nan, x

both = c64 | c128
z, w = torch.tensor([1 + 2j, -3 + 0.5j, 0.25 - 1j]), torch.tensor(2 - 1j)

# ---- together and apart
case(torch.complex, x[B, S], x[B, S])
case(torch.complex, f64[B, 1], f64[S])
case(torch.complex, x[()], x[()])
case(torch.polar, x(0, 2)[B, S], x[B, S])
case(torch.polar, f64(0, 2)[S], f64[S])
case(torch.view_as_real, both[B, S])
case(torch.view_as_real, c64[()])
case(torch.view_as_complex, x[B, S, 2])
case(torch.view_as_complex, f64[2])
case(lambda z: (z.real, z.imag), both[B, S])
case(lambda z: z.imag.mul_(2), c64[B, S], script=False)
case(lambda x: torch.real(x), x[B, S])
case(torch.abs, both[B, S])
case(torch.abs, c64[()])
case(torch.angle, c64[B, S])
case(torch.angle, c128[B, S])
case(torch.angle, c64(values=(1j, -1j, 1, -1, 0, 1 + 1j, -1 - 1j))[7])
case(torch.sgn, c64(values=(0, 1 + 1j, -2j))[6])
case(lambda z: z.conj(), both[B, S])
case(lambda z: z.conj() * z, c64[B, S])
case(lambda z: torch.resolve_conj(z.conj()), c64[B])
case(torch.conj_physical, c64[B])
case(lambda x: (x.conj(), x.conj_physical()), x[B, S])
case(lambda z: torch.resolve_neg(z.conj().imag), c64[B])
case(lambda z: z.mH, c64[B, S, 3])
case(lambda z: z.adjoint(), c64[B, 3])
case(lambda z: z.abs() if z.is_complex() and not z.is_floating_point() else z, c64[B])
case(torch.isreal, c64(values=(1, 1j, 0, 2))[6])
case(torch.isnan, c64(values=(1, complex(nan, 1), complex(1, nan), complex(inf, 0)))[4])
case(torch.isinf, c64(values=(1, complex(nan, 1), complex(1, inf), complex(-inf, 0)))[4])
case(torch.isfinite, c64(values=(1, complex(nan, 1), complex(1, inf), complex(-inf, 0)))[4])

# ---- arithmetic
case(torch.mul, both[B, S], both[S])
case(torch.mul, c64[B, S], x[S])
case(torch.mul, x[B, S], c64[S])
case(torch.mul, c64[B, S], i64[S])
case(lambda z: z * 2, c64[B])
case(lambda z: z * (2 + 1j), c64[B])
case(lambda x: x * (2 + 1j), x[B])
case(lambda x: x * 1j, f64[B], script=False)
case(lambda x: torch.exp(1j * x), x[B, S])
case(lambda y: y * z, c64[B, 3])
case(lambda y: y + w, c64[B, 3])
case(torch.add, c64[B, S], c64[B, S])
case(torch.add, c64[B, S], c64[S], alpha=2)
case(torch.add, c64[B, S], x[S])
case(torch.add, x[B, S], c64[S])
case(torch.add, c64[B, 1], x[S])
case(lambda z: z + 1, c64[B])
case(lambda z: 1 - z, c64[B])
case(torch.sub, both[B, S], both[S])
case(torch.sub, x[B, S], c64[S])
case(torch.div, both[B, S], both[S])
case(torch.div, c64[B, S], x[S])
case(torch.div, x[B, S], c64[S])
case(lambda z: z / 2, c64[B])
case(lambda z: 2 / z, c64[B])
case(torch.neg, c64[B])
case(torch.reciprocal, both[B])
case(torch.square, c64[B])
case(torch.addcmul, c64[B, S], c64[S], c64[B, 1], value=2)
case(torch.Tensor.mul_, c64[B, S], c64[S])
case(torch.Tensor.add_, c64[B, S], x[S])
for f in (torch.exp, torch.log, torch.sqrt, torch.sin, torch.cos, torch.tan, torch.sinh, torch.cosh, torch.tanh, torch.sigmoid):
    case(f, c64[B, S])
case(torch.exp, c128[S])
case(torch.sqrt, c128[S])
case(torch.log, c128[S])
case(torch.rsqrt, c64[B])
case(torch.sqrt, c64(values=(0, -4, 4, 2j, -2j, -1 + 1e-4j, 1e4 + 1j))[7])
for e in (0, 1, 2, 3, -1, -2, 0.5, 1.5, -0.25):
    case(lambda z: z**e, c64[B, S])
case(torch.pow, c64[B, S], c64[S])
case(lambda z: torch.pow(2.0, z), c64[B, S])
case(torch.pow, x(0.5, 2)[B, S], c64[S])
case(torch.pow, c64(values=(0, 1j, 2))[3], c64(values=(2, 1 + 1j, 0))[3])
case(torch.eq, c64(values=(1, 1j, 0))[3], c64(values=(1, 1, 0))[3])
case(torch.ne, c64(values=(1, 1j, 0))[3], c64(values=(1, 1, 0))[3])
case(lambda z: (z == 1, z != 1j), c64(values=(1, 1j, 0))[3])
case(torch.where, boolean[B, S], c64[B, S], c64[S])
case(torch.where, boolean[S], c64[B, S], x[S])
case(lambda z, m: z.masked_fill(m, 0), c64[B, S], boolean[B, S])

# ---- types
case(lambda x: x.to(torch.complex64), x[B, S])
case(lambda x: x.to(torch.complex128), (x | f64 | i64)[B])
case(lambda z: z.to(torch.complex128), c64[B])
case(lambda z: z.to(torch.float32), c64[B])
case(lambda z: z.bool(), c64(values=(1, 1j, 0))[3])
case(lambda z: torch.zeros(3, dtype=torch.complex64) + z, c64[B, 3])
case(lambda z: torch.zeros_like(z) + 1j, c64[B, 3])
case(lambda z: torch.ones_like(z), c64[B, 3])

# ---- shapes
case(lambda z: z.view(z.size(0), -1), c64[B, S, 3])
case(lambda z: z.reshape(-1), both[B, S])
case(lambda z: z.flatten(1), c64[B, S, 3])
case(lambda z: z.unflatten(-1, (2, 3)), c64[B, 6])
case(lambda z: z.transpose(0, 1), c64[B, S])
case(lambda z: z.permute(2, 0, 1), c64[B, S, 3])
case(lambda z: z.t(), c64[B, S])
case(lambda z: z.unsqueeze(-1), c64[B, S])
case(lambda z: z.unsqueeze(0), c64[()])
case(lambda z: z.squeeze(1), c64[B, 1, S])
case(lambda z: z.expand(3, -1, -1), c64[B, S])
case(lambda z: z.expand(-1, 4), c64[B, 1])
case(lambda z: z.repeat(2, 3), c64[B, S])
case(lambda z: z[:, 1:], c64[B, S >= 2])
case(lambda z: z[..., ::2], c64[B, S])
case(lambda z: z[0], c64[B, S])
case(lambda z: z[..., -1], c64[B, S])
case(lambda z: z[:, None, :, None], c64[B, S])
case(lambda z, i: z[i], c64[5, S], i64(0, 5)[B])
case(lambda z, i: z.index_select(1, i), c64[B, 5], i64(0, 5)[S])
case(lambda z, i: z.gather(1, i), c64[B, 5], i64(0, 5)[B, 3])
case(torch.cat, [c64[B, 2], c64[B, 3]], dim=-1)
case(torch.cat, [c64[B, 2], x[B, 3]], dim=1)
case(torch.stack, [c64[B, S], c64[B, S]], dim=-1)
case(lambda z: z.chunk(2, -1), c64[B, 6])
case(lambda z: z.split([2, 4], -1), c64[B, 6])
case(lambda z: z.unbind(-1), c64[B, 3])
case(lambda z: z.flip(0), c64[B, 3])
case(lambda z: torch.roll(z, 1, -1), c64[B, 4])
case(lambda z: z.tril(), c64[B, 3, 3])
case(lambda z: F.pad(z, (1, 2)), c64[B, S])
case(lambda z: z.diagonal(), c64[3, 3])
case(lambda z: z.clone().contiguous().detach(), c64[B, S])


def write(z: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(z)
    out[:, 0] = z[:, 1]
    out[:, 1] = 2.0
    torch.view_as_real(out)[:, 2] = 1.5
    return out


case(write, c64[B, 4])

# ---- sums and products
case(torch.sum, both[B, S])
case(torch.sum, c64[B, S], dim=-1)
case(torch.sum, c64[B, S, 3], dim=(0, 2), keepdim=True)
case(torch.mean, c64[B, S], dim=1)
case(torch.sum, c64[()])
case(torch.cumsum, c64[B, S], dim=-1)
case(torch.matmul, both[B, S, 4], both[4, 3])
case(torch.matmul, c64[B, 4], c64[4])
case(torch.mm, c64[B, 4], c64[4, S])
case(torch.bmm, c64[B, S, 4], c64[B, 4, 3])
case(lambda z, w: torch.einsum("bsi,oi->bso", z, w), c64[B, S, 4], c64[3, 4])
case(lambda z, w: torch.einsum("bixy,iox->boxy", z, w), c64[B, 3, N, 4], c64[3, 5, N])
case(lambda z, w, v: torch.einsum("bi,ij,bj->b", z, w, v), c64[B, 4], c64[4, 3], c64[B, 3])
case(torch.vdot, c64[S], c64[S])
case(torch.dot, c64[S], c64[S])
case(torch.outer, c64[B], c64[S])
case(torch.linalg.vector_norm, c64[B, S], dim=-1)
case(lambda z: z.norm(dim=-1), c64[B, S])


# ---- rotary embeddings by complex multiplication


class Rotary(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(32.0), 10000.0 ** -(torch.arange(0, 8, 2) / 8))
        self.register_buffer("freqs_cis", torch.polar(torch.ones_like(angles), angles))
        self.query, self.key = nn.Linear(16, 16, bias=False), nn.Linear(16, 16, bias=False)

    def rotated(self, x: torch.Tensor, freqs: torch.Tensor) -> torch.Tensor:
        pairs = torch.view_as_complex(x.float().reshape(x.size(0), x.size(1), 2, -1, 2))
        return torch.view_as_real(pairs * freqs.view(1, x.size(1), 1, -1)).flatten(3).type_as(x)

    def forward(self, x: torch.Tensor, start: int = 0) -> torch.Tensor:
        freqs = self.freqs_cis[start : start + x.size(1)]
        q, k = self.rotated(self.query(x), freqs), self.rotated(self.key(x), freqs)
        return torch.einsum("bqhd,bkhd->bhqk", q, k)


case(Rotary(), x[B, S, 16])
case(nn.Sequential(Rotary()), x[B, T, 16])
