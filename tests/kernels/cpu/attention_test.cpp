// Attention over the paged KV cache: accuracy compared with double precision, and equal bits however the work
// is split.
#include <cmath>

#include <gtest/gtest.h>

#include "tests/kernels/cpu/attention_reference.h"
#include "tests/kernels/cpu/cpu_device.h"
#include "tests/support/case_stride.h"

namespace quire::testing {
namespace {

using kernels::AttentionParams;
using kernels::HeadShape;
using kernels::KvFormat;
using kernels::Status;

class AttentionTest : public EachIsa {};

struct Options {
  HeadShape heads = {4, 2, 32};
  KvFormat key_format = KvFormat::f16;
  KvFormat value_format = KvFormat::f16;
  int32_t page_tokens = 16;
  float softcap = 0.0f;
  int32_t sliding_window = 0;
  std::vector<float> slopes;  // one for each head; empty: none
};

kernels::KvShape shape_of(const Options& options, const std::vector<StepBatch::Sequence>& sequences) {
  kernels::KvShape shape;
  shape.key_format = options.key_format;
  shape.value_format = options.value_format;
  shape.page_tokens = options.page_tokens;
  for (const auto& s : sequences)
    shape.num_pages += (s.kv_tokens + options.page_tokens - 1) / options.page_tokens;
  shape.num_pages += 3;
  shape.num_kv_heads = options.heads.num_kv_heads;
  shape.head_dim = options.heads.head_dim;
  return shape;
}

size_t row_floats(const HeadShape& heads) {
  return static_cast<size_t>((heads.num_heads + 2 * heads.num_kv_heads) * heads.head_dim);
}

AttentionParams attention_params(const Options& options, const StepBatch& batch, PagedCache& cache,
                                 float* qkv, float* output) {
  AttentionParams params;
  params.heads = options.heads;
  params.qkv = qkv;
  params.scale = 1.0f / std::sqrt(static_cast<float>(options.heads.head_dim));
  params.softcap = options.softcap;
  params.sliding_window = options.sliding_window;
  params.has_slopes = !options.slopes.empty();
  params.slopes = options.slopes.data();
  params.batch = batch.view();
  params.kv_shape = cache.shape();
  params.kv = cache.layer();
  params.output = output;
  return params;
}

// Appends the tokens of the step and computes their attention.
std::vector<float> run_step(CpuDevice& device, const Options& options, const StepBatch& batch,
                            PagedCache& cache, std::vector<float> qkv) {
  kernels::AppendKvParams append;
  append.heads = options.heads;
  append.qkv = qkv.data();
  append.rope = kernels::RopeStyle::none;
  append.batch = batch.view();
  append.kv_shape = cache.shape();
  append.kv = cache.layer();
  EXPECT_EQ(device.table().append_kv(device.context(), &append), Status::ok);
  std::vector<float> output(
      static_cast<size_t>(batch.num_tokens() * options.heads.num_heads * options.heads.head_dim));
  const AttentionParams params = attention_params(options, batch, cache, qkv.data(), output.data());
  EXPECT_EQ(device.table().attention(device.context(), &params), Status::ok);
  return output;
}

// Random queries, keys and values for every token of the sequences, sequence after sequence.
struct Tokens {
  std::vector<std::vector<float>> rows;  // [sequence], each [tokens, row_floats]
  size_t floats;

  std::vector<float> of_step(const std::vector<StepBatch::Sequence>& step) const {
    std::vector<float> out;
    for (size_t s = 0; s < step.size(); ++s) {
      const auto first = static_cast<size_t>(step[s].kv_tokens - step[s].query_tokens) * floats;
      const auto last = static_cast<size_t>(step[s].kv_tokens) * floats;
      out.insert(out.end(), rows[s].begin() + static_cast<ptrdiff_t>(first),
                 rows[s].begin() + static_cast<ptrdiff_t>(last));
    }
    return out;
  }
};

Tokens random_tokens(Random& random, const std::vector<StepBatch::Sequence>& sequences,
                     const HeadShape& heads) {
  Tokens tokens{{}, row_floats(heads)};
  for (const auto& s : sequences) {
    tokens.rows.push_back(random_floats(random, static_cast<size_t>(s.kv_tokens) * tokens.floats, -2, 2));
  }
  return tokens;
}

// Fills the cache with all tokens except those of the last step.
void run_history(CpuDevice& device, const Options& options, StepBatch& batch, PagedCache& cache,
                 const Tokens& tokens, std::vector<StepBatch::Sequence> sequences) {
  const auto last_step = sequences;
  for (auto& s : sequences) s = {s.kv_tokens - s.query_tokens, s.kv_tokens - s.query_tokens};
  batch.set_step(sequences);
  if (batch.num_tokens() > 0) run_step(device, options, batch, cache, tokens.of_step(sequences));
  batch.set_step(last_step);
}

void check(CpuDevice& device, Random& random, const Options& options,
           const std::vector<StepBatch::Sequence>& sequences) {
  PagedCache cache(shape_of(options, sequences));
  StepBatch batch(sequences, cache.shape(), random);
  const Tokens tokens = random_tokens(random, sequences, options.heads);
  run_history(device, options, batch, cache, tokens, sequences);
  std::vector<float> qkv = tokens.of_step(sequences);
  const auto output = run_step(device, options, batch, cache, qkv);
  const auto expected =
      attention_reference(attention_params(options, batch, cache, qkv.data(), nullptr), cache, batch);
  ASSERT_EQ(output.size(), expected.size());
  for (size_t i = 0; i < output.size(); ++i) ASSERT_NEAR(output[i], expected[i], 4e-6) << "element " << i;
}

TEST_P(AttentionTest, EqualsDoublePrecisionForManyShapes) {
  Random random(fresh_seed());
  CpuDevice device(GetParam());
  const HeadShape shapes[] = {{1, 1, 16}, {4, 2, 32}, {6, 2, 64}, {3, 1, 80},
                              {2, 2, 24}, {17, 1, 8}, {2, 1, 256}};
  for (const HeadShape& heads : shapes) {
    for (const int32_t page_tokens : {16, 24, 7}) {
      Options options;
      options.heads = heads;
      options.page_tokens = page_tokens;
      check(device, random, options, {{1, 1}, {37, 1}, {16, 16}, {50, 21}, {33, 2}});
    }
  }
}

TEST_P(AttentionTest, EqualsDoublePrecisionWithSoftcapAndWindow) {
  Random random(fresh_seed());
  CpuDevice device(GetParam());
  for (const int32_t window : {1, 5, 16, 40}) {
    Options options;
    options.sliding_window = window;
    options.softcap = window == 5 ? 1.5f : 0.0f;
    check(device, random, options, {{1, 1}, {90, 1}, {75, 40}, {17, 17}});
  }
}

TEST_P(AttentionTest, EqualsDoublePrecisionWithSlopes) {
  Random random(fresh_seed());
  CpuDevice device(GetParam());
  for (const int32_t window : {0, 40}) {
    Options options;
    options.heads = {6, 2, 32};
    options.sliding_window = window;
    options.slopes = {0.5f, 0.25f, 0.125f, 0.0625f, 0.7f, 0.01f};
    check(device, random, options, {{1, 1}, {90, 1}, {75, 40}, {17, 17}});
  }
}

TEST_P(AttentionTest, EqualsDoublePrecisionForEveryCacheFormat) {
  Random random(fresh_seed());
  CpuDevice device(GetParam());
  for (const int32_t head_dim : {32, 64, 96, 128}) {
    for (const KvFormat key : {KvFormat::f16, KvFormat::fp8, KvFormat::q8, KvFormat::q4}) {
      Options options;
      options.heads = {4, 2, head_dim};
      options.key_format = key;
      options.value_format = key == KvFormat::q8 && head_dim == 64 ? KvFormat::q4 : key;
      check(device, random, options, {{40, 3}, {21, 1}});
    }
  }
}

TEST_P(AttentionTest, EqualsDoublePrecisionOverSeveralSegments) {
  Random random(fresh_seed());
  for (const int32_t threads : {1, 8}) {
    CpuDevice device(GetParam(), threads);
    Options options;
    options.heads = {2, 1, 16};
    options.page_tokens = 64;
    check(device, random, options, {{1200, 3}});
    options.sliding_window = 700;
    check(device, random, options, {{1200, 2}, {600, 100}});
  }
}

std::vector<uint32_t> last_row(const std::vector<float>& output, const HeadShape& heads) {
  const auto floats = static_cast<ptrdiff_t>(heads.num_heads * heads.head_dim);
  return bits_of({output.end() - floats, output.end()});
}

// The last token of a sequence of 600: prefilled at once, in odd chunks, or decoded; alone or in a batch; on
// other pages; with other threads.
TEST_P(AttentionTest, ATokenDoesNotDependOnTheSteps) {
  Random random(fresh_seed());
  for (const int32_t window : {0, 333 / stride_if_sanitized(3)}) {
    for (const KvFormat format : {KvFormat::f16, KvFormat::q8}) {
      Options options;
      options.heads = {6, 2, 32};
      options.key_format = options.value_format = format;
      options.sliding_window = window;
      const int32_t length = 600 / stride_if_sanitized(3);
      const Tokens tokens = random_tokens(random, {{length, length}}, options.heads);
      std::vector<uint32_t> expected;
      const auto expect_same = [&](const std::vector<float>& output, const char* how) {
        const auto row = last_row(output, options.heads);
        if (expected.empty()) expected = row;
        EXPECT_EQ(row, expected) << how;
      };
      for (const int32_t threads : {1, 2, 7}) {
        CpuDevice device(GetParam(), threads);
        for (const int32_t chunk : {600, 1, 37, 256}) {
          if (chunk == 1 && threads != 2) continue;
          options.page_tokens = chunk == 37 ? 48 : 64;
          PagedCache cache(shape_of(options, {{length, length}}));
          StepBatch batch({{length, length}}, cache.shape(), random);
          std::vector<float> output;
          // Chunks of one token: only the last ten tokens, after a first chunk with the others.
          for (int32_t done = 0; done < length;) {
            const int32_t now = chunk == 1 && done == 0 ? length - 10 : std::min(chunk, length - done);
            done += now;
            batch.set_step({{done, now}});
            output = run_step(device, options, batch, cache, tokens.of_step({{done, now}}));
          }
          expect_same(output, "chunked");
        }
        const std::vector<StepBatch::Sequence> company = {{45, 9}, {200, 1}, {length, 200}};
        PagedCache cache(shape_of(options, company));
        StepBatch batch(company, cache.shape(), random);
        Tokens all = random_tokens(random, company, options.heads);
        all.rows[2] = tokens.rows[0];
        run_history(device, options, batch, cache, all, company);
        expect_same(run_step(device, options, batch, cache, all.of_step(company)), "in company");
      }
    }
  }
}

// A single token uses another kernel than many: test it for each number of heads that share keys, and each
// format.
TEST_P(AttentionTest, ADecodedTokenEqualsAPrefilledOne) {
  Random random(fresh_seed());
  CpuDevice device(GetParam(), 2);
  for (const KvFormat format : {KvFormat::f16, KvFormat::fp8, KvFormat::q8, KvFormat::q4}) {
    for (const int32_t group : {1, 2, 3, 4, 5}) {
      for (const int32_t window : {0, 21}) {
        Options options;
        options.heads = {2 * group, 2, 64};
        options.key_format = options.value_format = format;
        options.sliding_window = window;
        options.page_tokens = group == 2 ? 24 : 16;
        const int32_t length = 61;
        const Tokens tokens = random_tokens(random, {{length, length}}, options.heads);
        std::vector<uint32_t> rows[2];
        for (const int32_t last : {1, 30}) {
          PagedCache cache(shape_of(options, {{length, length}}));
          StepBatch batch({{length, length}}, cache.shape(), random);
          batch.set_step({{length - last, length - last}});
          run_step(device, options, batch, cache, tokens.of_step({{length - last, length - last}}));
          batch.set_step({{length, last}});
          rows[last == 1 ? 0 : 1] = last_row(
              run_step(device, options, batch, cache, tokens.of_step({{length, last}})), options.heads);
        }
        EXPECT_EQ(rows[0], rows[1]) << "format " << static_cast<int>(format) << ", " << group
                                    << " heads share keys, window " << window;
      }
    }
  }
}

TEST_P(AttentionTest, ANonFiniteSequenceDoesNotAffectOthers) {
  Random random(fresh_seed());
  CpuDevice device(GetParam());
  const Options options;
  const std::vector<StepBatch::Sequence> sequences = {{20, 20}, {20, 20}, {20, 20}};
  const Tokens sound = random_tokens(random, sequences, options.heads);
  const auto run = [&](const Tokens& tokens) {
    PagedCache cache(shape_of(options, sequences));
    StepBatch batch(sequences, cache.shape(), random);
    return run_step(device, options, batch, cache, tokens.of_step(sequences));
  };
  const auto expected = run(sound);
  Tokens faulty = sound;
  faulty.rows[1][7 * faulty.floats + 4 * 32 + 3] = std::nanf("");  // a key of KV head 0
  const auto output = run(faulty);
  const size_t row = 4 * 32;
  for (size_t t = 0; t < 60; ++t) {
    const bool sees_it = t >= 27 && t < 40;
    for (size_t i = 0; i < row; ++i) {
      // Queries of the other KV head are not affected.
      const bool hit = sees_it && i < row / 2;
      if (hit) {
        EXPECT_TRUE(std::isnan(output[t * row + i])) << t;
      } else {
        EXPECT_EQ(output[t * row + i], expected[t * row + i]) << t;
      }
    }
  }
}

TEST_P(AttentionTest, RefusesUnsupportedShapes) {
  CpuDevice device(GetParam());
  Random random(fresh_seed());
  Options options;
  options.heads = {2, 1, 48};
  options.key_format = KvFormat::q8;
  PagedCache cache(shape_of(options, {{1, 1}}));
  StepBatch batch({{1, 1}}, cache.shape(), random);
  std::vector<float> qkv(row_floats(options.heads));
  std::vector<float> output(96);
  AttentionParams params = attention_params(options, batch, cache, qkv.data(), output.data());
  const Status refused = device.table().attention(device.context(), &params);
  EXPECT_EQ(refused, Status::unsupported);
  EXPECT_NE(std::string(refused.words).find("48"), std::string::npos) << refused.words;
  params.heads.head_dim = 512;
  EXPECT_EQ(device.table().attention(device.context(), &params), Status::invalid_argument);
}

TEST(AttentionAcrossIsas, GivesTheSameBits) {
  Random random(fresh_seed());
  for (const KvFormat format : {KvFormat::f16, KvFormat::fp8, KvFormat::q8, KvFormat::q4}) {
    Options options;
    options.heads = {6, 2, 96};
    options.key_format = options.value_format = format;
    options.softcap = 20.0f;
    const std::vector<StepBatch::Sequence> sequences = {{50, 50}, {9, 9}};
    const Tokens tokens = random_tokens(random, sequences, options.heads);
    std::vector<uint32_t> expected;
    for (const std::string& isa : usable_isas()) {
      CpuDevice device(isa);
      PagedCache cache(shape_of(options, sequences));
      StepBatch batch(sequences, cache.shape(), random);
      const auto output = bits_of(run_step(device, options, batch, cache, tokens.of_step(sequences)));
      if (expected.empty()) expected = output;
      EXPECT_EQ(output, expected) << isa;
    }
  }
}

QUIRE_FOR_EACH_ISA(AttentionTest);

}  // namespace
}  // namespace quire::testing
