// Columns of attention heads in the matrices of attention.
#pragma once

#include <vector>

#include "core/layers/shard_cut.h"

namespace quire {

// Returns the query heads of the given KV heads in ascending order.
std::vector<int32_t> query_heads(const kernels::AttentionSpec& spec, const std::vector<int32_t>& of_keys);
// Returns the columns of the given heads, which are `width` columns wide. Head 0 begins at column `first`.
std::vector<int32_t> columns_of_heads(const std::vector<int32_t>& heads, int32_t width, int32_t first = 0);
// Returns the columns of the given query heads and KV heads in a row of queries, keys and values.
std::vector<int32_t> qkv_columns_of(const kernels::AttentionSpec& spec, const std::vector<int32_t>& queries,
                                    const std::vector<int32_t>& keys);

}  // namespace quire
