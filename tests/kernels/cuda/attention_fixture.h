// KV cache of one layer and attention over it, compared with double precision over the contents of its pages.
#pragma once

#include <algorithm>
#include <ostream>

#include "tests/kernels/cuda/cuda_device.h"

namespace quire::kernels {

struct AttentionCase {
  HeadShape heads{8, 2, 64};
  KvFormat keys = KvFormat::f16;
  KvFormat values = KvFormat::f16;
  int32_t page_tokens = 256;
  std::vector<int32_t> lengths{5};  // tokens of each sequence after the step
  std::vector<int32_t> queries{5};  // tokens of each sequence in the step; earlier tokens are appended before
  int32_t window = 0;
  float softcap = 0.0f;
  RopeStyle rope = RopeStyle::neox_halves;
  float slope = 0.0f;  // ALiBi, the same for all heads; 0: none
};

inline void transform(std::vector<double>& row) {
  for (size_t block = 0; block + 64 <= row.size(); block += 64)
    for (size_t parity = 0; parity < 2; ++parity)
      for (size_t span = 1; span < 32; span *= 2)
        for (size_t i = 0; i < 32; ++i)
          if ((i & span) == 0) {
            double& a = row[block + 2 * i + parity];
            double& b = row[block + 2 * (i + span) + parity];
            const double x = a, y = b;
            a = x + y;
            b = x - y;
          }
}

class AttentionTest : public CudaTest {
 protected:
  // Pages of a layer, filled with NaN and assigned in a random order.
  struct Cache {
    KvShape shape;
    KvLayer layer;
    int32_t stride = 0;
    std::vector<int32_t> table;
  };
  Cache make_cache(const AttentionCase& c) {
    Cache cache;
    const auto sequences = static_cast<int32_t>(c.lengths.size());
    const int32_t longest = *std::max_element(c.lengths.begin(), c.lengths.end());
    cache.stride = (longest + c.page_tokens - 1) / c.page_tokens;
    cache.shape = {
        c.keys,          c.values, c.page_tokens, sequences * cache.stride + 1, c.heads.num_kv_heads,
        c.heads.head_dim};
    for (int32_t i = 1; i < cache.shape.num_pages; ++i) cache.table.push_back(i);
    std::shuffle(cache.table.begin(), cache.table.end(), random_);
    cache.layer.keys = poisoned<uint8_t>(kv_data_bytes(cache.shape, c.keys));
    cache.layer.values = poisoned<uint8_t>(kv_data_bytes(cache.shape, c.values));
    if (kv_scale_bytes(cache.shape, c.keys) > 0)
      cache.layer.key_scales = poisoned<uint8_t>(kv_scale_bytes(cache.shape, c.keys));
    if (kv_scale_bytes(cache.shape, c.values) > 0)
      cache.layer.value_scales = poisoned<uint8_t>(kv_scale_bytes(cache.shape, c.values));
    return cache;
  }

  // Binds tokens [from, to) of each sequence as a batch.
  BatchView bind(const Cache& cache, const std::vector<int32_t>& from, const std::vector<int32_t>& to) {
    std::vector<int32_t> ids, positions, sequence_of, starts{0}, rows;
    BatchView host;
    for (size_t s = 0; s < from.size(); ++s) {
      for (int32_t p = from[s]; p < to[s]; ++p) {
        ids.push_back(0);
        positions.push_back(p);
        sequence_of.push_back(static_cast<int32_t>(s));
      }
      starts.push_back(static_cast<int32_t>(ids.size()));
      host.max_query_tokens = std::max(host.max_query_tokens, to[s] - from[s]);
      host.max_kv_tokens = std::max(host.max_kv_tokens, to[s]);
    }
    host.num_tokens = static_cast<int32_t>(ids.size());
    host.num_sequences = static_cast<int32_t>(from.size());
    host.page_table_stride = cache.stride;
    host.page_tokens = cache.shape.page_tokens;
    host.token_ids = ids.data();
    host.positions = positions.data();
    host.sequence_of_token = sequence_of.data();
    host.sequence_starts = starts.data();
    host.kv_lengths = to.data();
    host.page_table = cache.table.data();
    host.logit_rows = rows.data();
    BatchView device;
    EXPECT_EQ(table_->bind_batch(context_, &host, &device), Status::ok);
    EXPECT_EQ(table_->synchronize(context_), Status::ok);
    return device;
  }

  // Returns the rows of qkv of one step, taken from the rows of all tokens.
  std::vector<float> step_rows(const std::vector<std::vector<float>>& all, const std::vector<int32_t>& from,
                               const std::vector<int32_t>& to, size_t width) {
    std::vector<float> rows;
    for (size_t s = 0; s < from.size(); ++s)
      rows.insert(rows.end(), all[s].begin() + static_cast<ptrdiff_t>(static_cast<size_t>(from[s]) * width),
                  all[s].begin() + static_cast<ptrdiff_t>(static_cast<size_t>(to[s]) * width));
    return rows;
  }

  // Rows of qkv whose keys and values are in the cache.
  struct Appended {
    BatchView batch;
    uint16_t* qkv = nullptr;
  };
  static size_t row_width(const AttentionCase& c) {
    return static_cast<size_t>((c.heads.num_heads + 2 * c.heads.num_kv_heads) * c.heads.head_dim);
  }
  Appended append(const AttentionCase& c, const Cache& cache, const std::vector<std::vector<float>>& all,
                  const std::vector<int32_t>& from, const std::vector<int32_t>& to) {
    Appended step;
    step.batch = bind(cache, from, to);
    const auto tokens = static_cast<size_t>(step.batch.num_tokens);
    step.qkv = to_device(to_halves(step_rows(all, from, to, row_width(c))));
    const int32_t rotary = c.rope == RopeStyle::none ? 0 : c.heads.head_dim / 2 * 2;
    std::vector<float> frequencies;
    for (int32_t i = 0; i < rotary / 2; ++i)
      frequencies.push_back(std::pow(10000.0f, -2.0f * static_cast<float>(i) / static_cast<float>(rotary)));
    RopeAnglesParams angles;
    if (rotary > 0) {
      angles.inv_freq = to_device(frequencies);
      angles.rotary_dim = rotary;
      angles.positions = step.batch.positions;
      angles.num_tokens = step.batch.num_tokens;
      angles.cos = poisoned<float>(tokens * static_cast<size_t>(rotary / 2));
      angles.sin = poisoned<float>(tokens * static_cast<size_t>(rotary / 2));
      EXPECT_EQ(table_->rope_angles(context_, &angles), Status::ok);
    }
    AppendKvParams append;
    append.heads = c.heads;
    append.qkv = step.qkv;
    append.rope = c.rope;
    append.rotary_dim = rotary;
    append.cos = angles.cos;
    append.sin = angles.sin;
    append.batch = step.batch;
    append.kv_shape = cache.shape;
    append.kv = cache.layer;
    EXPECT_EQ(table_->append_kv(context_, &append), Status::ok);
    return step;
  }

  std::vector<uint16_t> step(const AttentionCase& c, const Cache& cache,
                             const std::vector<std::vector<float>>& all, const std::vector<int32_t>& from,
                             const std::vector<int32_t>& to, std::vector<float>* queries = nullptr) {
    const Appended step = append(c, cache, all, from, to);
    const auto tokens = static_cast<size_t>(step.batch.num_tokens);
    AttentionParams attention;
    attention.heads = c.heads;
    attention.qkv = step.qkv;
    attention.scale = 1.0f / std::sqrt(static_cast<float>(c.heads.head_dim));
    attention.softcap = c.softcap;
    attention.sliding_window = c.window;
    attention.has_slopes = c.slope != 0.0f;
    attention.slopes = to_device(std::vector<float>(static_cast<size_t>(c.heads.num_heads), c.slope));
    attention.batch = step.batch;
    attention.kv_shape = cache.shape;
    attention.kv = cache.layer;
    const size_t count = tokens * static_cast<size_t>(c.heads.num_heads * c.heads.head_dim);
    auto* output = poisoned<uint16_t>(count);
    attention.output = output;
    EXPECT_EQ(table_->attention(context_, &attention), Status::ok);
    if (queries != nullptr) *queries = to_floats(from_device(step.qkv, tokens * row_width(c)));
    return from_device(output, count);
  }

  // Keys or values of a layer on the host.
  struct Pages {
    KvFormat format;
    std::vector<uint8_t> data, scales;
  };
  Pages read_pages(const Cache& cache, KvFormat format, const void* data, const void* scales) {
    return {format, from_device(static_cast<const uint8_t*>(data), kv_data_bytes(cache.shape, format)),
            from_device(static_cast<const uint8_t*>(scales), kv_scale_bytes(cache.shape, format))};
  }

  // Returns the values of a row of a page.
  static std::vector<double> read_row(const Pages& pages, size_t dim, size_t at) {
    const auto half_at = [](const std::vector<uint8_t>& bytes, size_t i) {
      return static_cast<double>(half_to_float(static_cast<uint16_t>(bytes[2 * i] | bytes[2 * i + 1] << 8)));
    };
    std::vector<double> row(dim);
    double scale = 0.0;
    for (size_t d = 0; d < dim; ++d) {
      const size_t e = at * dim + d;
      if (d % 32 == 0 && !pages.scales.empty()) scale = half_at(pages.scales, e / 32);
      switch (pages.format) {
        case KvFormat::f16:
          row[d] = half_at(pages.data, e);
          break;
        case KvFormat::fp8:
          row[d] = static_cast<double>(half_to_float(static_cast<uint16_t>(pages.data[e] << 8)));
          break;
        case KvFormat::q8:
          row[d] = (pages.data[e] - 128.0) * scale;
          break;
        case KvFormat::q4:
          row[d] = ((pages.data[e / 2] >> (4 * (e % 2)) & 15) - 8.0) * scale;
          break;
      }
    }
    if (pages.scales.empty()) return row;
    transform(row);
    for (double& v : row) v /= 32.0;
    return row;
  }

  // Computes attention of one query row over rows of keys and values of one kv head.
  static std::vector<double> attend(const AttentionCase& c, const float* query, int32_t position,
                                    const std::vector<std::vector<double>>& keys,
                                    const std::vector<std::vector<double>>& values) {
    const auto dim = static_cast<size_t>(c.heads.head_dim);
    const auto end = static_cast<size_t>(position) + 1;
    const size_t first = c.window > 0 ? static_cast<size_t>(std::max(0, position - c.window + 1)) : 0;
    std::vector<double> weights, out(dim);
    double largest = -INFINITY, total = 0.0;
    for (size_t p = first; p < end; ++p) {
      double dot = 0.0;
      for (size_t d = 0; d < dim; ++d) dot += static_cast<double>(query[d]) * keys[p][d];
      dot /= std::sqrt(static_cast<double>(dim));
      if (c.softcap > 0)
        dot = static_cast<double>(c.softcap) * std::tanh(dot / static_cast<double>(c.softcap));
      dot -= static_cast<double>(c.slope) * static_cast<double>(end - 1 - p);
      weights.push_back(dot);
      largest = std::max(largest, dot);
    }
    for (double& w : weights) total += w = std::exp(w - largest);
    for (size_t p = first; p < end; ++p)
      for (size_t d = 0; d < dim; ++d) out[d] += weights[p - first] / total * values[p][d];
    return out;
  }

  void check(const AttentionCase& c, double tolerance, double cache_tolerance) {
    const Cache cache = make_cache(c);
    const auto dim = static_cast<size_t>(c.heads.head_dim), heads = static_cast<size_t>(c.heads.num_heads),
               kv_heads = static_cast<size_t>(c.heads.num_kv_heads), group = heads / kv_heads;
    const size_t width = row_width(c);
    std::vector<std::vector<float>> all;
    std::vector<int32_t> before;
    for (size_t s = 0; s < c.lengths.size(); ++s) {
      all.push_back(to_floats(to_halves(random_rows(c, c.lengths[s]))));
      before.push_back(c.lengths[s] - c.queries[s]);
    }
    fill_cache(c, cache, all, before);
    std::vector<float> queries;
    const std::vector<float> output = to_floats(step(c, cache, all, before, c.lengths, &queries));

    const Pages key_pages = read_pages(cache, c.keys, cache.layer.keys, cache.layer.key_scales);
    const Pages value_pages = read_pages(cache, c.values, cache.layer.values, cache.layer.value_scales);
    std::vector<double> expected(output.size()), held, given;
    size_t first_token = 0;
    for (size_t s = 0; s < c.lengths.size(); ++s) {
      const auto length = static_cast<size_t>(c.lengths[s]), page_tokens = static_cast<size_t>(c.page_tokens);
      for (size_t h = 0; h < kv_heads; ++h) {
        std::vector<std::vector<double>> keys, values;
        for (size_t p = 0; p < length; ++p) {
          const auto page =
              static_cast<size_t>(cache.table[s * static_cast<size_t>(cache.stride) + p / page_tokens]);
          const size_t at = (page * kv_heads + h) * page_tokens + p % page_tokens;
          keys.push_back(read_row(key_pages, dim, at));
          values.push_back(read_row(value_pages, dim, at));
          held.insert(held.end(), values.back().begin(), values.back().end());
          const float* from = &all[s][p * width + (heads + kv_heads + h) * dim];
          given.insert(given.end(), from, from + dim);
        }
        for (int32_t position = before[s]; position < c.lengths[s]; ++position) {
          const size_t token = first_token + static_cast<size_t>(position - before[s]);
          for (size_t head = h * group; head < (h + 1) * group; ++head) {
            const std::vector<double> row =
                attend(c, &queries[token * width + head * dim], position, keys, values);
            std::copy(row.begin(), row.end(),
                      expected.begin() + static_cast<ptrdiff_t>((token * heads + head) * dim));
          }
        }
      }
      first_token += static_cast<size_t>(c.queries[s]);
    }
    EXPECT_LT(relative_error(output, expected), tolerance);
    EXPECT_LE(relative_error(held, given), cache_tolerance);
  }

  // Returns the cache restricted to one of its sequences.
  static Cache only(const Cache& cache, size_t sequence) {
    Cache one = cache;
    const auto stride = static_cast<ptrdiff_t>(cache.stride);
    const auto first = cache.table.begin() + static_cast<ptrdiff_t>(sequence) * stride;
    one.table.assign(first, first + stride);
    return one;
  }

  // Checks that the last tokens of each sequence have the same bits in a step with all sequences and in a
  // step of their own. `all` holds rows of qkv of all tokens.
  void compare_alone(const AttentionCase& c, const Cache& cache, const std::vector<std::vector<float>>& all) {
    std::vector<int32_t> before;
    for (size_t s = 0; s < all.size(); ++s) before.push_back(c.lengths[s] - c.queries[s]);
    fill_cache(c, cache, all, before);
    const std::vector<uint16_t> together = step(c, cache, all, before, c.lengths);
    const uint16_t* mine = together.data();
    for (size_t s = 0; s < all.size(); ++s) {
      const std::vector<uint16_t> alone = step(c, only(cache, s), {all[s]}, {before[s]}, {c.lengths[s]});
      EXPECT_EQ(std::memcmp(alone.data(), mine, alone.size() * 2), 0)
          << "sequence " << s << ", length " << c.lengths[s];
      mine += alone.size();
    }
  }

  // Appends the tokens before the step, in chunks that fit the context.
  void fill_cache(const AttentionCase& c, const Cache& cache, const std::vector<std::vector<float>>& all,
                  const std::vector<int32_t>& before) {
    constexpr int32_t kPiece = 192;
    for (size_t s = 0; s < before.size(); ++s) {
      for (int32_t at = 0; at < before[s]; at += kPiece) {
        append(c, only(cache, s), {all[s]}, {at}, {std::min(before[s], at + kPiece)});
      }
    }
  }
  // Returns rows of qkv: normally distributed numbers, taken from a fixed supply.
  std::vector<float> random_rows(const AttentionCase& c, int32_t tokens) {
    constexpr size_t kSupply = size_t{1} << 18;
    if (normals_.empty()) normals_ = random_floats(kSupply, random_);
    const size_t width = row_width(c);
    std::vector<float> rows;
    rows.reserve(static_cast<size_t>(tokens) * width);
    std::uniform_int_distribution<size_t> first(0, kSupply - width);
    for (int32_t t = 0; t < tokens; ++t) {
      const auto from = normals_.begin() + static_cast<ptrdiff_t>(first(random_));
      rows.insert(rows.end(), from, from + static_cast<ptrdiff_t>(width));
    }
    return rows;
  }

  const uint32_t seed_ = std::random_device{}();
  std::mt19937 random_{seed_};
  std::vector<float> normals_;
  const testing::ScopedTrace trace_{__FILE__, __LINE__, "seed " + std::to_string(seed_)};
};

// Formats of keys and values that a cache can have.
struct PageFormats {
  const char* name;
  KvFormat keys, values;
  double tolerance;        // tolerance for attention over the contents of the pages
  double cache_tolerance;  // tolerance for the contents of the pages
};
inline void PrintTo(const PageFormats& pages, std::ostream* out) {
  *out << pages.name;
}
constexpr PageFormats kF16Pages{"f16", KvFormat::f16, KvFormat::f16, 2e-3, 0.0};
constexpr PageFormats kFp8Pages{"fp8", KvFormat::fp8, KvFormat::fp8, 3e-3, 0.2};
constexpr PageFormats kQ8Pages{"q8", KvFormat::q8, KvFormat::q8, 3e-3, 0.008};
constexpr PageFormats kQ6Pages{"q6", KvFormat::q8, KvFormat::q4, 3e-3, 0.12};
constexpr PageFormats kQ4Pages{"q4", KvFormat::q4, KvFormat::q4, 3e-3, 0.12};

inline AttentionCase case_of(const PageFormats& pages) {
  AttentionCase c;
  c.keys = pages.keys;
  c.values = pages.values;
  return c;
}

// Sixteen sequences of one token each, with enough chunks for one warp per chunk: a token alone in its chunk,
// the last and the first of a chunk, and both fewer and more chunks than a block has warps.
inline AttentionCase many_sequences(const PageFormats& pages, int32_t head_dim) {
  AttentionCase c = case_of(pages);
  c.heads = {16, 8, head_dim};
  c.lengths = {1403, 1, 129, 128, 384, 127, 2, 641, 255, 256, 257, 513, 33, 64, 100, 3};
  c.queries.assign(c.lengths.size(), 1);
  return c;
}

// Sixteen sequences of one token each, with so many heads and so short that a block computes a whole
// sequence: a token alone in its chunk, the last and the first of a chunk, and all numbers of chunks up to
// eight.
inline AttentionCase many_short_sequences(const PageFormats& pages, int32_t head_dim) {
  AttentionCase c = case_of(pages);
  c.heads = {18, 9, head_dim};
  c.lengths = {1024, 1, 129, 128, 384, 127, 641, 255, 256, 257, 513, 33, 897, 769, 2, 400};
  c.queries.assign(c.lengths.size(), 1);
  return c;
}

// So many short sequences and kv heads that narrow blocks compute whole sequences, one chunk after the other.
inline AttentionCase many_heads(const PageFormats& pages, int32_t head_dim, int32_t longest) {
  AttentionCase c = case_of(pages);
  c.heads = {21, 21, head_dim};
  c.lengths.clear();
  for (int32_t i = 0; i < 32; ++i) c.lengths.push_back(longest - i * longest / 32);
  c.queries.assign(c.lengths.size(), 1);
  return c;
}

// So many heads that even long sequences are computed in spans of 16 chunks: the last token of a span, and
// the first after it.
inline AttentionCase many_long_sequences(const PageFormats& pages, int32_t head_dim) {
  AttentionCase c = many_heads(pages, head_dim, 130);
  c.heads = {20, 10, head_dim};
  c.lengths[0] = 4230;
  c.lengths[7] = 2048;
  c.lengths[8] = 2049;
  c.lengths[31] = 4096;
  return c;
}

}  // namespace quire::kernels
