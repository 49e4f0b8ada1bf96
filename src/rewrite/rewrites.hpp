// The rewrites, in one list: each makes the graph smaller or faster and changes no result. They need to know all uses
// of a value, so they run when the graph has its outputs. The graph has no unused nodes before the first; each may
// leave some.
#pragma once

#include <span>

#include "rewrite/match.hpp"

namespace lithify::rewrite {

/// Of the nodes of one operator, or else of the graph as a whole.
struct Rewrite {
  std::string_view name;
  std::string_view op_type;
  void (*on_node)(Builder&, const Uses&, Node&);
  void (*on_graph)(Builder&);
  int since = 0;  ///< the first opset that has what it makes
};

/// In the order in which they run.
std::span<const Rewrite> rewrites();
void apply(const Rewrite& rewrite, Builder& b);

// ---- constants.cpp ----
/// What is computed from constants alone becomes a constant, as long as the file hardly grows by it.
void fold_constants(Builder& b);

// ---- fuse.cpp ----
/// Batch normalization of a convolution scales the rows of its weight and shifts its bias.
void fold_batch_norm(Builder& b, const Uses& uses, Node& n);
/// w x / sqrt(mean(x x) + epsilon) over the last axis, spelled out.
void fuse_rms_norm(Builder& b, const Uses& uses, Node& n);
/// x * (1 / y) is x / y.
void divide(Builder& b, const Uses& uses, Node& n);
/// 0.5 x (1 + erf(x / sqrt 2)) and its approximation by tanh, spelled out.
void fuse_gelu(Builder& b, const Uses& uses, Node& n);
/// A product of matrices that was flattened to two dimensions and brought back: MatMul takes any number of them.
void unflatten_gemm(Builder& b, const Uses& uses, Node& n);

// ---- attention.cpp ----
/// softmax(q k' * scale + mask) v, with a mask that is added or selects, and heads of k and v that serve several of q.
void fuse_attention(Builder& b, const Uses& uses, Node& n);
/// x * cos + turned(x) * sin, where both halves of the last axis have the same angles.
void fuse_rotary(Builder& b, const Uses& uses, Node& n);

// ---- axes.cpp ----
/// Each element of an axis repeated a number of times: one Gather.
void repeat_by_gather(Builder& b, const Uses& uses, Node& n);
/// One part of an axis that was split into parts, which then went to the front, is a slice: x.view(.., 3, n)[.., i, :].
void slice_of_split(Builder& b, const Uses& uses, Node& n);
/// Axes that are put together, moved and taken apart again are moved apart from the start.
void move_apart(Builder& b, const Uses& uses, Node& n);
/// Two moves of axes are one.
void join_moves(Builder& b, const Uses& uses, Node& n);
/// Slices that together take each element of an axis once are one Split.
void split_slices(Builder& b);

// ---- what runs after them ----
/// Removes nodes that no output needs, and outputs of nodes with bodies: unused.cpp.
void remove_unused(Graph& graph);
/// Large weights that are used in two orders or under two shapes become one, and a node that makes the other of it. The
/// graph has no unused nodes: share.cpp.
void share_weights(Builder& b);
/// Names every value and node, each once in the model: names.cpp.
void name_all(Graph& graph);

}  // namespace lithify::rewrite
