// Operations that only few model families need: low-rank queries and keys (MLA), the indexer's selection of
// keys, residual streams, and small operations on rows. Plain loops, because the products around them
// dominate the time.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/cpu/device.h"
#include "kernels/cpu/row_math.h"
#include "kernels/cpu/table_entries.h"
#include "kernels/interface/half.h"

namespace quire::kernels::cpu_entries {
namespace {

float softplus(float x) {
  return std::max(x, 0.0f) + std::log1p(std::exp(-std::fabs(x)));
}

float root_mean_square(const float* x, size_t count) {
  double sum = 0.0;
  for (size_t c = 0; c < count; ++c) sum += double{x[c]} * double{x[c]};
  return static_cast<float>(std::sqrt(sum / static_cast<double>(count)));
}

void match_size(const float* a, float* target, size_t columns, float least) {
  const float size_of_target = std::max(root_mean_square(target, columns), least);
  const float factor = root_mean_square(a, columns) / size_of_target;
  for (size_t c = 0; c < columns; ++c) target[c] *= factor;
}

template <typename Function>
void each(float* target, size_t columns, Function function) {
  for (size_t c = 0; c < columns; ++c) target[c] = function(c, target[c]);
}

void run_row(const RowOpParams& p, size_t row, float* target, const float* a) {
  const size_t columns = size(p.columns);
  const float factor = p.factor;
  const auto* columns_of_all = static_cast<const float*>(p.a);
  const float b = p.b != nullptr ? p.b[row * size(p.b_stride != 0 ? p.b_stride : 1)] : 0.0f;
  switch (p.op) {
    case RowOp::scale:
      return each(target, columns, [&](size_t, float x) { return x * factor; });
    case RowOp::add:
      return each(target, columns, [&](size_t c, float x) { return x + a[c] * factor; });
    case RowOp::multiply:
      return each(target, columns, [&](size_t c, float x) { return x * a[c]; });
    case RowOp::gate:
      return each(target, columns, [&](size_t c, float x) { return x + a[c] * sigmoid(b); });
    case RowOp::add_by_row:
      return each(target, columns, [&](size_t c, float x) { return x + a[c] * b; });
    case RowOp::add_columns:
      return each(target, columns, [&](size_t c, float x) { return x + columns_of_all[c]; });
    case RowOp::sigmoid_multiply:
      return each(target, columns, [&](size_t c, float x) { return x * sigmoid(a[c]); });
    case RowOp::softplus_by_row:
      return each(target, columns, [&](size_t, float x) { return x * softplus(b); });
    case RowOp::sigmoid_by_row:
      return each(target, columns, [&](size_t, float x) { return x * sigmoid(b); });
    case RowOp::scale_columns:
      return each(target, columns, [&](size_t c, float x) { return x * columns_of_all[c]; });
    case RowOp::match_size:
      return match_size(a, target, columns, factor);
    case RowOp::tanh_rows:
      return each(target, columns, [&](size_t, float x) { return std::tanh(x * factor); });
    case RowOp::differ:
      return each(target, columns, [&](size_t c, float) { return a[c] - factor * a[columns + c]; });
    case RowOp::copy:
      return each(target, columns, [&](size_t c, float) { return a[c] * factor; });
  }
}

void rotate(float* x, const SelectKeysParams& p, size_t token) {
  const int32_t half = p.rotary_dim / 2;
  const float* cosines = p.cos + token * size(half);
  const float* sines = p.sin + token * size(half);
  const bool pairs = p.rope == RopeStyle::gptj_pairs;
  for (int32_t i = 0; i < half; ++i) {
    float& first = x[pairs ? 2 * i : i];
    float& second = x[pairs ? 2 * i + 1 : half + i];
    const float a = first;
    const float b = second;
    first = a * cosines[i] - b * sines[i];
    second = b * cosines[i] + a * sines[i];
  }
}

// Returns the address of a position's row of keys and gates of the indexer.
uint16_t* index_row(const SelectKeysParams& p, int32_t sequence, int32_t position) {
  const int32_t* pages = p.batch.page_table + size(sequence) * size(p.batch.page_table_stride);
  const int32_t page_tokens = p.kv_shape.page_tokens;
  const size_t row = size(pages[position / page_tokens]) * size(page_tokens) + size(position % page_tokens);
  return static_cast<uint16_t*>(p.kv.index_keys) + row * size(index_columns(p));
}

// Replaces the key of the last token of a pool by the key of the pool.
void keep_pool(const SelectKeysParams& p, int32_t sequence, int32_t last) {
  const size_t dim = size(p.head_dim), pool = size(p.pool);
  std::vector<uint16_t*> rows;
  for (int32_t position = last + 1 - p.pool; position <= last; ++position)
    rows.push_back(index_row(p, sequence, position));
  std::vector<float> gates(pool);
  for (size_t d = 0; d < dim; ++d) {
    for (size_t i = 0; i < pool; ++i) gates[i] = half_to_float(rows[i][dim + d]) + p.pool_bias[i * dim + d];
    const float most = *std::max_element(gates.begin(), gates.end());
    float sum = 0.0f, weighted = 0.0f;
    for (size_t i = 0; i < pool; ++i) {
      const float weight = std::exp(gates[i] - most);
      sum += weight;
      weighted += weight * half_to_float(rows[i][d]);
    }
    rows.back()[d] = float_to_half(weighted / sum);
  }
}

void keep_index_row(const SelectKeysParams& p, size_t token) {
  const int32_t columns = index_columns(p), sequence = p.batch.sequence_of_token[token];
  const int32_t position = p.batch.positions[token];
  float* row = p.key + token * size(columns);
  rotate(row, p, token);
  uint16_t* kept = index_row(p, sequence, position);
  for (int32_t c = 0; c < columns; ++c) kept[c] = float_to_half(row[c]);
  if (p.pool > 1 && (position + 1) % p.pool == 0) keep_pool(p, sequence, position);
}

float index_score(const SelectKeysParams& p, size_t token, const uint16_t* stored) {
  float score = 0.0f;
  for (int32_t h = 0; h < p.num_heads; ++h) {
    const float* query = p.query + (token * size(p.num_heads) + size(h)) * size(p.head_dim);
    float product = 0.0f;
    for (int32_t d = 0; d < p.head_dim; ++d) product += query[d] * half_to_float(stored[d]);
    score += p.weights[token * size(p.num_heads) + size(h)] * std::max(product * p.scale, 0.0f);
  }
  return score;
}

// Returns an integer that is larger for larger scores. -0 equals 0, as in select_keys.cu.
uint32_t order_of(float score) {
  const auto bits = std::bit_cast<uint32_t>(score + 0.0f);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000U;
}

void mark(uint32_t* selected, uint32_t position) {
  selected[position / 32] |= 1U << (position % 32);
}

// Selects among the pools that are complete at the token; a pool of 1 is a key. If scores are equal, the
// earlier one wins. A rank holds the order of a score, inverted, and the number of the pool in its lower
// half, so no two ranks are equal and the best ones are the smallest.
void select_for(const SelectKeysParams& p, size_t token, std::vector<uint64_t>& ranks) {
  uint32_t* selected = p.selected + token * size(p.selected_words);
  std::fill_n(selected, p.selected_words, 0U);
  const int32_t num_tokens = p.batch.positions[token] + 1, count = num_tokens / p.pool;
  const int32_t sequence = p.batch.sequence_of_token[token];
  for (int32_t i = 0; i < count; ++i) {
    const uint32_t order = order_of(index_score(p, token, index_row(p, sequence, (i + 1) * p.pool - 1)));
    ranks[size(i)] = uint64_t{~order} << 32 | static_cast<uint32_t>(i);
  }
  const int32_t kept = std::min(count, p.num_selected / p.pool);
  if (kept < count) std::nth_element(ranks.begin(), ranks.begin() + kept, ranks.begin() + count);
  const auto pool = static_cast<uint32_t>(p.pool);
  for (int32_t i = 0; i < kept; ++i) {
    const auto chosen = static_cast<uint32_t>(ranks[size(i)]);
    for (uint32_t j = 0; j < pool; ++j) mark(selected, chosen * pool + j);
  }
  for (int32_t position = count * p.pool; position < num_tokens; ++position)
    mark(selected, static_cast<uint32_t>(position));
}

}  // namespace

Status row_op(Context* context, const RowOpParams* params) {
  const RowOpParams& p = *params;
  const size_t target_stride = size(p.target_stride != 0 ? p.target_stride : p.columns);
  const size_t a_stride = size(p.a_stride != 0 ? p.a_stride : p.columns);
  auto* target = static_cast<float*>(p.target);
  const auto* a = static_cast<const float*>(p.a);
  share_work(context, p.rows, 8 * int64_t{p.columns}, [&](int32_t, int64_t first, int64_t last) {
    for (auto row = static_cast<size_t>(first); row < static_cast<size_t>(last); ++row) {
      run_row(p, row, target + row * target_stride, a != nullptr ? a + row * a_stride : nullptr);
    }
  });
  return Status::ok;
}

Status expand_latent(Context* context, const ExpandLatentParams* params) {
  const ExpandLatentParams& p = *params;
  const size_t heads = size(p.heads.num_heads);
  const size_t dim = size(p.heads.head_dim);
  const size_t values = size(value_dim(p.heads));
  const size_t rotary = size(p.rotary_dim);
  const size_t rest = dim - rotary;
  const size_t latent_stride = size(p.latent_columns) + rotary;
  share_work(context, p.num_tokens, 2 * int64_t{qkv_columns(p)}, [&](int32_t, int64_t first, int64_t last) {
    for (auto t = static_cast<size_t>(first); t < static_cast<size_t>(last); ++t) {
      float* row = static_cast<float*>(p.qkv) + t * size(qkv_columns(p));
      const float* expanded = p.expanded + t * heads * (rest + values);
      const float* turned = p.latent + t * latent_stride + size(p.latent_columns);
      std::copy_n(p.query + t * heads * dim, heads * dim, row);
      float* keys = row + heads * dim;
      float* value = keys + heads * dim;
      for (size_t h = 0; h < heads; ++h) {
        const float* of_head = expanded + h * (rest + values);
        std::copy_n(turned, rotary, keys + h * dim);
        std::copy_n(of_head, rest, keys + h * dim + rotary);
        std::copy_n(of_head + rest, values, value + h * values);
      }
    }
  });
  return Status::ok;
}

Status select_keys(Context* context, const SelectKeysParams* params) {
  const SelectKeysParams& p = *params;
  const int64_t work = int64_t{p.batch.max_kv_tokens} * p.num_heads * p.head_dim;
  return guarded(context->device, "select_keys", [&] {
    for (int32_t t = 0; t < p.batch.num_tokens; ++t) keep_index_row(p, size(t));
    share_work(context, p.batch.num_tokens, work, [&](int32_t, int64_t first, int64_t last) {
      std::vector<uint64_t> ranks(size(p.batch.max_kv_tokens));
      for (auto t = static_cast<size_t>(first); t < static_cast<size_t>(last); ++t) {
        for (int32_t h = 0; h < p.num_heads; ++h)
          rotate(p.query + (t * size(p.num_heads) + size(h)) * size(p.head_dim), p, t);
        select_for(p, t, ranks);
      }
    });
    return Status::ok;
  });
}

Status mix_streams(Context* context, const MixStreamsParams* params) {
  const MixStreamsParams& p = *params;
  const size_t num = size(p.num_streams);
  const size_t columns = size(p.columns);
  share_work(context, p.tokens, int64_t{2} * p.columns * p.num_streams * p.num_streams,
             [&](int32_t, int64_t first, int64_t last) {
               for (auto t = static_cast<size_t>(first); t < static_cast<size_t>(last); ++t) {
                 const float* coefficients = p.coefficients + t * num * num;
                 for (size_t i = 0; i < num; ++i) {
                   float* target = p.targets[i] + t * columns;
                   for (size_t c = 0; c < columns; ++c) {
                     float sum = p.streams[i][t * columns + c];
                     for (size_t j = 0; j < num; ++j)
                       sum += coefficients[i * num + j] * p.streams[j][t * columns + c];
                     target[c] = sum;
                   }
                 }
               }
             });
  return Status::ok;
}

}  // namespace quire::kernels::cpu_entries
