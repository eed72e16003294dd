#include <algorithm>
#include <cmath>

#include "kernels/cpu/device.h"
#include "kernels/cpu/table_entries.h"

namespace quire::kernels::cpu_entries {
namespace {

bool fits_format(KvFormat format, int32_t head_dim) {
  return (format != KvFormat::q8 && format != KvFormat::q4) || head_dim % 32 == 0;
}

Status check_shapes(Context* context, const char* what, const HeadShape& heads, const KvShape& shape) {
  const int32_t values = value_dim(heads);
  if (heads.head_dim <= 0 || std::max(heads.head_dim, values) > context->limits.head_dim ||
      heads.num_kv_heads <= 0 || heads.num_heads % heads.num_kv_heads != 0 ||
      shape.head_dim != heads.head_dim || value_shape(shape).head_dim != values ||
      shape.num_kv_heads != heads.num_kv_heads || shape.page_tokens <= 0) {
    return failed(Status::invalid_argument, "%s: %d heads, %d KV heads of %d, cache of %d heads of %d", what,
                  heads.num_heads, heads.num_kv_heads, heads.head_dim, shape.num_kv_heads, shape.head_dim);
  }
  if (fits_format(shape.key_format, heads.head_dim) && fits_format(shape.value_format, values)) {
    return Status::ok;
  }
  return failed(Status::unsupported,
                "%s: a q8 or q4 cache needs a head dimension that is a multiple of 32, not %d", what,
                heads.head_dim);
}

// Tiles of a step, numbered sequence by sequence, KV head by KV head.
struct Tiles {
  const AttentionParams& params;
  int32_t rows_per_token;  // query heads per KV head

  int32_t rows(int32_t sequence) const {
    const int32_t* starts = params.batch.sequence_starts;
    return (starts[sequence + 1] - starts[sequence]) * rows_per_token;
  }
  int64_t count(int32_t sequence) const {
    const int32_t per_head = (rows(sequence) + kAttentionRows - 1) / kAttentionRows;
    return int64_t{per_head} * params.heads.num_kv_heads;
  }
  int64_t count() const {
    int64_t total = 0;
    for (int32_t s = 0; s < params.batch.num_sequences; ++s) total += count(s);
    return total;
  }
  // Returns tile `index`, without scratch.
  AttentionTile at(int64_t index) const {
    AttentionTile tile;
    tile.params = &params;
    while (index >= count(tile.sequence)) index -= count(tile.sequence++);
    const int64_t per_head = count(tile.sequence) / params.heads.num_kv_heads;
    tile.kv_head = static_cast<int32_t>(index / per_head);
    tile.first_row = static_cast<int32_t>(index % per_head) * kAttentionRows;
    tile.rows = std::min(kAttentionRows, rows(tile.sequence) - tile.first_row);
    return tile;
  }
};

struct SegmentRange {
  int32_t first;
  int32_t last;
};

SegmentRange segments_of(const AttentionTile& tile, int32_t rows_per_token) {
  const AttentionParams& params = *tile.params;
  const int32_t first_token = params.batch.sequence_starts[tile.sequence] + tile.first_row / rows_per_token;
  const int32_t last_token =
      params.batch.sequence_starts[tile.sequence] + (tile.first_row + tile.rows - 1) / rows_per_token;
  const int32_t window = params.sliding_window;
  const int32_t position = params.batch.positions[first_token];
  const int32_t of_window = window > 0 && position >= window ? position - window + 1 : 0;
  const int32_t of_chunk = params.chunk > 0 ? position / params.chunk * params.chunk : 0;
  const int32_t first = std::max(of_window, of_chunk);
  return {first / kSegmentKeys, params.batch.positions[last_token] / kSegmentKeys};
}

// Returns the factor of queries whose scale grows with their position.
float query_factor(const AttentionSpec& spec, int32_t position) {
  if (spec.temperature_beta == 0.0f) return 1.0f;
  const float steps =
      std::floor((static_cast<float>(position) + spec.temperature_offset) / spec.temperature_floor);
  return 1.0f + spec.temperature_beta * std::log1p(steps);
}

void use_scratch(AttentionTile& tile, const AttentionScratch& scratch) {
  tile.query = scratch.query;
  tile.keys = scratch.keys;
  tile.values = scratch.values;
  tile.weights = scratch.weights;
}

void whole_tile(const IsaKernels& isa, const Tiles& tiles, int64_t index, const AttentionScratch& scratch) {
  AttentionTile tile = tiles.at(index);
  use_scratch(tile, scratch);
  isa.attention_begin(tile);
  const SegmentRange segments = segments_of(tile, tiles.rows_per_token);
  for (int32_t s = segments.first; s <= segments.last; ++s) {
    isa.attention_segment(tile, s, scratch.part);
    isa.attention_merge(tile, s, scratch.part, scratch.total);
  }
  isa.attention_finish(tile, scratch.total);
}

// Handles fewer tiles than threads: the segments of a tile are shared too, some at a time, and merged in
// order.
void split_tiles(Context* context, const Tiles& tiles, int64_t num_tiles) {
  Device* device = context->device;
  const IsaKernels& isa = device->isa;
  for (int64_t index = 0; index < num_tiles; ++index) {
    const AttentionTile tile = tiles.at(index);
    const SegmentRange segments = segments_of(tile, tiles.rows_per_token);
    const auto slots = static_cast<int32_t>(context->split_parts.size());
    const AttentionState& total = context->split_total;
    for (int32_t first = segments.first; first <= segments.last; first += slots) {
      const int32_t count = std::min(slots, segments.last - first + 1);
      context->pool().share(count, 1, [&](int32_t thread, int64_t from, int64_t to) {
        AttentionTile own = tile;
        use_scratch(own, context->attention[static_cast<size_t>(thread)]);
        isa.attention_begin(own);
        for (int64_t i = from; i < to; ++i) {
          isa.attention_segment(own, first + static_cast<int32_t>(i),
                                context->split_parts[static_cast<size_t>(i)]);
        }
      });
      for (int32_t i = 0; i < count; ++i) {
        isa.attention_merge(tile, first + i, context->split_parts[static_cast<size_t>(i)], total);
      }
    }
    isa.attention_finish(tile, total);
  }
}

}  // namespace

Status append_kv(Context* context, const AppendKvParams* params) {
  const Status status = check_shapes(context, "append_kv", params->heads, params->kv_shape);
  if (status != Status::ok) return status;
  if (params->rotary_dim < 0 || params->rotary_dim > params->heads.head_dim || params->rotary_dim % 2 != 0) {
    return failed(Status::invalid_argument, "append_kv: %d rotary dimensions of %d", params->rotary_dim,
                  params->heads.head_dim);
  }
  const int64_t row_work = 4 * int64_t{qkv_columns(*params)};
  share_work(context, params->batch.num_tokens, row_work, [&](int32_t, int64_t first, int64_t last) {
    for (int64_t t = first; t < last; ++t) {
      AppendToken work;
      work.params = params;
      work.token = static_cast<int32_t>(t);
      work.query_factor = query_factor(*params, params->batch.positions[t]);
      context->device->isa.append_token(work);
    }
  });
  return Status::ok;
}

Status attention(Context* context, const AttentionParams* params) {
  const Status status = check_shapes(context, "attention", params->heads, params->kv_shape);
  if (status != Status::ok) return status;
  Device* device = context->device;
  const Tiles tiles = {*params, params->heads.num_heads / params->heads.num_kv_heads};
  const int64_t num_tiles = tiles.count();
  if (num_tiles == 0) return Status::ok;
  const bool is_long = params->batch.max_kv_tokens > kSegmentKeys;
  if (num_tiles < context->pool().num_threads() && is_long) {
    const DefaultFloatingPoint environment;
    split_tiles(context, tiles, num_tiles);
    return Status::ok;
  }
  const int64_t work = 2 * int64_t{params->batch.max_kv_tokens} * params->heads.head_dim * kAttentionRows;
  if (num_tiles == 1 || num_tiles * work < kSmallWork) {
    const DefaultFloatingPoint environment;
    for (int64_t i = 0; i < num_tiles; ++i) whole_tile(device->isa, tiles, i, context->attention[0]);
    return Status::ok;
  }
  context->pool().share(num_tiles, 1, [&](int32_t thread, int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      whole_tile(device->isa, tiles, i, context->attention[static_cast<size_t>(thread)]);
    }
  });
  return Status::ok;
}

}  // namespace quire::kernels::cpu_entries
