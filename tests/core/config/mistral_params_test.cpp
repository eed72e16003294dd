#include "core/config/mistral_params.h"

#include <functional>

#include <gtest/gtest.h>

#include "tests/core/config/config_text.h"
#include "tests/support/expect_error.h"

namespace quire {
namespace {

using testing::attention_of;
using testing::expect_error;
using testing::Json;
using testing::mlp_of;
using testing::rope_of;
using testing::windows_of;

Json small_params() {
  return {{"dim", 64}, {"n_layers", 4}, {"hidden_dim", 96}, {"n_heads", 4}, {"vocab_size", 160}};
}

ModelConfig parse_params(const Json& params) {
  return parse_mistral_params(params.dump());
}

TEST(MistralParams, FillsInWhatIsAbsent) {
  const ModelConfig config = parse_params(small_params());
  EXPECT_EQ(config.architecture->name, "MistralForCausalLM");
  EXPECT_EQ(config.num_layers, 4);
  EXPECT_EQ(config.hidden_size, 64);
  EXPECT_EQ(mlp_of(config).intermediate, 96);
  EXPECT_EQ(config.heads.num_heads, 4);
  EXPECT_EQ(config.heads.num_kv_heads, 4);
  EXPECT_EQ(config.heads.head_dim, 16);
  EXPECT_FLOAT_EQ(config.spec.head.norm.epsilon, 1e-5f);
  EXPECT_FALSE(config.spec.head.tied);
  EXPECT_EQ(rope_of(config).theta, 10000.0);
  EXPECT_EQ(rope_of(config).kind, RopeKind::plain);
  EXPECT_EQ(attention_of(config).rope, kernels::RopeStyle::gptj_pairs);
  EXPECT_EQ(windows_of(config), (std::vector<int32_t>{0, 0, 0, 0}));
  EXPECT_EQ(config.eos_ids, TokenIds{2});
  EXPECT_EQ(config.bos_id, 1);
  EXPECT_EQ(config.quantization.method, QuantizationConfig::Method::none);
}

TEST(MistralParams, ReadsTheContextByEitherName) {
  Json params = small_params();
  params["max_seq_len"] = 4096;
  EXPECT_EQ(parse_params(params).max_positions, 4096);
  params["max_position_embeddings"] = 8192;
  EXPECT_EQ(parse_params(params).max_positions, 8192);
}

TEST(MistralParams, RepeatsAListOfWindows) {
  Json params = small_params();
  params["sliding_window"] = {nullptr, 32};
  EXPECT_EQ(windows_of(parse_params(params)), (std::vector<int32_t>{0, 32, 0, 32}));
  params["sliding_window"] = {16, nullptr, 16, 16};
  EXPECT_EQ(windows_of(parse_params(params)), (std::vector<int32_t>{16, 0, 16, 16}));
  params["sliding_window"] = {nullptr};
  EXPECT_EQ(windows_of(parse_params(params)), (std::vector<int32_t>{0, 0, 0, 0}));
}

TEST(MistralParams, ScalesTheRotaryEmbeddingUnlessToldOtherwise) {
  Json params = small_params();
  params["yarn"] = {{"original_max_position_embeddings", 64}, {"factor", 4}};
  EXPECT_EQ(rope_of(parse_params(params)).kind, RopeKind::yarn);
  EXPECT_GT(rope_of(parse_params(params)).magnitude, 1.1);
  params["yarn"]["apply_scale"] = false;
  EXPECT_EQ(rope_of(parse_params(params)).magnitude, 1.0);
}

TEST(MistralParams, QuantizedWeightsAreFp8) {
  Json params = small_params();
  params["quantization"] = {{"qformat_weight", "fp8_e4m3"}, {"qscheme_act", "NO_SCALES"}};
  EXPECT_EQ(parse_params(params).quantization.method, QuantizationConfig::Method::fp8);
  params["quantization"] = Json::object();
  EXPECT_EQ(parse_params(params).quantization.method, QuantizationConfig::Method::none);
}

struct Refusal {
  ErrorCode code;
  const char* named;
  std::function<void(Json&)> apply;
};

TEST(MistralParams, DamagedOnesAreRefusedByName) {
  const Json yarn = {{"original_max_position_embeddings", 64}, {"factor", 4}};
  const std::vector<Refusal> refusals = {
      {ErrorCode::format, "params.json.dim is missing", [](Json& params) { params.erase("dim"); }},
      {ErrorCode::format, "params.json.n_layers", [](Json& params) { params["n_layers"] = "four"; }},
      {ErrorCode::format, "params.json.n_layers", [](Json& params) { params["n_layers"] = 1e300; }},
      {ErrorCode::format, "num_hidden_layers", [](Json& params) { params["n_layers"] = 0; }},
      {ErrorCode::format, "num_key_value_heads", [](Json& params) { params["n_kv_heads"] = 3; }},
      {ErrorCode::format, "params.json.hidden_dim", [](Json& params) { params["hidden_dim"] = -1; }},
      {ErrorCode::format, "params.json.vocab_size", [](Json& params) { params["vocab_size"] = -1; }},
      {ErrorCode::format, "params.json.norm_eps", [](Json& params) { params["norm_eps"] = "small"; }},
      {ErrorCode::format, "params.json.rope_theta", [](Json& params) { params["rope_theta"] = 0; }},
      {ErrorCode::unsupported, "params.json.model_type",
       [](Json& params) { params["model_type"] = "mamba"; }},
      {ErrorCode::unsupported, "params.json.quantization.qformat_weight",
       [](Json& params) {
         params["quantization"] = {{"qformat_weight", "int4"}};
       }},
      {ErrorCode::unsupported, "params.json.quantization.qformat_weight",
       [](Json& params) {
         params["quantization"] = {{"quant_method", "compressed-tensors"}};
       }},
      {ErrorCode::format, "params.json.quantization", [](Json& params) { params["quantization"] = "fp8"; }},
      {ErrorCode::format, "params.json.sliding_window",
       [](Json& params) { params["sliding_window"] = Json::array(); }},
      {ErrorCode::format, "params.json.sliding_window",
       [](Json& params) {
         params["sliding_window"] = {1, 2, 3, 4, 5};
       }},
      {ErrorCode::unsupported, "params.json.sliding_window[1]",
       [](Json& params) {
         params["sliding_window"] = {16, 32};
       }},
      {ErrorCode::format, "params.json.sliding_window", [](Json& params) { params["sliding_window"] = "x"; }},
      {ErrorCode::format, "params.json.moe.num_experts is missing",
       [](Json& params) {
         params["moe"] = {{"num_experts_per_tok", 2}};
       }},
      {ErrorCode::format, "params.json",
       [](Json& params) {
         params["moe"] = {{"num_experts_per_tok", 9}, {"num_experts", 4}};
       }},
      {ErrorCode::format, "params.json.yarn.factor is missing",
       [](Json& params) {
         params["yarn"] = {{"original_max_position_embeddings", 64}};
       }},
      {ErrorCode::unsupported, "params.json.llama_4_scaling.original_max_position_embeddings",
       [&](Json& params) {
         params["yarn"] = yarn;
         params["llama_4_scaling"] = {{"original_max_position_embeddings", 65}, {"beta", 0.1}};
       }},
      {ErrorCode::format, "params.json.kv_lora_rank", [](Json& params) { params["kv_lora_rank"] = "all"; }},
      {ErrorCode::format, "params.json.qk_nope_head_dim is missing",
       [](Json& params) { params["kv_lora_rank"] = 32; }},
      {ErrorCode::unsupported, "params.json.kv_lora_rank",
       [](Json& params) {
         params.update(
             {{"kv_lora_rank", 32}, {"qk_nope_head_dim", 16}, {"qk_rope_head_dim", 16}, {"v_head_dim", 16}});
       }},
      {ErrorCode::unsupported, "params.json.multimodal.whisper_model_args",
       [](Json& params) {
         params["multimodal"]["whisper_model_args"] = {{"encoder_args", {{"dim", 32}}}};
       }},
  };
  for (const Refusal& refusal : refusals) {
    Json params = small_params();
    refusal.apply(params);
    expect_error(refusal.code, {"params.json", refusal.named}, [&] { parse_params(params); });
  }
}

TEST(MistralParams, EveryTruncationIsAnError) {
  const std::string text = small_params().dump();
  for (size_t length = 0; length < text.size(); ++length)
    EXPECT_THROW(parse_mistral_params(text.substr(0, length)), Error) << length;
}

}  // namespace
}  // namespace quire
