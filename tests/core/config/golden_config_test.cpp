// Configurations written by transformers and by the converter of ExLlamaV2.
#include <gtest/gtest.h>

#include "core/config/model_config.h"
#include "tests/core/config/config_text.h"

namespace quire {
namespace {

using testing::attention_of;
using testing::has_mlp_bias;
using testing::has_output_bias;
using testing::has_qkv_bias;
using testing::rope_of;
using testing::windows_of;

std::string golden(const std::string& name) {
  return std::string(QUIRE_TEST_DATA) + "/architectures/" + name;
}

ModelConfig read_golden(const std::string& name) {
  return read_model_config(posix_file_system(), golden(name));
}

TEST(GoldenConfig, Llama3) {
  const ModelConfig config = read_golden("llama3");
  EXPECT_EQ(config.architecture->name, "LlamaForCausalLM");
  EXPECT_EQ(config.heads.head_dim, 16);
  EXPECT_EQ(config.heads.num_kv_heads, 2);
  EXPECT_EQ(rope_of(config).kind, RopeKind::llama3);
  EXPECT_EQ(rope_of(config).theta, 500000.0);
  EXPECT_EQ(rope_of(config).original_max_positions, 64);
  EXPECT_FALSE(config.spec.head.tied);
  EXPECT_EQ(config.max_positions, 4096);
  EXPECT_EQ(config.eos_ids, TokenIds{2});
  EXPECT_EQ(config.bos_id, 1);
  EXPECT_EQ(config.pad_id, 0);
}

TEST(GoldenConfig, LlamaTied) {
  EXPECT_TRUE(read_golden("llama_tied").spec.head.tied);
  EXPECT_EQ(rope_of(read_golden("llama_tied")).kind, RopeKind::plain);
}

TEST(GoldenConfig, LlamaWithBiasesAndLinearRope) {
  const ModelConfig config = read_golden("llama_bias_linear_rope");
  EXPECT_TRUE(has_qkv_bias(config) && has_output_bias(config) && has_mlp_bias(config));
  EXPECT_EQ(rope_of(config).kind, RopeKind::linear);
  EXPECT_EQ(rope_of(config).factor, 2.0);
}

TEST(GoldenConfig, Mistral) {
  const ModelConfig config = read_golden("mistral");
  EXPECT_EQ(config.architecture->name, "MistralForCausalLM");
  EXPECT_EQ(config.heads.head_dim, 32);
  EXPECT_EQ(windows_of(config), (std::vector<int32_t>{0, 0}));
}

TEST(GoldenConfig, Qwen2) {
  const ModelConfig config = read_golden("qwen2");
  EXPECT_EQ(config.architecture->name, "Qwen2ForCausalLM");
  EXPECT_TRUE(has_qkv_bias(config) && config.spec.head.tied);
  EXPECT_FALSE(has_output_bias(config));
  EXPECT_EQ(config.heads.head_dim, 16);
  EXPECT_EQ(windows_of(config), (std::vector<int32_t>{0, 0}));
}

TEST(GoldenConfig, EmbeddedModel) {
  const ModelConfig exl2 = read_model_config(posix_file_system(), QUIRE_EMBEDDED_MODEL);
  EXPECT_EQ(exl2.quantization.method, QuantizationConfig::Method::exl2);
  EXPECT_EQ(exl2.quantization.bits, 4.0);
  EXPECT_TRUE(exl2.spec.head.tied);
  EXPECT_EQ(exl2.eos_ids, TokenIds{1});
  EXPECT_EQ(exl2.bos_id, 0);
}

// The part of an AutoGPTQ config that its converter writes.
TEST(GoldenConfig, GptqWithActOrder) {
  const std::string llama = posix_file_system().read_text(golden("llama3") + "/config.json", 1 << 20);
  const ModelConfig gptq = parse_model_config(
      R"({"quantization_config": {"bits": 4, "desc_act": true, "group_size": 64, "quant_method": "gptq", "checkpoint_format": "gptq",
          "sym": false},)" +
      llama.substr(llama.find('{') + 1));
  EXPECT_EQ(gptq.quantization.scheme.group_size, 64);
  EXPECT_TRUE(gptq.quantization.gptq_act_order);
  EXPECT_FALSE(gptq.quantization.gptq_v2);
}

}  // namespace
}  // namespace quire
