// Configurations written by transformers and by the converter of ExLlamaV2.
#include <gtest/gtest.h>

#include "core/config/model_config.h"
#include "tests/core/config/config_text.h"
#include "tests/support/expect_error.h"

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

TEST(GoldenConfig, StoryModels) {
  const std::string models = std::string(QUIRE_SHARED_DIR) + "/models/";
  if (!posix_file_system().is_directory(models)) GTEST_SKIP() << models << " is absent";
  const auto& files = posix_file_system();
  EXPECT_EQ(read_model_config(files, models + "story-15m").quantization.method,
            QuantizationConfig::Method::none);
  const ModelConfig exl2 = read_model_config(files, models + "story-3m-exl2-5.0bpw");
  EXPECT_EQ(exl2.quantization.method, QuantizationConfig::Method::exl2);
  EXPECT_EQ(exl2.quantization.bits, 5.0);
  EXPECT_TRUE(exl2.spec.head.tied);
  EXPECT_EQ(exl2.eos_ids, TokenIds{1});
  EXPECT_EQ(exl2.bos_id, 0);
  const ModelConfig gptq = read_model_config(files, models + "story-3m-gptq-g64-act");
  EXPECT_EQ(gptq.quantization.scheme.group_size, 64);
  EXPECT_TRUE(gptq.quantization.gptq_act_order);
  EXPECT_FALSE(gptq.quantization.gptq_v2);
}

// Families with recurrent layers are refused with a message that names the reason. No other family is
// refused.
TEST(GoldenConfig, RecurrentFamiliesAreRefusedByName) {
  const std::string families = std::string(QUIRE_SHARED_DIR) + "/golden/architectures";
  if (!posix_file_system().is_directory(families)) GTEST_SKIP() << families << " is absent";
  int refused = 0;
  for (const std::string& name : posix_file_system().list(families)) {
    try {
      read_model_config(posix_file_system(), families + "/" + name);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported) << name << ": " << error.what();
      EXPECT_NE(std::string(error.what()).find("recurrent"), std::string::npos) << error.what();
      ++refused;
    }
  }
  EXPECT_EQ(refused, 16);
}

}  // namespace
}  // namespace quire
