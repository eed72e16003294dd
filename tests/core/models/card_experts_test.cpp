// Host experts that the card multiplies if they have many rows: a step gives the same bits whichever of the
// two multiplies, and the plan equals the memory of both.
#include "core/layers/card_experts.h"

#include <cstring>

#include <gtest/gtest.h>

#include "core/models/memory_plan.h"
#include "core/models/stage_sizes.h"
#include "tests/core/models/exl2_experts.h"
#include "tests/support/case_stride.h"

namespace quire::testing {
namespace {

class CardExpertsOfFamily : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    Exl2ExpertsSource source(GetParam());
    const ModelSpec& spec = source.config().spec;
    for (const int32_t layer : layers_with_experts(spec))
      if (host_experts_refusal(spec.layers[static_cast<size_t>(layer)]).empty()) layers_.push_back(layer);
    if (layers_.empty()) GTEST_SKIP() << GetParam() << " has no experts that may lie apart";
    vocab_size_ = spec.vocab_size;
    const FamilyDirectory family(GetParam());
    if (const std::string refusal = refusal_of(family.path()); !refusal.empty()) GTEST_SKIP() << refusal;
  }
  std::shared_ptr<const Model> load() const { return load_exl2_experts(GetParam(), rig_, layers_); }
  // Returns the bytes of some slots of the model.
  uint64_t slots_of(const Model& model, double share) const {
    const kernels::PackedExpertLimits packed = position_of_stage(*model.transformer(), 0).packed;
    return static_cast<uint64_t>(share * packed.num_slots) * packed.slot_bytes;
  }

  const CardAndHost rig_;
  std::vector<int32_t> layers_;
  int32_t vocab_size_ = 0;
};

// Chunks of one token are multiplied by the host, long ones by the card.
TEST_P(CardExpertsOfFamily, GiveTheSameBitsInAnyChunksAndCompany) {
  const auto model = load();
  const TokenIds text = some_ids(70, vocab_size_, 3);
  const std::vector<float> whole = TransformerRunner(model, {}).logits(text, 70);
  for (const int32_t chunk : {1, 33})
    expect_identical(TransformerRunner(model, {}).logits(text, chunk), whole);
  TransformerRunner runner(model, {});
  const std::vector<float> rows =
      runner.step({{0, 0, some_ids(150, vocab_size_, 1)}, {2, 0, text}, {5, 0, some_ids(7, vocab_size_, 2)}});
  const auto begin = rows.begin() + ptrdiff_t{150} * vocab_size_;
  expect_identical({begin, begin + static_cast<ptrdiff_t>(whole.size())}, whole);
}

// Experts get into slots and leave them; no bit depends on which are there.
TEST_P(CardExpertsOfFamily, GiveTheSameBitsWithAnySlots) {
  const auto model = load();
  const TokenIds text = some_ids(70, vocab_size_, 3), other = some_ids(50, vocab_size_, 9);
  const std::vector<float> whole = TransformerRunner(model, {}).logits(text, 70);
  const uint64_t slot = position_of_stage(*model->transformer(), 0).packed.slot_bytes;
  for (const uint64_t bytes : {slot, slots_of(*model, 0.25), slots_of(*model, 0.5), uint64_t{1} << 60}) {
    SCOPED_TRACE(bytes);
    RunnerOptions options;
    options.card_expert_bytes = bytes;
    TransformerRunner runner(model, options);
    for (const int32_t chunk : {1, 70, 5, 1, 33}) {
      expect_identical(runner.logits(text, chunk), whole);
      (void)runner.logits(other, chunk, 1);
    }
    const std::vector<float> rows = runner.step(
        {{0, 0, some_ids(150, vocab_size_, 1)}, {2, 0, text}, {5, 0, some_ids(7, vocab_size_, 2)}});
    const auto begin = rows.begin() + ptrdiff_t{150} * vocab_size_;
    expect_identical({begin, begin + static_cast<ptrdiff_t>(whole.size())}, whole);
    const ExpertUse use = runner.executor().expert_use();
    if (bytes < slot || slot == 0) {
      EXPECT_EQ(use.hits + use.misses, 0U);
    } else {
      EXPECT_GT(use.hits, 0U);
    }
  }
}

TEST_P(CardExpertsOfFamily, TakeThePlannedMemory) {
  const auto model = load();
  TransformerExecutorOptions options;
  options.card_expert_bytes = slots_of(*model, 0.5);
  options.max_pages_per_sequence = 2;
  options.kv.num_pages = 4;
  options.kv.page_tokens = 64;
  const Transformer& transformer = *model->transformer();
  const StageSizes sizes = stage_sizes(position_of_stage(transformer, 0), transformer.shape, options);
  const uint64_t before = rig_.card()->memory_use().held_bytes;
  const TransformerExecutor executor(model->transformer(), options);
  const MemoryBytes planned = plan_stage(*rig_.card(), sizes);
  EXPECT_EQ(rig_.card()->memory_use().held_bytes - before, planned.cache());
  EXPECT_EQ(rig_.card()->memory_use().pinned_bytes, planned.staging);
}

INSTANTIATE_TEST_SUITE_P(Families, CardExpertsOfFamily,
                         ::testing::ValuesIn(thin_if_sanitized(families_with_experts(), 5)),
                         [](const auto& test) { return test.param; });

TEST(CardExperts, HaveMemoryIfTheCardCanMultiplyThem) {
  const CardAndHost rig;
  const auto source = std::make_shared<Exl2ExpertsSource>("qwen3_moe");
  const Placement placement =
      experts_apart(source->config().num_layers, layers_with_experts(source->config().spec));
  const auto outline = build_outline(*source, {rig.card(), rig.host()}, placement);
  TransformerExecutorOptions options;
  options.max_tokens = 3 * kMaxCardTokens;
  options.max_pages_per_sequence = options.kv.num_pages = 1;
  const kernels::PackedExpertLimits limits =
      stage_sizes(position_of_stage(*outline, 0), outline->shape, options).context.packed;
  EXPECT_EQ(limits.staging_bytes > 0, rig.card()->has(kernels::kCapabilityPackedExperts));
  EXPECT_EQ(limits.max_tokens, limits.staging_bytes > 0 ? kMaxCardTokens : 0);
}

TEST(CardExperts, HaveAsManySlotsAsTheirMemoryHolds) {
  const CardAndHost rig;
  if (!rig.card()->has(kernels::kCapabilityPackedExperts)) GTEST_SKIP() << "the card has no packed experts";
  const auto source = std::make_shared<Exl2ExpertsSource>("qwen3_moe");
  const std::vector<int32_t> layers = layers_with_experts(source->config().spec);
  const auto outline =
      build_outline(*source, {rig.card(), rig.host()}, experts_apart(source->config().num_layers, layers));
  const auto slots_with = [&](uint64_t bytes) {
    TransformerExecutorOptions options;
    options.max_pages_per_sequence = options.kv.num_pages = 1;
    options.card_expert_bytes = bytes;
    return stage_sizes(position_of_stage(*outline, 0), outline->shape, options).context.packed;
  };
  const kernels::PackedExpertLimits most = slots_with(std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(most.num_slots, most.num_experts * static_cast<int32_t>(layers.size()));
  EXPECT_EQ(slots_with(most.slot_bytes - 1).num_slots, 0);
  EXPECT_EQ(slots_with(most.slot_bytes).num_slots, 1);
  EXPECT_EQ(slots_with(3 * most.slot_bytes + 1).num_slots, 3);
}

// The rows of one step, in which each token chooses one expert.
CardRows rows_of(const std::vector<int32_t>& experts, const std::vector<kernels::ExpertPlace>& places) {
  CardRows rows;
  rows.experts = experts.data();
  rows.num_chosen = 1;
  rows.tokens = static_cast<int32_t>(experts.size());
  if (!places.empty()) rows.places = places.data();
  return rows;
}

TEST(CardExperts, PayForManyRowsOfEachChosenExpert) {
  std::vector<int32_t> experts(6, 3);
  const auto pays = [&] { return pays_on_card(rows_of(experts, {})); };
  EXPECT_TRUE(pays());
  experts[5] = 2;
  EXPECT_FALSE(pays()) << "two experts";
  experts.resize(12, 2);
  EXPECT_TRUE(pays());
  experts.resize(11);
  EXPECT_FALSE(pays());
}

TEST(CardExperts, PayForRowsThatTheHostWouldMultiply) {
  std::vector<kernels::ExpertPlace> places(4);
  places[1] = {0, true};
  places[2] = {1, false};
  EXPECT_TRUE(pays_on_card(rows_of({1, 1}, places))) << "the card has all of them";
  EXPECT_TRUE(are_in_slots(rows_of({1, 0}, places)));
  EXPECT_FALSE(pays_on_card(rows_of({1, 0}, places)));
  EXPECT_FALSE(are_in_slots(rows_of({2, 0}, places))) << "one has a slot, but is not there";
  std::vector<int32_t> many(6, 0);
  many.push_back(1);
  EXPECT_TRUE(pays_on_card(rows_of(many, places)));
  many[0] = 3;
  EXPECT_FALSE(pays_on_card(rows_of(many, places))) << "six rows of two experts that it lacks";
  EXPECT_EQ(num_lacking(rows_of(many, places)), 2);
  many.assign(kernels::kMaxSlotTokens, 1);
  many.push_back(0);
  EXPECT_TRUE(pays_on_card(rows_of(many, places))) << "the host would have to multiply all of so many rows";
  EXPECT_FALSE(are_in_slots(rows_of(many, places)));
}

TEST(CardExperts, SlicesOfRowsBeginAtTheirToken) {
  const std::vector<float> input(40), weights(20);
  const std::vector<int32_t> experts(20);
  CardRows rows;
  rows.input = input.data();
  rows.num_in = 4;
  rows.weights = weights.data();
  rows.experts = experts.data();
  rows.num_chosen = 2;
  rows.tokens = 10;
  const CardRows slice = rows.slice(3, 5);
  EXPECT_EQ(slice.input, input.data() + 12);
  EXPECT_EQ(slice.weights, weights.data() + 6);
  EXPECT_EQ(slice.experts, experts.data() + 6);
  EXPECT_EQ(slice.input_scale, nullptr);
  EXPECT_EQ(slice.tokens, 5);
}

}  // namespace
}  // namespace quire::testing
