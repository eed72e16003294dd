#include "core/config/model_config.h"

#include <cmath>

#include <gtest/gtest.h>

#include "tests/core/config/config_text.h"
#include "tests/support/expect_error.h"
#include "tests/support/memory_file_system.h"

namespace quire {
namespace {

using testing::expect_error;
using testing::Json;
using testing::MemoryFileSystem;
using testing::small_config;

ModelConfig parse(const Json& config) {
  return parse_model_config(config.dump());
}

TEST(ModelConfig, FillsInTheDefaultsOfLlama) {
  const ModelConfig config = parse(small_config());
  EXPECT_EQ(config.architecture->name, "LlamaForCausalLM");
  EXPECT_EQ(config.num_layers, 2);
  EXPECT_EQ(config.hidden_size, 64);
  EXPECT_EQ(config.intermediate_size, 96);
  EXPECT_EQ(config.vocab_size, 160);
  EXPECT_EQ(config.max_positions, 2048);
  EXPECT_EQ(config.heads.num_heads, 4);
  EXPECT_EQ(config.heads.num_kv_heads, 4);
  EXPECT_EQ(config.heads.head_dim, 16);
  EXPECT_FLOAT_EQ(config.attention_scale, 0.25f);
  EXPECT_FLOAT_EQ(config.norm_epsilon, 1e-6f);
  EXPECT_EQ(config.activation, kernels::Activation::silu);
  EXPECT_FALSE(config.qkv_bias || config.attention_output_bias || config.mlp_bias || config.tied_embeddings);
  EXPECT_EQ(config.rope, RopeConfig());
  EXPECT_EQ(config.rotary_dim, 16);
  EXPECT_EQ(config.sliding_windows, (std::vector<int32_t>{0, 0}));
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

TEST(ModelConfig, ReadsWhatIsThere) {
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
  EXPECT_EQ(config.rotary_dim, 32);
  EXPECT_FLOAT_EQ(config.attention_scale, 1.0f / std::sqrt(32.0f));
  EXPECT_FLOAT_EQ(config.norm_epsilon, 1e-5f);
  EXPECT_TRUE(config.qkv_bias && config.attention_output_bias && config.mlp_bias && config.tied_embeddings);
  EXPECT_EQ(config.max_positions, 131072);
  EXPECT_EQ(config.activation, kernels::Activation::gelu_tanh);
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
  EXPECT_TRUE(config.qkv_bias);
  EXPECT_FALSE(config.attention_output_bias || config.mlp_bias);
}

TEST(ModelConfig, MistralIgnoresBiasFlags) {
  Json json = small_config("MistralForCausalLM");
  json["attention_bias"] = true;
  EXPECT_FALSE(parse(json).qkv_bias);
}

TEST(ModelConfig, MistralAppliesItsWindowToEveryLayer) {
  Json json = small_config("MistralForCausalLM");
  EXPECT_EQ(parse(json).sliding_windows, (std::vector<int32_t>{4096, 4096}));
  json["sliding_window"] = 16;
  EXPECT_EQ(parse(json).sliding_windows, (std::vector<int32_t>{16, 16}));
  json["sliding_window"] = nullptr;
  EXPECT_EQ(parse(json).sliding_windows, (std::vector<int32_t>{0, 0}));
}

TEST(ModelConfig, LlamaHasNoWindow) {
  Json json = small_config();
  json["sliding_window"] = 16;
  EXPECT_EQ(parse(json).sliding_windows, (std::vector<int32_t>{0, 0}));
}

TEST(ModelConfig, Qwen2AppliesItsWindowOnlyWhenSwitchedOn) {
  Json json = small_config("Qwen2ForCausalLM");
  json["num_hidden_layers"] = 3;
  json["sliding_window"] = 16;
  EXPECT_EQ(parse(json).sliding_windows, (std::vector<int32_t>{0, 0, 0}));
  json["use_sliding_window"] = true;
  EXPECT_EQ(parse(json).sliding_windows, (std::vector<int32_t>{0, 0, 0}));  // from layer 28 on
  json["max_window_layers"] = 1;
  EXPECT_EQ(parse(json).sliding_windows, (std::vector<int32_t>{0, 16, 16}));
  json["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention"};
  EXPECT_EQ(parse(json).sliding_windows, (std::vector<int32_t>{16, 0, 16}));
  json["sliding_window"] = nullptr;
  EXPECT_EQ(parse(json).sliding_windows, (std::vector<int32_t>{0, 0, 0}));
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
    expect_error(ErrorCode::unsupported,
                 {"config.json", "LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM"},
                 [&] { parse(small_config(name)); });
  }
  Json json = small_config();
  json.erase("architectures");
  expect_error(ErrorCode::format, {"config.json.architectures is missing"}, [&] { parse(json); });
  json["model_type"] = "t5";
  expect_error(ErrorCode::unsupported, {"\"t5\""}, [&] { parse(json); });
}

}  // namespace
}  // namespace quire
