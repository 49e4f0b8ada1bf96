"""Cases of src/ops/loss.cpp."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.cases import B, H, N, S, W, case, f16, f64, i32, i64, u8, x

probability = x(0.01, 0.99)
signs = i64(values=(1, -1, -1, 1, 1))

# ---- element by element
for reduction in ("none", "mean", "sum"):
    for fn in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss):
        case(fn, x[B, 5], x[B, 5], reduction=reduction)
    case(F.binary_cross_entropy, probability[B, 5], probability[B, 5], reduction=reduction)
    case(F.binary_cross_entropy_with_logits, x[B, 5], probability[B, 5], reduction=reduction)
    case(F.kl_div, x[B, 5], probability[B, 5], reduction=reduction)
    case(F.poisson_nll_loss, x[B, 5], x(0, 9)[B, 5], reduction=reduction)
    case(F.hinge_embedding_loss, x[B, 5], x(values=(1, -1, -1))[B, 5], reduction=reduction)
    case(F.soft_margin_loss, x[B, 5], x(values=(1, -1, -1))[B, 5], reduction=reduction)
for fn in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss):
    case(fn, f64[B, 5], f64[B, 5])
    case(fn, f16[B, 5], f16[B, 5], reduction="none")
    case(fn, x[()], x[()])
    case(fn, x[B, 5], x[B, 5], reduction="sum", empty=True)
case(F.mse_loss, x[0], x[0])
case(F.mse_loss, x[B, 5], f64[B, 5])
case(F.mse_loss, x[B, 1], x[5])
case(F.mse_loss, x[B, S], i64[B, S])
case(F.smooth_l1_loss, x[B, 9], x[B, 9], beta=0.3)
case(F.smooth_l1_loss, x[B, 9], x[B, 9], beta=0.0)
case(F.huber_loss, x[B, 9], x[B, 9], delta=0.3, reduction="none")
case(F.binary_cross_entropy, x(values=(0, 1, 0.5))[B, 6], x(values=(0, 1, 0.5, 1, 0))[B, 6], reduction="none")
case(F.binary_cross_entropy, probability[B, 5], probability[B, 5], weight=x[5])
case(F.binary_cross_entropy, f64(0.01, 0.99)[B, 5], f64(0.01, 0.99)[B, 5], weight=f64[B, 5])
case(F.binary_cross_entropy_with_logits, x(-60, 60)[B, 9], x(values=(0, 1))[B, 9], reduction="none")
case(F.binary_cross_entropy_with_logits, x[B, 5], probability[B, 5], weight=x[5])
case(F.binary_cross_entropy_with_logits, x[B, 5], probability[B, 5], pos_weight=x[5])
case(F.binary_cross_entropy_with_logits, x[B, 5], probability[B, 5], weight=x[B, 1], pos_weight=x[5], reduction="none")
case(F.binary_cross_entropy_with_logits, f16[B, 5], f16(0, 1)[B, 5], reduction="none")
case(nn.BCEWithLogitsLoss(pos_weight=torch.tensor([2.0, 0.5, 1.0])), x[B, 3], probability[B, 3])
case(F.kl_div, x[B, 5], x[B, 5], log_target=True, reduction="batchmean")
case(F.kl_div, x[B, 5], x(values=(0, 0.5, 1))[B, 5], reduction="none")
case(F.kl_div, x[B, S, 5], probability[B, S, 5], reduction="batchmean")
case(F.poisson_nll_loss, x[B, 5], x(0, 9)[B, 5], full=True)
case(F.poisson_nll_loss, x(0, 3)[B, 5], x(0, 9)[B, 5], log_input=False, eps=1e-3, reduction="none")
case(F.poisson_nll_loss, x(0, 3)[B, 5], i64(0, 9)[B, 5], log_input=False, full=True)
case(F.hinge_embedding_loss, x[B, 5], i64(values=(1, -1, 0))[B, 5], margin=0.5, reduction="none")
case(F.gaussian_nll_loss, x[B, 5], x[B, 5], x(0.1, 2)[B, 5])
case(F.gaussian_nll_loss, x[B, 5], x[B, 5], x(0.1, 2)[B, 1], full=True, reduction="none")

# ---- row by row
for reduction in ("none", "mean", "sum"):
    case(F.margin_ranking_loss, x[B], x[B], signs[B], reduction=reduction)
    case(F.cosine_embedding_loss, x[B, 5], x[B, 5], signs[B], reduction=reduction)
    case(F.triplet_margin_loss, x[B, 5], x[B, 5], x[B, 5], reduction=reduction)
    case(F.multi_margin_loss, x[B, 5], i64(0, 5)[B], reduction=reduction)
    case(F.multilabel_margin_loss, x[B, 4], i64(values=(3, 0, -1, 1, -1, 2, 0, 1, 1, 1, 2, 3))[B, 4], reduction=reduction)
    case(F.multilabel_soft_margin_loss, x[B, 4], x(values=(0, 1, 1))[B, 4], reduction=reduction)
case(F.margin_ranking_loss, x[B, 3], x[B, 3], x(values=(1, -1))[B, 3], margin=0.5)
case(F.cosine_embedding_loss, x[B, 5], x[B, 5], x(values=(1, -1, 0))[B], margin=0.2, reduction="none")
case(F.cosine_embedding_loss, x[N], x[N], i64(values=(-1,))[()])
case(F.cosine_embedding_loss, f64[B, 5], f64[B, 5], i32(values=(1, -1))[B])
case(F.cosine_embedding_loss, i64[B, 5], i64[B, 5], signs[B])
case(F.margin_ranking_loss, i64[B], i64[B], signs[B], reduction="none")
case(F.poisson_nll_loss, i64(0, 4)[B, 5], i64(0, 9)[B, 5])
case(F.triplet_margin_loss, x[B, 5], x[B, 5], x[B, 5], margin=0.5, p=1.0, swap=True)
case(F.triplet_margin_loss, x[B, S, 5], x[B, S, 5], x[B, S, 5], p=3.0, eps=1e-3, reduction="none")
case(F.triplet_margin_with_distance_loss, x[B, 5], x[B, 5], x[B, 5])
case(F.multi_margin_loss, x[B, S], i64(0, 1)[B], p=2, margin=0.5)
case(F.multi_margin_loss, x[B, 5], i64(0, 5)[B], weight=x(0, 1)[5])
case(F.multi_margin_loss, f64[B, 5], i64(0, 5)[B], p=2, weight=f64(0, 1)[5], reduction="none")
case(F.multi_margin_loss, x[5], i64(0, 5)[1])
case(F.multi_margin_loss, x[5], i64(0, 5)[()], reduction="none", records=False)
case(F.multilabel_margin_loss, x[4], i64(values=(3, 0, -1, 1))[4])
case(F.multilabel_margin_loss, x[B, S], i64(values=(0, -1))[B, S], reduction="none")
case(lambda a, t: torch.ops.aten.multilabel_margin_loss_forward(a, t, 1), x[B, 4], i64(values=(3, 0, -1, 1))[B, 4])

# ---- classes
ignoring = i64(values=(1, 0, -100, 4, 2, 3, -100))
for reduction in ("none", "mean", "sum"):
    for fn in (F.cross_entropy, F.nll_loss):
        case(fn, x[B, 5], i64(0, 5)[B], reduction=reduction)
        case(fn, x[B, 5, S], ignoring[B, S], reduction=reduction)
        case(fn, x[B, 5, H, W], i64(0, 5)[B, H, W], weight=x(0.1, 2)[5], reduction=reduction)
        case(fn, x[B, 5, S], ignoring[B, S], weight=x(0.1, 2)[5], reduction=reduction)
        case(fn, x[5], i64(0, 5)[()], reduction=reduction)
        case(fn, f64[B, 5], i64(0, 5)[B], weight=f64(0.1, 2)[5], reduction=reduction)
    case(F.cross_entropy, x[B, 5, S], ignoring[B, S], label_smoothing=0.1, reduction=reduction)
    case(F.cross_entropy, x[B, 5, S], ignoring[B, S], weight=x(0.1, 2)[5], label_smoothing=0.3, reduction=reduction)
    case(F.cross_entropy, x[5], i64(0, 5)[()], label_smoothing=0.2, reduction=reduction)
    case(F.cross_entropy, x[B, 5], probability[B, 5], reduction=reduction)
    case(F.cross_entropy, x[B, 5, S], probability[B, 5, S], weight=x(0.1, 2)[5], reduction=reduction)
    case(F.cross_entropy, x[5], probability[5], label_smoothing=0.2, reduction=reduction)
for fn in (F.cross_entropy, F.nll_loss):
    case(fn, x[B, 5], ignoring[B], empty=True, ignore_index=-100)
    case(fn, x[B, 5], i64(0, 5)[B], ignore_index=2)
    case(fn, x[B, 5], i64(0, 5)[B], ignore_index=0, weight=x(0.1, 2)[5], reduction="sum")
    case(fn, x[B, 5], u8(0, 5)[B])
    case(fn, f16[B, 5], i64(0, 5)[B], reduction="none")
case(F.cross_entropy, x[B, S], i64(0, 1)[B], label_smoothing=0.1)
case(F.cross_entropy, x[B, S], probability[B, S], label_smoothing=0.1)
case(F.cross_entropy, x[B, 5, 2, S, 3], i64(0, 5)[B, 2, S, 3])
case(lambda a, t: F.cross_entropy(a.view(-1, a.size(-1)), t.view(-1)), x[B, S, 5], ignoring[B, S])
case(nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5]), label_smoothing=0.1), x[B, 3], i64(0, 3)[B])
for reduction in (0, 1, 2):
    case(lambda a, t: torch.ops.aten.nll_loss_forward(a, t, None, reduction, -100), x[B, 5], ignoring[B])
    case(lambda a, t, w: torch.ops.aten.nll_loss2d_forward(a, t, w, reduction, 2), x[B, 5, H, W], i64(0, 5)[B, H, W], x[5])
