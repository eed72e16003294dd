#include "core/config/class_defaults.h"

#include <algorithm>
#include <array>

namespace quire {
namespace {

constexpr std::array<std::string_view, 6> kSizes = {"num_hidden_layers",   "hidden_size",
                                                    "intermediate_size",   "num_attention_heads",
                                                    "num_key_value_heads", "vocab_size"};

struct ClassSizes {
  std::string_view model_type;
  std::array<int32_t, kSizes.size()> sizes;  // 0: the class has no fixed default
};
// Source: transformers 5.0.0; for classes that it lacks, 5.24.0.
constexpr std::array<ClassSizes, 50> kClasses = {{
    {"llama", {32, 4096, 11008, 32, 0, 32000}},
    {"mistral", {32, 4096, 14336, 32, 8, 32000}},
    {"ministral", {32, 4096, 14336, 32, 8, 32000}},
    {"ministral3", {34, 4096, 14336, 32, 8, 131072}},
    {"mixtral", {32, 4096, 14336, 32, 8, 32000}},
    {"qwen2", {32, 4096, 22016, 32, 32, 151936}},
    {"qwen2_vl_text", {80, 8192, 29568, 64, 8, 152064}},
    {"qwen2_5_vl_text", {80, 8192, 29568, 64, 8, 152064}},
    {"qwen3", {32, 4096, 22016, 32, 32, 151936}},
    {"qwen3_vl_text", {32, 4096, 22016, 32, 32, 151936}},
    {"qwen2_moe", {24, 2048, 5632, 16, 16, 151936}},
    {"qwen3_moe", {24, 2048, 6144, 32, 4, 151936}},
    {"gemma", {28, 3072, 24576, 16, 16, 256000}},
    {"gemma2", {26, 2304, 9216, 8, 4, 256000}},
    {"gemma3_text", {26, 2304, 9216, 8, 4, 262208}},
    {"gemma3n_text", {35, 2048, 16384, 8, 2, 262400}},
    {"phi", {24, 2048, 8192, 32, 0, 51200}},
    {"phi3", {32, 3072, 8192, 32, 0, 32064}},
    {"phimoe", {32, 4096, 6400, 32, 8, 32064}},
    {"olmo", {32, 4096, 11008, 32, 0, 50304}},
    {"olmo2", {32, 4096, 11008, 32, 0, 50304}},
    {"olmo3", {32, 4096, 11008, 32, 0, 50304}},
    {"olmoe", {16, 2048, 2048, 16, 0, 50304}},
    {"cohere", {40, 8192, 22528, 64, 0, 256000}},
    {"cohere2", {40, 8192, 22528, 64, 0, 256000}},
    {"glm", {40, 4096, 13696, 32, 2, 151552}},
    {"glm4", {40, 4096, 13696, 32, 2, 151552}},
    {"glm4_moe", {46, 4096, 10944, 96, 8, 151552}},
    {"granite", {32, 4096, 11008, 32, 0, 32000}},
    {"granitemoe", {32, 4096, 11008, 32, 0, 32000}},
    {"gpt_oss", {36, 2880, 2880, 64, 8, 201088}},
    {"gpt_neox", {44, 6144, 24576, 64, 0, 50432}},
    {"starcoder2", {30, 3072, 12288, 24, 2, 49152}},
    {"stablelm", {32, 2560, 6912, 32, 32, 50304}},
    {"ernie4_5", {18, 1024, 3072, 16, 2, 103424}},
    {"ernie4_5_moe", {28, 2560, 12288, 20, 4, 103424}},
    {"deepseek_v2", {32, 4096, 11008, 32, 0, 32000}},
    {"deepseek_v3", {61, 7168, 18432, 128, 128, 129280}},
    {"llama4_text", {48, 5120, 8192, 40, 8, 202048}},
    {"helium", {24, 2560, 7040, 20, 20, 48000}},
    {"smollm3", {36, 2048, 11008, 16, 4, 128256}},
    {"qwen3_5_text", {32, 4096, 12288, 16, 4, 248320}},
    {"qwen3_5_moe_text", {40, 2048, 0, 16, 2, 248320}},
    {"qwen3_vl_moe_text", {24, 2048, 5632, 16, 16, 151936}},
    {"glm4v_text", {40, 4096, 13696, 32, 2, 151552}},
    {"glm4v_moe_text", {46, 4096, 10944, 96, 8, 151424}},
    {"mistral4", {36, 4096, 12288, 32, 32, 131072}},
    {"gemma4_unified_text", {30, 2304, 9216, 8, 4, 262144}},
    {"muse_glimmer_text", {52, 6656, 19968, 32, 2, 202048}},
    {"apertus1p5_text", {32, 4096, 14336, 32, 0, 266752}},
}};

struct ClassField {
  std::string_view model_type;
  std::string_view field;
  int32_t value;
};
constexpr std::array<ClassField, 45> kFields = {{
    {"llama4_text", "intermediate_size_mlp", 16384},
    {"llama4_text", "num_experts", 16},
    {"llama4_text", "num_experts_per_tok", 1},
    {"mixtral", "num_experts", 8},
    {"mixtral", "num_experts_per_tok", 2},
    {"qwen2_moe", "num_experts", 60},
    {"qwen2_moe", "num_experts_per_tok", 4},
    {"qwen2_moe", "moe_intermediate_size", 1408},
    {"qwen2_moe", "shared_expert_intermediate_size", 5632},
    {"qwen3_moe", "num_experts", 128},
    {"qwen3_moe", "num_experts_per_tok", 8},
    {"qwen3_moe", "moe_intermediate_size", 768},
    {"gemma3n_text", "laurel_rank", 64},
    {"gemma3n_text", "hidden_size_per_layer_input", 256},
    {"gemma3n_text", "num_kv_shared_layers", 15},
    {"gemma3n_text", "vocab_size_per_layer_input", 262144},
    {"gemma4_unified_text", "global_head_dim", 512},
    {"qwen3_vl_moe_text", "num_experts", 60},
    {"qwen3_vl_moe_text", "num_experts_per_tok", 4},
    {"qwen3_vl_moe_text", "moe_intermediate_size", 1408},
    {"qwen3_5_moe_text", "num_experts", 256},
    {"qwen3_5_moe_text", "num_experts_per_tok", 8},
    {"qwen3_5_moe_text", "moe_intermediate_size", 512},
    {"qwen3_5_moe_text", "shared_expert_intermediate_size", 512},
    {"glm4v_moe_text", "num_experts", 128},
    {"glm4v_moe_text", "num_experts_per_tok", 8},
    {"glm4v_moe_text", "moe_intermediate_size", 1408},
    {"glm4v_moe_text", "n_shared_experts", 1},
    {"glm4v_moe_text", "first_k_dense_replace", 1},
    {"mistral4", "num_experts", 128},
    {"mistral4", "num_experts_per_tok", 4},
    {"mistral4", "moe_intermediate_size", 2048},
    {"mistral4", "n_shared_experts", 1},
    {"deepseek_v3", "num_experts", 256},
    {"deepseek_v3", "num_experts_per_tok", 8},
    {"deepseek_v3", "moe_intermediate_size", 2048},
    {"deepseek_v3", "n_shared_experts", 1},
    {"deepseek_v3", "first_k_dense_replace", 3},
    {"deepseek_v3", "n_group", 8},
    {"deepseek_v3", "topk_group", 4},
    {"deepseek_v3", "q_lora_rank", 1536},
    {"deepseek_v3", "kv_lora_rank", 512},
    {"deepseek_v3", "qk_nope_head_dim", 128},
    {"deepseek_v3", "qk_rope_head_dim", 64},
    {"deepseek_v3", "v_head_dim", 128},
}};

}  // namespace

std::optional<int32_t> class_default(std::string_view model_type, std::string_view field) {
  for (const ClassField& row : kFields)
    if (row.model_type == model_type && row.field == field) return row.value;
  const auto* const size = std::find(kSizes.begin(), kSizes.end(), field);
  if (size == kSizes.end()) return std::nullopt;
  for (const ClassSizes& row : kClasses) {
    if (row.model_type == model_type) {
      const int32_t value = row.sizes[static_cast<size_t>(size - kSizes.begin())];
      return value == 0 ? std::nullopt : std::optional(value);
    }
  }
  return std::nullopt;
}

}  // namespace quire
