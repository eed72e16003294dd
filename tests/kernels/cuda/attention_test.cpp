// The cache and attention over it, against double precision over what the pages hold.
#include "tests/kernels/cuda/cuda_device.h"

namespace quire::kernels {
namespace {

struct Case {
  HeadShape heads{8, 2, 64};
  KvFormat keys = KvFormat::f16;
  KvFormat values = KvFormat::f16;
  int32_t page_tokens = 256;
  std::vector<int32_t> lengths{5};  // of each sequence, after the step
  std::vector<int32_t> queries{5};  // of the step; the rest is appended before
  int32_t window = 0;
  float softcap = 0.0f;
  RopeStyle rope = RopeStyle::neox_halves;
};

void transform(std::vector<double>& row) {
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
  void SetUp() override {
    CudaTest::SetUp();
    if (device_ != nullptr) make_context(small_limits());
  }

  // A layer's pages, poisoned, and pages dealt out in a random order.
  struct Cache {
    KvShape shape;
    KvLayer layer;
    int32_t stride = 0;
    std::vector<int32_t> table;
  };
  Cache make_cache(const Case& c) {
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

  // Tokens [from, to) of each sequence as a batch.
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
    host.token_ids = ids.data();
    host.positions = positions.data();
    host.sequence_of_token = sequence_of.data();
    host.sequence_starts = starts.data();
    host.kv_lengths = to.data();
    host.page_table = cache.table.data();
    host.logit_rows = rows.data();
    BatchView device;
    EXPECT_EQ(table_->bind_batch(context_, &host, &device), Status::ok) << failure();
    EXPECT_EQ(table_->synchronize(context_), Status::ok);
    return device;
  }

  // Rows of qkv of one step, from the rows of all tokens.
  std::vector<float> step_rows(const std::vector<std::vector<float>>& all, const std::vector<int32_t>& from,
                               const std::vector<int32_t>& to, size_t width) {
    std::vector<float> rows;
    for (size_t s = 0; s < from.size(); ++s)
      rows.insert(rows.end(), all[s].begin() + static_cast<ptrdiff_t>(static_cast<size_t>(from[s]) * width),
                  all[s].begin() + static_cast<ptrdiff_t>(static_cast<size_t>(to[s]) * width));
    return rows;
  }

  std::vector<uint16_t> step(const Case& c, const Cache& cache, const std::vector<std::vector<float>>& all,
                             const std::vector<int32_t>& from, const std::vector<int32_t>& to,
                             std::vector<float>* queries) {
    const auto width = static_cast<size_t>((c.heads.num_heads + 2 * c.heads.num_kv_heads) * c.heads.head_dim);
    const BatchView batch = bind(cache, from, to);
    const auto tokens = static_cast<size_t>(batch.num_tokens);
    auto* qkv = to_device(to_halves(step_rows(all, from, to, width)));
    const int32_t rotary = c.rope == RopeStyle::none ? 0 : c.heads.head_dim / 2 * 2;
    std::vector<float> frequencies;
    for (int32_t i = 0; i < rotary / 2; ++i)
      frequencies.push_back(std::pow(10000.0f, -2.0f * static_cast<float>(i) / static_cast<float>(rotary)));
    RopeAnglesParams angles;
    AppendKvParams append;
    if (rotary > 0) {
      angles.inv_freq = to_device(frequencies);
      angles.rotary_dim = rotary;
      angles.positions = batch.positions;
      angles.num_tokens = batch.num_tokens;
      angles.cos = poisoned<float>(tokens * static_cast<size_t>(rotary / 2));
      angles.sin = poisoned<float>(tokens * static_cast<size_t>(rotary / 2));
      EXPECT_EQ(table_->rope_angles(context_, &angles), Status::ok) << failure();
    }
    append.heads = c.heads;
    append.qkv = qkv;
    append.rope = c.rope;
    append.rotary_dim = rotary;
    append.cos = angles.cos;
    append.sin = angles.sin;
    append.batch = batch;
    append.kv_shape = cache.shape;
    append.kv = cache.layer;
    EXPECT_EQ(table_->append_kv(context_, &append), Status::ok) << failure();
    AttentionParams attention;
    attention.heads = c.heads;
    attention.qkv = qkv;
    attention.scale = 1.0f / std::sqrt(static_cast<float>(c.heads.head_dim));
    attention.softcap = c.softcap;
    attention.sliding_window = c.window;
    attention.batch = batch;
    attention.kv_shape = cache.shape;
    attention.kv = cache.layer;
    const size_t count = tokens * static_cast<size_t>(c.heads.num_heads * c.heads.head_dim);
    auto* output = poisoned<uint16_t>(count);
    attention.output = output;
    EXPECT_EQ(table_->attention(context_, &attention), Status::ok) << failure();
    if (queries != nullptr) *queries = to_floats(from_device(qkv, tokens * width));
    return from_device(output, count);
  }

  // What a page's row stands for.
  std::vector<double> read_row(const Cache& cache, KvFormat format, const std::vector<uint8_t>& data,
                               const std::vector<uint8_t>& scales, size_t at) {
    const auto dim = static_cast<size_t>(cache.shape.head_dim);
    std::vector<double> row(dim);
    for (size_t d = 0; d < dim; ++d) {
      const auto half_at = [](const std::vector<uint8_t>& bytes, size_t i) {
        return static_cast<double>(
            half_to_float(static_cast<uint16_t>(bytes[2 * i] | bytes[2 * i + 1] << 8)));
      };
      const size_t e = at * dim + d;
      if (format == KvFormat::f16) row[d] = half_at(data, e);
      if (format == KvFormat::fp8)
        row[d] = static_cast<double>(half_to_float(static_cast<uint16_t>(data[e] << 8)));
      if (format == KvFormat::q8) row[d] = (data[e] - 128.0) * half_at(scales, e / 32);
      if (format == KvFormat::q4)
        row[d] = ((data[e / 2] >> (4 * (e % 2)) & 15) - 8.0) * half_at(scales, e / 32);
    }
    if (format == KvFormat::q8 || format == KvFormat::q4) {
      transform(row);
      for (double& v : row) v /= 32.0;
    }
    return row;
  }

  void check(const Case& c, double tolerance, double cache_tolerance) {
    const Cache cache = make_cache(c);
    const auto dim = static_cast<size_t>(c.heads.head_dim);
    const size_t width = static_cast<size_t>(c.heads.num_heads + 2 * c.heads.num_kv_heads) * dim;
    std::vector<std::vector<float>> all;
    std::vector<int32_t> zero, before;
    for (size_t s = 0; s < c.lengths.size(); ++s) {
      all.push_back(to_floats(to_halves(random_floats(static_cast<size_t>(c.lengths[s]) * width, random_))));
      zero.push_back(0);
      before.push_back(c.lengths[s] - c.queries[s]);
    }
    if (*std::max_element(before.begin(), before.end()) > 0) fill_cache(c, cache, all, before);
    std::vector<float> queries;
    const std::vector<float> output = to_floats(step(c, cache, all, before, c.lengths, &queries));

    const auto keys =
        from_device(static_cast<const uint8_t*>(cache.layer.keys), kv_data_bytes(cache.shape, c.keys));
    const auto values =
        from_device(static_cast<const uint8_t*>(cache.layer.values), kv_data_bytes(cache.shape, c.values));
    const auto key_scales =
        from_device(static_cast<const uint8_t*>(cache.layer.key_scales), kv_scale_bytes(cache.shape, c.keys));
    const auto value_scales = from_device(static_cast<const uint8_t*>(cache.layer.value_scales),
                                          kv_scale_bytes(cache.shape, c.values));
    std::vector<double> expected;
    std::vector<double> held, given;
    const int32_t group = c.heads.num_heads / c.heads.num_kv_heads;
    size_t token = 0;
    for (size_t s = 0; s < c.lengths.size(); ++s) {
      const auto row_of = [&](int32_t position, int32_t kv_head) {
        const int32_t page =
            cache
                .table[s * static_cast<size_t>(cache.stride) + static_cast<size_t>(position / c.page_tokens)];
        return (static_cast<size_t>(page) * static_cast<size_t>(c.heads.num_kv_heads) +
                static_cast<size_t>(kv_head)) *
                   static_cast<size_t>(c.page_tokens) +
               static_cast<size_t>(position % c.page_tokens);
      };
      for (int32_t h = 0; h < c.heads.num_kv_heads; ++h) {
        for (int32_t p = 0; p < c.lengths[s]; ++p) {
          const std::vector<double> row = read_row(cache, c.values, values, value_scales, row_of(p, h));
          held.insert(held.end(), row.begin(), row.end());
          const size_t from = static_cast<size_t>(p) * width +
                              static_cast<size_t>(c.heads.num_heads + c.heads.num_kv_heads + h) * dim;
          for (size_t d = 0; d < dim; ++d) given.push_back(static_cast<double>(all[s][from + d]));
        }
      }
      for (int32_t position = before[s]; position < c.lengths[s]; ++position, ++token) {
        for (int32_t head = 0; head < c.heads.num_heads; ++head) {
          const int32_t first = c.window > 0 ? std::max(0, position - c.window + 1) : 0;
          std::vector<double> weights;
          double largest = -INFINITY, total = 0.0;
          for (int32_t p = first; p <= position; ++p) {
            const std::vector<double> key =
                read_row(cache, c.keys, keys, key_scales, row_of(p, head / group));
            double dot = 0.0;
            for (size_t d = 0; d < dim; ++d)
              dot +=
                  static_cast<double>(queries[token * width + static_cast<size_t>(head) * dim + d]) * key[d];
            dot /= std::sqrt(static_cast<double>(dim));
            if (c.softcap > 0)
              dot = static_cast<double>(c.softcap) * std::tanh(dot / static_cast<double>(c.softcap));
            weights.push_back(dot);
            largest = std::max(largest, dot);
          }
          for (double& w : weights) total += w = std::exp(w - largest);
          std::vector<double> out(dim);
          for (int32_t p = first; p <= position; ++p) {
            const std::vector<double> value =
                read_row(cache, c.values, values, value_scales, row_of(p, head / group));
            for (size_t d = 0; d < dim; ++d)
              out[d] += weights[static_cast<size_t>(p - first)] / total * value[d];
          }
          expected.insert(expected.end(), out.begin(), out.end());
        }
      }
    }
    EXPECT_LT(relative_error(output, expected), tolerance);
    EXPECT_LE(relative_error(held, given), cache_tolerance);
  }

  // The cache as one of its sequences sees it.
  static Cache only(const Cache& cache, size_t sequence) {
    Cache one = cache;
    const auto stride = static_cast<ptrdiff_t>(cache.stride);
    const auto first = cache.table.begin() + static_cast<ptrdiff_t>(sequence) * stride;
    one.table.assign(first, first + stride);
    return one;
  }

  // Appends what comes before the step, in pieces that the context has room for.
  void fill_cache(const Case& c, const Cache& cache, const std::vector<std::vector<float>>& all,
                  const std::vector<int32_t>& before) {
    constexpr int32_t kPiece = 192;
    for (size_t s = 0; s < before.size(); ++s) {
      for (int32_t at = 0; at < before[s]; at += kPiece) {
        step(c, only(cache, s), {all[s]}, {at}, {std::min(before[s], at + kPiece)}, nullptr);
      }
    }
  }
  std::mt19937 random_{std::random_device{}()};
};

TEST_F(AttentionTest, DecodesOverF16Pages) {
  check({.lengths = {1, 130, 300, 77}, .queries = {1, 1, 1, 1}}, 2e-3, 0.0);
}

TEST_F(AttentionTest, PrefillsOverF16Pages) {
  check({.lengths = {70, 200}, .queries = {70, 150}}, 2e-3, 0.0);
}

TEST_F(AttentionTest, MixesPrefillAndDecode) {
  check({.lengths = {150, 260, 3}, .queries = {90, 1, 2}}, 2e-3, 0.0);
}

TEST_F(AttentionTest, ReadsEveryFormat) {
  const HeadShape heads{8, 2, 128};
  const std::vector<int32_t> lengths{140, 9};
  for (const std::vector<int32_t>& queries : {std::vector<int32_t>{1, 1}, std::vector<int32_t>{60, 9}}) {
    check({.heads = heads,
           .keys = KvFormat::fp8,
           .values = KvFormat::fp8,
           .lengths = lengths,
           .queries = queries},
          3e-3, 0.2);
    check({.heads = heads,
           .keys = KvFormat::q8,
           .values = KvFormat::q8,
           .lengths = lengths,
           .queries = queries},
          3e-3, 0.008);
    check({.heads = heads,
           .keys = KvFormat::q8,
           .values = KvFormat::q4,
           .lengths = lengths,
           .queries = queries},
          3e-3, 0.12);
    check({.heads = heads,
           .keys = KvFormat::q4,
           .values = KvFormat::q4,
           .lengths = lengths,
           .queries = queries},
          3e-3, 0.12);
  }
}

TEST_F(AttentionTest, TakesAnyHeadSize) {
  for (const int32_t dim : {16, 40, 80, 96, 192, 256, 20}) {
    SCOPED_TRACE(dim);
    check({.heads = {4, 2, dim}, .lengths = {133, 40}, .queries = {1, 40}, .rope = RopeStyle::gptj_pairs},
          2e-3, 0.0);
  }
}

TEST_F(AttentionTest, SmallPagesWindowsAndSoftcaps) {
  check({.page_tokens = 16, .lengths = {300, 33}, .queries = {1, 1}, .window = 100}, 2e-3, 0.0);
  check({.page_tokens = 48, .lengths = {300, 200}, .queries = {200, 17}, .window = 64, .softcap = 5.0f}, 2e-3,
        0.0);
  check({.heads = {12, 1, 64}, .lengths = {260}, .queries = {3}, .softcap = 10.0f}, 2e-3, 0.0);
  check({.heads = {32, 1, 64}, .lengths = {60, 140}, .queries = {1, 1}}, 2e-3, 0.0);
}

TEST_F(AttentionTest, TheSameBitsAloneInCompanyAndChunked) {
  for (const KvFormat format : {KvFormat::f16, KvFormat::q8, KvFormat::q4}) {
    Case c{
        .heads = {8, 2, 128}, .keys = format, .values = format, .lengths = {300, 150}, .queries = {300, 150}};
    const size_t width = 12 * 128, out_width = 8 * 128;
    std::vector<std::vector<float>> all;
    for (const int32_t length : c.lengths)
      all.push_back(random_floats(static_cast<size_t>(length) * width, random_));
    const Cache together = make_cache(c);
    const std::vector<uint16_t> whole = step(c, together, all, {0, 0}, c.lengths, nullptr);
    // The second sequence by itself, token by token from the hundredth on.
    Case one = c;
    one.lengths = {150};
    const Cache alone = make_cache(one);
    std::vector<uint16_t> pieces = step(one, alone, {all[1]}, {0}, {100}, nullptr);
    for (int32_t p = 100; p < 150; ++p) {
      const std::vector<uint16_t> token = step(one, alone, {all[1]}, {p}, {p + 1}, nullptr);
      pieces.insert(pieces.end(), token.begin(), token.end());
    }
    EXPECT_EQ(std::memcmp(pieces.data(), whole.data() + 300 * out_width, 150 * out_width * 2), 0);
  }
}

struct Formats {
  KvFormat keys, values;
};
constexpr Formats kCoded[] = {
    {KvFormat::q8, KvFormat::q8}, {KvFormat::q8, KvFormat::q4}, {KvFormat::q4, KvFormat::q4}};

// Sixteen sequences of one token each, so many that each chunk gets a warp of its own: a token alone in its
// chunk, the last and the first of one, fewer chunks than a block has warps and more.
Case crowd(const Formats& formats, int32_t head_dim) {
  Case c{.heads = {16, 8, head_dim}, .keys = formats.keys, .values = formats.values};
  c.lengths = {1403, 1, 129, 128, 384, 127, 2, 641, 255, 256, 257, 513, 33, 64, 100, 3};
  c.queries.assign(c.lengths.size(), 1);
  return c;
}

TEST_F(AttentionTest, DecodesCodesOfManySequences) {
  for (const Formats& formats : kCoded) {
    SCOPED_TRACE(std::to_string(static_cast<int>(formats.keys)) + " " +
                 std::to_string(static_cast<int>(formats.values)));
    Case c = crowd(formats, 128);
    check(c, 3e-3, 0.12);
    c = crowd(formats, 64);
    c.window = 1100;
    c.softcap = 8.0f;
    c.page_tokens = 128;
    check(c, 3e-3, 0.12);
  }
}

TEST_F(AttentionTest, DecodesCodesOfLargeGroups) {
  for (const Formats& formats : kCoded) {
    SCOPED_TRACE(std::to_string(static_cast<int>(formats.keys)) + " " +
                 std::to_string(static_cast<int>(formats.values)));
    Case c{.heads = {16, 1, 128}, .keys = formats.keys, .values = formats.values};
    c.lengths = {700, 129, 1};
    c.queries = {1, 1, 1};
    check(c, 3e-3, 0.12);
    // So long that each chunk gets a warp of its own.
    c.heads = {24, 2, 64};
    c.lengths = {5000};
    c.lengths.resize(16, 1);
    c.queries.assign(16, 1);
    check(c, 3e-3, 0.12);
  }
}

// Sixteen sequences of one token each, so many heads and so short that a block takes each of them whole: a
// token alone in its chunk, the last and the first of one, and all numbers of chunks up to eight.
Case short_crowd(int32_t head_dim) {
  Case c{.heads = {18, 9, head_dim}};
  c.lengths = {1024, 1, 129, 128, 384, 127, 641, 255, 256, 257, 513, 33, 897, 769, 896, 1000};
  c.queries.assign(c.lengths.size(), 1);
  return c;
}

TEST_F(AttentionTest, DecodesShortSequences) {
  for (const int32_t dim : {64, 128}) {
    SCOPED_TRACE(dim);
    Case c = short_crowd(dim);
    check(c, 2e-3, 0.0);
    c.window = 300;
    c.softcap = 8.0f;
    c.page_tokens = 128;
    check(c, 2e-3, 0.0);
    // A few: of two chunks at most, in groups of up to eight rows, and of nine.
    for (const int32_t group : {1, 3, 8, 9}) {
      SCOPED_TRACE(group);
      check({.heads = {2 * group, 2, dim}, .lengths = {256, 129, 128, 1}, .queries = {1, 1, 1, 1}}, 2e-3,
            0.0);
    }
  }
}

TEST_F(AttentionTest, TheSameBitsInACrowdAndAlone) {
  std::vector<Case> crowds{short_crowd(64), short_crowd(128)};
  for (const Formats& formats : kCoded) crowds.push_back(crowd(formats, 128));
  for (Case& c : crowds) {
    for (const int32_t window : {0, c.keys == KvFormat::f16 ? 300 : 1100}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(c.keys)) + " " +
                   std::to_string(static_cast<int>(c.values)) + " window " + std::to_string(window));
      c.window = window;
      c.softcap = window > 0 ? 20.0f : 0.0f;
      const Cache cache = make_cache(c);
      const auto dim = static_cast<size_t>(c.heads.head_dim), heads = static_cast<size_t>(c.heads.num_heads);
      const size_t width = 2 * heads * dim, out_width = heads * dim;  // two rows share a key
      std::vector<std::vector<float>> all;
      std::vector<int32_t> before;
      for (const int32_t length : c.lengths) {
        all.push_back(random_floats(static_cast<size_t>(length) * width, random_));
        before.push_back(length - 1);
      }
      fill_cache(c, cache, all, before);
      const std::vector<uint16_t> together = step(c, cache, all, before, c.lengths, nullptr);
      for (size_t s = 0; s < all.size(); ++s) {
        const std::vector<uint16_t> alone =
            step(c, only(cache, s), {all[s]}, {before[s]}, {c.lengths[s]}, nullptr);
        EXPECT_EQ(std::memcmp(alone.data(), together.data() + s * out_width, out_width * 2), 0)
            << "length " << c.lengths[s];
      }
    }
  }
}

TEST_F(AttentionTest, TheSameBitsInStepsOfAnySizeOverManyChunks) {
  constexpr int32_t kBefore = 1016, kLength = 1028;
  for (const KvFormat format : {KvFormat::f16, KvFormat::q8, KvFormat::q4}) {
    for (const int32_t window : {0, 500}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(format)) + " window " + std::to_string(window));
      const Case c{.heads = {8, 2, 128},
                   .keys = format,
                   .values = format,
                   .lengths = {kLength},
                   .queries = {1},
                   .window = window,
                   .softcap = window > 0 ? 20.0f : 0.0f};
      const std::vector<std::vector<float>> all{random_floats(size_t{kLength} * 12 * 128, random_)};
      std::vector<std::vector<uint16_t>> results;
      // A tile of a prefill; tokens of a draft; one by one.
      for (const int32_t tokens : {12, 3, 1}) {
        const Cache cache = make_cache(c);
        fill_cache(c, cache, all, {kBefore});
        results.emplace_back();
        for (int32_t p = kBefore; p < kLength; p += tokens) {
          const std::vector<uint16_t> rows = step(c, cache, all, {p}, {p + tokens}, nullptr);
          results.back().insert(results.back().end(), rows.begin(), rows.end());
        }
      }
      EXPECT_EQ(results[0], results[1]);
      EXPECT_EQ(results[0], results[2]);
    }
  }
}

TEST_F(AttentionTest, CopiedPagesHoldTheSame) {
  for (const KvFormat format : {KvFormat::f16, KvFormat::q4}) {
    const Case c{.heads = {4, 2, 64},
                 .keys = format,
                 .values = format,
                 .page_tokens = 32,
                 .lengths = {32},
                 .queries = {32}};
    Cache cache = make_cache(c);
    const size_t width = 8 * 64;
    step(c, cache, {random_floats(32 * width, random_)}, {0}, {32}, nullptr);
    CopyPageParams copy;
    copy.kv_shape = cache.shape;
    copy.kv = cache.layer;
    copy.source = cache.table[0];
    copy.target = 0;
    copy.num_tokens = 9;
    ASSERT_EQ(table_->copy_page(context_, &copy), Status::ok) << failure();
    const auto keys =
        from_device(static_cast<const uint8_t*>(cache.layer.keys), kv_data_bytes(cache.shape, format));
    const size_t head_bytes =
        kv_data_bytes(cache.shape, format) / static_cast<size_t>(cache.shape.num_pages) / 2;
    for (size_t head = 0; head < 2; ++head) {
      const size_t from = (static_cast<size_t>(copy.source) * 2 + head) * head_bytes, to = head * head_bytes;
      EXPECT_EQ(std::memcmp(&keys[from], &keys[to], head_bytes / 32 * 9), 0);
      EXPECT_EQ(keys[to + head_bytes / 32 * 9], 0xff);
    }
  }
}

}  // namespace
}  // namespace quire::kernels
