// Families for which there is a tiny model with outputs of transformers.
#pragma once

#include <filesystem>
#include <string>

namespace quire::testing {

struct Family {
  const char* name;
  // Longest sequence for comparisons of greedy tokens; long rope depends on it.
  int32_t greedy_context = 512;
  double f16_bound = 1e-2;  // tolerance with f16 activations
};

inline constexpr Family kFamilies[] = {
    {"apertus"},
    {"arcee"},
    {"bitnet"},
    {"bloom"},
    {"cohere"},
    {"cohere2"},
    {"cwm"},
    {"dbrx"},
    {"deepseek_v2"},
    {"deepseek_v3"},
    {"deepseek_v32"},
    {"diffllama"},
    {"dots1"},
    {"ernie4_5"},
    {"ernie4_5_moe"},
    {"exaone"},
    {"exaone4"},
    {"exaone_moe"},
    {"falcon_40b"},
    {"falcon_7b"},
    {"falcon_rw"},
    {"flex_olmo"},
    {"gemma"},
    {"gemma2"},
    {"gemma3"},
    {"gemma3_sliding_last"},
    {"gemma3n"},
    {"gemma4_e"},
    {"gemma4_moe"},
    {"glm"},
    {"glm4"},
    {"glm4_moe"},
    {"glm4_moe_lite"},
    {"glm_moe_dsa", 512, 2e-2},  // keys are selected, and small differences change the selection
    {"gpt2"},
    {"gpt_bigcode"},
    {"gpt_neo"},
    {"gpt_neox"},
    {"gpt_oss"},
    {"gptj"},
    {"granite"},
    {"granitemoe"},
    {"helium"},
    {"hunyuan_dense"},
    {"hunyuan_v1_moe"},
    {"internlm3"},
    {"jais2"},
    {"jetmoe"},
    {"llama3"},
    {"llama4", 512, 2e-2},  // one expert per token, and small differences change it
    {"llama_bias_linear_rope"},
    {"llama_tied"},
    {"mimo_v2_flash"},
    {"minimax_m2"},
    {"ministral"},
    {"ministral3"},
    {"mistral"},
    {"mistral_swa"},
    {"mixtral"},
    {"mpt"},
    {"nanochat"},
    {"nemotron"},
    {"olmo"},
    {"olmo2"},
    {"olmo3"},
    {"olmoe"},
    {"opt"},
    {"opt_350m"},
    {"persimmon"},
    {"phi"},
    {"phi3"},
    {"phi3_longrope", 64},
    {"phimoe"},
    {"qwen2"},
    {"qwen2_moe"},
    {"qwen2_yarn"},
    {"qwen3"},
    {"qwen3_moe"},
    {"seed_oss"},
    {"smollm3"},
    {"solar_open"},
    {"stablelm"},
    {"stablelm2_12b"},
    {"starcoder2"},
    {"vaultgemma"},
    {"afmoe"},
    {"apertus1p5"},
    {"axk1"},
    {"cohere2_moe"},
    {"gemma4_unified"},
    {"glm4v"},
    {"glm4v_moe"},
    {"granite_swa"},
    {"granitemoe_swa"},
    {"granitemoeshared"},
    {"hy_v3"},
    {"hyperclovax"},
    {"kimi_k25"},
    {"minicpm3"},
    {"mistral4"},
    {"muse_glimmer"},
    {"qwen2_5_vl"},
    {"qwen2_vl"},
    {"qwen3_vl"},
    {"qwen3_vl_moe"},
    {"youtu"},
};

// Returns its directory, in the project or in the shared folder; empty if neither has it.
inline std::string family_directory(const Family& family) {
  for (const std::string& root : {std::string(QUIRE_TEST_DATA) + "/architectures/",
                                  std::string(QUIRE_SHARED_DIR) + "/golden/architectures/",
                                  std::string(QUIRE_SHARED_DIR) + "/golden/architectures3/"}) {
    if (std::filesystem::is_directory(root + family.name)) return root + family.name;
  }
  return "";
}

}  // namespace quire::testing
