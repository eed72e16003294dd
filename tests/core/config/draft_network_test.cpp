// Draft networks: the modules of checkpoints, EAGLE-3 networks and draft models; those that are refused, and
// the names and shapes of the tensors in the golden files of the shared folder.
#include "core/config/draft_network.h"

#include <cstring>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "tests/core/config/config_text.h"
#include "tests/core/config/tensor_walk.h"
#include "tests/support/expect_error.h"
#include "tests/support/file_text.h"
#include "tests/support/golden_families.h"
#include "tests/support/json_text.h"

namespace quire {
namespace {

using testing::expect_error;
using testing::Json;
using testing::Shape;
using testing::small_config;
using testing::TensorWalk;

const std::string kGoldens = std::string(QUIRE_SHARED_DIR) + "/golden/mtp/";

Json with(Json config, const Json& fields) {
  for (const auto& [name, value] : fields.items()) config[name] = value;
  return config;
}

Json glm_config() {
  return with(small_config("Glm4MoeForCausalLM"), {{"head_dim", 32},
                                                   {"num_key_value_heads", 2},
                                                   {"use_qk_norm", true},
                                                   {"first_k_dense_replace", 1},
                                                   {"moe_intermediate_size", 32},
                                                   {"n_routed_experts", 8},
                                                   {"num_experts_per_tok", 2},
                                                   {"num_nextn_predict_layers", 1}});
}

DraftNetworkConfig mtp_of(const Json& config) {
  const std::string text = config.dump();
  return parse_mtp_network(text, parse_model_config(text), "m/config.json");
}

void expect_no_module(const Json& config, std::initializer_list<std::string_view> words) {
  expect_error(ErrorCode::unsupported, words, [&] { (void)mtp_of(config); });
}

using Layers = std::vector<int32_t>;

TEST(MtpNetwork, HasALayerLikeThatOfTheTarget) {
  const DraftNetworkConfig draft = mtp_of(glm_config());
  EXPECT_EQ(draft.kind, DraftNetworkKind::mtp);
  EXPECT_EQ(draft.state_layers, Layers{2});
  EXPECT_TRUE(draft.feeds_normed && draft.borrows_embedding && draft.borrows_head);
  EXPECT_EQ(draft.token_map, "");
  EXPECT_EQ(draft.network.num_layers, 1);
  EXPECT_EQ(draft.network.vocab_size, 160);
  const ModelSpec& spec = draft.network.spec;
  EXPECT_EQ(spec.embedding.key, "model.embed_tokens");
  EXPECT_EQ(spec.head.projection.key, "lm_head");
  EXPECT_EQ(spec.head.norm.weight.name, "model.layers.2.shared_head.norm.weight");
  EXPECT_FALSE(spec.keeps_embedding);
  const FeaturesPart& features = spec.embedding.features.value();
  EXPECT_EQ(features.num_states, 1);
  EXPECT_EQ(features.state_columns, 64);
  EXPECT_EQ(features.norm->weight.name, "model.norm.weight");
  EXPECT_FALSE(features.reduction.has_value());
  EXPECT_EQ(features.projection->key, "model.layers.2.eh_proj");
  EXPECT_EQ(features.projection->num_in, 128);
  EXPECT_EQ(features.embedding_norm.weight.name, "model.layers.2.enorm.weight");
  EXPECT_EQ(features.state_norm.weight.name, "model.layers.2.hnorm.weight");
  EXPECT_FALSE(features.state_first);
  EXPECT_NE(spec.layers.front().experts(), nullptr);
  EXPECT_EQ(spec.kvs.size(), 1U);
  EXPECT_EQ(spec.ropes.size(), 1U);
  EXPECT_EQ(name_in_files(draft.prefixes, "model.layers.1.mlp.gate"), "model.layers.2.mlp.gate");
  EXPECT_EQ(name_in_files(draft.prefixes, "model.layers.2.mlp.gate"), "model.layers.2.mlp.gate");
  EXPECT_EQ(name_in_files(draft.prefixes, "model.layers.11.mlp.gate"), "model.layers.11.mlp.gate");
}

TEST(MtpNetwork, OfAModelWithStatesHasTheLastLayerWithAttention) {
  Json config = Json::parse(testing::golden_family_config("qwen3_next"));
  const DraftNetworkConfig draft = mtp_of(config);
  const LayerSpec& layer = draft.network.spec.layers.front();
  EXPECT_TRUE(std::holds_alternative<AttentionPart>(layer.mixer));
  EXPECT_TRUE(layer.attention().gate.has_value());
  EXPECT_EQ(layer.attention_norm.weight.offset, 1.0f);
  EXPECT_EQ(draft.network.spec.embedding.features->state_norm.weight.offset, 1.0f);
  EXPECT_EQ(name_in_files(draft.prefixes, layer.attention_norm.weight.name),
            "mtp.layers.0.input_layernorm.weight");
  config["num_nextn_predict_layers"] = 0;
  expect_no_module(config, {"m/config.json", "num_nextn_predict_layers"});
}

struct Family {
  const char* name;
  const char* field;
  const char* projection;
  const char* output;  // of the module's attention, in the files
};
constexpr Family kFamilies[] = {
    {"deepseek_v3", "num_nextn_predict_layers", "model.layers.2.eh_proj", "model.layers.2.self_attn.o_proj"},
    {"deepseek_v32", "num_nextn_predict_layers", "model.layers.2.eh_proj", "model.layers.2.self_attn.o_proj"},
    {"glm4_moe", "num_nextn_predict_layers", "model.layers.2.eh_proj", "model.layers.2.self_attn.o_proj"},
    {"glm4_moe_lite", "num_nextn_predict_layers", "model.layers.2.eh_proj",
     "model.layers.2.self_attn.o_proj"},
    {"glm_moe_dsa", "num_nextn_predict_layers", "model.layers.3.eh_proj", "model.layers.3.self_attn.o_proj"},
    {"bailing_hybrid", "num_nextn_predict_layers", "model.layers.2.eh_proj",
     "model.layers.2.attention.dense"},
    {"hy_v3", "num_nextn_predict_layers", "model.layers.2.eh_proj", "model.layers.2.self_attn.o_proj"},
    {"ernie4_5", "num_nextn_predict_layers", "model.mtp_linear_proj.0", "model.mtp_block.0.self_attn.o_proj"},
    {"ernie4_5_moe", "num_nextn_predict_layers", "model.mtp_linear_proj.0",
     "model.mtp_block.0.self_attn.o_proj"},
    {"mimo_v2_flash", "num_nextn_predict_layers", "model.mtp.layers.0.eh_proj",
     "model.mtp.layers.0.self_attn.o_proj"},
    {"qwen3_5", "mtp_num_hidden_layers", "mtp.fc", "mtp.layers.0.self_attn.o_proj"},
    {"qwen3_5_moe", "mtp_num_hidden_layers", "mtp.fc", "mtp.layers.0.self_attn.o_proj"},
    {"nemotron_h", "num_nextn_predict_layers", "mtp.layers.0.eh_proj", "mtp.layers.0.mixer.o_proj"},
};

TEST(MtpNetwork, OfEachFamilyHasItsNames) {
  for (const Family& family : kFamilies) {
    SCOPED_TRACE(family.name);
    const Json config = with(Json::parse(testing::golden_family_config(family.name)), {{family.field, 1}});
    const DraftNetworkConfig draft = mtp_of(config);
    const ModelSpec& spec = draft.network.spec;
    const AttentionPart& attention = spec.layers.front().attention();
    EXPECT_EQ(spec.embedding.features->projection->key, family.projection);
    EXPECT_EQ(name_in_files(draft.prefixes, attention.output.key), family.output);
    EXPECT_EQ(attention.selection_source, -1);
    EXPECT_EQ(spec.kvs.size(), 1U);
    EXPECT_EQ(spec.ropes.size(), attention.rope_idx < 0 ? 0U : 1U);
  }
}

TEST(MtpNetwork, OfNemotronHasALayerOfAttentionAndOneOfExperts) {
  Json config = with(Json::parse(testing::golden_family_config("nemotron_h")),
                     {{"num_nextn_predict_layers", 1}, {"mtp_hybrid_override_pattern", "*E"}});
  const DraftNetworkConfig draft = mtp_of(config);
  const std::vector<LayerSpec>& layers = draft.network.spec.layers;
  ASSERT_EQ(layers.size(), 2U);
  EXPECT_EQ(name_in_files(draft.prefixes, layers[0].attention().output.key), "mtp.layers.0.mixer.o_proj");
  EXPECT_EQ(name_in_files(draft.prefixes, layers[1].experts()->router.key), "mtp.layers.1.mixer.gate");
  EXPECT_EQ(draft.network.spec.head.norm.weight.name, "mtp.layers.1.final_layernorm.weight");
  config["mtp_hybrid_override_pattern"] = "**E";
  expect_no_module(config, {"mtp_hybrid_override_pattern", "attention"});
  config.erase("mtp_hybrid_override_pattern");
  config["mtp_layers_block_type"] = {"attention", "mlp"};
  expect_no_module(config, {"mtp_layers_block_type"});
}

std::string name_of(const DraftNetworkConfig& draft, const std::string& name) {
  return name_in_files(draft.prefixes, name);
}

const LayerSpec& layer_of(const DraftNetworkConfig& draft) {
  return draft.network.spec.layers.front();
}

TEST(MtpNetwork, OfErnieHasADenseLayerAndTheLastNormOfTheModel) {
  const DraftNetworkConfig draft = mtp_of(
      with(Json::parse(testing::golden_family_config("ernie4_5_moe")), {{"num_nextn_predict_layers", 1}}));
  EXPECT_EQ(name_of(draft, draft.network.spec.head.norm.weight.name), "model.norm.weight");
  EXPECT_TRUE(draft.feeds_normed && draft.borrows_embedding && draft.borrows_head);
  const FeaturesPart& features = draft.network.spec.embedding.features.value();
  EXPECT_EQ(features.embedding_norm.weight.name, "model.mtp_emb_norm.0.weight");
  EXPECT_EQ(features.state_norm.weight.name, "model.mtp_hidden_norm.0.weight");
  EXPECT_EQ(features.norm->weight.name, "model.norm.weight");
  const LayerSpec& layer = layer_of(draft);
  EXPECT_EQ(layer.experts(), nullptr);
  EXPECT_EQ(layer.dense()->intermediate, 96);
  EXPECT_EQ(name_of(draft, layer.dense()->down.key), "model.mtp_block.0.mlp.down_proj");
  EXPECT_EQ(name_of(draft, layer.feed_forward_norm.weight.name),
            "model.mtp_block.0.post_attention_layernorm.weight");
  Json sparse = small_config("Ernie4_5_MoeForCausalLM");
  sparse = with(sparse, {{"moe_layer_start_index", 0},
                         {"moe_num_experts", 8},
                         {"moe_k", 2},
                         {"moe_intermediate_size", 32},
                         {"num_nextn_predict_layers", 1}});
  expect_no_module(sparse, {"a dense MLP", "choose another drafter"});
}

TEST(MtpNetwork, OfMimoV2HasAWindowWithSinksAndADenseMlp) {
  const DraftNetworkConfig draft = mtp_of(Json::parse(testing::golden_family_config("mimo_v2_flash")));
  const LayerSpec& layer = layer_of(draft);
  const AttentionPart& attention = layer.attention();
  EXPECT_EQ(attention.sliding_window, 17);
  EXPECT_EQ(draft.network.spec.kvs.at(0).window, 17);
  EXPECT_EQ(attention.heads.num_kv_heads, 4);
  EXPECT_EQ(name_of(draft, attention.sinks.name), "model.mtp.layers.0.self_attn.attention_sink_bias");
  EXPECT_EQ(draft.network.spec.ropes.at(0).config.theta, 10000.0);
  EXPECT_EQ(name_of(draft, layer.attention_norm.weight.name), "model.mtp.layers.0.input_layernorm.weight");
  EXPECT_EQ(name_of(draft, layer.feed_forward_norm.weight.name),
            "model.mtp.layers.0.pre_mlp_layernorm.weight");
  EXPECT_EQ(name_of(draft, layer.dense()->down.key), "model.mtp.layers.0.mlp.down_proj");
  EXPECT_EQ(draft.network.spec.head.norm.weight.name, "model.mtp.layers.0.final_layernorm.weight");
}

Json exaone_module_config(const Json& fields) {
  return with(
      with(Json::parse(testing::golden_family_config("exaone_moe")), {{"num_nextn_predict_layers", 1}}),
      fields);
}

TEST(MtpNetwork, OfExaoneHasTheAttentionThatItsListHas) {
  const DraftNetworkConfig full = mtp_of(exaone_module_config({{"mtp_layer_types", {"full_attention"}}}));
  EXPECT_EQ(layer_of(full).attention().sliding_window, 0);
  EXPECT_TRUE(full.network.spec.ropes.empty());
  EXPECT_EQ(name_of(full, layer_of(full).attention().q_norm.name), "mtp.layers.0.self_attn.q_norm.weight");
  EXPECT_EQ(name_of(full, layer_of(full).dense()->down.key), "mtp.layers.0.mlp.down_proj");
  EXPECT_EQ(full.network.spec.head.norm.weight.name, "mtp.norm.weight");
  const Json sliding = {{"mtp_layer_types", {"sliding_attention"}}, {"mtp_sliding_windows", {16}}};
  const DraftNetworkConfig windowed = mtp_of(exaone_module_config(sliding));
  EXPECT_EQ(layer_of(windowed).attention().sliding_window, 16);
  EXPECT_EQ(windowed.network.spec.ropes.size(), 1U);
  expect_no_module(exaone_module_config({}),
                   {"m/config.json: ", "mtp_layer_types", "choose another drafter"});
  expect_no_module(exaone_module_config({{"mtp_layer_types", {"linear_attention"}}}),
                   {"mtp_layer_types[0]", "linear_attention", "sliding_attention"});
  expect_no_module(exaone_module_config(with(sliding, {{"mtp_sliding_windows", {32}}})),
                   {"mtp_sliding_windows[0]", "16"});
}

// A module of Step has the entries of the lists after those of the four layers.
Json step_module_config(const Json& fields) {
  Json config = Json::parse(testing::golden_family_config("step3p7"));
  Json& text = config["text_config"];
  text = with(text, with({{"num_nextn_predict_layers", 1}}, fields));
  for (const auto& [list, entry] : std::map<std::string, Json>{
           {"layer_types", "sliding_attention"}, {"rope_theta", 1e4}, {"swiglu_limits_shared", 0.0}})
    if (text[list].size() == 4) text[list].push_back(entry);
  return config;
}

TEST(MtpNetwork, OfStepReadsTheStreamAndHasAHeadOfItsOwn) {
  const DraftNetworkConfig draft = mtp_of(step_module_config({}));
  EXPECT_FALSE(draft.feeds_normed || draft.borrows_head);
  EXPECT_TRUE(draft.borrows_embedding);
  const ModelSpec& spec = draft.network.spec;
  EXPECT_EQ(spec.head.projection.key, "model.layers.4.transformer.shared_head.output");
  EXPECT_EQ(spec.head.norm.weight.name, "model.layers.4.transformer.shared_head.norm.weight");
  EXPECT_EQ(spec.head.norm.weight.offset, 1.0f);
  EXPECT_FALSE(spec.embedding.features->norm.has_value());
  EXPECT_EQ(spec.embedding.features->state_norm.weight.offset, 1.0f);
  EXPECT_EQ(spec.embedding.features->projection->key, "model.layers.4.eh_proj");
  const AttentionPart& attention = layer_of(draft).attention();
  EXPECT_EQ(attention.heads.num_heads, 6);
  EXPECT_EQ(attention.sliding_window, 16);
  EXPECT_EQ(spec.ropes.at(0).config.theta, 10000.0);
  EXPECT_EQ(name_of(draft, attention.gate->projection.key), "model.layers.4.self_attn.g_proj");
  EXPECT_EQ(name_of(draft, layer_of(draft).dense()->down.key), "model.layers.4.mlp.down_proj");
}

TEST(MtpNetwork, OfStepHasALayerWithItsEntriesOfTheLists) {
  const Json full = {{"mtp_layer_types", {"full_attention"}}, {"rope_theta", {5e6, 1e4, 1e4, 5e6, 5e6}}};
  EXPECT_EQ(layer_of(mtp_of(step_module_config(full))).attention().heads.num_heads, 4);
  expect_no_module(step_module_config({{"rope_theta", {5e6, 1e4, 1e4, 5e6, 7e6}}}),
                   {"attention with a window"});
  expect_no_module(step_module_config({{"swiglu_limits_shared", {nullptr, 1.0, nullptr, 1.5, 16}}}),
                   {"a dense MLP"});
}

TEST(MtpNetwork, IsRefusedByName) {
  expect_no_module(small_config(), {"m/config.json", "LlamaForCausalLM", "choose another drafter"});
  expect_no_module(with(glm_config(), {{"num_nextn_predict_layers", 0}}), {"num_nextn_predict_layers"});
  Json silent = glm_config();
  silent.erase("num_nextn_predict_layers");
  expect_no_module(silent, {"has no module", "num_nextn_predict_layers"});
  Json dedicated = with(Json::parse(testing::golden_family_config("qwen3_5")),
                        {{"mtp_num_hidden_layers", 1}, {"mtp_use_dedicated_embeddings", true}});
  expect_no_module(dedicated, {"mtp_use_dedicated_embeddings"});
  const Json windows = with(small_config("MiMoForCausalLM"), {{"num_nextn_predict_layers", 1},
                                                              {"use_sliding_window", true},
                                                              {"sliding_window", 16},
                                                              {"max_window_layers", 0}});
  expect_no_module(windows, {"attention over all tokens"});
}

ModelConfig eagle_target(int32_t num_layers = 8) {
  return parse_model_config(with(small_config(), {{"num_hidden_layers", num_layers}}).dump());
}

Json eagle_config(const Json& fields = Json::object()) {
  return with(with(small_config("LlamaForCausalLMEagle3"), {{"model_type", "llama"},
                                                            {"num_hidden_layers", 1},
                                                            {"num_key_value_heads", 2},
                                                            {"draft_vocab_size", 48}}),
              fields);
}

DraftNetworkConfig eagle_of(const Json& fields, const ModelConfig& target = eagle_target()) {
  return parse_draft_network(eagle_config(fields).dump(), target, "d");
}

void expect_no_eagle(ErrorCode code, const Json& fields, std::initializer_list<std::string_view> words,
                     const ModelConfig& target = eagle_target()) {
  expect_error(code, words, [&] { (void)eagle_of(fields, target); });
}

TEST(Eagle3Network, ReadsStatesOfThreeLayersAndTheEmbedding) {
  const DraftNetworkConfig draft = eagle_of({});
  EXPECT_EQ(draft.kind, DraftNetworkKind::eagle3);
  EXPECT_EQ(draft.state_layers, (Layers{2, 4, 5}));
  EXPECT_FALSE(draft.feeds_normed);
  EXPECT_EQ(draft.token_map, "d2t");
  EXPECT_EQ(draft.network.vocab_size, 48);
  const ModelSpec& spec = draft.network.spec;
  EXPECT_TRUE(spec.keeps_embedding);
  EXPECT_EQ(spec.vocab_size, 48);
  EXPECT_EQ(spec.embedding.num_rows, 160);
  EXPECT_EQ(spec.head.projection.num_out, 48);
  const FeaturesPart& features = spec.embedding.features.value();
  EXPECT_EQ(features.num_states, 3);
  EXPECT_EQ(features.state_columns, 64);
  EXPECT_EQ(features.reduction->num_in, 192);
  EXPECT_FALSE(features.norm.has_value() || features.projection.has_value());
  const LayerSpec& layer = spec.layers.front();
  const auto& pair = std::get<PairAttentionPart>(layer.mixer);
  EXPECT_FALSE(pair.norms_stream);
  EXPECT_EQ(pair.embedding_norm.weight.name, "model.layers.0.input_layernorm.weight");
  EXPECT_EQ(layer.attention_norm.weight.name, "model.layers.0.hidden_norm.weight");
  EXPECT_EQ(pair.attention.qkv.front().num_in, 128);
  EXPECT_EQ(pair.attention.qkv.front().bias, BiasRule::none);
  EXPECT_EQ(spec.kvs.size(), 1U);
  EXPECT_TRUE(std::get<PairAttentionPart>(
                  eagle_of({{"norm_before_residual", true}}).network.spec.layers.front().mixer)
                  .norms_stream);
}

TEST(Eagle3Network, CountsListedLayersAsTheirFieldDoes) {
  EXPECT_EQ(eagle_of({{"eagle_aux_hidden_state_layer_ids", {5, 1, 8}}}).state_layers, (Layers{1, 5, 8}));
  EXPECT_EQ(eagle_of({{"eagle_config", {{"eagle_aux_hidden_state_layer_ids", {0, 3, 7}}}}}).state_layers,
            (Layers{1, 4, 8}));
  const DraftNetworkConfig two = eagle_of({{"eagle_aux_hidden_state_layer_ids", {0, 8}}});
  EXPECT_EQ(two.network.spec.embedding.features->num_states, 2);
  for (const Json& list : {Json({1, 9}), Json({1, 1}), Json(Json::array()), Json(3), Json({-1})})
    expect_no_eagle(ErrorCode::format, {{"eagle_aux_hidden_state_layer_ids", list}},
                    {"d/config.json.eagle_aux_hidden_state_layer_ids"});
  expect_no_eagle(ErrorCode::format, {{"eagle_config", {{"eagle_aux_hidden_state_layer_ids", {8}}}}},
                  {"d/config.json.eagle_config.eagle_aux_hidden_state_layer_ids"});
  expect_no_eagle(ErrorCode::format, {}, {"eagle_aux_hidden_state_layer_ids", "6 layers"}, eagle_target(6));
}

TEST(Eagle3Network, OfSpeculatorsHasTheFieldsOfItsLayersInAnObject) {
  Json layers = eagle_config();
  for (const char* name : {"architectures", "draft_vocab_size"}) layers.erase(name);
  const Json config = {{"architectures", {"Eagle3Speculator"}},
                       {"speculators_model_type", "eagle3"},
                       {"draft_vocab_size", 48},
                       {"norm_before_residual", true},
                       {"target_hidden_size", nullptr},
                       {"transformer_layer_config", layers}};
  const DraftNetworkConfig draft = parse_draft_network(config.dump(), eagle_target(), "d");
  EXPECT_EQ(draft.network.vocab_size, 48);
  EXPECT_EQ(draft.network.heads.num_kv_heads, 2);
  EXPECT_TRUE(std::get<PairAttentionPart>(draft.network.spec.layers.front().mixer).norms_stream);
  Json qwen = config;
  qwen["transformer_layer_config"]["model_type"] = "qwen3";
  expect_error(ErrorCode::unsupported, {"transformer_layer_config.model_type", "qwen3"},
               [&] { (void)parse_draft_network(qwen.dump(), eagle_target(), "d"); });
  for (const char* type : {"dflash", "eagle"}) {
    expect_error(ErrorCode::unsupported, {"speculators_model_type"}, [&] {
      (void)parse_draft_network(with(config, {{"speculators_model_type", type}}).dump(), eagle_target());
    });
  }
}

TEST(Eagle3Network, VariantsAreRefusedByTheirField) {
  for (const char* field : {"norm_before_fc", "fc_norm", "norm_output", "mask_hidden", "parallel_drafting"}) {
    expect_no_eagle(ErrorCode::unsupported, {{field, true}}, {field, "choose another drafter"});
    expect_no_eagle(ErrorCode::unsupported, {{"eagle_config", {{field, true}}}}, {field});
    EXPECT_EQ(eagle_of({{field, false}}).network.num_layers, 1);
  }
  expect_no_eagle(ErrorCode::unsupported, {{"eagle_config", {{"use_aux_hidden_state", false}}}},
                  {"eagle_config.use_aux_hidden_state"});
  expect_no_eagle(ErrorCode::unsupported, {{"model_type", "deepseek_v3"}}, {"model_type", "deepseek_v3"});
  expect_no_eagle(ErrorCode::unsupported, {{"architectures", {"EagleLlamaForCausalLM"}}},
                  {"architectures", "EagleLlamaForCausalLM"});
}

TEST(Eagle3Network, MustFitTheTarget) {
  expect_no_eagle(ErrorCode::format, {{"hidden_size", 32}}, {"hidden_size", "32", "64"});
  expect_no_eagle(ErrorCode::format, {{"target_hidden_size", 32}}, {"target_hidden_size", "32", "64"});
  expect_no_eagle(ErrorCode::format, {{"draft_vocab_size", 161}}, {"draft_vocab_size"});
  const DraftNetworkConfig narrow = eagle_of({{"hidden_size", 32}, {"target_hidden_size", 64}});
  EXPECT_EQ(narrow.network.spec.embedding.features->reduction->num_in, 192);
  EXPECT_EQ(narrow.network.spec.embedding.features->reduction->num_out, 32);
}

TEST(Eagle3Network, ItsTensorsShowWhatItBorrows) {
  const ModelConfig target = eagle_target();
  const auto fitted = [&](const Json& fields, const std::set<std::string>& tensors) {
    DraftNetworkConfig draft = eagle_of(fields);
    fit_to_tensors([&](const std::string& name) { return tensors.count(name) > 0; }, target, "d", draft);
    return draft;
  };
  const Json all = {{"draft_vocab_size", 160}};
  const DraftNetworkConfig own = fitted({}, {"model.embed_tokens", "lm_head", "d2t"});
  EXPECT_FALSE(own.borrows_embedding || own.borrows_head);
  EXPECT_TRUE(own.prefixes.empty());
  const DraftNetworkConfig lent = fitted(all, {"midlayer.self_attn.o_proj"});
  EXPECT_TRUE(lent.borrows_embedding && lent.borrows_head);
  EXPECT_EQ(lent.token_map, "");
  EXPECT_EQ(lent.network.spec.embedding.num_rows, 160);
  EXPECT_EQ(name_in_files(lent.prefixes, "model.layers.0.mlp.up_proj"), "midlayer.mlp.up_proj");
  const Json narrow = {{"hidden_size", 32}, {"target_hidden_size", 64}};
  const auto refuses = [&](ErrorCode code, const Json& fields, const std::set<std::string>& tensors,
                           std::initializer_list<std::string_view> words) {
    expect_error(code, words, [&] { (void)fitted(fields, tensors); });
  };
  refuses(ErrorCode::format, {}, {"lm_head"}, {"d: ", "d2t"});
  refuses(ErrorCode::format, {}, {"d2t"}, {"d: ", "lm_head.weight"});
  refuses(ErrorCode::format, narrow, {"lm_head", "d2t"}, {"d: ", "embed_tokens.weight", "64", "32"});
  refuses(ErrorCode::format, {{"vocab_size", 150}}, {"model.embed_tokens", "lm_head", "d2t"}, {"150", "160"});
  refuses(ErrorCode::unsupported, {}, {"mask_hidden"}, {"mask_hidden"});
}

TEST(DraftModel, HasAttentionOnly) {
  const std::string llama = small_config().dump();
  const DraftNetworkConfig draft = parse_draft_network(llama, eagle_target(), "d");
  EXPECT_EQ(draft.kind, DraftNetworkKind::model);
  EXPECT_EQ(draft.network.num_layers, 2);
  EXPECT_TRUE(draft.state_layers.empty());
  EXPECT_FALSE(draft.borrows_embedding || draft.borrows_head);
  const std::string window = with(small_config("MistralForCausalLM"), {{"sliding_window", 16}}).dump();
  EXPECT_EQ(parse_draft_network(window, eagle_target(), "d").network.spec.kvs.front().window, 16);
  const auto refuses = [](const std::string& config, std::string_view word) {
    expect_error(ErrorCode::unsupported, {"d/config.json", word},
                 [&] { (void)parse_draft_network(config, eagle_target(), "d"); });
  };
  refuses(testing::golden_family_config("qwen3_next"), "the gated delta rule");
  refuses(testing::golden_family_config("falcon_h1"), "attention beside Mamba-2");
  refuses(with(small_config(), {{"architectures", {"NoSuchModel"}}}).dump(), "NoSuchModel");
}

// Returns the shapes of all tensors of a safetensors file, by its header.
std::map<std::string, Shape> shapes_in(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  uint64_t size = 0;
  file.read(reinterpret_cast<char*>(&size), sizeof size);
  std::string header(size, ' ');
  file.read(header.data(), static_cast<std::streamsize>(size));
  std::map<std::string, Shape> shapes;
  const Json rows = Json::parse(header);
  for (const auto& [name, row] : rows.items())
    if (name != "__metadata__") shapes[name] = row["shape"].get<Shape>();
  return shapes;
}

void expect_tensors(const DraftNetworkConfig& draft, TensorWalk& walk) {
  const ModelSpec& spec = draft.network.spec;
  walk.ends(spec);
  walk.features(*spec.embedding.features);
  for (const LayerSpec& layer : spec.layers) walk.layer(layer);
}

bool has_golden(const std::string& name) {
  return std::filesystem::is_directory(kGoldens + name);
}

struct Module {
  const char* golden;
  const char* prefix;  // of its tensors
  std::set<std::string> copies;
};

class GoldenModule : public ::testing::TestWithParam<Module> {};

TEST_P(GoldenModule, HasTheTensorsOfItsFile) {
  const Module& module = GetParam();
  if (!has_golden(module.golden)) GTEST_SKIP() << "no " << kGoldens << module.golden;
  const std::string folder = kGoldens + module.golden;
  const std::string text = testing::file_text(folder + "/config.json");
  const DraftNetworkConfig draft = parse_mtp_network(text, parse_model_config(text), folder);
  TensorWalk walk(shapes_in(folder + "/model.safetensors"),
                  [&](const std::string& name) { return name_in_files(draft.prefixes, name); });
  expect_tensors(draft, walk);
  std::set<std::string> left;
  for (const std::string& name : walk.unnamed())
    if (name.starts_with(module.prefix)) left.insert(name);
  EXPECT_EQ(left, module.copies);
}

const std::set<std::string> kCopies = {"model.layers.2.embed_tokens.weight",
                                       "model.layers.2.shared_head.head.weight"};
INSTANTIATE_TEST_SUITE_P(Table, GoldenModule,
                         ::testing::Values(Module{"deepseek_v3", "model.layers.2.", kCopies},
                                           Module{"glm4_moe", "model.layers.2.", kCopies},
                                           Module{"qwen3_next", "mtp.", {}}, Module{"qwen3_5", "mtp.", {}},
                                           Module{"mimo", "model.mtp_layers.", {}}),
                         [](const auto& param) { return std::string(param.param.golden); });

struct Eagle {
  const char* golden;
  const char* target;
  bool has_embedding = false;
};

class GoldenEagle3 : public ::testing::TestWithParam<Eagle> {};

// The files have the names of the spec without "model.".
TEST_P(GoldenEagle3, HasTheTensorsOfItsFile) {
  const Eagle& eagle = GetParam();
  const std::string target = std::string(QUIRE_SHARED_DIR) + "/" + eagle.target;
  if (!has_golden(eagle.golden) || !std::filesystem::is_directory(target)) GTEST_SKIP() << kGoldens;
  const std::string folder = kGoldens + eagle.golden + "/draft";
  const ModelConfig config = parse_model_config(testing::file_text(target + "/config.json"));
  DraftNetworkConfig draft = parse_draft_network(testing::file_text(folder + "/config.json"), config, folder);
  std::map<std::string, Shape> stored = shapes_in(folder + "/model.safetensors");
  const auto in_file = [&](const std::string& name) {
    const std::string renamed = name_in_files(draft.prefixes, name);
    return renamed.starts_with("model.") ? renamed.substr(6) : renamed;
  };
  const auto has = [&](const std::string& name) {
    return stored.count(in_file(name)) + stored.count(in_file(name) + ".weight") > 0;
  };
  fit_to_tensors(has, config, folder, draft);
  EXPECT_EQ(draft.borrows_embedding, !eagle.has_embedding);
  EXPECT_FALSE(draft.borrows_head);
  if (!eagle.has_embedding) stored["embed_tokens.weight"] = {config.vocab_size, config.hidden_size};
  TensorWalk walk(stored, in_file);
  expect_tensors(draft, walk);
  EXPECT_EQ(walk.unnamed(), (std::set<std::string>{"d2t", "t2d"}));
}

INSTANTIATE_TEST_SUITE_P(Table, GoldenEagle3,
                         ::testing::Values(Eagle{"eagle3", "golden/mtp/eagle3/target"},
                                           Eagle{"eagle3_norm_before", "golden/mtp/eagle3_norm_before/target",
                                                 true},
                                           Eagle{"eagle3_story", "models/story-15m"}),
                         [](const auto& param) { return std::string(param.param.golden); });

}  // namespace
}  // namespace quire
