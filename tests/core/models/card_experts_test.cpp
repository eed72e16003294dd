// Host experts that the card multiplies if they have many rows: a step gives the same bits whichever of the
// two multiplies, and the plan equals the memory of both.
#include "core/layers/card_experts.h"

#include <cstring>

#include <gtest/gtest.h>

#include "core/models/memory_plan.h"
#include "core/models/stage_sizes.h"
#include "core/models/synthetic_model.h"
#include "tests/core/models/host_experts_rig.h"
#include "tests/support/case_stride.h"
#include "tests/support/golden_families.h"

namespace quire::testing {
namespace {

std::unique_ptr<WeightProvider> weights_of(std::string_view format, ReadScope scope) {
  SyntheticSpec spec;
  spec.format = format;
  return make_synthetic_weights(spec, scope);
}

// Random weights: experts in EXL2, all other matrices in f16.
class Exl2Experts final : public WeightProvider {
 public:
  explicit Exl2Experts(ReadScope scope)
      : experts_(weights_of("exl2", scope)), others_(weights_of("dense", scope)) {}

  bool is_concurrent() const override { return true; }
  bool has_linear(const std::string&) const override { return true; }
  bool has_tensor(const std::string&) const override { return true; }
  LinearWeight linear(const LinearRequest& request) override {
    LinearRequest own = request;
    own.key += "." + std::to_string(request.part.expert);
    const bool is_expert = request.key.find("experts") != std::string::npos && request.num_in % 32 == 0 &&
                           request.num_out % 32 == 0;
    LinearWeight weight = (is_expert ? experts_ : others_)->linear(own);
    if (request.needs_bias) weight.bias.assign(static_cast<size_t>(request.num_out), 0.125f);
    return weight;
  }
  std::vector<float> vector(const std::string& name, int32_t count) override {
    return others_->vector(name, count);
  }
  HostTensor table(const std::string& name, int32_t rows, int32_t columns) override {
    return others_->table(name, rows, columns);
  }

 private:
  const std::unique_ptr<WeightProvider> experts_;
  const std::unique_ptr<WeightProvider> others_;
};

// The configuration of a family with such weights.
class Exl2ExpertsSource final : public ModelSource {
 public:
  explicit Exl2ExpertsSource(const std::string& family)
      : ModelSource(family), text_(golden_family_config(family)) {}

  const std::string& generation_config() override { return none_; }
  bool has_tokenizer() override { return false; }
  TokenizerTexts tokenizer() override { return {}; }
  std::string chat_template() override { return {}; }
  std::string tokenizer_config() override { return {}; }
  std::unique_ptr<WeightProvider> weights(ReadScope scope, const LoadMonitor&) override {
    return std::make_unique<Exl2Experts>(scope);
  }
  StoredTensors tensors() override { return {}; }

 private:
  ModelConfig read_config() override { return parse_model_config(text_, {}, path()); }
  Sha256 read_identity() override { return sha256(path()); }

  const std::string text_;
  const std::string none_;
};

std::vector<std::string> families_with_experts() {
  std::vector<std::string> families;
  for (const std::string& name : golden_families())
    if (golden_family_config(name).find("expert") != std::string::npos) families.push_back(name);
  return families;
}

class CardExpertsOfFamily : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    Exl2ExpertsSource source(GetParam());
    const ModelSpec& spec = source.config().spec;
    for (const int32_t layer : layers_with_experts(spec))
      if (host_experts_refusal(spec.layers[static_cast<size_t>(layer)]).empty()) layers_.push_back(layer);
    if (layers_.empty()) GTEST_SKIP() << GetParam() << " has no experts that may lie apart";
    placement_ = experts_apart(source.config().num_layers, layers_);
    vocab_size_ = spec.vocab_size;
    const FamilyDirectory family(GetParam());
    if (const std::string refusal = refusal_of(family.path()); !refusal.empty()) GTEST_SKIP() << refusal;
  }
  std::shared_ptr<const Model> load() const {
    ModelOptions options;
    options.source = std::make_shared<Exl2ExpertsSource>(GetParam());
    options.devices = {rig_.card(), rig_.host()};
    options.placement = placement_;
    return Model::load(options);
  }

  const CardAndHost rig_;
  std::vector<int32_t> layers_;
  Placement placement_;
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

TEST_P(CardExpertsOfFamily, TakeThePlannedMemory) {
  const auto model = load();
  TransformerExecutorOptions options;
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

TEST(CardExperts, PayForManyRowsOfEachChosenExpert) {
  std::vector<int32_t> rows(6, 3);
  EXPECT_TRUE(pays_on_card(rows.data(), 6, 8));
  EXPECT_FALSE(pays_on_card(rows.data(), 5, 8));
  rows[5] = 2;
  EXPECT_FALSE(pays_on_card(rows.data(), 6, 8)) << "two experts";
  rows.resize(12, 2);
  EXPECT_TRUE(pays_on_card(rows.data(), 12, 8));
  EXPECT_FALSE(pays_on_card(rows.data(), 0, 8));
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
