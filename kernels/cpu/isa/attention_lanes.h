// Attention over the paged KV cache: online softmax in one pass over blocks of 16 keys.
//
// The result of a query row depends only on its own position and keys: blocks and segments begin at absolute
// positions, a block without a visible key is skipped, and every sum has a fixed order. So a row's bits are
// the same however the step is chunked, batched, paged or spread over threads.
//
// Keys of the quantized formats stay transformed: a Walsh-Hadamard transform is its own transpose, so the
// query is transformed once instead of every key, and the weighted sum of the values once at the end.
#pragma once

namespace quire::kernels {
namespace {

constexpr int32_t kBlockKeys = 16;

inline int32_t value_dim_of(const HeadShape& heads) {
  return heads.value_dim != 0 ? heads.value_dim : heads.head_dim;
}

// Returns the first position that a token attends to.
inline int32_t first_visible(const AttentionSpec& spec, int32_t position) {
  const int32_t window = spec.sliding_window;
  const int32_t of_window = window > 0 && position >= window ? position - window + 1 : 0;
  const int32_t of_chunk = spec.chunk > 0 ? position / spec.chunk * spec.chunk : 0;
  return of_window > of_chunk ? of_window : of_chunk;
}

// Token and head of one row of a tile, and the positions that it attends to.
struct QueryRow {
  int32_t token;
  int32_t head;
  int32_t first_position;
  int32_t last_position;
};

inline QueryRow query_row(const AttentionTile& tile, int32_t r) {
  const AttentionParams& params = *tile.params;
  const int32_t group = params.heads.num_heads / params.heads.num_kv_heads;
  const int32_t row = tile.first_row + r;
  const int32_t token = params.batch.sequence_starts[tile.sequence] + row / group;
  const int32_t position = params.batch.positions[token];
  const int32_t in_group = row % group;
  const int32_t head = params.heads_apart ? in_group * params.heads.num_kv_heads + tile.kv_head
                                          : tile.kv_head * group + in_group;
  return {token, head, first_visible(params, position), position};
}

inline int32_t padded_dim(const AttentionTile& tile) {
  return (tile.params->heads.head_dim + 15) / 16 * 16;
}

inline int32_t padded_value_dim(const AttentionTile& tile) {
  return (value_dim_of(tile.params->heads) + 15) / 16 * 16;
}

void attention_begin(const AttentionTile& tile) {
  const AttentionParams& params = *tile.params;
  const HeadShape& heads = params.heads;
  const auto head_dim = static_cast<size_t>(heads.head_dim);
  const auto stride = static_cast<size_t>(padded_dim(tile));
  const size_t row_floats = row_columns(params);
  const bool transformed = is_quantized(params.kv_shape.key_format);
  for (int32_t r = 0; r < tile.rows; ++r) {
    const QueryRow row = query_row(tile, r);
    const float* source = static_cast<const float*>(params.qkv) +
                          static_cast<size_t>(row.token) * row_floats +
                          static_cast<size_t>(row.head) * head_dim;
    float* query = tile.query + static_cast<size_t>(r) * stride;
    for (size_t d = 0; d < stride; ++d) query[d] = d < head_dim ? source[d] : 0.0f;
    if (!transformed) continue;
    hadamard(query, heads.head_dim);
    for (size_t d = 0; d < head_dim; ++d) query[d] *= 1.0f / 32.0f;
  }
}

// Rows of 16 keys (or values) that begin at `position`; rows outside of first..last are not looked up.
struct CacheBlock {
  CacheRow rows[kBlockKeys];
  int32_t first;  // lanes first..last hold keys, the others count as zeros
  int32_t last;
};

inline CacheBlock find_block(const AttentionTile& tile, const CacheSide& side, int32_t position,
                             int32_t first_position, int32_t last_position) {
  const BatchView& batch = tile.params->batch;
  const KvShape& shape = side.shape;
  const KvFormat format = side.format;
  const int32_t* pages =
      batch.page_table + static_cast<size_t>(tile.sequence) * static_cast<size_t>(batch.page_table_stride);
  CacheBlock block;
  block.first = first_position > position ? first_position - position : 0;
  block.last = last_position - position < kBlockKeys - 1 ? last_position - position : kBlockKeys - 1;
  const size_t code_stride = bytes_of_row(format, shape.head_dim);
  const size_t scale_stride = is_quantized(format) ? static_cast<size_t>(shape.head_dim / 32) : 0;
  int32_t page_idx = (position + block.first) / shape.page_tokens;
  int32_t slot = (position + block.first) % shape.page_tokens;
  for (int32_t j = block.first; j <= block.last; slot = 0, ++page_idx) {
    CacheRow row = cache_row(side, {pages[page_idx], tile.kv_head, slot});
    const int32_t left = shape.page_tokens - slot;
    const int32_t end = block.last - j < left ? block.last + 1 : j + left;
    for (; j < end; ++j) {  // rows of a page are contiguous
      block.rows[j] = row;
      row.codes += code_stride;
      row.scales += scale_stride;
    }
  }
  return block;
}

struct BlockScales {
  float of[kBlockKeys][16];
};

template <KvFormat kFormat>
QUIRE_LANE_INLINE void decode_block_scales(const CacheBlock& block, int32_t head_dim, BlockScales& scales) {
  if constexpr (!is_quantized(kFormat)) return;
  for (int32_t j = block.first; j <= block.last; ++j)
    decode_scales(kFormat, head_dim, block.rows[j], scales.of[j]);
}

// Loads elements d..d+15 of the keys of a block: lane j of columns[i] is element d + i of key j, so that the
// products of 16 keys with a query need no sums over lanes.
template <KvFormat kFormat>
QUIRE_LANE_INLINE void load_key_columns(const CacheBlock& block, const BlockScales& scales, int32_t head_dim,
                                        int32_t d, F32 (&columns)[kBlockKeys]) {
  if (block.first == 0 && block.last == kBlockKeys - 1) {
#pragma GCC unroll 16
    for (int32_t j = 0; j < kBlockKeys; ++j)
      columns[j] = decode_lanes(kFormat, head_dim, block.rows[j], scales.of[j], d);
  } else {
    for (int32_t j = 0; j < kBlockKeys; ++j) {
      columns[j] = j < block.first || j > block.last
                       ? splat(0.0f)
                       : decode_lanes(kFormat, head_dim, block.rows[j], scales.of[j], d);
    }
  }
  transpose(columns);
}

template <KvFormat kFormat>
void load_keys(const CacheBlock& block, int32_t head_dim, float* keys) {
  BlockScales scales;
  decode_block_scales<kFormat>(block, head_dim, scales);
  for (int32_t d = 0; d < head_dim; d += 16) {
    F32 columns[kBlockKeys];
    load_key_columns<kFormat>(block, scales, head_dim, d, columns);
    for (int32_t i = 0; i < 16; ++i) store(keys + static_cast<size_t>(d + i) * kBlockKeys, columns[i]);
  }
}

template <KvFormat kFormat>
void load_values(const CacheBlock& block, int32_t head_dim, int32_t stride, float* values) {
  for (int32_t j = block.first; j <= block.last; ++j) {
    float scales[16];
    decode_scales(kFormat, head_dim, block.rows[j], scales);
    float* row = values + static_cast<size_t>(j) * static_cast<size_t>(stride);
    for (int32_t d = 0; d < head_dim; d += 16) {
      store(row + d, decode_lanes(kFormat, head_dim, block.rows[j], scales, d));
    }
  }
}

// Calls with the format as a constant.
template <typename Call>
void with_format(KvFormat format, Call call) {
  switch (format) {
    case KvFormat::f16:
      return call.template operator()<KvFormat::f16>();
    case KvFormat::fp8:
      return call.template operator()<KvFormat::fp8>();
    case KvFormat::q8:
      return call.template operator()<KvFormat::q8>();
    case KvFormat::q4:
      return call.template operator()<KvFormat::q4>();
  }
}

// Multiplies kRows queries with 16 keys, summed over d in order.
template <int kRows>
void score_rows(const float* query, int32_t stride, int32_t head_dim, const float* keys, float* scores) {
  F32 sums[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) sums[r] = splat(0.0f);
  for (int32_t d = 0; d < head_dim; ++d) {
    const F32 key = load(keys + static_cast<size_t>(d) * kBlockKeys);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) sums[r] = fma(splat(query[r * stride + d]), key, sums[r]);
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) store(scores + r * kBlockKeys, sums[r]);
}

// Weights and values of a block for rows that attend to the same keys.
struct WeightedValues {
  const float* weights;      // [rows, kBlockKeys]
  const float* corrections;  // [rows] factors of the sums so far
  int32_t first;             // range of keys in the block
  int32_t last;
  const float* values;  // [kBlockKeys, stride]
  int32_t stride;
};

// sums = sums * correction + weights . values for kRows rows, keys in order, from dimension d on.
template <int kRows, int kParts>
void add_values(const WeightedValues& of, int32_t d, float* sums) {
  const float* const weights = of.weights;
  const float* const values = of.values;
  const int32_t stride = of.stride;
  F32 total[kRows][kParts];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kParts; ++c) {
      total[r][c] = mul(load(sums + r * stride + d + 16 * c), splat(of.corrections[r]));
    }
  }
  for (int32_t j = of.first; j <= of.last; ++j) {
    F32 value[kParts];
#pragma GCC unroll 4
    for (int c = 0; c < kParts; ++c) value[c] = load(values + j * stride + d + 16 * c);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const F32 weight = splat(weights[r * kBlockKeys + j]);
#pragma GCC unroll 4
      for (int c = 0; c < kParts; ++c) total[r][c] = fma(weight, value[c], total[r][c]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kParts; ++c) store(sums + r * stride + d + 16 * c, total[r][c]);
  }
}

template <int kRows>
void add_values_to_rows(const WeightedValues& of, float* sums) {
  constexpr int kParts = kRows == 1 ? 4 : 2;
  int32_t d = 0;
  for (; d + 16 * kParts <= of.stride; d += 16 * kParts) add_values<kRows, kParts>(of, d, sums);
  for (; d < of.stride; d += 16) add_values<kRows, 1>(of, d, sums);
}

// For few rows that attend to the same keys of a quantized format: decoded elements are used directly from
// registers, without intermediate memory. The sums equal those of score_rows and add_values. F16 would gain
// nothing (docs/experiments/cpu.md).
constexpr int32_t kFewRows = 4;

template <KvFormat kFormat, int kRows>
void score_few_rows(const CacheBlock& block, const float* query, int32_t head_dim, float* scores) {
  BlockScales scales;
  decode_block_scales<kFormat>(block, head_dim, scales);
  F32 sums[kRows];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) sums[r] = splat(0.0f);
  for (int32_t d = 0; d < head_dim; d += 16) {
    F32 columns[kBlockKeys];
    load_key_columns<kFormat>(block, scales, head_dim, d, columns);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) sums[r] = fma(splat(query[r * head_dim + d + i]), columns[i], sums[r]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) store(scores + r * kBlockKeys, sums[r]);
}

template <KvFormat kFormat, int kRows>
void add_values_to_few_rows(const CacheBlock& block, const float* weights, const float* corrections,
                            int32_t head_dim, float* sums) {
  BlockScales scales;
  decode_block_scales<kFormat>(block, head_dim, scales);
  for (int32_t d = 0; d < head_dim; d += 16) {
    F32 total[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) total[r] = mul(load(sums + r * head_dim + d), splat(corrections[r]));
    for (int32_t j = block.first; j <= block.last; ++j) {
      const F32 value = decode_lanes(kFormat, head_dim, block.rows[j], scales.of[j], d);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) total[r] = fma(splat(weights[r * kBlockKeys + j]), value, total[r]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) store(sums + r * head_dim + d, total[r]);
  }
}

// Calls with a quantized format and the number of rows, up to kFewRows, as constants.
template <typename Call>
void with_few_rows(KvFormat format, int32_t rows, Call call) {
  const auto with_rows = [&]<KvFormat kFormat>() {
    switch (rows) {
      case 1:
        return call.template operator()<kFormat, 1>();
      case 2:
        return call.template operator()<kFormat, 2>();
      case 3:
        return call.template operator()<kFormat, 3>();
      default:
        return call.template operator()<kFormat, 4>();
    }
  };
  if (format == KvFormat::q8) return with_rows.template operator()<KvFormat::q8>();
  with_rows.template operator()<KvFormat::q4>();
}

// Lanes of a block that each row attends to; first > last if there are none.
struct VisibleLanes {
  int32_t first[kAttentionRows];
  int32_t last[kAttentionRows];
};

inline F32 finish_scores(const AttentionParams& params, F32 products, int32_t first, int32_t last) {
  F32 scores = mul(products, splat(params.scale));
  if (params.softcap != 0.0f)
    scores = mul(tanh_lanes(div(scores, splat(params.softcap))), splat(params.softcap));
  const F32 hidden = splat(-__builtin_inff());
  scores = select(first_lanes(last + 1), scores, hidden);
  return select(first_lanes(first), hidden, scores);
}

// Sets scores of positions that the row's token has not selected to -infinity.
inline F32 hide_unselected(const AttentionTile& tile, int32_t r, int32_t position, F32 scores) {
  const AttentionParams& params = *tile.params;
  const size_t token = static_cast<size_t>(query_row(tile, r).token);
  const uint32_t* words = params.selected + token * static_cast<size_t>(params.selected_words);
  const uint32_t bits = words[position / 32] >> (position % 32);
  float kept[16];
  store(kept, scores);
  for (int32_t i = 0; i < kBlockKeys; ++i)
    if ((bits >> i & 1) == 0) kept[i] = -__builtin_inff();
  return load(kept);
}

// Lowers the scores of the keys from `position` on by their distance from the row's token (ALiBi).
inline F32 lower_by_distance(const AttentionTile& tile, int32_t r, int32_t position, F32 scores) {
  const QueryRow row = query_row(tile, r);
  float distances[16];
  for (int32_t i = 0; i < kBlockKeys; ++i)
    distances[i] = static_cast<float>(row.last_position - position - i);
  return sub(scores, mul(load(distances), splat(tile.params->slopes[row.head])));
}

// Converts scores to weights exp(score - maximum); updates the maximum and the denominator, and computes the
// factors of the sums so far.
inline void apply_softmax(const AttentionTile& tile, int32_t position, const VisibleLanes& lanes,
                          const AttentionState& state, float* corrections) {
  float maxima[kAttentionRows];
  store(maxima, load(state.maximum));
  for (int32_t r = 0; r < tile.rows; ++r) {
    if (lanes.first[r] > lanes.last[r]) continue;
    float* weights = tile.weights + static_cast<size_t>(r) * kBlockKeys;
    F32 scores = finish_scores(*tile.params, load(weights), lanes.first[r], lanes.last[r]);
    if (tile.params->has_slopes) scores = lower_by_distance(tile, r, position, scores);
    if (tile.params->selects_keys) scores = hide_unselected(tile, r, position, scores);
    const float block_max = max_lanes(scores);
    if (tile.params->selects_keys && block_max == -__builtin_inff()) {
      store(weights, splat(0.0f));
      continue;
    }
    if (!(maxima[r] > block_max)) maxima[r] = block_max;
    store(weights, exp_lanes(sub(scores, splat(maxima[r]))));
  }
  // For a row that has not attended to any key yet both maxima are -infinity, and there is nothing to
  // correct.
  const F32 steps = sub(load(state.maximum), load(maxima));
  store(corrections, select(less(splat(-__builtin_inff()), load(maxima)), exp_lanes(steps), splat(1.0f)));
  for (int32_t r = 0; r < tile.rows; ++r) {
    if (lanes.first[r] > lanes.last[r]) continue;
    const float sum = sum_lanes(load(tile.weights + static_cast<size_t>(r) * kBlockKeys));
    state.denominator[r] = state.denominator[r] * corrections[r] + sum;
    state.maximum[r] = maxima[r];
  }
}

inline void score_block(const AttentionTile& tile, int32_t stride) {
  const int32_t head_dim = tile.params->heads.head_dim;
  int32_t r = 0;
  const auto query = [&] { return tile.query + static_cast<size_t>(r) * static_cast<size_t>(stride); };
  const auto scores = [&] { return tile.weights + static_cast<size_t>(r) * kBlockKeys; };
  for (; r + 8 <= tile.rows; r += 8) score_rows<8>(query(), stride, head_dim, tile.keys, scores());
  for (; r + 4 <= tile.rows; r += 4) score_rows<4>(query(), stride, head_dim, tile.keys, scores());
  for (; r + 2 <= tile.rows; r += 2) score_rows<2>(query(), stride, head_dim, tile.keys, scores());
  for (; r < tile.rows; ++r) score_rows<1>(query(), stride, head_dim, tile.keys, scores());
}

inline void value_block(const AttentionTile& tile, const VisibleLanes& lanes, const float* corrections,
                        int32_t stride, const AttentionState& state) {
  for (int32_t r = 0; r < tile.rows;) {
    const int32_t first = lanes.first[r];
    const int32_t last = lanes.last[r];
    int32_t alike = 1;
    while (r + alike < tile.rows && lanes.first[r + alike] == first && lanes.last[r + alike] == last) ++alike;
    const int32_t end = r + alike;
    if (first > last) {
      r = end;
      continue;
    }
    const auto add = [&]<int kRows>() {
      for (; r + kRows <= end; r += kRows) {
        const WeightedValues of = {tile.weights + static_cast<size_t>(r) * kBlockKeys,
                                   corrections + r,
                                   first,
                                   last,
                                   tile.values,
                                   stride};
        add_values_to_rows<kRows>(of, state.sums + static_cast<size_t>(r) * static_cast<size_t>(stride));
      }
    };
    add.template operator()<4>();
    add.template operator()<2>();
    add.template operator()<1>();
  }
}

void attention_segment(const AttentionTile& tile, int32_t segment, const AttentionState& state) {
  const AttentionParams& params = *tile.params;
  const KvShape& shape = params.kv_shape;
  const int32_t head_dim = params.heads.head_dim;
  const int32_t value_dims = value_dim_of(params.heads);
  const int32_t stride = padded_dim(tile);
  const int32_t value_stride = padded_value_dim(tile);
  const CacheSide key_side = {shape, shape.key_format, params.kv.keys, params.kv.key_scales};
  CacheSide value_side = {shape, shape.value_format, params.kv.values, params.kv.value_scales};
  value_side.shape.head_dim = value_dims;
  QueryRow rows[kAttentionRows];
  int32_t first_position = INT32_MAX;
  int32_t last_position = 0;
  for (int32_t r = 0; r < tile.rows; ++r) {
    rows[r] = query_row(tile, r);
    if (rows[r].first_position < first_position) first_position = rows[r].first_position;
    if (rows[r].last_position > last_position) last_position = rows[r].last_position;
  }
  const bool few = tile.rows <= kFewRows && head_dim % 16 == 0 && value_dims % 16 == 0 &&
                   rows[0].token == rows[tile.rows - 1].token;
  store(state.maximum, splat(-__builtin_inff()));
  store(state.denominator, splat(0.0f));
  __builtin_memset(state.sums, 0,
                   static_cast<size_t>(tile.rows) * static_cast<size_t>(value_stride) * sizeof(float));

  const int32_t segment_first = segment * kSegmentKeys;
  const int32_t begin =
      first_position > segment_first ? first_position / kBlockKeys * kBlockKeys : segment_first;
  const int32_t last_of_segment = segment_first + (kSegmentKeys - 1);
  const int32_t end = last_position < last_of_segment ? last_position : last_of_segment;
  for (int32_t position = begin; position <= end; position += kBlockKeys) {
    VisibleLanes lanes;
    for (int32_t r = 0; r < tile.rows; ++r) {
      const int32_t last = rows[r].last_position - position;
      lanes.first[r] = rows[r].first_position > position ? rows[r].first_position - position : 0;
      lanes.last[r] = last < kBlockKeys - 1 ? last : kBlockKeys - 1;
    }
    const CacheBlock keys = find_block(tile, key_side, position, first_position, last_position);
    const CacheBlock values = find_block(tile, value_side, position, first_position, last_position);
    float corrections[kAttentionRows];
    if (few && is_quantized(shape.key_format)) {
      with_few_rows(shape.key_format, tile.rows, [&]<KvFormat kFormat, int kRows>() {
        score_few_rows<kFormat, kRows>(keys, tile.query, head_dim, tile.weights);
      });
    } else {
      with_format(shape.key_format,
                  [&]<KvFormat kFormat>() { load_keys<kFormat>(keys, head_dim, tile.keys); });
      score_block(tile, stride);
    }
    apply_softmax(tile, position, lanes, state, corrections);
    if (few && is_quantized(shape.value_format)) {
      with_few_rows(shape.value_format, tile.rows, [&]<KvFormat kFormat, int kRows>() {
        add_values_to_few_rows<kFormat, kRows>(values, tile.weights, corrections, value_dims, state.sums);
      });
    } else {
      with_format(shape.value_format, [&]<KvFormat kFormat>() {
        load_values<kFormat>(values, value_dims, value_stride, tile.values);
      });
      value_block(tile, lanes, corrections, value_stride, state);
    }
  }
}

void attention_merge(const AttentionTile& tile, int32_t segment, const AttentionState& part,
                     const AttentionState& total) {
  const int32_t stride = padded_value_dim(tile);
  for (int32_t r = 0; r < tile.rows; ++r) {
    const QueryRow row = query_row(tile, r);
    const int32_t first_segment = row.first_position / kSegmentKeys;
    if (segment < first_segment || segment > row.last_position / kSegmentKeys) continue;
    const float* from = part.sums + static_cast<size_t>(r) * static_cast<size_t>(stride);
    float* to = total.sums + static_cast<size_t>(r) * static_cast<size_t>(stride);
    if (segment == first_segment) {
      __builtin_memcpy(to, from, static_cast<size_t>(stride) * sizeof(float));
      total.maximum[r] = part.maximum[r];
      total.denominator[r] = part.denominator[r];
      continue;
    }
    if (part.maximum[r] == -__builtin_inff()) continue;  // no key of the segment is selected
    if (total.maximum[r] == -__builtin_inff()) {
      __builtin_memcpy(to, from, static_cast<size_t>(stride) * sizeof(float));
      total.maximum[r] = part.maximum[r];
      total.denominator[r] = part.denominator[r];
      continue;
    }
    const float maximum_of_both = total.maximum[r] > part.maximum[r] ? total.maximum[r] : part.maximum[r];
    const F32 old_factor = exp_lanes(splat(total.maximum[r] - maximum_of_both));
    const F32 new_factor = exp_lanes(splat(part.maximum[r] - maximum_of_both));
    for (int32_t d = 0; d < stride; d += 16) {
      store(to + d, fma(load(from + d), new_factor, mul(load(to + d), old_factor)));
    }
    const F32 denominator =
        fma(splat(part.denominator[r]), new_factor, mul(splat(total.denominator[r]), old_factor));
    float lanes[16];
    store(lanes, denominator);
    total.denominator[r] = lanes[0];
    total.maximum[r] = maximum_of_both;
  }
}

// Returns 1 / denominator after the logit of the head's sink has been added to it, relative to the maximum so
// far.
inline float factor_with_sink(float maximum, float denominator, float sink) {
  const float highest = maximum > sink ? maximum : sink;
  float lanes[16];
  store(lanes, exp_lanes(splat(maximum - highest)));
  const float scale = lanes[0];
  store(lanes, exp_lanes(splat(sink - highest)));
  return scale / (denominator * scale + lanes[0]);
}

void attention_finish(const AttentionTile& tile, const AttentionState& total) {
  const AttentionParams& params = *tile.params;
  const int32_t head_dim = value_dim_of(params.heads);
  const int32_t stride = padded_value_dim(tile);
  const bool transformed = is_quantized(params.kv_shape.value_format);
  for (int32_t r = 0; r < tile.rows; ++r) {
    const QueryRow row = query_row(tile, r);
    float* sums = total.sums + static_cast<size_t>(r) * static_cast<size_t>(stride);
    float factor = 1.0f / total.denominator[r];
    if (params.has_sinks)
      factor = factor_with_sink(total.maximum[r], total.denominator[r], params.sinks[row.head]);
    if (transformed) {
      hadamard(sums, head_dim);
      factor *= 1.0f / 32.0f;
    }
    float* out = static_cast<float*>(params.output) +
                 (static_cast<size_t>(row.token) * static_cast<size_t>(params.heads.num_heads) +
                  static_cast<size_t>(row.head)) *
                     static_cast<size_t>(head_dim);
    for (int32_t d = 0; d < head_dim; d += 16) {
      store_partial(out + d, mul(load(sums + d), splat(factor)), lanes_left(head_dim, d));
    }
  }
}

}  // namespace
}  // namespace quire::kernels
