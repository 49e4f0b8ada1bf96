"""Cases of src/ops/norm.cpp: normalizations, and distances."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations

from tests.cases import B, H, S, W, case, f16, f64, x


def drawn(module: nn.Module) -> nn.Module:
    """The module with weights and statistics that are not ones and zeros."""
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.is_floating_point():
            nn.init.uniform_(tensor, 0.5, 1.5)
    return module


# ---- batch
for norm, sizes in (
    (nn.BatchNorm1d, (B, 3)),
    (nn.BatchNorm1d, (B, 3, S)),
    (nn.BatchNorm2d, (B, 3, H, W)),
    (nn.BatchNorm3d, (B, 3, S, H, W)),
):
    case(drawn(norm(3)), x[sizes])
    case(drawn(norm(3, affine=False)), x[sizes])
    case(drawn(norm(3, eps=0.1, track_running_stats=False)), x[(B >= 2, *sizes[1:])])
case(drawn(nn.BatchNorm2d(3, affine=False, track_running_stats=False)), x[B, 3, H, W >= 2])
case(drawn(nn.BatchNorm2d(3)).double(), f64[B, 3, H, W])
case(drawn(nn.BatchNorm2d(3)).half(), f16[B, 3, H, W])
case(drawn(nn.BatchNorm2d(3)), f16[B, 3, H, W])
case(drawn(nn.SyncBatchNorm(3)), x[B, 3, H, W])
case(lambda x, m, v: F.batch_norm(x, m, v), x[B, 3, H, W], x[3], x(0.5, 2)[3])
case(lambda x: F.batch_norm(x, None, None, None, None, True), x[0])
case(lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b, False, 0.1, 0.01), x[B, 3], x[3], x(0.5, 2)[3], x[3], x[3])
case(lambda x, w: F.batch_norm(x, None, None, w, None, True), x[B >= 2, 3, S], x[3])
case(nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), drawn(nn.BatchNorm2d(4)), nn.ReLU()), x[B, 3, H, W])
case(nn.Sequential(nn.ConvTranspose2d(3, 4, 2, stride=2), drawn(nn.BatchNorm2d(4))), x[B, 3, H, W])
case(
    lambda x, w, b, m, v: torch.native_batch_norm(x, w, b, m, v, False, 0.1, 1e-5)[0], x[B, 3, H], x[3], x[3], x[3], x(0.5, 2)[3]
)

# ---- layer
case(drawn(nn.LayerNorm(6)), x[B, S, 6])
case(drawn(nn.LayerNorm(6)), x[6])
case(drawn(nn.LayerNorm((3, 6))), x[B, S, 3, 6])
case(drawn(nn.LayerNorm((2, 3, 6), eps=0.1)), x[B, 2, 3, 6])
case(drawn(nn.LayerNorm(6, bias=False)), x[B, S, 6])
case(nn.LayerNorm(6, elementwise_affine=False), x[B, S, 6])
case(nn.LayerNorm((3, 6), elementwise_affine=False), x[B, 3, 6])
case(drawn(nn.LayerNorm(6)).double(), f64[B, S, 6])
case(drawn(nn.LayerNorm(6)).half(), f16[B, S, 6])
case(lambda x, w, b: F.layer_norm(x, (4,), w, b), x[B, 4], x[4], x[4])
case(lambda x: F.layer_norm(x, x.shape[1:]), x[B, S, 4])
case(lambda x, b: F.layer_norm(x, (4,), None, b), x[B, 4], x[4])
case(lambda x, w, b: torch.native_layer_norm(x, [4], w, b, 1e-5)[0], x[B, 4], x[4], x[4])

# ---- group and instance
case(drawn(nn.GroupNorm(2, 6)), x[B, 6, H >= 3, W])
case(drawn(nn.GroupNorm(1, 6)), x[B, 6, S])
case(drawn(nn.GroupNorm(6, 6, eps=0.1)), x[B, 6, S >= 2])
case(drawn(nn.GroupNorm(3, 6, eps=0.1)), x[B, 6])
case(drawn(nn.GroupNorm(2, 4)), x[B, 4, S >= 3, H >= 3, W])
case(nn.GroupNorm(2, 6, affine=False), x[B, 6, H >= 3, W])
case(drawn(nn.GroupNorm(2, 6)).half(), f16[B, 6, H, W])
case(drawn(nn.GroupNorm(2, 6)).double(), f64[B, 6, H, W])
case(lambda x, w: F.group_norm(x, 2, w), x[B, 4, S], x[4])
case(lambda x, w, b: torch.native_group_norm(x, w, b, x.size(0), 4, x.size(2), 2, 1e-5)[0], x[B, 4, S], x[4], x[4])
for norm, sizes in (
    (nn.InstanceNorm1d, (3, S >= 2)),
    (nn.InstanceNorm2d, (3, H >= 2, W)),
    (nn.InstanceNorm3d, (3, S >= 2, H, W)),
):
    case(norm(3), x[(B, *sizes)])
    case(norm(3), x[sizes])
    case(drawn(norm(3, affine=True, eps=0.1)), x[(B, *sizes)])
    case(drawn(norm(3, affine=True, track_running_stats=True)), x[(B, *sizes)])
    case(drawn(norm(3, track_running_stats=True)), x[sizes])
case(drawn(nn.InstanceNorm2d(3, affine=True)).half(), f16[B, 3, H >= 2, W])
case(drawn(nn.InstanceNorm2d(3, affine=True)).double(), f64[B, 3, H >= 2, W])

# ---- root mean square
case(drawn(nn.RMSNorm(6)), x[B, S, 6])
case(drawn(nn.RMSNorm((3, 6), eps=0.1)), x[B, 3, 6])
case(nn.RMSNorm(6, elementwise_affine=False), x[B, S, 6])
case(drawn(nn.RMSNorm(6)).double(), f64[B, S, 6])
case(drawn(nn.RMSNorm(6)).half(), f16[B, S, 6])
case(F.rms_norm, x[6], (6,))
case(lambda x, w: F.rms_norm(x, (4,), w, 1e-3), x[B, 4], x[4])

# ---- across channels
case(nn.LocalResponseNorm(2), x[B, 5, H, W])
case(nn.LocalResponseNorm(3, alpha=0.1, beta=0.5, k=2.0), x[B, 5, H, W])
case(nn.LocalResponseNorm(5, alpha=1.0), x[B, 7, S])
case(nn.LocalResponseNorm(4, alpha=1.0), x[B, 7, S, H, W])
case(F.normalize, x[B, 4])
case(F.normalize, x[B, S, 4], p=1.0, dim=-1)
case(F.normalize, x[B, S, 4], p=3.0, dim=0, eps=0.5)
case(F.normalize, x[B, 4], dim=(0, 1))
case(F.normalize, x[B, 0], dim=-1)

# ---- weights given by length and direction
case(parametrizations.weight_norm(nn.Conv1d(4, 6, 3, padding=1), dim=2), x[B, 4, S], script=False)
case(parametrizations.weight_norm(nn.Linear(4, 3), dim=None), x[B, 4], script=False)
case(parametrizations.weight_norm(nn.Conv2d(3, 4, 3)), x[B, 3, 5, 5], script=False)
case(torch._weight_norm, x[3, 4], x[3, 1])
case(torch._weight_norm, x[3, B, 4], x[1, B, 1], 1)
case(torch._weight_norm, x[3, 4], x[()], -1)
case(lambda v: torch.norm_except_dim(v, 2, 0), x[3, S, 4])
case(lambda v: torch.norm_except_dim(v, 1, 2), x[3, S, 4])

# ---- distances
case(F.cosine_similarity, x[B, 4], x[B, 4])
case(F.cosine_similarity, x[B, S, 4], x[B, S, 4], dim=-1)
case(F.cosine_similarity, x[B, S, 4], x[4], dim=2, eps=0.5)
case(F.cosine_similarity, x[B, 1, 4], x[1, S, 4], dim=-1)
case(F.cosine_similarity, f64[B, 4], x[B, 4])
case(F.cosine_similarity, x(values=(0,))[B, 4], x[B, 4])
case(F.cosine_similarity, x[()], x[()], dim=0)
case(nn.CosineSimilarity(dim=1), x[B, 3, H, W], x[B, 3, H, W])
case(F.pairwise_distance, x[B, 4], x[B, 4])
case(F.pairwise_distance, x[B, 4], x[4], p=1.0, eps=1e-3, keepdim=True)
case(F.pairwise_distance, x[B, S, 4], x[B, S, 4], p=3.0)
case(nn.PairwiseDistance(p=float("inf")), x[B, 4], x[B, 4])
case(torch.cdist, x[B, S, 4], x[B, 3, 4])
case(torch.cdist, x[B, 4], x[S, 4], p=1.0)
case(torch.cdist, x[B, 1, S, 4], x[3, 2, 4], p=3.0)
case(torch.cdist, f64[B, 4], f64[S, 4], compute_mode="donot_use_mm_for_euclid_dist")
case(torch.cdist, x[B, 4], x[S, 4], p=float("inf"))
case(torch.cdist, x[B, 4], x[S, 4], p=0.0)
case(torch.dist, x[B, 4], x[B, 4])
case(torch.dist, x[B, 4], x[4], 1.0)
case(torch.pdist, x[4, 3])
case(torch.pdist, x[B >= 2, 3], p=1.0)
case(lambda a, w, v: torch.native_layer_norm(a, [5], w, v, 1e-3), x[B, 3, 5], x[5], x[5])
case(lambda a: torch.native_layer_norm(a, [3, 5], None, None, 1e-3), x[B, 3, 5])
case(lambda a, w, v: torch.native_group_norm(a, w, v, 2, 6, 20, 3, 1e-3), x[2, 6, 4, 5], x[6], x[6])
case(lambda a, w, v: torch.native_batch_norm(a, w, v, None, None, True, 0.1, 1e-3), x[B >= 2, 4, 3], x[4], x[4])
