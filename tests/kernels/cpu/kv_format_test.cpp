// Changes that append_kv makes to queries and keys, and the bytes that it writes.
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "kernels/interface/half.h"
#include "tests/kernels/cpu/attention_reference.h"
#include "tests/kernels/cpu/cpu_device.h"

namespace quire::testing {
namespace {

using kernels::AppendKvParams;
using kernels::KvFormat;
using kernels::KvShape;
using kernels::RopeStyle;
using kernels::Status;

class KvFormatTest : public EachIsa {};

KvShape one_head(KvFormat format, int32_t head_dim) {
  KvShape shape;
  shape.key_format = shape.value_format = format;
  shape.page_tokens = 4;
  shape.num_pages = 1;
  shape.num_kv_heads = 1;
  shape.head_dim = head_dim;
  return shape;
}

// Appends one token at position 0 whose key and value are `x`.
void append_one(CpuDevice& device, PagedCache& cache, const std::vector<float>& x) {
  Random random(1);
  const StepBatch batch({{1, 1}}, cache.shape(), random);
  std::vector<float> qkv(x.size());
  qkv.insert(qkv.end(), x.begin(), x.end());
  qkv.insert(qkv.end(), x.begin(), x.end());
  AppendKvParams params;
  params.heads = {1, 1, cache.shape().head_dim};
  params.qkv = qkv.data();
  params.rope = RopeStyle::none;
  params.batch = batch.view();
  params.kv_shape = cache.shape();
  params.kv = cache.layer();
  ASSERT_EQ(device.table().append_kv(device.context(), &params), Status::ok);
}

std::vector<float> example_input() {
  std::vector<float> x;
  for (int i = 0; i < 64; ++i) x.push_back(static_cast<float>((37 * i) % 64 - 32) / 8.0f);
  return x;
}

// Bytes, scales and values that ExLlamaV2's arithmetic yields for the example input.
TEST_P(KvFormatTest, Q4BytesMatchExLlamaV2) {
  CpuDevice device(GetParam());
  PagedCache cache(one_head(KvFormat::q4, 64));
  append_one(device, cache, example_input());
  const uint8_t expected[] = {0x86, 0x66, 0xc4, 0x88, 0x88, 0x80, 0x88, 0x08, 0x08, 0x88, 0x80,
                              0x00, 0x88, 0xf8, 0x00, 0x8f, 0xb5, 0x8b, 0x88, 0x58, 0x85, 0xb5,
                              0xf3, 0x88, 0x88, 0xb8, 0x5b, 0x85, 0xb3, 0x88, 0x8b, 0x5b};
  EXPECT_EQ(std::memcmp(cache.layer().keys, expected, sizeof expected), 0);
  EXPECT_EQ(std::memcmp(cache.layer().values, expected, sizeof expected), 0);
  const auto* scales = static_cast<const uint16_t*>(cache.layer().key_scales);
  EXPECT_EQ(kernels::half_to_float(scales[0]), 2.0f);
  EXPECT_EQ(kernels::half_to_float(scales[1]), 6.0f);
  const double values[] = {-3.9375, 0.4375, -2.5625, 1.8125, -1.6875, 3.6875, -0.5625, -3.4375};
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(cache.key(0, 0, 0)[i], values[i]);
}

TEST_P(KvFormatTest, Q8BytesMatchExLlamaV2) {
  CpuDevice device(GetParam());
  PagedCache cache(one_head(KvFormat::q8, 64));
  append_one(device, cache, example_input());
  const uint8_t expected[] = {0x60, 0x80, 0x60, 0x60, 0x40, 0xc0, 0x80, 0x80};
  EXPECT_EQ(std::memcmp(cache.layer().keys, expected, sizeof expected), 0);
  const auto* scales = static_cast<const uint16_t*>(cache.layer().key_scales);
  EXPECT_EQ(kernels::half_to_float(scales[0]), 0.125f);
  EXPECT_EQ(kernels::half_to_float(scales[1]), 0.375f);
  const double values[] = {-3.99609, 0.613281, -2.73828, 1.87109, -1.51172, 3.16016, -0.269531, -3.61328};
  for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(cache.value(0, 0, 0)[i], values[i], 1e-5);
}

double relative_error(const std::vector<double>& got, const std::vector<float>& wanted) {
  double error = 0.0;
  double size = 0.0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    error += (got[i] - wanted[i]) * (got[i] - wanted[i]);
    size += static_cast<double>(wanted[i]) * static_cast<double>(wanted[i]);
  }
  return std::sqrt(error / size);
}

TEST_P(KvFormatTest, ErrorsAreWithinTheBoundsOfTheFormats) {
  Random random(fresh_seed());
  CpuDevice device(GetParam());
  const struct {
    KvFormat format;
    double bound;
  } formats[] = {{KvFormat::f16, 5e-4}, {KvFormat::fp8, 0.25}, {KvFormat::q8, 0.012}, {KvFormat::q4, 0.19}};
  for (const auto& f : formats) {
    for (const int32_t head_dim : {32, 64, 96, 128, 256}) {
      PagedCache cache(one_head(f.format, head_dim));
      const auto x = random_floats(random, static_cast<size_t>(head_dim), -5, 5);
      append_one(device, cache, x);
      EXPECT_LT(relative_error(cache.key(0, 0, 0), x), f.bound) << head_dim;
      EXPECT_LT(relative_error(cache.value(0, 0, 0), x), f.bound) << head_dim;
    }
  }
}

TEST_P(KvFormatTest, Fp8IsTheTruncatedHalf) {
  CpuDevice device(GetParam());
  PagedCache cache(one_head(KvFormat::fp8, 8));
  const std::vector<float> x = {1.0f, 1.24f, -1.26f, 65504.0f, 0.0f, -0.0f, 3e-6f, 1.9999f};
  append_one(device, cache, x);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(static_cast<const uint8_t*>(cache.layer().keys)[i], kernels::float_to_half(x[i]) >> 8);
  }
}

TEST_P(KvFormatTest, ZerosAndNonFiniteValuesArePreserved) {
  CpuDevice device(GetParam());
  for (const KvFormat format : {KvFormat::q8, KvFormat::q4}) {
    PagedCache cache(one_head(format, 64));
    append_one(device, cache, std::vector<float>(64, 0.0f));
    for (const double value : cache.key(0, 0, 0)) EXPECT_EQ(value, 0.0);
    std::vector<float> x(64, 1.0f);
    x[9] = std::numeric_limits<float>::infinity();
    append_one(device, cache, x);
    EXPECT_TRUE(std::isnan(cache.key(0, 0, 0)[9]));
    append_one(device, cache, std::vector<float>(64, 3e6f));  // too large for an f16 scale
    for (const double value : cache.key(0, 0, 0)) EXPECT_TRUE(std::isfinite(value));
  }
}

// Computes queries and keys from their definition in double precision.
std::vector<double> turned(const float* x, size_t head_dim, const float* norm, double epsilon, RopeStyle rope,
                           size_t half, const float* cosines, const float* sines) {
  std::vector<double> y(x, x + head_dim);
  if (norm != nullptr) {
    const double squares = std::inner_product(y.begin(), y.end(), y.begin(), 0.0);
    const double factor = 1.0 / std::sqrt(squares / static_cast<double>(head_dim) + epsilon);
    for (size_t d = 0; d < head_dim; ++d) y[d] *= factor * static_cast<double>(norm[d]);
  }
  for (size_t i = 0; i < half && rope != RopeStyle::none; ++i) {
    const bool neox = rope == RopeStyle::neox_halves;
    double& a = y[neox ? i : 2 * i];
    double& b = y[neox ? i + half : 2 * i + 1];
    const double a_before = a;
    a = a_before * cosines[i] - b * sines[i];
    b = b * cosines[i] + a_before * sines[i];
  }
  return y;
}

TEST_P(KvFormatTest, NormsAndRotatesBeforeItWrites) {
  Random random(fresh_seed());
  CpuDevice device(GetParam());
  for (const RopeStyle rope : {RopeStyle::neox_halves, RopeStyle::gptj_pairs, RopeStyle::none}) {
    for (const int32_t rotary_dim : {10, 36, 40}) {
      for (const bool with_norm : {false, true}) {
        const int32_t head_dim = 40;
        const kernels::HeadShape heads = {3, 1, head_dim};
        KvShape shape = one_head(KvFormat::f16, head_dim);
        shape.num_pages = 20;
        PagedCache cache(shape);
        StepBatch batch({{11, 6}, {5, 5}, {21, 1}}, shape, random);
        const auto tokens = static_cast<size_t>(batch.num_tokens());
        const auto half = static_cast<size_t>(rotary_dim / 2);
        const auto cosines = random_floats(random, tokens * half);
        const auto sines = random_floats(random, tokens * half);
        const auto q_norm = random_floats(random, 40);
        const auto k_norm = random_floats(random, 40);
        const auto before = random_floats(random, tokens * 5 * 40);
        std::vector<float> qkv = before;
        AppendKvParams params;
        params.heads = heads;
        params.qkv = qkv.data();
        params.qk_norm = with_norm ? kernels::QkNorm::each_head : kernels::QkNorm::none;
        params.q_norm = with_norm ? q_norm.data() : nullptr;
        params.k_norm = with_norm ? k_norm.data() : nullptr;
        params.rope = rope;
        params.rotary_dim = rotary_dim;
        params.cos = cosines.data();
        params.sin = sines.data();
        params.batch = batch.view();
        params.kv_shape = shape;
        params.kv = cache.layer();
        ASSERT_EQ(device.table().append_kv(device.context(), &params), Status::ok);
        for (size_t t = 0; t < tokens; ++t) {
          const auto token = static_cast<int32_t>(t);
          const int32_t position = batch.position(token);
          const int32_t page = batch.page(batch.sequence(token), position);
          for (size_t h = 0; h < 4; ++h) {
            const float* norm = !with_norm ? nullptr : h < 3 ? q_norm.data() : k_norm.data();
            const auto expected = turned(before.data() + (t * 5 + h) * 40, 40, norm, 1e-6, rope, half,
                                         cosines.data() + t * half, sines.data() + t * half);
            const auto key = cache.key(page, 0, position % 4);
            for (size_t d = 0; d < 40; ++d) {
              if (h < 3) {
                EXPECT_NEAR(qkv[(t * 5 + h) * 40 + d], expected[d], 2e-6);
              } else {
                EXPECT_NEAR(key[d], expected[d], 1e-3 * (1.0 + std::abs(expected[d])));
              }
            }
          }
          const auto value = cache.value(page, 0, position % 4);
          for (size_t d = 0; d < 40; ++d) {
            EXPECT_EQ(value[d], kernels::round_to_half(before[(t * 5 + 4) * 40 + d]));
          }
        }
      }
    }
  }
}

// Layer norms whose weights and biases are shared by the heads, or each head's own.
TEST_P(KvFormatTest, NormsOfHeadsHaveBiases) {
  Random random(fresh_seed());
  CpuDevice device(GetParam());
  constexpr size_t kDim = 24, kHeads = 3;
  for (const bool is_per_head : {false, true}) {
    PagedCache cache(one_head(KvFormat::f16, kDim));
    StepBatch batch({{1, 1}}, cache.shape(), random);
    const auto before = random_floats(random, (kHeads + 2) * kDim);
    const auto weights = random_floats(random, kHeads * kDim);
    const auto biases = random_floats(random, kHeads * kDim);
    std::vector<float> qkv = before;
    AppendKvParams params;
    params.heads = {kHeads, 1, kDim};
    params.qkv = qkv.data();
    params.qk_norm = kernels::QkNorm::each_head;
    params.qk_norm_kind = kernels::NormKind::layer;
    params.qk_weight_per_head = is_per_head;
    params.q_norm = params.k_norm = weights.data();
    params.q_norm_bias = params.k_norm_bias = biases.data();
    params.rope = RopeStyle::none;
    params.batch = batch.view();
    params.kv_shape = cache.shape();
    params.kv = cache.layer();
    ASSERT_EQ(device.table().append_kv(device.context(), &params), Status::ok);
    for (size_t h = 0; h < kHeads; ++h) {
      const float* head = before.data() + h * kDim;
      const double mean = std::accumulate(head, head + kDim, 0.0) / kDim;
      double squares = 0.0;
      for (size_t d = 0; d < kDim; ++d) squares += (head[d] - mean) * (head[d] - mean);
      const double factor = 1.0 / std::sqrt(squares / kDim + 1e-6);
      for (size_t d = 0; d < kDim; ++d) {
        const size_t at = is_per_head ? h * kDim + d : d;
        const double expected = (head[d] - mean) * factor * weights[at] + biases[at];
        EXPECT_NEAR(qkv[h * kDim + d], expected, 1e-5);
      }
    }
  }
}

TEST_P(KvFormatTest, CopiesTheFirstTokensOfAPage) {
  Random random(fresh_seed());
  CpuDevice device(GetParam());
  for (const KvFormat format : {KvFormat::f16, KvFormat::fp8, KvFormat::q8, KvFormat::q4}) {
    KvShape shape = one_head(format, 64);
    shape.num_kv_heads = 2;
    shape.num_pages = 3;
    PagedCache cache(shape);
    StepBatch batch({{4, 4}, {4, 4}}, shape, random);
    auto qkv = random_floats(random, 8 * 64 * 6);
    AppendKvParams params;
    params.heads = {2, 2, 64};
    params.qkv = qkv.data();
    params.rope = RopeStyle::none;
    params.batch = batch.view();
    params.kv_shape = shape;
    params.kv = cache.layer();
    ASSERT_EQ(device.table().append_kv(device.context(), &params), Status::ok);
    const PagedCache before = cache;
    kernels::CopyPageParams copy;
    copy.kv_shape = shape;
    copy.kv = cache.layer();
    copy.source = batch.page(0, 0);
    copy.target = batch.page(1, 0);
    copy.num_tokens = 3;
    ASSERT_EQ(device.table().copy_page(device.context(), &copy), Status::ok);
    for (int32_t head = 0; head < 2; ++head) {
      for (int32_t slot = 0; slot < 4; ++slot) {
        const int32_t from = slot < 3 ? copy.source : copy.target;
        EXPECT_EQ(cache.key(copy.target, head, slot), before.key(from, head, slot));
        EXPECT_EQ(cache.value(copy.target, head, slot), before.value(from, head, slot));
        EXPECT_EQ(cache.key(copy.source, head, slot), before.key(copy.source, head, slot));
      }
    }
    copy.target = 3;
    EXPECT_EQ(device.table().copy_page(device.context(), &copy), Status::invalid_argument);
  }
}

QUIRE_FOR_EACH_ISA(KvFormatTest);

}  // namespace
}  // namespace quire::testing
