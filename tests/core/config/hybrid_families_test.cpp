// Families with recurrent layers: the spec of each tiny model. The numbers follow from its config.json and
// from the formulas of the family.
#include <cmath>

#include <gtest/gtest.h>

#include "core/config/model_config.h"
#include "tests/core/config/config_text.h"
#include "tests/support/golden_families.h"

namespace quire {
namespace {

using kernels::Activation;
using kernels::DeltaDecay;
using kernels::GatedNorm;
using kernels::QkNorm;
using kernels::RopeStyle;
using kernels::RouterScore;
using kernels::StateGate;
using testing::attention_of;
using testing::mixer_of;

ModelConfig read(const std::string& family) {
  return parse_model_config(testing::golden_family_config(family));
}

const LayerSpec& layer_of(const ModelConfig& config, size_t layer) {
  return config.spec.layers.at(layer);
}

const ExpertsPart& experts_of(const ModelConfig& config, size_t layer) {
  return *layer_of(config, layer).experts();
}

// Returns the kind of each layer: its mixer and its feed-forward part.
std::vector<std::string> kinds(const ModelConfig& config) {
  const std::string feed_forwards[] = {"mlp", "experts", "mlp and experts", "nothing"};
  std::vector<std::string> out;
  for (const LayerSpec& layer : config.spec.layers)
    out.push_back(std::string(mixer_name(layer.mixer)) + ", " + feed_forwards[layer.feed_forward.index()]);
  return out;
}

using Kinds = std::vector<std::string>;

std::vector<int32_t> order_of(const MatrixPart& part) {
  return part.order ? *part.order : std::vector<int32_t>();
}

std::vector<int32_t> run(int32_t first, int32_t count) {
  std::vector<int32_t> out;
  for (int32_t i = 0; i < count; ++i) out.push_back(first + i);
  return out;
}

std::vector<int32_t> joined(const std::vector<std::vector<int32_t>>& runs) {
  std::vector<int32_t> out;
  for (const auto& part : runs) out.insert(out.end(), part.begin(), part.end());
  return out;
}

// The sizes of the delta rule in the tiny models of Qwen: key heads 2 of 16, value heads 4 of 16.
void expect_gdn_of_qwen(const DeltaPart& part) {
  EXPECT_EQ(part.num_key_heads, 2);
  EXPECT_EQ(part.num_value_heads, 4);
  EXPECT_EQ(part.key_dim, 16);
  EXPECT_EQ(part.value_dim, 16);
  EXPECT_FALSE(part.decays_by_channel);
  EXPECT_EQ(part.decay_form, DeltaDecay::softplus);
  EXPECT_EQ(part.beta_scale, 1.0f);
  EXPECT_EQ(part.query_scale, 0.25f);
  EXPECT_EQ(part.gate_form, StateGate::silu);
  EXPECT_EQ(part.conv.channels, 2 * 32 + 64);
  EXPECT_EQ(part.conv.num_taps, 4);
  EXPECT_TRUE(part.conv.silu && part.conv.bias.name.empty());
  EXPECT_EQ(part.dt_bias.count, 4);
  EXPECT_EQ(part.norm.columns, 16);
  EXPECT_EQ(part.norm.epsilon, 1e-6f);
  EXPECT_EQ(part.norm.weight.offset, 0.0f) << "multiplied by w, unlike the norms outside";
  EXPECT_FALSE(part.gate_path || part.decay_path);
}

// Heads 4 of 32, 2 KV heads; an eighth of each head turns. Queries and gate are halves of each head's rows.
void expect_attention_of_qwen(const ModelConfig& config, size_t layer, double theta) {
  const AttentionPart& part = attention_of(config, layer);
  EXPECT_EQ(part.heads.num_heads, 4);
  EXPECT_EQ(part.heads.num_kv_heads, 2);
  EXPECT_EQ(part.heads.head_dim, 32);
  EXPECT_EQ(part.rotary_dim, 8);
  EXPECT_EQ(part.rope, RopeStyle::neox_halves);
  EXPECT_EQ(config.spec.ropes.at(static_cast<size_t>(part.rope_idx)).config.theta, theta);
  EXPECT_EQ(part.qk_norm, QkNorm::each_head);
  EXPECT_EQ(part.q_norm.offset, 1.0f);
  EXPECT_EQ(part.qkv.front().num_out, 2 * 4 * 32);
  EXPECT_EQ(order_of(part.qkv.front()), joined({run(0, 32), run(64, 32), run(128, 32), run(192, 32)}));
  ASSERT_TRUE(part.gate.has_value());
  EXPECT_EQ(part.gate->projection.key, part.qkv.front().key);
  EXPECT_EQ(order_of(part.gate->projection), joined({run(32, 32), run(96, 32), run(160, 32), run(224, 32)}));
  EXPECT_FALSE(part.gate->is_softplus);
  EXPECT_EQ(layer_of(config, layer).attention_norm.weight.offset, 1.0f);
  EXPECT_EQ(config.spec.head.norm.weight.offset, 1.0f);
}

TEST(HybridFamilies, Qwen3NextIsInterleavedByKeyHead) {
  const ModelConfig config = read("qwen3_next");
  EXPECT_EQ(config.architecture->name, "Qwen3NextForCausalLM");
  EXPECT_EQ(kinds(config), (Kinds{"the gated delta rule, experts", "attention, experts"}));
  const DeltaPart& part = mixer_of<DeltaPart>(config, 0);
  expect_gdn_of_qwen(part);
  // Rows of a key head: 16 of q, 16 of k, 2 x 16 of v, 2 x 16 of z.
  ASSERT_EQ(part.in.size(), 1U);
  EXPECT_EQ(part.in.front().key, "model.layers.0.linear_attn.in_proj_qkvz");
  EXPECT_EQ(order_of(part.in.front()), joined({run(0, 16), run(96, 16), run(16, 16), run(112, 16),
                                               run(32, 32), run(128, 32), run(64, 32), run(160, 32)}));
  ASSERT_EQ(part.rates.size(), 1U);
  EXPECT_EQ(order_of(part.rates.front()), (std::vector<int32_t>{0, 1, 4, 5, 2, 3, 6, 7}));
  EXPECT_EQ(part.a_log.name, "model.layers.0.linear_attn.A_log");
  expect_attention_of_qwen(config, 1, 10000.0);
  const ExpertsPart& experts = experts_of(config, 0);
  EXPECT_EQ(experts.num_experts, 8);
  EXPECT_EQ(experts.num_chosen, 2);
  EXPECT_EQ(experts.score, RouterScore::softmax);
  EXPECT_TRUE(experts.normalised);
  EXPECT_EQ(experts.expert.intermediate, 32);
  EXPECT_EQ(experts.shared->intermediate, 32);
  EXPECT_EQ(experts.shared_gate->key, "model.layers.0.mlp.shared_expert_gate");
}

TEST(HybridFamilies, Qwen35HasPlainProjections) {
  const ModelConfig config = read("qwen3_5");
  EXPECT_EQ(config.architecture->name, "Qwen3_5ForCausalLM");
  EXPECT_EQ(kinds(config), (Kinds{"the gated delta rule, mlp", "attention, mlp"}));
  const DeltaPart& part = mixer_of<DeltaPart>(config, 0);
  expect_gdn_of_qwen(part);
  ASSERT_EQ(part.in.size(), 2U);
  EXPECT_EQ(part.in[0].key, "model.layers.0.linear_attn.in_proj_qkv");
  EXPECT_EQ(part.in[0].num_out, 32 + 32 + 64);
  EXPECT_EQ(part.in[1].key, "model.layers.0.linear_attn.in_proj_z");
  ASSERT_EQ(part.rates.size(), 2U);
  EXPECT_EQ(part.rates[0].key, "model.layers.0.linear_attn.in_proj_b") << "beta comes first";
  EXPECT_EQ(part.rates[1].key, "model.layers.0.linear_attn.in_proj_a");
  EXPECT_EQ(order_of(part.in[0]), std::vector<int32_t>());
  expect_attention_of_qwen(config, 1, 10000000.0);
  EXPECT_TRUE(config.spec.head.tied);
  EXPECT_EQ(layer_of(config, 0).dense()->intermediate, 96);
}

TEST(HybridFamilies, Qwen35Moe) {
  const ModelConfig config = read("qwen3_5_moe");
  EXPECT_EQ(config.architecture->name, "Qwen3_5MoeForCausalLM");
  EXPECT_EQ(kinds(config), (Kinds{"the gated delta rule, experts", "attention, experts"}));
  expect_gdn_of_qwen(mixer_of<DeltaPart>(config, 0));
  expect_attention_of_qwen(config, 1, 10000000.0);
  EXPECT_TRUE(experts_of(config, 1).normalised);
  EXPECT_EQ(experts_of(config, 1).shared->intermediate, 32);
  EXPECT_TRUE(experts_of(config, 1).shared_gate.has_value());
}

// The routing of Kimi and Ling: sigmoid, a bias for the choice, weights divided by their sum and scaled.
void expect_routing(const ExpertsPart& experts, int32_t groups, float scale, const std::string& bias) {
  EXPECT_EQ(experts.num_experts, 8);
  EXPECT_EQ(experts.num_chosen, 2);
  EXPECT_EQ(experts.score, RouterScore::sigmoid);
  EXPECT_EQ(experts.num_groups, groups);
  EXPECT_EQ(experts.chosen_groups, 1);
  EXPECT_TRUE(experts.group_by_two && experts.normalised);
  EXPECT_EQ(experts.least_sum, 1e-20f);
  EXPECT_EQ(experts.scale, scale);
  EXPECT_EQ(experts.choice_bias.name, bias);
  EXPECT_EQ(experts.expert.intermediate, 32);
  EXPECT_EQ(experts.shared->intermediate, 32);
}

TEST(HybridFamilies, KimiLinear) {
  const ModelConfig config = read("kimi_linear");
  EXPECT_EQ(config.architecture->name, "KimiLinearForCausalLM");
  EXPECT_EQ(config.max_positions, 4096);
  EXPECT_EQ(kinds(config),
            (Kinds{"the gated delta rule, mlp", "attention, experts", "the gated delta rule, experts"}));
  const DeltaPart& part = mixer_of<DeltaPart>(config, 0);
  EXPECT_EQ(part.num_key_heads, 4);
  EXPECT_EQ(part.num_value_heads, 4);
  EXPECT_EQ(part.key_dim, 16);
  EXPECT_EQ(part.value_dim, 16);
  EXPECT_TRUE(part.decays_by_channel);
  EXPECT_EQ(part.decay_form, DeltaDecay::softplus);
  EXPECT_EQ(part.gate_form, StateGate::sigmoid);
  EXPECT_EQ(part.a_log.count, 4);
  EXPECT_EQ(part.dt_bias.count, 64);
  ASSERT_EQ(part.in.size(), 3U);
  EXPECT_EQ(part.in[2].key, "model.layers.0.self_attn.v_proj");
  ASSERT_EQ(part.rates.size(), 1U);
  EXPECT_EQ(part.decay_path->down.key, "model.layers.0.self_attn.f_a_proj");
  EXPECT_EQ(part.decay_path->down.num_out, 16);
  EXPECT_EQ(part.decay_path->up.num_out, 64);
  EXPECT_EQ(part.gate_path->up.key, "model.layers.0.self_attn.g_b_proj");
  ASSERT_EQ(part.conv.weights.size(), 3U);
  EXPECT_EQ(part.conv.weights[1].name, "model.layers.0.self_attn.k_conv1d.weight");
  EXPECT_EQ(part.norm.epsilon, 1e-5f);
  EXPECT_EQ(part.out.key, "model.layers.0.self_attn.o_proj");
  expect_routing(experts_of(config, 1), 1, 1.5f,
                 "model.layers.1.block_sparse_moe.gate.e_score_correction_bias");
  EXPECT_EQ(experts_of(config, 1).expert.down.key, "model.layers.1.block_sparse_moe.experts.{}.w2");
}

// The part of the keys that all heads share does not turn.
TEST(HybridFamilies, LatentAttentionOfKimiLinearHasNoRope) {
  const ModelConfig config = read("kimi_linear");
  const AttentionPart& part = attention_of(config, 1);
  EXPECT_EQ(part.heads.head_dim, 48);
  EXPECT_EQ(part.heads.value_dim, 32);
  EXPECT_EQ(part.rope, RopeStyle::none);
  EXPECT_EQ(part.rotary_dim, 0);
  EXPECT_TRUE(config.spec.ropes.empty());
  EXPECT_EQ(part.latent->shared_key_dim, 16);
  EXPECT_EQ(part.latent->latent_norm.epsilon, 1e-6f) << "whatever rms_norm_eps is";
  EXPECT_FLOAT_EQ(part.scale, 1.0f / std::sqrt(48.0f));
  EXPECT_FALSE(part.gate.has_value());
}

TEST(HybridFamilies, BailingHybrid) {
  const ModelConfig config = read("bailing_hybrid");
  EXPECT_EQ(config.architecture->name, "BailingHybridForCausalLM");
  EXPECT_EQ(config.spec.embedding.key, "model.word_embeddings");
  EXPECT_EQ(kinds(config), (Kinds{"the gated delta rule, mlp", "attention, experts"}));
  const DeltaPart& part = mixer_of<DeltaPart>(config, 0);
  EXPECT_TRUE(part.decays_by_channel);
  EXPECT_EQ(part.decay_form, DeltaDecay::bounded);
  EXPECT_EQ(part.decay_bound, -5.0f);
  EXPECT_EQ(part.gate_form, StateGate::sigmoid);
  ASSERT_EQ(part.in.size(), 4U);
  EXPECT_EQ(part.in[3].key, "model.layers.0.attention.g_proj");
  ASSERT_EQ(part.rates.size(), 2U);
  EXPECT_EQ(part.rates[1].key, "model.layers.0.attention.f_proj");
  EXPECT_EQ(part.rates[1].num_out, 64);
  EXPECT_EQ(part.out.key, "model.layers.0.attention.dense");
  const AttentionPart& attention = attention_of(config, 1);
  EXPECT_EQ(attention.rope, RopeStyle::gptj_pairs);
  EXPECT_EQ(attention.rotary_dim, 16);
  EXPECT_EQ(config.spec.ropes.at(0).config.theta, 6000000.0);
  EXPECT_EQ(attention.latent->query.key, "model.layers.1.attention.q_proj");
  EXPECT_EQ(attention.gate->projection.key, "model.layers.1.attention.g_proj");
  EXPECT_EQ(attention.gate->projection.num_out, 4) << "one for each head";
  expect_routing(experts_of(config, 1), 2, 2.5f, "model.layers.1.mlp.gate.expert_bias");
}

// Sizes of Mamba 2 in the tiny models: 8 heads of 16, a state of 16.
void expect_mamba2(const Mamba2Part& part, int32_t groups) {
  EXPECT_EQ(part.num_heads, 8);
  EXPECT_EQ(part.head_dim, 16);
  EXPECT_EQ(part.num_groups, groups);
  EXPECT_EQ(part.state_dim, 16);
  EXPECT_EQ(part.least_step, 0.0f);
  EXPECT_TRUE(std::isinf(part.largest_step)) << "no limit";
  EXPECT_EQ(part.norm, GatedNorm::after_gate);
  ASSERT_EQ(part.in.size(), 1U);
  EXPECT_EQ(part.in.front().num_out, 2 * 128 + 2 * groups * 16 + 8);
  EXPECT_EQ(part.in.front().bias, BiasRule::none);
  EXPECT_EQ(part.conv.channels, 128 + 2 * groups * 16);
  EXPECT_EQ(part.conv.num_taps, 4);
  EXPECT_TRUE(part.conv.silu && !part.conv.bias.name.empty());
  EXPECT_EQ(part.gated_norm->columns, 128 / groups);
  EXPECT_EQ(part.gated_norm->weight.count, 128);
  EXPECT_EQ(part.out.num_in, 128);
}

TEST(HybridFamilies, Mamba2HasNoAttentionAndNoFeedForwardPart) {
  const ModelConfig config = read("mamba2");
  EXPECT_EQ(config.architecture->name, "Mamba2ForCausalLM");
  EXPECT_EQ(kinds(config), (Kinds{"Mamba-2, nothing", "Mamba-2, nothing"}));
  expect_mamba2(mixer_of<Mamba2Part>(config, 0), 1);
  EXPECT_EQ(mixer_of<Mamba2Part>(config, 1).skip.name, "backbone.layers.1.mixer.D");
  EXPECT_EQ(config.heads.num_heads, 0);
  EXPECT_TRUE(config.spec.kvs.empty() && config.spec.ropes.empty());
  EXPECT_EQ(config.spec.head.norm.weight.name, "backbone.norm_f.weight");
  EXPECT_EQ(config.spec.head.norm.epsilon, 1e-5f);
  EXPECT_TRUE(config.spec.head.tied);
  EXPECT_EQ(config.max_positions, 1 << 20) << "a state has no limit";
}

TEST(HybridFamilies, BambaTurnsHalfOfEachHead) {
  const ModelConfig config = read("bamba");
  EXPECT_EQ(config.architecture->name, "BambaForCausalLM");
  EXPECT_EQ(kinds(config), (Kinds{"Mamba-2, mlp", "attention, mlp"}));
  expect_mamba2(mixer_of<Mamba2Part>(config, 0), 1);
  EXPECT_EQ(attention_of(config, 1).rotary_dim, 8);
  EXPECT_EQ(attention_of(config, 1).heads.head_dim, 16);
  EXPECT_EQ(layer_of(config, 1).feed_forward_norm.weight.name, "model.layers.1.pre_ff_layernorm.weight");
  EXPECT_EQ(config.spec.head.norm.weight.name, "model.final_layernorm.weight");
}

TEST(HybridFamilies, GraniteMoeHybridHasMultipliersEverywhere) {
  const ModelConfig config = read("granitemoehybrid");
  EXPECT_EQ(config.architecture->name, "GraniteMoeHybridForCausalLM");
  EXPECT_EQ(kinds(config), (Kinds{"Mamba-2, experts", "attention, experts"}));
  const Mamba2Part& mamba = mixer_of<Mamba2Part>(config, 0);
  expect_mamba2(mamba, 1);
  EXPECT_FLOAT_EQ(mamba.out.prescale, 0.22f);
  const AttentionPart& attention = attention_of(config, 1);
  EXPECT_FLOAT_EQ(attention.scale, 0.05f);
  EXPECT_FLOAT_EQ(attention.output.prescale, 0.22f);
  EXPECT_EQ(attention.rope, RopeStyle::none);
  const ExpertsPart& experts = experts_of(config, 0);
  EXPECT_EQ(experts.score, RouterScore::softmax_of_chosen);
  EXPECT_EQ(experts.expert.gate_up.front().num_slabs, 4);
  EXPECT_EQ(experts.expert.gate_up.front().num_out, 2 * 32);
  EXPECT_FLOAT_EQ(experts.expert.down.prescale, 0.22f);
  EXPECT_EQ(experts.shared->intermediate, 64);
  EXPECT_FLOAT_EQ(experts.shared->down.prescale, 0.22f);
  EXPECT_FLOAT_EQ(config.spec.embedding.scale, 0.75f);
  EXPECT_FLOAT_EQ(config.spec.head.scale, 2.0f) << "logits are divided by 0.5";
}

TEST(HybridFamilies, NemotronHHasOneBlockInALayer) {
  const ModelConfig config = read("nemotron_h");
  EXPECT_EQ(config.architecture->name, "NemotronHForCausalLM");
  EXPECT_EQ(kinds(config),
            (Kinds{"Mamba-2, nothing", "no mixer, mlp", "attention, nothing", "no mixer, experts"}));
  expect_mamba2(mixer_of<Mamba2Part>(config, 0), 2);
  EXPECT_EQ(layer_of(config, 0).attention_norm.weight.name, "backbone.layers.0.norm.weight");
  const LayerSpec& mlp = layer_of(config, 1);
  EXPECT_EQ(mlp.feed_forward_norm.weight.name, "backbone.layers.1.norm.weight");
  EXPECT_EQ(mlp.attention_norm.kind, kernels::NormKind::none);
  EXPECT_FALSE(mlp.dense()->gated);
  EXPECT_EQ(mlp.dense()->activation, Activation::relu_squared);
  EXPECT_EQ(mlp.dense()->gate_up.front().key, "backbone.layers.1.mixer.up_proj");
  EXPECT_EQ(attention_of(config, 2).rope, RopeStyle::none);
  EXPECT_EQ(attention_of(config, 2).heads.head_dim, 32);
  const ExpertsPart& experts = experts_of(config, 3);
  EXPECT_EQ(experts.score, RouterScore::sigmoid);
  EXPECT_EQ(experts.scale, 1.5f);
  EXPECT_EQ(experts.expert.gate_up.front().num_in, 64);
  EXPECT_FALSE(experts.expert.gated || experts.narrow.has_value());
  EXPECT_EQ(experts.shared->intermediate, 48);
}

TEST(HybridFamilies, LatentExpertsOfNemotronAreNarrow) {
  const ModelConfig config = read("nemotron_h_latent");
  const ExpertsPart& experts = experts_of(config, 1);
  EXPECT_EQ(experts.narrow->down.key, "backbone.layers.1.mixer.fc1_latent_proj");
  EXPECT_EQ(experts.narrow->down.num_in, 64);
  EXPECT_EQ(experts.narrow->down.num_out, 32);
  EXPECT_EQ(experts.narrow->up.num_out, 64);
  EXPECT_EQ(experts.expert.gate_up.front().num_in, 32);
  EXPECT_EQ(experts.expert.down.num_out, 32);
  EXPECT_EQ(experts.router.num_in, 64);
  EXPECT_EQ(experts.shared->gate_up.front().num_in, 64);
}

// The sections z, x, B, C and dt of the input matrix have multipliers of their own, times that of the input.
TEST(HybridFamilies, FalconH1FoldsItsMultipliers) {
  const ModelConfig config = read("falcon_h1");
  EXPECT_EQ(config.architecture->name, "FalconH1ForCausalLM");
  EXPECT_EQ(kinds(config), (Kinds{"attention beside Mamba-2, mlp", "attention beside Mamba-2, mlp"}));
  const auto& both = mixer_of<AttentionAndMambaPart>(config, 1);
  const Mamba2Part& mamba = both.mamba;
  EXPECT_EQ(mamba.num_heads, 6);
  EXPECT_EQ(mamba.head_dim, 16);
  EXPECT_EQ(mamba.num_groups, 2);
  EXPECT_EQ(mamba.norm, GatedNorm::none);
  EXPECT_FALSE(mamba.gated_norm.has_value());
  ASSERT_EQ(mamba.in.size(), 5U);
  const float factors[] = {1.2f, 1.6f, 1.3f, 1.4f, 0.8f};
  const std::vector<std::vector<int32_t>> sections = {run(0, 96), run(96, 96), run(192, 32), run(224, 32),
                                                      run(256, 6)};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(mamba.in[i].num_out, 262);
    EXPECT_EQ(order_of(mamba.in[i]), sections[i]) << i;
    EXPECT_FLOAT_EQ(mamba.in[i].prescale, 1.25f * factors[i]) << i;
  }
  EXPECT_FLOAT_EQ(mamba.out.prescale, 2.5f);
  EXPECT_FLOAT_EQ(both.attention.qkv[0].prescale, 1.2f);
  EXPECT_FLOAT_EQ(both.attention.qkv[1].prescale, 1.2f * 1.4f);
  EXPECT_FLOAT_EQ(both.attention.qkv[2].prescale, 1.2f);
  EXPECT_FLOAT_EQ(both.attention.output.prescale, 1.3f);
  EXPECT_EQ(both.attention.rotary_dim, 16);
  EXPECT_FLOAT_EQ(layer_of(config, 0).dense()->gate_up[0].prescale, 0.9f);
  EXPECT_FLOAT_EQ(layer_of(config, 0).dense()->gate_up[1].prescale, 1.0f);
  EXPECT_FLOAT_EQ(layer_of(config, 0).dense()->down.prescale, 0.7f);
  EXPECT_FLOAT_EQ(config.spec.embedding.scale, 1.5f);
  EXPECT_FLOAT_EQ(config.spec.head.scale, 0.5f);
  EXPECT_EQ(config.heads.num_heads, 4);
  EXPECT_EQ(config.spec.kvs.size(), 1U);
}

TEST(HybridFamilies, FalconH1MayHaveANormByGroups) {
  const ModelConfig config = read("falcon_h1_norm");
  const Mamba2Part& mamba = mixer_of<AttentionAndMambaPart>(config, 0).mamba;
  EXPECT_EQ(mamba.norm, GatedNorm::after_gate);
  EXPECT_EQ(mamba.gated_norm->columns, 48);
  EXPECT_EQ(mamba.gated_norm->weight.count, 96);
}

// Sizes of Mamba 1 in the tiny models: 128 channels, a state of 16, dt of rank 8.
void expect_mamba1(const Mamba1Part& part) {
  EXPECT_EQ(part.channels, 128);
  EXPECT_EQ(part.state_dim, 16);
  EXPECT_EQ(part.step_rank, 8);
  EXPECT_EQ(part.in.num_out, 256);
  EXPECT_EQ(part.conv.channels, 128);
  EXPECT_TRUE(part.conv.silu && !part.conv.bias.name.empty());
  EXPECT_EQ(part.select.num_out, 8 + 2 * 16);
  EXPECT_EQ(part.step.num_in, 8);
  EXPECT_EQ(part.step.bias, BiasRule::required);
  EXPECT_EQ(part.a_log.count, 128 * 16);
  EXPECT_EQ(part.skip.count, 128);
}

TEST(HybridFamilies, JambaNormalisesWhatMambaSelects) {
  const ModelConfig config = read("jamba");
  EXPECT_EQ(config.architecture->name, "JambaForCausalLM");
  EXPECT_EQ(kinds(config), (Kinds{"Mamba-1, mlp", "Mamba-1, experts", "attention, mlp"}));
  const Mamba1Part& part = mixer_of<Mamba1Part>(config, 0);
  expect_mamba1(part);
  EXPECT_EQ(part.step_norm->columns, 8);
  EXPECT_EQ(part.step_norm->weight.name, "model.layers.0.mamba.dt_layernorm.weight");
  EXPECT_EQ(part.b_norm->columns, 16);
  EXPECT_EQ(part.c_norm->epsilon, 1e-6f);
  EXPECT_EQ(attention_of(config, 2).rope, RopeStyle::none);
  const ExpertsPart& experts = experts_of(config, 1);
  EXPECT_EQ(experts.num_experts, 4);
  EXPECT_EQ(experts.score, RouterScore::softmax);
  EXPECT_FALSE(experts.normalised);
  EXPECT_EQ(experts.router.key, "model.layers.1.feed_forward.router");
}

TEST(HybridFamilies, MambaHasNoNormsAndFalconMambaNormsWithoutWeights) {
  const ModelConfig mamba = read("mamba");
  EXPECT_EQ(mamba.architecture->name, "MambaForCausalLM");
  EXPECT_EQ(kinds(mamba), (Kinds{"Mamba-1, nothing", "Mamba-1, nothing"}));
  expect_mamba1(mixer_of<Mamba1Part>(mamba, 1));
  EXPECT_FALSE(mixer_of<Mamba1Part>(mamba, 1).step_norm.has_value());
  const ModelConfig falcon = read("falcon_mamba");
  EXPECT_EQ(falcon.architecture->name, "FalconMambaForCausalLM");
  const Mamba1Part& part = mixer_of<Mamba1Part>(falcon, 0);
  expect_mamba1(part);
  EXPECT_EQ(part.step_norm->columns, 8);
  EXPECT_TRUE(part.step_norm->weight.name.empty() && part.b_norm->weight.name.empty());
  EXPECT_EQ(part.c_norm->epsilon, 1e-6f);
}

// slope = 2^(-8 (h + 1) / H) * (1 - l / (L - 1 + 1e-5) + 1e-5)
TEST(HybridFamilies, MiniMaxAddsToNormalisedRows) {
  const ModelConfig config = read("minimax");
  EXPECT_EQ(config.architecture->name, "MiniMaxForCausalLM");
  EXPECT_EQ(kinds(config),
            (Kinds{"lightning attention, experts", "attention, experts", "attention, experts"}));
  const LightningPart& part = mixer_of<LightningPart>(config, 0);
  EXPECT_EQ(part.num_heads, 4);
  EXPECT_EQ(part.head_dim, 16);
  ASSERT_EQ(part.in.size(), 2U);
  EXPECT_EQ(order_of(part.in[0]),
            joined({run(0, 16), run(48, 16), run(96, 16), run(144, 16), run(16, 16), run(64, 16),
                    run(112, 16), run(160, 16), run(32, 16), run(80, 16), run(128, 16), run(176, 16)}));
  EXPECT_EQ(part.in[1].key, "model.layers.0.self_attn.output_gate");
  ASSERT_EQ(part.slopes.size(), 4U);
  EXPECT_FLOAT_EQ(part.slopes[0], 0.25f * 1.00001f);
  EXPECT_FLOAT_EQ(part.slopes[3], 1.00001f / 256.0f);
  EXPECT_EQ(part.norm.columns, 64);
  EXPECT_EQ(part.norm.epsilon, 1e-6f);
  for (const LayerSpec& layer : config.spec.layers) {
    EXPECT_FLOAT_EQ(layer.attention_norm.stream_scale, 3.5566f);
    EXPECT_FLOAT_EQ(layer.feed_forward_norm.stream_scale, 3.5566f);
  }
  EXPECT_EQ(part.out.prescale, 1.0f);
  EXPECT_EQ(attention_of(config, 1).rotary_dim, 16);
  EXPECT_TRUE(experts_of(config, 0).normalised);
  EXPECT_EQ(experts_of(config, 0).score, RouterScore::softmax);
}

TEST(HybridFamilies, Lfm2RoundsTheWidthOfItsMlp) {
  const ModelConfig config = read("lfm2");
  EXPECT_EQ(config.architecture->name, "Lfm2ForCausalLM");
  EXPECT_EQ(kinds(config), (Kinds{"short convolutions, mlp", "attention, mlp"}));
  const auto& part = mixer_of<ShortConvPart>(config, 0);
  EXPECT_EQ(part.in.num_out, 3 * 64);
  EXPECT_EQ(part.conv.channels, 64);
  EXPECT_EQ(part.conv.num_taps, 3);
  EXPECT_FALSE(part.conv.silu);
  EXPECT_EQ(part.conv.weights.front().name, "model.layers.0.conv.conv.weight");
  EXPECT_EQ(layer_of(config, 0).dense()->intermediate, 64) << "two thirds of 96";
  const AttentionPart& attention = attention_of(config, 1);
  EXPECT_EQ(attention.qk_norm, QkNorm::each_head);
  EXPECT_EQ(attention.q_norm.name, "model.layers.1.self_attn.q_layernorm.weight");
  EXPECT_EQ(attention.output.key, "model.layers.1.self_attn.out_proj");
  EXPECT_EQ(config.spec.head.norm.weight.name, "model.embedding_norm.weight");
  EXPECT_TRUE(config.spec.head.tied);
}

TEST(HybridFamilies, Lfm2Moe) {
  const ModelConfig config = read("lfm2_moe");
  EXPECT_EQ(config.architecture->name, "Lfm2MoeForCausalLM");
  EXPECT_EQ(kinds(config),
            (Kinds{"short convolutions, mlp", "attention, experts", "short convolutions, experts"}));
  EXPECT_EQ(layer_of(config, 0).dense()->intermediate, 96) << "as given";
  const ExpertsPart& experts = experts_of(config, 1);
  EXPECT_EQ(experts.score, RouterScore::sigmoid);
  EXPECT_EQ(experts.choice_bias.name, "model.layers.1.feed_forward.expert_bias");
  EXPECT_TRUE(experts.normalised);
  EXPECT_EQ(experts.expert.gate_up[1].key, "model.layers.1.feed_forward.experts.{}.w3");
}

TEST(HybridFamilies, Lfm3GatesEachHead) {
  const ModelConfig config = read("lfm3");
  EXPECT_EQ(config.architecture->name, "Lfm3ForCausalLM");
  EXPECT_EQ(kinds(config), (Kinds{"short convolutions, mlp", "attention, mlp", "attention, mlp",
                                  "short convolutions, mlp"}));
  EXPECT_EQ(mixer_of<ShortConvPart>(config, 0).conv.num_taps, 7);
  EXPECT_EQ(attention_of(config, 1).sliding_window, 16);
  EXPECT_EQ(attention_of(config, 2).sliding_window, 0);
  EXPECT_EQ(attention_of(config, 2).gate->projection.num_out, 4);
  const auto rope = [&](size_t layer) {
    return config.spec.ropes.at(static_cast<size_t>(attention_of(config, layer).rope_idx)).config;
  };
  EXPECT_EQ(rope(1).theta, 10000.0);
  EXPECT_EQ(rope(2).kind, RopeKind::proportional);
  EXPECT_EQ(rope(2).theta, 1000000.0);
  EXPECT_EQ(layer_of(config, 0).attention_post_norm->weight.name, "model.layers.0.post_operator_norm.weight");
  EXPECT_EQ(layer_of(config, 0).feed_forward_post_norm->weight.name, "model.layers.0.post_ffn_norm.weight");
}

TEST(HybridFamilies, OlmoHybridAllowsNegativeEigenvalues) {
  const ModelConfig config = read("olmo_hybrid");
  EXPECT_EQ(config.architecture->name, "OlmoHybridForCausalLM");
  EXPECT_EQ(kinds(config), (Kinds{"the gated delta rule, mlp", "attention, mlp"}));
  const DeltaPart& part = mixer_of<DeltaPart>(config, 0);
  EXPECT_EQ(part.num_key_heads, 2);
  EXPECT_EQ(part.num_value_heads, 4);
  EXPECT_EQ(part.key_dim, 16);
  EXPECT_EQ(part.value_dim, 32);
  EXPECT_EQ(part.beta_scale, 2.0f);
  EXPECT_EQ(part.gate_form, StateGate::silu);
  EXPECT_EQ(part.norm.epsilon, 1e-5f) << "whatever rms_norm_eps is";
  ASSERT_EQ(part.in.size(), 4U);
  EXPECT_EQ(part.in[3].key, "model.layers.0.linear_attn.g_proj");
  EXPECT_EQ(part.rates[0].key, "model.layers.0.linear_attn.b_proj");
  const LayerSpec& before = layer_of(config, 0);
  EXPECT_EQ(before.attention_norm.weight.name, "model.layers.0.attention_layer_norm.weight");
  EXPECT_FALSE(before.attention_post_norm || before.feed_forward_post_norm);
  const LayerSpec& after = layer_of(config, 1);
  EXPECT_EQ(after.attention_norm.kind, kernels::NormKind::none);
  EXPECT_EQ(after.attention_post_norm->weight.other_name, "model.layers.1.feedforward_layer_norm.weight");
  EXPECT_EQ(after.attention().qk_norm, QkNorm::all_heads);
  EXPECT_EQ(after.attention().rotary_dim, 16);
}

TEST(HybridFamilies, RecurrentGemmaHasGatesByBlocks) {
  const ModelConfig config = read("recurrent_gemma");
  EXPECT_EQ(config.architecture->name, "RecurrentGemmaForCausalLM");
  EXPECT_EQ(kinds(config), (Kinds{"the RG-LRU, mlp", "the RG-LRU, mlp", "attention, mlp"}));
  const auto& part = mixer_of<RgLruPart>(config, 0);
  EXPECT_EQ(part.channels, 64);
  EXPECT_EQ(part.num_blocks, 4);
  EXPECT_EQ(part.step_gate.key, "model.layers.0.temporal_block.rg_lru.recurrent_gate_weight");
  EXPECT_EQ(part.step_gate.num_slabs, 4);
  EXPECT_TRUE(part.step_gate.transposed);
  EXPECT_FALSE(part.conv.silu);
  EXPECT_FALSE(part.conv.bias.name.empty());
  EXPECT_EQ(part.in.front().bias, BiasRule::required);
  const AttentionPart& attention = attention_of(config, 2);
  EXPECT_EQ(attention.sliding_window, 16);
  EXPECT_EQ(attention.rotary_dim, 8);
  EXPECT_EQ(attention.heads.num_kv_heads, 1);
  EXPECT_EQ(layer_of(config, 0).dense()->intermediate, 96) << "half of intermediate_size";
  EXPECT_EQ(layer_of(config, 0).dense()->activation, Activation::gelu_tanh);
  EXPECT_EQ(layer_of(config, 0).attention_norm.weight.offset, 1.0f);
  EXPECT_EQ(config.spec.embedding.scale, 8.0f);
  EXPECT_EQ(config.spec.head.softcap, 2.0f);
}

}  // namespace
}  // namespace quire
