// A model as one shard of its stages has it: the same layers with its own heads and its own columns of every
// matrix.
// Tensor parallelism (tensor parallel): shards compute side by side and gather their results.
#pragma once

#include "core/layers/shard_cut.h"

namespace quire {

// Matrices are cut by outputs, so that every number is made by the same sums as without shards: attention by
// heads of keys, whose queries go with them, the feed-forward part and each expert by inner columns, the
// results of blocks by columns of the residual stream, the head by tokens. Kept whole on every shard are
// routers, norms, matrices of low rank, residual streams beside the first, and parts that cannot be cut:
// heads if there are fewer than shards, heads that are normalised together, experts of heads, and activations
// that look at the whole row.
ModelSpec shard_of(const ModelSpec& model, Shard shard);

}  // namespace quire
