// A small valid config.json that tests modify.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "core/config/model_config.h"
#include "tests/support/json_text.h"

namespace quire::testing {

inline Json small_config(const std::string& architecture = "LlamaForCausalLM") {
  return {{"architectures", {architecture}}, {"hidden_size", 64},      {"intermediate_size", 96},
          {"num_attention_heads", 4},        {"num_hidden_layers", 2}, {"vocab_size", 160}};
}

// Returns the mixer of a layer, which must be of that type.
template <typename Part>
const Part& mixer_of(const ModelConfig& config, size_t layer = 0) {
  return std::get<Part>(config.spec.layers.at(layer).mixer);
}

inline const AttentionPart& attention_of(const ModelConfig& config, size_t layer = 0) {
  return config.spec.layers.at(layer).attention();
}

inline const MlpPart& mlp_of(const ModelConfig& config, size_t layer = 0) {
  return *config.spec.layers.at(layer).dense();
}

inline std::vector<int32_t> windows_of(const ModelConfig& config) {
  std::vector<int32_t> windows;
  for (const LayerSpec& layer : config.spec.layers) windows.push_back(layer.attention().sliding_window);
  return windows;
}

inline const RopeConfig& rope_of(const ModelConfig& config) {
  return config.spec.ropes.at(0).config;
}

// Return whether the q, k and v matrices, the attention output matrix and the MLP have biases.
inline bool has_qkv_bias(const ModelConfig& config) {
  return attention_of(config).qkv.front().bias == BiasRule::required;
}
inline bool has_output_bias(const ModelConfig& config) {
  return attention_of(config).output.bias == BiasRule::required;
}
inline bool has_mlp_bias(const ModelConfig& config) {
  return mlp_of(config).down.bias == BiasRule::required;
}

}  // namespace quire::testing
