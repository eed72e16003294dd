// Heads of attention as columns of its matrices.
#pragma once

#include <vector>

#include "core/layers/shard_cut.h"

namespace quire {

// Returns the heads of queries, rising, that go with the given heads of keys.
std::vector<int32_t> query_heads(const kernels::AttentionSpec& spec, const std::vector<int32_t>& of_keys);
// Returns the columns of heads that are `width` columns wide, from column `first` on.
std::vector<int32_t> columns_of_heads(const std::vector<int32_t>& heads, int32_t width, int32_t first = 0);
// Returns the columns of heads of queries, keys and values in a row of all of them.
std::vector<int32_t> qkv_columns_of(const kernels::AttentionSpec& spec, const std::vector<int32_t>& queries,
                                    const std::vector<int32_t>& keys);

}  // namespace quire
