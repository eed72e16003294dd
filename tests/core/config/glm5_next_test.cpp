// GLM-5.3-Flash: the spec of its tiny model, spellings of published configs, and configs that are refused.
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
using testing::mixer_of;

// Returns a config of GLM-5.3-Flash with other fields in its text part.
ModelConfig read_glm5(const Json& fields) {
  Json config = Json::parse(testing::golden_family_config("glm5_next"));
  for (const auto& [name, value] : fields.items()) config["text_config"][name] = value;
  return parse_model_config(config.dump());
}

// Returns a letter for each layer: K for KDA, a for attention.
std::string mixers_of(const ModelConfig& config) {
  std::string out;
  for (const LayerSpec& layer : config.spec.layers)
    out += std::holds_alternative<DeltaPart>(layer.mixer) ? 'K' : layer.find_attention() ? 'a' : '?';
  return out;
}

TEST(Glm5Next, ConnectsStreamsAndPoolsKeys) {
  const ModelConfig config = read_glm5({});
  EXPECT_EQ(config.architecture->name, "Glm5NextForConditionalGeneration");
  EXPECT_EQ(mixers_of(config), "KaKa");
  EXPECT_EQ(config.spec.num_streams, 4);
  EXPECT_TRUE(config.spec.connects_streams);
  const ConnectionPart& connection = std::get<ConnectionsPart>(config.spec.layers[1].streams).feed_forward;
  EXPECT_EQ(connection.products.key, "model.layers.1.hc_ffn_fn");
  EXPECT_EQ(connection.products.num_in, 4 * 64);
  EXPECT_EQ(connection.products.num_out, 24);
  EXPECT_EQ(connection.iterations, 20);
  EXPECT_EQ(connection.norm.epsilon, 1e-5f);
  EXPECT_TRUE(connection.norm.weight.name.empty());
  const AttentionPart& attention = attention_of(config, 1);
  EXPECT_EQ(attention.rope_idx, -1);
  EXPECT_EQ(attention.latent->shared_key_dim, 0);
  EXPECT_EQ(attention.latent->latent_norm.epsilon, 1e-5f);
  EXPECT_EQ(attention.indexer->pool, 4);
  EXPECT_EQ(attention.indexer->pool_bias.count, 4 * 16);
  EXPECT_EQ(config.spec.kvs.at(static_cast<size_t>(attention.kv_idx)).index_dim, 2 * 16);
  EXPECT_EQ(mixer_of<DeltaPart>(config, 0).decay_form, kernels::DeltaDecay::bounded);
  EXPECT_EQ(config.spec.layers[0].experts(), nullptr);
  const ExpertsPart& experts = *config.spec.layers[1].experts();
  for (const MlpPart* part : {config.spec.layers[0].dense(), &experts.expert, &*experts.shared}) {
    EXPECT_EQ(part->activation, kernels::Activation::clamped_swish);
    EXPECT_EQ(part->a, 1.0f);
    EXPECT_EQ(part->b, 0.0f);
    EXPECT_EQ(part->limit, 1.5f);
    EXPECT_EQ(part->c, 1.5f);
  }
}

TEST(Glm5Next, ReadsSizesOfKdaFromAnObject) {
  const auto delta = [](const Json& fields) { return mixer_of<DeltaPart>(read_glm5(fields), 0); };
  const Json object = {{"num_heads", 2}, {"head_dim", 32}, {"short_conv_kernel_size", 3}};
  const DeltaPart part = delta({{"linear_attn_config", object}});
  EXPECT_EQ(part.num_value_heads, 2);
  EXPECT_EQ(part.value_dim, 32);
  EXPECT_EQ(part.conv.num_taps, 3);
  EXPECT_EQ(part.decay_bound, -5.0f);
  EXPECT_EQ(delta({{"linear_attn_config", {{"gate_lower_bound", -2.5}}}}).decay_bound, -2.5f);
  EXPECT_EQ(delta({{"linear_lower_bound", nullptr}}).decay_form, kernels::DeltaDecay::softplus);
  const Json both = {{"linear_lower_bound", nullptr}, {"linear_attn_config", object}};
  EXPECT_EQ(delta(both).decay_form, kernels::DeltaDecay::bounded) << "safe_gate is true by default";
}

TEST(Glm5Next, EveryFourthLayerHasAttention) {
  Json config = Json::parse(testing::golden_family_config("glm5_next"));
  for (const char* list : {"layer_types", "mlp_layer_types", "indexer_types"})
    config["text_config"].erase(list);
  config["text_config"]["num_hidden_layers"] = 8;
  const ModelConfig made = parse_model_config(config.dump());
  EXPECT_EQ(mixers_of(made), "KKKaKKKa");
  EXPECT_EQ(made.spec.layers[2].experts(), nullptr);
  EXPECT_NE(made.spec.layers[3].experts(), nullptr);
}

TEST(Glm5Next, SelectsByPoolsAlone) {
  const auto refused = [](ErrorCode code, const Json& fields, std::initializer_list<std::string_view> words) {
    expect_error(code, words, [&] { read_glm5(fields); });
  };
  refused(ErrorCode::format, {{"index_topk", 30}}, {"index_topk", "30", "index_kpool 4"});
  refused(ErrorCode::unsupported, {{"index_kpool_always_select_tail", false}}, {"always_select_tail"});
  refused(ErrorCode::unsupported, {{"indexer_types", {"full", "full", "full", "shared"}}},
          {"indexer_types", "layer 3 shares"});
  refused(ErrorCode::unsupported, {{"indexer_types", nullptr}, {"index_topk_pattern", "FFFS"}},
          {"layer 3 shares"});
  refused(ErrorCode::unsupported, {{"indexer_types", nullptr}, {"index_topk_freq", 3}}, {"layer 3 shares"});
  refused(ErrorCode::format, {{"indexer_types", nullptr}, {"index_topk_pattern", "FF"}}, {"4 letters"});
  refused(ErrorCode::format, {{"qk_rope_head_dim", 64}}, {"qk_rope_head_dim"});
  refused(ErrorCode::format, {{"hc_mult", 9}}, {"hc_mult"});
}

}  // namespace
}  // namespace quire
