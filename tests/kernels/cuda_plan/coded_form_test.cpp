// Codes in whatever arrangement, brought into GPTQ's on the host or expanded, are the same weights.
#include "kernels/cuda/plan/coded_form.h"

#include <gtest/gtest.h>

#include "kernels/cuda/plan/weight_plan.h"
#include "kernels/interface/half.h"
#include "tests/support/dequantize_reference.h"
#include "tests/support/quantized_fixture.h"

namespace quire::testing {
namespace {

using namespace kernels;

// Weights in stored columns, as the reference reads them.
std::vector<float> reference(WeightSource source) {
  source.column_order = nullptr;
  return dequantize_reference(source);
}

TEST(CodedForm, HoldsTheSameWeightsInGptqOrder) {
  for (const CodedOptions& options : coded_varieties(7)) {
    const WeightFixture fixture = make_coded(options);
    const WeightSource source = fixture.source();
    if (!has_gptq_arithmetic(source.coded)) continue;
    GptqForm form;
    make_gptq_form(source, form);
    WeightSource gptq = source;
    gptq.padded_out = form.columns;
    gptq.coded.codes = form.codes;
    gptq.coded.row_words = form.columns;
    gptq.coded.column_words = 1;
    gptq.coded.zeros = form.zeros;
    gptq.coded.zero_group_words = form.columns / 8;
    gptq.coded.zero_column_words = 1;
    gptq.coded.scales = form.scales;
    gptq.coded.scale_dtype = DType::f16;
    EXPECT_EQ(reference(gptq), reference(source));
  }
}

TEST(CodedForm, BorrowsWhatIsInOrderAlready) {
  const WeightFixture fixture = make_coded({});
  GptqForm form;
  make_gptq_form(fixture.source(), form);
  EXPECT_EQ(form.codes, fixture.q_weight.data());
  EXPECT_EQ(form.zeros, fixture.q_zeros.data());
  EXPECT_TRUE(form.made_scales.empty());
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

TEST(CodedForm, WhatTheKernelsDoNotKnowIsPlannedAsHalves) {
  for (const CodedOptions& options : coded_varieties(9)) {
    const WeightFixture fixture = make_coded(options);
    const WeightSource source = fixture.source();
    PartPlan plan;
    ASSERT_TRUE(plan_part(source, plan));
    const bool is_gptq = has_gptq_arithmetic(source.coded) && options.group_size % 32 == 0;
    EXPECT_EQ(plan.kind, is_gptq ? TileKind::gptq : TileKind::dense);
  }
}

}  // namespace
}  // namespace quire::testing
