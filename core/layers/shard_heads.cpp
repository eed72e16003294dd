#include "core/layers/shard_heads.h"

#include <algorithm>

namespace quire {

std::vector<int32_t> query_heads(const kernels::AttentionSpec& spec, const std::vector<int32_t>& of_keys) {
  const int32_t per_key = spec.heads.num_heads / spec.heads.num_kv_heads;
  std::vector<int32_t> out;
  for (const int32_t key : of_keys) {
    for (int32_t i = 0; i < per_key; ++i)
      out.push_back(spec.heads_apart ? key + i * spec.heads.num_kv_heads : key * per_key + i);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<int32_t> columns_of_heads(const std::vector<int32_t>& heads, int32_t width, int32_t first) {
  std::vector<int32_t> out;
  for (const int32_t head : heads) {
    for (int32_t i = 0; i < width; ++i) out.push_back(first + head * width + i);
  }
  return out;
}

std::vector<int32_t> qkv_columns_of(const kernels::AttentionSpec& spec, const std::vector<int32_t>& queries,
                                    const std::vector<int32_t>& keys) {
  std::vector<int32_t> out = columns_of_heads(queries, spec.heads.head_dim);
  const auto add = [&](const std::vector<int32_t>& more) { out.insert(out.end(), more.begin(), more.end()); };
  if (key_columns(spec) != 0) add(columns_of_heads(keys, spec.heads.head_dim, query_columns(spec)));
  if (value_columns(spec) != 0)
    add(columns_of_heads(keys, value_dim(spec.heads), query_columns(spec) + key_columns(spec)));
  return out;
}

}  // namespace quire
