// Codes in any layout have the same weights when converted for the card or expanded.
#include "kernels/cuda/plan/coded_form.h"

#include <cmath>

#include <gtest/gtest.h>

#include "kernels/cuda/plan/weight_plan.h"
#include "kernels/interface/half.h"
#include "tests/support/dequantize_reference.h"
#include "tests/support/quantized_fixture.h"

namespace quire::testing {
namespace {

using namespace kernels;

// Returns weights in stored column order, as the reference reads them.
std::vector<float> reference(WeightSource source) {
  source.column_order = nullptr;
  return dequantize_reference(source);
}

// Returns the words as every second word of a larger matrix, as in a slice of a fused one.
std::vector<uint32_t> with_gaps(const std::vector<uint32_t>& words) {
  std::vector<uint32_t> spread;
  for (const uint32_t word : words) spread.insert(spread.end(), {word, ~word});
  return spread;
}

// Returns the source with words and scales replaced by those of its form.
WeightSource as_formed(WeightSource source, const GptqForm& form) {
  source.coded.codes = form.codes.words;
  source.coded.row_words = form.codes.outer_words;
  source.coded.column_words = form.codes.inner_words;
  source.coded.zeros = form.zeros.words;
  source.coded.zero_group_words = form.zeros.outer_words;
  source.coded.zero_column_words = form.zeros.inner_words;
  source.coded.scales = form.scales;
  source.coded.scale_dtype = DType::f16;
  return source;
}

TEST(CodedForm, HasTheSameWeightsWithF16Scales) {
  for (const CodedOptions& options : coded_varieties(7)) {
    const WeightFixture fixture = make_coded(options);
    WeightSource source = fixture.source();
    if (coded_kind(source) != TileKind::gptq && coded_kind(source) != TileKind::gptq8) continue;
    GptqForm form;
    make_gptq_form(source, form);
    EXPECT_TRUE(form.codes.made.empty());
    const WeightSource formed = as_formed(source, form);
    source.coded.scales = form.scales;  // rounded once
    source.coded.scale_dtype = DType::f16;
    EXPECT_EQ(reference(formed), reference(source));

    const std::vector<uint32_t> codes = with_gaps(fixture.q_weight), zeros = with_gaps(fixture.q_zeros);
    WeightSource spread = source;
    spread.coded.codes = codes.data();
    spread.coded.row_words *= 2;
    spread.coded.column_words *= 2;
    spread.coded.zeros = zeros.data();
    spread.coded.zero_group_words *= 2;
    spread.coded.zero_column_words *= 2;
    GptqForm gathered;
    make_gptq_form(spread, gathered);
    EXPECT_FALSE(gathered.codes.made.empty());
    EXPECT_EQ(reference(as_formed(spread, gathered)), reference(source));
  }
}

TEST(CodedForm, BorrowsArraysWithoutGaps) {
  const WeightFixture fixture = make_coded({});
  GptqForm form;
  make_gptq_form(fixture.source(), form);
  EXPECT_EQ(form.codes.words, fixture.q_weight.data());
  EXPECT_EQ(form.zeros.words, fixture.q_zeros.data());
  EXPECT_TRUE(form.made_scales.empty());
}

// Power-of-two scales, so that no value is rounded.
TEST(CodedForm, PrescaleIsAddedToExponents) {
  for (const float prescale : {0.5f, 4.0f, 0.03125f}) {
    CodedOptions options = coded_varieties(3)[3];
    options.prescale = prescale;
    const WeightFixture fixture = make_coded(options);
    const WeightSource source = fixture.source();
    ASSERT_EQ(coded_kind(source), TileKind::mxfp4);
    const std::vector<float> expected = reference(source);
    constexpr float kMagnitudes[] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
    for (int32_t k = 0; k < source.num_in; ++k) {
      for (int32_t n = 0; n < source.num_out; ++n) {
        const uint32_t code = source.coded.code(k, n);
        const auto exponent = static_cast<const uint8_t*>(
            source.coded.scales)[source.coded.group_of_row[k] * source.padded_out + n];
        const float element = kMagnitudes[code & 7] * (code < 8 ? 1.0f : -1.0f);
        const int unit = kMaxFactorExponent - kE2m1UnitExponent;
        ASSERT_EQ(std::ldexp(element, exponent + exponent_shift(source) - 127 + unit),
                  expected[static_cast<size_t>(k * source.num_out + n)]);
      }
    }
  }
}

TEST(CodedForm, OtherScalesThanPowersOfTwoAreExpanded) {
  CodedOptions options = coded_varieties(3)[3];
  for (const float prescale : {0.75f, 0.0f, -0.5f, 1e-30f, 1e30f}) {
    options.prescale = prescale;
    EXPECT_EQ(coded_kind(make_coded(options).source()), TileKind::dense) << prescale;
  }
  options.prescale = 0.5f;
  options.values[9] += 1;
  EXPECT_EQ(coded_kind(make_coded(options).source()), TileKind::dense);
}

TEST(CodedForm, ExpandsEachWeightRoundedOnce) {
  for (const CodedOptions& options : coded_varieties(8)) {
    const WeightFixture fixture = make_coded(options);
    const WeightSource source = fixture.source();
    const std::vector<float> expected = reference(source);
    const std::vector<uint16_t> halves = expand_to_half(source);
    for (int32_t n = 0; n < source.num_out; ++n) {
      for (int32_t k = 0; k < source.num_in; ++k) {
        ASSERT_EQ(halves[static_cast<size_t>(n * source.num_in + k)],
                  float_to_half(expected[static_cast<size_t>(k * source.num_out + n)]));
      }
    }
  }
}

TEST(CodedForm, UnsupportedCodesArePlannedAsF16) {
  for (const CodedOptions& options : coded_varieties(9)) {
    const WeightFixture fixture = make_coded(options);
    const WeightSource source = fixture.source();
    PartPlan plan;
    ASSERT_TRUE(plan_part(source, plan));
    const bool fits = options.group_size % 32 == 0;
    EXPECT_EQ(plan.kind, fits ? coded_kind(source) : TileKind::dense);
    const int32_t bits = plan.kind == TileKind::dense ? 16 : options.bits;
    EXPECT_EQ(plan.steps.front().bits, bits);
    if (plan.kind == TileKind::mxfp4) {
      EXPECT_EQ(plan.runs.size(), 1U);
      EXPECT_EQ(plan.runs.front().records, 1);
    }
  }
}

}  // namespace
}  // namespace quire::testing
