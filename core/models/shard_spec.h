// Tensor parallelism: the specification of one shard of a model. Each shard has all layers, with some of the
// heads and columns. Shards compute at the same time and gather their results (all-gather).
#pragma once

#include "core/layers/shard_cut.h"

namespace quire {

// Returns the specification of one shard. Matrices are cut by outputs, so every number is computed by the
// same sums as without shards. Attention is cut by KV heads together with their query heads, the feed-forward
// part and each expert by inner columns, the results of blocks by columns of the residual stream, and the
// head by tokens of the vocabulary.
// Routers, norms, low-rank matrices and residual streams after the first are not cut: every shard has them
// completely. The same holds for parts that cannot be cut: attention with fewer KV heads than shards, heads
// that are normalized together, head experts, and activations that depend on the whole row.
ModelSpec shard_of(const ModelSpec& model, const Shard& shard);

}  // namespace quire
