// Fields of single families whose effect no golden model shows: defaults of their classes, lists by layer,
// and variants.
#include <cmath>

#include <gtest/gtest.h>

#include "tests/core/config/config_text.h"
#include "tests/support/expect_error.h"

namespace quire {
namespace {

using kernels::NormKind;
using kernels::RopeStyle;
using kernels::RouterScore;
using testing::attention_of;
using testing::expect_error;
using testing::Json;
using testing::mlp_of;
using testing::rope_of;
using testing::small_config;
using testing::windows_of;

ModelConfig family(const std::string& architecture, const Json& fields = Json::object()) {
  Json json = small_config(architecture);
  json.update(fields);
  return parse_model_config(json.dump());
}

// Returns whether each layer has RoPE.
std::vector<bool> turning(const ModelConfig& config) {
  std::vector<bool> turns;
  for (const LayerSpec& layer : config.spec.layers)
    turns.push_back(layer.attention().rope != RopeStyle::none);
  return turns;
}

TEST(FamilyFields, TextPartsOfQwenVlHaveDefaultsOfTheirOwn) {
  EXPECT_EQ(rope_of(family("Qwen2_5_VLForConditionalGeneration")).theta, 1000000.0);
  EXPECT_FLOAT_EQ(family("Qwen2VLForConditionalGeneration").spec.head.norm.epsilon, 1e-5f);
  const ModelConfig qwen3 = family("Qwen3VLForConditionalGeneration");
  EXPECT_EQ(rope_of(qwen3).theta, 500000.0);
  EXPECT_EQ(qwen3.heads.head_dim, 128);
}

TEST(FamilyFields, ExpertsOfTextPartsHaveTheSizesOfTheirClasses) {
  const auto experts = [](const char* type) {
    const Json text = {{"model_type", type}, {"num_hidden_layers", 4}, {"head_dim", 32}};
    const ModelConfig config = parse_model_config(
        Json({{"architectures", {"UnknownForConditionalGeneration"}}, {"text_config", text}}).dump());
    return *config.spec.layers.back().experts();
  };
  EXPECT_EQ(experts("qwen3_vl_moe_text").num_experts, 60);
  EXPECT_EQ(experts("glm4v_moe_text").expert.intermediate, 1408);
  EXPECT_EQ(experts("glm4v_moe_text").num_chosen, 8);
  EXPECT_EQ(experts("mistral4").num_experts, 128);
  EXPECT_EQ(experts("mistral4").shared->intermediate, 2048);
  EXPECT_EQ(experts("deepseek_v3").num_groups, 8);
}

TEST(FamilyFields, GraniteCountsLayersWithoutWindowFromTheFirst) {
  const ModelConfig config = family("GraniteSWAForCausalLM", {{"num_hidden_layers", 6}});
  EXPECT_EQ(windows_of(config), (std::vector<int32_t>{0, 128, 128, 128, 0, 128}));
  EXPECT_TRUE(attention_of(config).has_sinks);
}

TEST(FamilyFields, MuseCountsLayersWithoutWindowBackFromTheLast) {
  const ModelConfig config = family("MuseGlimmerForConditionalGeneration", {{"num_hidden_layers", 6}});
  EXPECT_EQ(windows_of(config), (std::vector<int32_t>{2048, 0, 2048, 2048, 2048, 0}));
  EXPECT_EQ(turning(config), (std::vector<bool>{true, false, true, true, true, false}));
}

TEST(FamilyFields, BasesOfRopeAreListedByLayer) {
  const ModelConfig config =
      family("GraniteSWAForCausalLM", {{"layer_rope_theta", {500000.0, 0}}, {"rope_theta", 3.0}});
  EXPECT_EQ(turning(config), (std::vector<bool>{true, false}));
  ASSERT_EQ(config.spec.ropes.size(), 1U);
  EXPECT_EQ(rope_of(config).theta, 500000.0);
  expect_error(ErrorCode::format, {"layer_rope_theta", "2 entries"}, [] {
    family("GraniteSWAForCausalLM", {{"layer_rope_theta", {1e4}}});
  });
  expect_error(ErrorCode::format, {"layer_rope_theta"}, [] {
    family("GraniteSWAForCausalLM", {{"layer_rope_theta", {1e4, -1}}});
  });
}

TEST(FamilyFields, HyperClovaXScalesAttentionByTheHeadAndMultipliesLogits) {
  const ModelConfig config =
      family("HyperCLOVAXForCausalLM", {{"logits_scaling", 0.5}, {"residual_multiplier", 0.25}});
  EXPECT_FLOAT_EQ(attention_of(config).scale, 0.25f);
  EXPECT_FLOAT_EQ(config.spec.head.scale, 0.5f);
  EXPECT_FLOAT_EQ(config.spec.layers.front().attention_post_norm->weight.scale, 0.25f);
  EXPECT_FLOAT_EQ(attention_of(config).output.prescale, 1.0f);
  const ModelConfig bare =
      family("HyperCLOVAXForCausalLM", {{"use_post_norm", false}, {"residual_multiplier", 0.25}});
  EXPECT_FALSE(bare.spec.layers.front().attention_post_norm);
  EXPECT_FLOAT_EQ(attention_of(bare).output.prescale, 0.25f);
}

TEST(FamilyFields, MiniCpm3HasTheSizesAndScalesOfItsClass) {
  const ModelConfig config = family("MiniCPM3ForCausalLM", {{"num_hidden_layers", 4}});
  EXPECT_EQ(config.heads.head_dim, 96);
  EXPECT_EQ(config.heads.value_dim, 16);
  EXPECT_EQ(attention_of(config).latent->latent.num_out, 256 + 32);
  EXPECT_EQ(attention_of(config).rope, RopeStyle::neox_halves);
  EXPECT_FLOAT_EQ(config.spec.embedding.scale, 12.0f);
  EXPECT_FLOAT_EQ(config.spec.head.scale, 4.0f);
  EXPECT_FLOAT_EQ(mlp_of(config).down.prescale, 0.7f);
  const ModelConfig neutral =
      family("MiniCPM3ForCausalLM", {{"scale_depth", nullptr}, {"dim_model_base", nullptr}});
  EXPECT_FLOAT_EQ(neutral.spec.head.scale, 1.0f);
  EXPECT_FLOAT_EQ(mlp_of(neutral).down.prescale, 1.0f);
}

TEST(FamilyFields, TheHeadOfApertusMayBeShorterThanItsEmbedding) {
  const ModelConfig config = family("Apertus1p5TextForCausalLM", {{"output_vocab_size", 96}});
  EXPECT_EQ(config.vocab_size, 96);
  EXPECT_EQ(config.spec.head.projection.num_out, 96);
  EXPECT_EQ(config.spec.embedding.num_rows, 160);
  EXPECT_EQ(family("Apertus1p5TextForCausalLM").vocab_size, 160);
  expect_error(ErrorCode::format, {"output_vocab_size"}, [] {
    family("Apertus1p5TextForCausalLM", {{"output_vocab_size", 161}});
  });
}

const Json kCohereMoe = {
    {"num_hidden_layers", 6}, {"first_k_dense_replace", 2}, {"prefix_dense_intermediate_size", 128},
    {"num_experts", 8},       {"num_experts_per_tok", 2},   {"num_shared_experts", 2}};

TEST(FamilyFields, DenseLayersOfCohereHavePatternsAndSizesOfTheirOwn) {
  const ModelConfig config = family("Cohere2MoeForCausalLM", kCohereMoe);
  EXPECT_EQ(windows_of(config), (std::vector<int32_t>{0, 0, 4096, 4096, 4096, 0}));
  EXPECT_EQ(turning(config), (std::vector<bool>{true, true, true, true, true, false}));
  EXPECT_EQ(mlp_of(config).intermediate, 128);
  EXPECT_EQ(config.spec.head.norm.kind, NormKind::layer);
  Json other = kCohereMoe;
  other.update({{"prefix_dense_sliding_window_pattern", 2}, {"rms_norm_eps", 1e-3}});
  const ModelConfig windowed = family("Cohere2MoeForCausalLM", other);
  EXPECT_EQ(windows_of(windowed), (std::vector<int32_t>{4096, 0, 4096, 4096, 4096, 0}));
  EXPECT_EQ(turning(windowed), (std::vector<bool>{true, false, true, true, true, false}));
  EXPECT_EQ(windowed.spec.layers.front().attention_norm.kind, NormKind::rms);
  EXPECT_FLOAT_EQ(windowed.spec.head.norm.epsilon, 1e-3f);
}

TEST(FamilyFields, CohereAveragesOrAddsSharedExperts) {
  const ModelConfig averaged = family("Cohere2MoeForCausalLM", kCohereMoe);
  const ExpertsPart& experts = *averaged.spec.layers.back().experts();
  EXPECT_EQ(experts.score, RouterScore::softmax_of_chosen);
  EXPECT_EQ(experts.shared->intermediate, 192);
  EXPECT_FLOAT_EQ(experts.shared->down.prescale, 0.5f);
  EXPECT_FLOAT_EQ(experts.expert.down.prescale, 0.5f);
  Json other = kCohereMoe;
  other.update({{"shared_expert_combination_strategy", "sum"}, {"expert_selection_fn", "sigmoid"}});
  const ModelConfig added = family("Cohere2MoeForCausalLM", other);
  EXPECT_EQ(added.spec.layers.back().experts()->score, RouterScore::sigmoid);
  EXPECT_TRUE(added.spec.layers.back().experts()->normalised);
  EXPECT_FLOAT_EQ(added.spec.layers.back().experts()->expert.down.prescale, 1.0f);
  other["expert_selection_fn"] = "best";
  expect_error(ErrorCode::unsupported, {"expert_selection_fn", "best", "softmax and sigmoid"},
               [&] { family("Cohere2MoeForCausalLM", other); });
}

}  // namespace
}  // namespace quire
