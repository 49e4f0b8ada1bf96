"""A fixed part of PyTorch's operator database: a sample of many operators, traced, and of some exported."""

from __future__ import annotations

import argparse
from functools import cache
from typing import Any

import pytest

from tests import opinfo

NAMES = """
    abs add addcmul addmm all amax any argmax argsort atan2 baddbmm bernoulli bitwise_and bmm broadcast_to bucketize cat
    chunk clamp clone complex copysign cross cummax cumsum diag_embed diff div.floor_rounding einsum erfinv expand fft.fft
    flip fmod full_like gather gcd grid_sampler_2d histc index_add index_put index_select isclose isin lerp lgamma
    linalg.det linalg.inv linalg.norm linalg.pinv.singular log_softmax logcumsumexp logsumexp masked_fill
    masked_select matmul max_pool2d_with_indices_backward meshgrid.list_of_tensors mode movedim nan_to_num nansum narrow
    native_layer_norm new_zeros nn.functional.adaptive_avg_pool2d nn.functional.avg_pool2d nn.functional.batch_norm
    nn.functional.conv2d nn.functional.conv_transpose2d nn.functional.cross_entropy nn.functional.embedding_bag nn.functional.gelu
    nn.functional.group_norm nn.functional.interpolate.bicubic nn.functional.max_unpool2d nn.functional.pad.reflect
    nn.functional.scaled_dot_product_attention nn.functional.unfold nonzero norm.nuc outer permute polar pow prod put quantile
    remainder repeat_interleave roll scatter_add scatter_reduce.amax searchsorted select_scatter sort special.i0e split stack std
    stft sub sum take_along_dim tensor_split tensordot topk trace tril unbind unfold unique var_mean view where
"""
TRACED = NAMES.split()
EXPORTED = ["add", "cat", "index_put", "item", "matmul", "nn.functional.conv2d", "nonzero", "split", "sum", "tensor_split"]
TYPES = {
    "gcd": "int64",
    "bitwise_and": "int64",
    "add": "int64",
    "sum": "bool",
    "nn.functional.conv2d": "int64",
    "nn.functional.avg_pool2d": "int64",
}


@cache
def database() -> dict[str, Any]:
    return opinfo.database()


@pytest.mark.parametrize(("route", "name"), [("trace", n) for n in TRACED] + [("export", n) for n in EXPORTED])
def test_sample(route: str, name: str) -> None:
    types = ["float32", *([TYPES[name]] if name in TYPES else [])]
    options = argparse.Namespace(dtypes=types, samples=1, routes=[route], sizes=["static"])
    outcomes = list(opinfo.try_entry(name, database()[name], options))
    assert outcomes
    assert all(o.captured for o in outcomes)
    assert [o.static for o in outcomes] == [""] * len(outcomes)
