// Step 3.5 and 3.7: the spec of the tiny model, spellings of published configs, and configs that are refused.
#include <cmath>

#include <gtest/gtest.h>

#include "core/config/model_config.h"
#include "tests/core/config/config_text.h"
#include "tests/support/expect_error.h"
#include "tests/support/golden_families.h"
#include "tests/support/json_text.h"

namespace quire {
namespace {

using testing::attention_of;
using testing::expect_error;
using testing::Json;

// Returns the config with other fields in its text part; a field whose new value is "-" is removed.
Json step_config(const Json& fields) {
  Json config = Json::parse(testing::golden_family_config("step3p7"));
  for (const auto& [name, value] : fields.items()) {
    if (value == "-") {
      config["text_config"].erase(name);
    } else {
      config["text_config"][name] = value;
    }
  }
  return config;
}

ModelConfig read_step(const Json& fields) {
  return parse_model_config(step_config(fields).dump());
}

// Returns a letter for each layer: E for experts, m for an MLP.
std::string feed_forwards(const ModelConfig& config) {
  std::string out;
  for (const LayerSpec& layer : config.spec.layers) out += layer.experts() != nullptr ? 'E' : 'm';
  return out;
}

const RopeSpec& rope_of(const ModelConfig& config, size_t layer) {
  return config.spec.ropes.at(static_cast<size_t>(attention_of(config, layer).rope_idx));
}

TEST(Step, LayersHaveTheirOwnHeadsAndRope) {
  const ModelConfig config = read_step({});
  EXPECT_EQ(config.architecture->name, "Step3p7ForConditionalGeneration");
  EXPECT_EQ(feed_forwards(config), "mEEE");
  for (const size_t layer : {size_t{0}, size_t{3}}) {
    EXPECT_EQ(attention_of(config, layer).heads.num_heads, 4);
    EXPECT_EQ(attention_of(config, layer).sliding_window, 0);
    EXPECT_EQ(attention_of(config, layer).rotary_dim, 16);
    EXPECT_EQ(rope_of(config, layer).config.theta, 5000000.0);
  }
  const AttentionPart& sliding = attention_of(config, 1);
  EXPECT_EQ(sliding.heads.num_heads, 6);
  EXPECT_EQ(sliding.heads.num_kv_heads, 2);
  EXPECT_EQ(sliding.sliding_window, 16);
  EXPECT_EQ(sliding.rotary_dim, 32);
  EXPECT_EQ(rope_of(config, 1).config.theta, 10000.0);
  EXPECT_EQ(sliding.gate->projection.num_out, 6);
  EXPECT_FALSE(sliding.gate->is_softplus);
  EXPECT_EQ(sliding.q_norm.offset, 1.0f);
}

TEST(Step, ExpertsAreStackedInThreeTensors) {
  const ModelConfig config = read_step({});
  const ExpertsPart& experts = *config.spec.layers[1].experts();
  EXPECT_EQ(experts.score, kernels::RouterScore::sigmoid);
  EXPECT_TRUE(experts.normalised);
  EXPECT_EQ(experts.scale, 1.5f);
  EXPECT_EQ(experts.choice_bias.name, "model.layers.1.moe.router_bias");
  EXPECT_EQ(experts.expert.gate_up[1].key, "model.layers.1.moe.up_proj");
  for (const MatrixPart* part :
       {&experts.expert.gate_up[0], &experts.expert.gate_up[1], &experts.expert.down})
    EXPECT_EQ(part->num_slabs, 8);
  EXPECT_EQ(experts.shared->intermediate, 48);
}

// The gate is clamped where its silu reaches the limit.
TEST(Step, LimitsOfLayersBoundTheActivatedGate) {
  const auto expect_limit = [](const MlpPart& part, float limit) {
    const bool has_limit = limit != 0.0f;
    EXPECT_EQ(part.activation, has_limit ? kernels::Activation::clamped_swish : kernels::Activation::silu);
    if (!has_limit) return;
    EXPECT_EQ(part.a, 1.0f);
    EXPECT_EQ(part.b, 0.0f);
    EXPECT_EQ(part.limit, limit);
    EXPECT_NEAR(part.c / (1.0f + std::exp(-part.c)), limit, 1e-6f);
  };
  const float of_experts[] = {0.0f, 0.0f, 1.5f, 1.0f}, of_shared[] = {0.0f, 1.0f, 0.0f, 1.5f};
  const ModelConfig config = read_step({});
  for (size_t layer = 1; layer < 4; ++layer) {
    expect_limit(config.spec.layers[layer].experts()->expert, of_experts[layer]);
    expect_limit(*config.spec.layers[layer].experts()->shared, of_shared[layer]);
  }
  expect_limit(*config.spec.layers[0].dense(), 0.0f);
  expect_limit(*read_step({{"swiglu_limits_shared", {16, 1.0, 0.0, 1.5}}}).spec.layers[0].dense(), 16.0f);
}

TEST(Step, ListsMayEndWithLayersThatPredictLaterTokens) {
  const Json fields = {
      {"num_nextn_predict_layers", 1},
      {"rope_theta", {5e6, 1e4, 1e4, 5e6, 1e4}},
      {"layer_types",
       {"full_attention", "sliding_attention", "sliding_attention", "full_attention", "sliding_attention"}}};
  const ModelConfig config = read_step(fields);
  EXPECT_EQ(config.spec.layers.size(), 4U);
  EXPECT_EQ(rope_of(config, 3).config.theta, 5000000.0);
  Json none = fields;
  none["num_nextn_predict_layers"] = 0;
  expect_error(ErrorCode::format, {"must be a list of 4 entries"}, [&] { read_step(none); });
}

TEST(Step, LayersWithExpertsAreNumbersInAListOrAString) {
  EXPECT_EQ(feed_forwards(read_step({{"moe_layers_enum", {0, 3}}})), "EmmE");
  EXPECT_EQ(feed_forwards(read_step({{"moe_layers_enum", "0, 2"}})), "EmEm");
  EXPECT_EQ(feed_forwards(read_step({{"moe_layers_enum", "-"}})), "mmmE");
  expect_error(ErrorCode::format, {"moe_layers_enum"}, [] { read_step({{"moe_layers_enum", "1-3"}}); });
}

TEST(Step, FieldsOfSlidingLayersOtherThanHeadsAreThoseOfAll) {
  const auto refused = [](const char* name, int value) {
    expect_error(ErrorCode::unsupported, {"attention_other_setting", name}, [&] {
      read_step({{"attention_other_setting", {{name, value}}}});
    });
  };
  refused("num_attention_groups", 4);
  refused("head_dim", 64);
  EXPECT_EQ(attention_of(read_step({{"attention_other_setting", "-"}}), 1).heads.num_heads, 4);
}

TEST(Step, TheClassOfTextAloneIsTheSameFamily) {
  Json text = step_config({})["text_config"];
  text["architectures"] = {"Step3p5ForCausalLM"};
  EXPECT_EQ(parse_model_config(text.dump()).architecture->name, "Step3p7ForConditionalGeneration");
}

}  // namespace
}  // namespace quire
