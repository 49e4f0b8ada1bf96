"""Cases of src/ops/attention.cpp: scaled dot-product attention, and the layers around it."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.cases import B, S, T, boolean, case, f16, f32, f64, inf, x

sdpa = F.scaled_dot_product_attention

# ---- scaled_dot_product_attention
case(sdpa, (f32 | f64 | f16)[B, 2, S, 4], (f32 | f64 | f16)[B, 2, T, 4], (f32 | f64 | f16)[B, 2, T, 3])
case(sdpa, x[B, S, 4], x[B, T, 4], x[B, T, 4])
case(sdpa, x[S, 4], x[T, 4], x[T, 4])
case(sdpa, x[B, 2, S, 4], x[1, 2, T, 4], x[B, 1, T, 4], script=False)
case(sdpa, x[B, 2, S, 4], x[B, 2, T, 4], x[B, 2, T, 4], scale=0.3)
case(sdpa, x[B, 2, S, 4], x[B, 2, S, 4], x[B, 2, S, 4], is_causal=True)
case(sdpa, x[B, 2, S, 4], x[B, 2, T, 4], x[B, 2, T, 4], is_causal=True)
case(sdpa, x[B, S, 4], x[B, T, 4], x[B, T, 4], is_causal=True, scale=2.0)
case(sdpa, x[B, 2, 3, 4], x[B, 2, 5, 4], x[B, 2, 5, 4], is_causal=True)
for sizes in ([S, T], [B, 1, S, T], [B, 2, S, T], [B, 1, 1, T], [1, T]):
    case(sdpa, x[B, 2, S, 4], x[B, 2, T, 4], x[B, 2, T, 4], attn_mask=boolean[tuple(sizes)])
    case(sdpa, x[B, 2, S, 4], x[B, 2, T, 4], x[B, 2, T, 4], attn_mask=x[tuple(sizes)])
case(sdpa, x[B, S, 4], x[B, T, 4], x[B, T, 4], attn_mask=boolean[S, T])
case(sdpa, x[B, S, 4], x[B, T, 4], x[B, T, 4], attn_mask=x[B, S, T])
case(sdpa, f16[B, 2, S, 4], f16[B, 2, T, 4], f16[B, 2, T, 4], attn_mask=boolean[S, T])
case(sdpa, x[B, 2, 3, 4], x[B, 2, 3, 4], x[B, 2, 3, 4], attn_mask=boolean(values=(0, 0, 0, 1, 0, 1))[3, 3])
case(sdpa, x[B, 2, 3, 4], x[B, 2, 3, 4], x[B, 2, 3, 4], attn_mask=x(values=(-inf, -inf, -inf, 0, 1, -inf))[3, 3])
case(sdpa, x[B, 2, 3, 4], x[B, 2, 3, 4], x[B, 2, 3, 4], attn_mask=torch.full((3, 3), -inf).triu(1))
case(sdpa, x[B, 2, 3, 4], x[B, 2, 3, 4], x[B, 2, 3, 4], attn_mask=torch.ones(3, 3).tril(-1).bool())
case(sdpa, x[B, 2, 3, 4], x[B, 2, 3, 4], x[B, 2, 3, 4], attn_mask=torch.tensor([[-inf] * 3, [0, 1, -inf], [0, 0, 0]]))
case(
    lambda q, m: F.scaled_dot_product_attention(q, q, q, attn_mask=torch.zeros_like(m, dtype=q.dtype).masked_fill(m, -inf)),
    x[B, 2, S, 4],
    boolean[B, 1, 1, S],
)
case(lambda q, k: sdpa(q, k, k, enable_gqa=True), x[B, 4, S, 8], x[B, 2, T, 8], script=False)
case(lambda q, k: sdpa(q, k, k, is_causal=True, enable_gqa=True), x[B, 6, S, 8], x[B, 1, S, 8], script=False)
case(lambda q, k, m: sdpa(q, k, k, m, enable_gqa=True), x[B, 4, S, 8], x[B, 2, T, 8], boolean[S, T], script=False)

# ---- nn.MultiheadAttention: the fast path takes one input for query, key and value
own = nn.MultiheadAttention(8, 2, batch_first=True)
case(lambda x: own(x, x, x)[0], x[B, S, 8])
case(lambda x: own(x, x, x), x[B, S, 8])
case(lambda x: own(x, x, x, need_weights=False)[0], x[B, S, 8])
case(lambda x: own(x, x, x, average_attn_weights=False), x[B, S, 8])
case(lambda x: own(x, x, x, need_weights=False)[0], x[S, 8])
case(lambda x, m: own(x, x, x, key_padding_mask=m), x[B, S, 8], boolean[B, S])
case(lambda x, m: own(x, x, x, key_padding_mask=m, need_weights=False)[0], x[B, S, 8], boolean[B, S])
case(lambda x, m: own(x, x, x, attn_mask=m), x[B, S, 8], boolean[S, S])
case(lambda x, m: own(x, x, x, attn_mask=m), x[2, S, 8], boolean[4, S, S])
case(lambda x, m: own(x, x, x, attn_mask=m, need_weights=False)[0], x[B, S, 8], x[S, S])
case(lambda x, m, k: own(x, x, x, attn_mask=m, key_padding_mask=k), x[B, S, 8], boolean[S, S], boolean[B, S])
case(lambda x: own(x, x, x, attn_mask=torch.ones(5, 5).triu(1).bool(), is_causal=True)[0], x[B, 5, 8])

# ---- and the slow path
plain = nn.MultiheadAttention(8, 2)
first = nn.MultiheadAttention(8, 2, batch_first=True)
odd = nn.MultiheadAttention(8, 2, kdim=6, vdim=4, batch_first=True)
extra = nn.MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True, batch_first=True)
bare = nn.MultiheadAttention(8, 2, bias=False, batch_first=True)
case(lambda x: plain(x, x, x), x[S, B, 8])
case(lambda x: plain(x, x, x, need_weights=False)[0], x[S, B, 8])
case(lambda x, y: plain(x, y, y), x[S, B, 8], x[T, B, 8])
case(lambda x, y: plain(x, y, y, need_weights=False)[0], x[S, 8], x[T, 8])
case(lambda x, y: first(x, y, y), x[B, S, 8], x[B, T, 8])
case(lambda x, y: first(x, y, y, average_attn_weights=False), x[B, S, 8], x[B, T, 8])
case(lambda x, y: first(x, y, y, need_weights=False)[0], x[B, S, 8], x[B, T, 8])
case(lambda x, y, m: first(x, y, y, key_padding_mask=m), x[B, S, 8], x[B, T, 8], boolean[B, T])
case(lambda x, y, m: first(x, y, y, key_padding_mask=m, need_weights=False)[0], x[B, S, 8], x[B, T, 8], boolean[B, T])
case(lambda x, y, m: first(x, y, y, attn_mask=m), x[B, S, 8], x[B, T, 8], boolean[S, T])
case(lambda x, y, m: first(x, y, y, attn_mask=m, need_weights=False)[0], x[2, S, 8], x[2, T, 8], x[4, S, T])
case(lambda x, y, z: odd(x, y, z), x[B, S, 8], x[B, T, 6], x[B, T, 4])
case(lambda x, y: extra(x, y, y), x[B, S, 8], x[B, T, 8])
case(lambda x, y: bare(x, y, y)[0], x[B, S, 8], x[B, T, 8])

# ---- layers of transformers
case(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), x[B, S, 8])
case(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True), x[B, S, 8])
case(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu"), x[B, S, 8])
case(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation=F.silu), x[B, S, 8], script=False)
case(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, bias=False), x[B, S, 8], script=False)
case(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), x[S, 8])
case(nn.TransformerEncoderLayer(8, 2, 16), x[S, B, 8])
case(nn.TransformerEncoderLayer(8, 2, 16, norm_first=True, activation="gelu"), x[S, B, 8])
layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
case(lambda x, m: layer(x, src_key_padding_mask=m), x[B, S, 8], boolean[B, S])
case(lambda x, m: layer(x, src_mask=m), x[B, S, 8], boolean[S, S])
case(lambda x, m, k: layer(x, src_mask=m, src_key_padding_mask=k), x[B, S, 8], boolean[S, S], boolean[B, S])
case(nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2), x[B, S, 8])
case(nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2, norm=nn.LayerNorm(8)), x[B, S, 8])
case(nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2, enable_nested_tensor=False), x[S, B, 8])
stack = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2, enable_nested_tensor=False)
case(lambda x: stack(x, mask=nn.Transformer.generate_square_subsequent_mask(5), is_causal=True), x[B, 5, 8], script=False)
case(lambda x, m: stack(x, src_key_padding_mask=m), x[B, S, 8], boolean(values=(0, 0, 1))[B, S])
nested = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)
case(lambda x, m: nested(x, src_key_padding_mask=m), x[B, S, 8], boolean(values=(0,))[B, S], xfail="nested tensors")
case(nn.TransformerDecoderLayer(8, 2, 16), x[S, B, 8], x[T, B, 8])
case(nn.TransformerDecoderLayer(8, 2, 16, batch_first=True, norm_first=True, activation="gelu"), x[B, S, 8], x[B, T, 8])
decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), 2)
case(lambda x, y: decoder(x, y), x[B, S, 8], x[B, T, 8])
case(
    lambda x, y: decoder(x, y, tgt_mask=nn.Transformer.generate_square_subsequent_mask(x.size(1)), tgt_is_causal=True),
    x[B, 5, 8],
    x[B, T, 8],
    script=False,
)
case(lambda x, y, m: decoder(x, y, memory_key_padding_mask=m), x[B, S, 8], x[B, T, 8], boolean(values=(0, 0, 1))[B, T])
case(nn.Transformer(8, 2, 1, 1, 16, batch_first=True), x[B, S, 8], x[B, T, 8])
case(nn.Transformer(8, 2, 1, 1, 16), x[S, B, 8], x[T, B, 8])
