#include "core/config/architecture.h"

#include <array>

#include <fmt/format.h>

namespace quire {
namespace {

constexpr TensorKeys kLlamaKeys = {
    .embedding = "model.embed_tokens",
    .layers = "model.layers.",
    .attention_norm = "input_layernorm",
    .query = "self_attn.q_proj",
    .key = "self_attn.k_proj",
    .value = "self_attn.v_proj",
    .attention_output = "self_attn.o_proj",
    .mlp_norm = "post_attention_layernorm",
    .gate = "mlp.gate_proj",
    .up = "mlp.up_proj",
    .down = "mlp.down_proj",
    .final_norm = "model.norm",
    .head = "lm_head",
};

constexpr std::array<ArchitectureSpec, 3> kArchitectures = {{
    {.name = "LlamaForCausalLM",
     .model_type = "llama",
     .keys = kLlamaKeys,
     .qkv_bias = BiasRule::as_configured,
     .attention_output_bias = BiasRule::as_configured,
     .mlp_bias = BiasRule::as_configured},
    {.name = "MistralForCausalLM",
     .model_type = "mistral",
     .keys = kLlamaKeys,
     .window = WindowRule::every_layer,
     .default_max_positions = 131072,
     .default_sliding_window = 4096},
    {.name = "Qwen2ForCausalLM",
     .model_type = "qwen2",
     .keys = kLlamaKeys,
     .qkv_bias = BiasRule::always,
     .window = WindowRule::by_layer_switch,
     .default_max_positions = 32768,
     .default_sliding_window = 4096},
}};

const ArchitectureSpec* find_row(std::string_view ArchitectureSpec::*column, std::string_view value) {
  for (const ArchitectureSpec& spec : kArchitectures) {
    if (spec.*column == value) return &spec;
  }
  return nullptr;
}

}  // namespace

gsl::span<const ArchitectureSpec> supported_architectures() {
  return kArchitectures;
}

const ArchitectureSpec* find_architecture(std::string_view name) {
  return find_row(&ArchitectureSpec::name, name);
}

const ArchitectureSpec* find_architecture_by_model_type(std::string_view model_type) {
  return find_row(&ArchitectureSpec::model_type, model_type);
}

std::string supported_architecture_names() {
  std::string names;
  for (const ArchitectureSpec& spec : kArchitectures) {
    if (!names.empty()) names += ", ";
    names += spec.name;
  }
  return names;
}

std::string layer_key(const ArchitectureSpec& spec, int32_t layer, std::string_view part) {
  return fmt::format("{}{}.{}", spec.keys.layers, layer, part);
}

}  // namespace quire
