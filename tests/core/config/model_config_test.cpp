#include "core/config/model_config.h"

#include <cmath>

#include <gtest/gtest.h>

#include "tests/core/config/config_text.h"
#include "tests/support/expect_error.h"
#include "tests/support/memory_file_system.h"

namespace quire {
namespace {

using testing::attention_of;
using testing::expect_error;
using testing::has_mlp_bias;
using testing::has_output_bias;
using testing::has_qkv_bias;
using testing::Json;
using testing::MemoryFileSystem;
using testing::mlp_of;
using testing::rope_of;
using testing::small_config;
using testing::windows_of;

ModelConfig parse(const Json& config) {
  return parse_model_config(config.dump());
}

TEST(ModelConfig, FillsInTheDefaultsOfLlama) {
  const ModelConfig config = parse(small_config());
  EXPECT_EQ(config.architecture->name, "LlamaForCausalLM");
  EXPECT_EQ(config.num_layers, 2);
  EXPECT_EQ(config.hidden_size, 64);
  EXPECT_EQ(mlp_of(config).intermediate, 96);
  EXPECT_EQ(config.vocab_size, 160);
  EXPECT_EQ(config.max_positions, 2048);
  EXPECT_EQ(config.heads.num_heads, 4);
  EXPECT_EQ(config.heads.num_kv_heads, 4);
  EXPECT_EQ(config.heads.head_dim, 16);
  EXPECT_FLOAT_EQ(attention_of(config).scale, 0.25f);
  EXPECT_FLOAT_EQ(config.spec.head.norm.epsilon, 1e-6f);
  EXPECT_EQ(mlp_of(config).activation, kernels::Activation::silu);
  EXPECT_FALSE(has_qkv_bias(config) || has_output_bias(config) || has_mlp_bias(config) ||
               config.spec.head.tied);
  EXPECT_EQ(rope_of(config), RopeConfig());
  EXPECT_EQ(attention_of(config).rotary_dim, 16);
  EXPECT_EQ(windows_of(config), (std::vector<int32_t>{0, 0}));
  EXPECT_TRUE(config.eos_ids.empty());
  EXPECT_FALSE(config.bos_id || config.pad_id);
  EXPECT_EQ(config.quantization.method, QuantizationConfig::Method::none);
}

TEST(ModelConfig, NullMeansAbsent) {
  Json json = small_config();
  for (const char* name :
       {"num_key_value_heads", "head_dim", "rope_scaling", "rope_parameters", "rope_theta", "eos_token_id",
        "bos_token_id", "pad_token_id", "quantization_config", "sliding_window", "hidden_act",
        "max_position_embeddings", "rms_norm_eps", "attention_bias", "tie_word_embeddings"}) {
    json[name] = nullptr;
  }
  EXPECT_EQ(parse(json).heads.num_kv_heads, 4);
}

TEST(ModelConfig, ReadsGivenFields) {
  Json json = small_config();
  json["num_key_value_heads"] = 2;
  json["head_dim"] = 32;
  json["rms_norm_eps"] = 1e-5;
  json["attention_bias"] = true;
  json["mlp_bias"] = true;
  json["tie_word_embeddings"] = true;
  json["max_position_embeddings"] = 131072;
  json["hidden_act"] = "gelu_pytorch_tanh";
  const ModelConfig config = parse(json);
  EXPECT_EQ(config.heads.num_kv_heads, 2);
  EXPECT_EQ(config.heads.head_dim, 32);
  EXPECT_EQ(attention_of(config).rotary_dim, 32);
  EXPECT_FLOAT_EQ(attention_of(config).scale, 1.0f / std::sqrt(32.0f));
  EXPECT_FLOAT_EQ(config.spec.head.norm.epsilon, 1e-5f);
  EXPECT_TRUE(has_qkv_bias(config) && has_output_bias(config) && has_mlp_bias(config) &&
              config.spec.head.tied);
  EXPECT_EQ(config.max_positions, 131072);
  EXPECT_EQ(mlp_of(config).activation, kernels::Activation::gelu_tanh);
}

TEST(ModelConfig, ReadsFieldsUnderOtherNamesAndUnderTextConfig) {
  const Json json = {
      {"model_type", "llama"},
      {"text_config", {{"d_model", 64}, {"n_inner", 96}, {"n_head", 4}, {"n_layer", 3}, {"vocab_size", 8}}},
      {"vocab_size", 160}};
  const ModelConfig config = parse(json);
  EXPECT_EQ(config.architecture->name, "LlamaForCausalLM");
  EXPECT_EQ(config.hidden_size, 64);
  EXPECT_EQ(config.num_layers, 3);
  EXPECT_EQ(config.vocab_size, 160);
}

TEST(ModelConfig, Qwen2HasBiasOnQueryKeyAndValueOnly) {
  const ModelConfig config = parse(small_config("Qwen2ForCausalLM"));
  EXPECT_TRUE(has_qkv_bias(config));
  EXPECT_FALSE(has_output_bias(config) || has_mlp_bias(config));
}

TEST(ModelConfig, MistralIgnoresBiasFlags) {
  Json json = small_config("MistralForCausalLM");
  json["attention_bias"] = true;
  EXPECT_FALSE(has_qkv_bias(parse(json)));
}

TEST(ModelConfig, MistralAppliesItsWindowToEveryLayer) {
  Json json = small_config("MistralForCausalLM");
  EXPECT_EQ(windows_of(parse(json)), (std::vector<int32_t>{4096, 4096}));
  json["sliding_window"] = 16;
  EXPECT_EQ(windows_of(parse(json)), (std::vector<int32_t>{16, 16}));
  json["sliding_window"] = nullptr;
  EXPECT_EQ(windows_of(parse(json)), (std::vector<int32_t>{0, 0}));
}

TEST(ModelConfig, LlamaHasNoWindow) {
  Json json = small_config();
  json["sliding_window"] = 16;
  EXPECT_EQ(windows_of(parse(json)), (std::vector<int32_t>{0, 0}));
}

TEST(ModelConfig, Qwen2AppliesItsWindowOnlyWhenSwitchedOn) {
  Json json = small_config("Qwen2ForCausalLM");
  json["num_hidden_layers"] = 3;
  json["sliding_window"] = 16;
  EXPECT_EQ(windows_of(parse(json)), (std::vector<int32_t>{0, 0, 0}));
  json["use_sliding_window"] = true;
  EXPECT_EQ(windows_of(parse(json)), (std::vector<int32_t>{0, 0, 0}));  // the window applies from layer 28 on
  json["max_window_layers"] = 1;
  EXPECT_EQ(windows_of(parse(json)), (std::vector<int32_t>{0, 16, 16}));
  json["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention"};
  EXPECT_EQ(windows_of(parse(json)), (std::vector<int32_t>{16, 0, 16}));
  json["sliding_window"] = nullptr;
  EXPECT_EQ(windows_of(parse(json)), (std::vector<int32_t>{0, 0, 0}));
}

TEST(ModelConfig, GptNeoNamesTheLayersWithAWindow) {
  Json json = small_config("GPTNeoForCausalLM");
  json["num_hidden_layers"] = 4;
  EXPECT_EQ(windows_of(parse(json)), (std::vector<int32_t>{0, 256, 0, 256}));
  json["window_size"] = 16;
  json["attention_layers"] = {"local", "global", "global", "local"};
  EXPECT_EQ(windows_of(parse(json)), (std::vector<int32_t>{16, 0, 0, 16}));
  json["attention_types"] = Json::parse(R"([[["global"], 2], [["local"], 2]])");
  EXPECT_EQ(windows_of(parse(json)), (std::vector<int32_t>{0, 0, 16, 16}));
  EXPECT_EQ(attention_of(parse(json)).scale, 1.0f);
}

TEST(ModelConfig, NormsOfHeadsMayHaveBiasesOrTensorsOfTheirOwn) {
  Json json = small_config("PhiForCausalLM");
  EXPECT_TRUE(attention_of(parse(json)).q_norm.name.empty());
  json["qk_layernorm"] = true;
  EXPECT_EQ(attention_of(parse(json)).k_norm_bias.name, "model.layers.0.self_attn.k_layernorm.bias");
  json = small_config("StableLmForCausalLM");
  json["qk_layernorm"] = true;
  json["num_key_value_heads"] = 2;
  const AttentionPart part = attention_of(parse(json));
  EXPECT_TRUE(part.q_norm_bias.name.empty());
  EXPECT_EQ(part.q_norm.num_tensors, 4);
  EXPECT_EQ(part.k_norm.num_tensors, 2);
  EXPECT_EQ(part.k_norm.count, 2 * part.heads.head_dim);
}

TEST(ModelConfig, InternLm3HasBiasesUnderEitherName) {
  Json json = small_config("InternLM3ForCausalLM");
  EXPECT_FALSE(has_qkv_bias(parse(json)) || has_output_bias(parse(json)) || has_mlp_bias(parse(json)));
  json["qkv_bias"] = true;
  EXPECT_TRUE(has_qkv_bias(parse(json)) && !has_output_bias(parse(json)) && !has_mlp_bias(parse(json)));
  json["bias"] = true;
  EXPECT_TRUE(has_output_bias(parse(json)) && has_mlp_bias(parse(json)));
  json = small_config("InternLM3ForCausalLM");
  json["attention_bias"] = json["mlp_bias"] = true;
  EXPECT_TRUE(has_qkv_bias(parse(json)) && has_output_bias(parse(json)) && has_mlp_bias(parse(json)));
}

// The slopes of 4 heads, and those of further heads between them, as the paper gives them.
TEST(ModelConfig, SlopesOfAlibiAreAGeometricSeries) {
  Json json = small_config("BloomForCausalLM");
  EXPECT_EQ(attention_of(parse(json)).slopes, (std::vector<float>{0.25f, 0.0625f, 0.015625f, 0.00390625f}));
  json["num_attention_heads"] = 6;
  json["hidden_size"] = 96;
  EXPECT_EQ(attention_of(parse(json)).slopes,
            (std::vector<float>{0.25f, 0.0625f, 0.015625f, 0.00390625f, 0.5f, 0.125f}));
  json = small_config("MptForCausalLM");
  json["attn_config"] = {{"alibi_bias_max", 4}};
  EXPECT_EQ(attention_of(parse(json)).slopes, (std::vector<float>{0.5f, 0.25f, 0.125f, 0.0625f}));
}

TEST(ModelConfig, TakesTokenIdsFromGenerationConfigFirst) {
  Json json = small_config();
  json["eos_token_id"] = 2;
  json["bos_token_id"] = 1;
  json["pad_token_id"] = -1;
  EXPECT_EQ(parse(json).eos_ids, TokenIds{2});
  EXPECT_EQ(parse(json).bos_id, 1);
  EXPECT_FALSE(parse(json).pad_id);
  json["eos_token_id"] = {2, 3};
  EXPECT_EQ(parse(json).eos_ids, (TokenIds{2, 3}));
  const ModelConfig config =
      parse_model_config(json.dump(), R"({"eos_token_id": [159, 4], "pad_token_id": 0})");
  EXPECT_EQ(config.eos_ids, (TokenIds{159, 4}));
  EXPECT_EQ(config.bos_id, 1);
  EXPECT_EQ(config.pad_id, 0);
  EXPECT_EQ(parse_model_config(json.dump(), R"({"eos_token_id": null})").eos_ids, (TokenIds{2, 3}));
}

TEST(ModelConfig, ReadsTheFilesOfADirectory) {
  MemoryFileSystem files;
  Json json = small_config();
  json["eos_token_id"] = 2;
  files.write("m/config.json", json.dump());
  EXPECT_EQ(read_model_config(files, "m").eos_ids, TokenIds{2});
  files.write("m/generation_config.json", R"({"eos_token_id": 7})");
  EXPECT_EQ(read_model_config(files, "m").eos_ids, TokenIds{7});
  files.write("m/generation_config.json", "{");
  expect_error(ErrorCode::format, {"m/generation_config.json"}, [&] { read_model_config(files, "m"); });
  expect_error(ErrorCode::not_found, {"n/config.json"}, [&] { read_model_config(files, "n"); });
  files.write("m/generation_config.json", "{}");
  json["hidden_size"] = 0;
  files.write("m/config.json", json.dump());
  expect_error(ErrorCode::format, {"m/config.json.hidden_size"}, [&] { read_model_config(files, "m"); });
}

TEST(ModelConfig, NeverLoadsAnUnknownFamilyAsAnother) {
  for (const char* name : {"FrobnicateForCausalLM", "llama", "", "LlamaForCausalLM ", "LlamaModel"}) {
    expect_error(ErrorCode::unsupported, {"config.json.architectures[0]", "docs/formats.md"},
                 [&] { parse(small_config(name)); });
  }
  Json json = small_config();
  json.erase("architectures");
  expect_error(ErrorCode::format, {"config.json.architectures is missing"}, [&] { parse(json); });
  expect_error(ErrorCode::unsupported,
               {"\"LlamaForCausalLm\" is not supported: the nearest supported architecture is "
                "LlamaForCausalLM; docs/formats.md lists all"},
               [&] { parse(small_config("LlamaForCausalLm")); });
  expect_error(ErrorCode::unsupported, {"\"RwkvForCausalLM\"", "recurrent state"},
               [&] { parse(small_config("RwkvForCausalLM")); });
  json["model_type"] = "t5";
  expect_error(ErrorCode::unsupported, {"\"t5\""}, [&] { parse(json); });
  for (const char* name : {"Qwen3ForSequenceClassification", "Qwen3ForProcessRewardModel", "Qwen2Model"}) {
    json["architectures"] = {name};
    json["model_type"] = "qwen3";
    expect_error(ErrorCode::unsupported, {name}, [&] { parse(json); });
  }
}

TEST(ModelConfig, ModelTypeDecidesWithoutAClassOrForOneWithoutAHead) {
  Json json = small_config();
  json["model_type"] = "qwen3";
  for (const Json& classes : {Json(), Json::array(), Json{"Qwen3Model"}}) {
    json["architectures"] = classes;
    EXPECT_EQ(parse(json).architecture->name, "Qwen3ForCausalLM") << classes;
  }
  json["architectures"] = {"Qwen2_5_VLForConditionalGeneration"};
  json["model_type"] = "qwen2_5_vl";
  EXPECT_EQ(parse(json).architecture->name, "Qwen2_5_VLForConditionalGeneration");
}

TEST(ModelConfig, NumbersThatNobodyReadsMayBeAnything) {
  const std::string text = small_config().dump();
  for (const char* odd : {"Infinity", "-Infinity", "NaN", "1e999", "[0.0, Infinity]"}) {
    const std::string fields = std::string("{\"time_step_limit\": ") + odd + ", ";
    const ModelConfig config = parse_model_config(fields + text.substr(1), fields + "\"eos_token_id\": 7}");
    EXPECT_EQ(config.eos_ids, TokenIds{7});
  }
  expect_error(ErrorCode::format, {"config.json.rope_theta must be"},
               [&] { parse_model_config("{\"rope_theta\": Infinity, " + text.substr(1)); });
}

ModelConfig with_generation(const Json& generation) {
  return parse_model_config(small_config().dump(), generation.dump());
}

TEST(ModelConfig, ReadsTheTokensThatAreNeverSampled) {
  const ModelConfig config = with_generation({{"suppress_tokens", {71, -1, 500, 3}},
                                              {"begin_suppress_tokens", {4, 5}},
                                              {"bad_words_ids", {{6}, {7, 8}, {500}}},
                                              {"eos_token_id", {2, -1, 9}}});
  EXPECT_EQ(config.usage.generation.banned_ids, (TokenIds{71, 3, 6}));
  EXPECT_EQ(config.usage.generation.first_banned_ids, (TokenIds{4, 5}));
  EXPECT_EQ(config.eos_ids, (TokenIds{2, 9}));
  EXPECT_EQ(config.usage.generation.unused, std::vector<std::string>{"bad_words_ids (1 of several tokens)"});
  EXPECT_TRUE(with_generation({{"eos_token_id", -1}}).eos_ids.empty());
  for (const char* field : {"suppress_tokens", "begin_suppress_tokens", "bad_words_ids"}) {
    expect_error(ErrorCode::format, {"generation_config.json", field}, [&] {
      with_generation({{field, {"a"}}});
    });
    EXPECT_TRUE(with_generation({{field, nullptr}}).usage.generation.banned_ids.empty());
  }
}

TEST(ModelConfig, NamesTheFieldsOfGenerationThatAreNotFollowed) {
  EXPECT_EQ(with_generation({{"num_beams", 4}, {"no_repeat_ngram_size", 3}, {"forced_eos_token_id", 2}})
                .usage.generation.unused,
            (std::vector<std::string>{"num_beams 4", "no_repeat_ngram_size 3", "forced_eos_token_id"}));
  EXPECT_TRUE(with_generation({{"num_beams", 1},
                               {"guidance_scale", 1.0},
                               {"forced_bos_token_id", nullptr},
                               {"do_sample", true},
                               {"transformers_version", "5"}})
                  .usage.generation.unused.empty());
}

TEST(ModelConfig, ReadsTheTextPartOfAMultimodalCheckpoint) {
  Json text = small_config();
  text.erase("architectures");
  text["model_type"] = "gemma3_text";
  text["layer_types"] = {"sliding_attention", "full_attention"};
  const ModelConfig config =
      parse({{"architectures", {"Gemma3ForConditionalGeneration"}}, {"text_config", text}});
  EXPECT_EQ(config.architecture->name, "Gemma3ForCausalLM");
  EXPECT_EQ(windows_of(config), (std::vector<int32_t>{4096, 0}));
  EXPECT_EQ(config.spec.ropes.size(), 2U);
}

TEST(ModelConfig, ATextPartMayLeaveOutTheDefaultsOfItsClass) {
  const ModelConfig gemma = parse({{"architectures", {"Gemma3ForConditionalGeneration"}},
                                   {"text_config", {{"model_type", "gemma3_text"}, {"hidden_size", 32}}}});
  EXPECT_EQ(gemma.vocab_size, 262208);
  EXPECT_EQ(gemma.num_layers, 26);
  EXPECT_EQ(gemma.hidden_size, 32);
  EXPECT_EQ(gemma.heads.num_heads, 8);
  EXPECT_EQ(gemma.heads.num_kv_heads, 4);
  EXPECT_EQ(gemma.heads.head_dim, 256);
  EXPECT_EQ(mlp_of(gemma).intermediate, 9216);
  const ModelConfig llava =
      parse({{"architectures", {"LlavaForConditionalGeneration"}},
             {"text_config", {{"model_type", "llama"}, {"num_hidden_layers", 2}, {"vocab_size", 32064}}}});
  EXPECT_EQ(llava.hidden_size, 4096);
  EXPECT_EQ(llava.vocab_size, 32064);
  EXPECT_EQ(llava.heads.num_kv_heads, 32);
  EXPECT_EQ(mlp_of(llava).intermediate, 11008);
  Json flat = small_config();
  flat["model_type"] = "llama";
  flat.erase("vocab_size");
  expect_error(ErrorCode::format, {"vocab_size is missing"}, [&] { parse(flat); });
}

Json small_latent_config(const std::string& architecture) {
  Json json = small_config(architecture);
  json.update({{"kv_lora_rank", 16},
               {"qk_nope_head_dim", 16},
               {"qk_rope_head_dim", 8},
               {"v_head_dim", 16},
               {"n_routed_experts", 4},
               {"num_experts_per_tok", 2},
               {"moe_intermediate_size", 32},
               {"n_shared_experts", 1},
               {"first_k_dense_replace", 1}});
  return json;
}

TEST(ModelConfig, LatentAttentionRotatesPairsUnlessHalvesAreConfigured) {
  Json json = small_latent_config("DeepseekV3ForCausalLM");
  EXPECT_EQ(attention_of(parse(json)).rope, kernels::RopeStyle::gptj_pairs);
  json["rope_interleave"] = false;
  EXPECT_EQ(attention_of(parse(json)).rope, kernels::RopeStyle::neox_halves);
}

TEST(ModelConfig, DeepseekV2HasMlpBiasesOnlyInDenseAndSharedParts) {
  Json json = small_latent_config("DeepseekV2ForCausalLM");
  json["mlp_bias"] = true;
  const ModelConfig config = parse(json);
  EXPECT_EQ(mlp_of(config, 0).down.bias, BiasRule::required);
  EXPECT_EQ(mlp_of(config, 0).gate_up.back().bias, BiasRule::required);
  const ExpertsPart& experts = *config.spec.layers.at(1).experts();
  EXPECT_EQ(experts.shared.value().down.bias, BiasRule::required);
  EXPECT_EQ(experts.expert.down.bias, BiasRule::none);
}

TEST(ModelConfig, GptScalesScoresUnlessDisabled) {
  for (const char* name : {"GPT2LMHeadModel", "GPTBigCodeForCausalLM"}) {
    Json json = small_config(name);
    EXPECT_EQ(attention_of(parse(json)).scale, 0.25f) << name;
    json["scale_attn_weights"] = false;
    EXPECT_EQ(attention_of(parse(json)).scale, 1.0f) << name;
  }
}

TEST(ModelConfig, Gpt2CanScaleScoresByTheLayerIndex) {
  Json json = small_config("GPT2LMHeadModel");
  json["scale_attn_by_inverse_layer_idx"] = true;
  EXPECT_EQ(attention_of(parse(json), 0).scale, 0.25f);
  EXPECT_EQ(attention_of(parse(json), 1).scale, 0.125f);
}

std::vector<bool> layers_with_rope(const Json& json) {
  std::vector<bool> turns;
  for (const LayerSpec& layer : parse(json).spec.layers)
    turns.push_back(layer.attention().rope != kernels::RopeStyle::none);
  return turns;
}

TEST(ModelConfig, LayersWithoutRopeAreListedOrEveryNth) {
  Json json = small_config("SmolLM3ForCausalLM");
  json["num_hidden_layers"] = 5;
  EXPECT_EQ(layers_with_rope(json), (std::vector<bool>{true, true, true, false, true}));
  json["no_rope_layer_interval"] = 2;
  EXPECT_EQ(layers_with_rope(json), (std::vector<bool>{true, false, true, false, true}));
  json["no_rope_layers"] = {0, 1, 1, 0, 1};
  EXPECT_EQ(layers_with_rope(json), (std::vector<bool>{false, true, true, false, true}));
}

TEST(ModelConfig, EveryNthLayerOfQwenHasExpertsExceptListedOnes) {
  Json json = small_config("Qwen3MoeForCausalLM");
  json.update({{"num_hidden_layers", 4},
               {"num_experts", 4},
               {"num_experts_per_tok", 2},
               {"moe_intermediate_size", 32},
               {"decoder_sparse_step", 2}});
  const auto has_experts = [&json] {
    std::vector<bool> has;
    for (const LayerSpec& layer : parse(json).spec.layers) has.push_back(layer.experts() != nullptr);
    return has;
  };
  EXPECT_EQ(has_experts(), (std::vector<bool>{false, true, false, true}));
  json["mlp_only_layers"] = {1};
  EXPECT_EQ(has_experts(), (std::vector<bool>{false, false, false, true}));
}

TEST(ModelConfig, BidirectionalAttentionOfTextIsRefused) {
  for (const char* name : {"GemmaForCausalLM", "Gemma2ForCausalLM", "Gemma3ForCausalLM"}) {
    Json json = small_config(name);
    for (const Json& harmless : {Json(nullptr), Json(false), Json("vision")}) {
      json["use_bidirectional_attention"] = harmless;
      EXPECT_NO_THROW(parse(json)) << name << harmless;
    }
    for (const Json& later : {Json(true), Json("all")}) {
      json["use_bidirectional_attention"] = later;
      expect_error(ErrorCode::unsupported, {"config.json.use_bidirectional_attention"}, [&] { parse(json); });
    }
  }
}

TEST(ModelConfig, ActivationCanBeAnObjectWithAName) {
  Json json = small_config("LlamaForCausalLM");
  json["ffn_config"] = {{"ffn_act_fn", {{"name", "relu"}}}};
  EXPECT_EQ(mlp_of(parse(json)).activation, kernels::Activation::relu);
  json["ffn_config"]["ffn_act_fn"]["name"] = "snake";
  expect_error(ErrorCode::unsupported, {"config.json.ffn_config.ffn_act_fn.name", "snake"},
               [&] { parse(json); });
}

TEST(ModelConfig, HiddenActDoesNotCountForGemma) {
  for (const char* name : {"GemmaForCausalLM", "Gemma2ForCausalLM", "Gemma3ForCausalLM"}) {
    Json json = small_config(name);
    json["hidden_act"] = "gelu";
    EXPECT_EQ(mlp_of(parse(json)).activation, kernels::Activation::gelu_tanh) << name;
    json["hidden_activation"] = nullptr;
    EXPECT_EQ(mlp_of(parse(json)).activation, kernels::Activation::gelu_tanh) << name;
    json["hidden_activation"] = "gelu";
    EXPECT_EQ(mlp_of(parse(json)).activation, kernels::Activation::gelu_erf) << name;
  }
  Json llama = small_config("LlamaForCausalLM");
  llama["hidden_act"] = "gelu";
  EXPECT_EQ(mlp_of(parse(llama)).activation, kernels::Activation::gelu_erf);
}

TEST(ModelConfig, UnknownLayerTypeIsRefused) {
  Json json = small_latent_config("DeepseekV3ForCausalLM");
  json["mlp_layer_types"] = {"dense", "mixed"};
  expect_error(ErrorCode::unsupported, {"config.json.mlp_layer_types[1]", "mixed"}, [&] { parse(json); });
}

TEST(ModelConfig, LayersOfOneTypeShareAKvSpec) {
  Json json = small_config("Gemma2ForCausalLM");
  json["num_hidden_layers"] = 4;
  const ModelConfig config = parse(json);
  EXPECT_EQ(config.spec.kvs.size(), 2U);
  EXPECT_EQ(attention_of(config, 0).kv_idx, attention_of(config, 2).kv_idx);
  EXPECT_NE(attention_of(config, 0).kv_idx, attention_of(config, 1).kv_idx);
}

}  // namespace
}  // namespace quire
