// The table of model families: one row says everything in which a family differs from the others.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <gsl/gsl>

#include "kernels/interface/op_params.h"

namespace quire {

// Keys of a family's tensors. Those of a layer follow "LAYERS<number>."; an empty key: the family has none.
struct TensorKeys {
  std::string_view embedding;
  std::string_view layers;  // with the dot before the number
  std::string_view attention_norm;
  std::string_view query;
  std::string_view key;
  std::string_view value;
  std::string_view attention_output;
  std::string_view mlp_norm;
  std::string_view gate;
  std::string_view up;
  std::string_view down;
  std::string_view final_norm;
  std::string_view head;
};

// Whether matrices have a bias.
enum class BiasRule : uint8_t {
  never,
  always,
  as_configured,  // by the family's flag in config.json, absent: no
};

// Which layers look back over `sliding_window` tokens only.
enum class WindowRule : uint8_t {
  no_layer,
  every_layer,      // wherever sliding_window is a number
  by_layer_switch,  // only with use_sliding_window, on the layers that layer_types or max_window_layers name
};

struct ArchitectureSpec {
  std::string_view name;        // of config.json's `architectures`
  std::string_view model_type;  // stands in where `architectures` is absent
  TensorKeys keys;
  kernels::NormKind norm = kernels::NormKind::rms;
  bool gated_mlp = true;
  kernels::RopeStyle rope_style = kernels::RopeStyle::neox_halves;
  BiasRule qkv_bias = BiasRule::never;               // flag `attention_bias`
  BiasRule attention_output_bias = BiasRule::never;  // flag `attention_bias`
  BiasRule mlp_bias = BiasRule::never;               // flag `mlp_bias`
  WindowRule window = WindowRule::no_layer;
  // What an absent field means, as in the family's own configuration class.
  bool tied_by_default = false;
  std::string_view default_activation = "silu";
  double default_norm_epsilon = 1e-6;
  double default_rope_theta = 10000.0;
  int32_t default_max_positions = 2048;
  int32_t default_sliding_window = 0;  // 0: none
};

gsl::span<const ArchitectureSpec> supported_architectures();

// nullptr where there is no such row. Rows live as long as the process.
const ArchitectureSpec* find_architecture(std::string_view name);
const ArchitectureSpec* find_architecture_by_model_type(std::string_view model_type);

// "LlamaForCausalLM, MistralForCausalLM, ...".
std::string supported_architecture_names();

// The full key of a part of a layer: layer_key(spec, 3, spec.keys.query).
std::string layer_key(const ArchitectureSpec& spec, int32_t layer, std::string_view part);

}  // namespace quire
