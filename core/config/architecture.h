// The table of model families: one row says in which a family differs from the others. The rows stand in
// core/config/families, one file for the families of one line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <gsl/gsl>

#include "kernels/interface/op_params.h"

namespace quire {

class ModelReader;

// Keys of a family's tensors. Those of a layer follow "LAYERS<number>."; an empty key: the family has none.
struct TensorKeys {
  std::string_view embedding = "model.embed_tokens";
  std::string_view layers = "model.layers.";  // with the dot before the number
  std::string_view attention_norm = "input_layernorm";
  std::string_view qkv = {};  // one tensor for all three, or
  std::string_view query = "self_attn.q_proj";
  std::string_view key = "self_attn.k_proj";
  std::string_view value = "self_attn.v_proj";
  std::string_view attention_output = "self_attn.o_proj";
  std::string_view q_norm = "self_attn.q_norm";  // where the family has norms of q and k
  std::string_view k_norm = "self_attn.k_norm";
  std::string_view mlp_norm = "post_attention_layernorm";
  std::string_view gate_up = {};  // one tensor for both, or
  std::string_view gate = "mlp.gate_proj";
  std::string_view up = "mlp.up_proj";
  std::string_view down = "mlp.down_proj";
  std::string_view final_norm = "model.norm";
  std::string_view head = "lm_head";
};

// Whether matrices have a bias: never, always, or by a flag of config.json.
struct BiasSwitch {
  enum class Kind : uint8_t { never, always, flag } kind = Kind::never;
  std::string_view flag = {};
  bool flag_default = false;
};

// Which layers look back over `sliding_window` tokens only.
enum class WindowRule : uint8_t {
  no_layer,
  every_layer,      // wherever sliding_window is a number
  by_layer_switch,  // only with use_sliding_window, on the layers that layer_types or max_window_layers name
  by_layer_type,    // layer_types; where absent all but every n-th, n of sliding_window_pattern
};

struct ArchitectureSpec {
  std::string_view name;        // of config.json's `architectures`
  std::string_view model_type;  // stands in where `architectures` is absent
  TensorKeys keys = {};
  kernels::NormKind norm = kernels::NormKind::rms;
  bool norm_has_weight = true;
  bool norm_has_bias = true;  // of layer norms
  float norm_offset = 0.0f;   // added to the weights: Gemma's one
  bool gated_mlp = true;
  bool has_dense_mlp = true;               // false: `refine` gives the feed-forward parts
  int32_t default_intermediate_ratio = 0;  // to hidden_size; 0: the field must be there
  kernels::RopeStyle rope_style = kernels::RopeStyle::neox_halves;
  BiasSwitch qkv_bias = {};
  BiasSwitch attention_output_bias = {};
  BiasSwitch mlp_bias = {};
  WindowRule window = WindowRule::no_layer;
  int32_t window_pattern = 2;
  // What an absent field means, as in the family's own configuration class.
  bool tied_by_default = false;
  std::string_view default_activation = "silu";
  double default_norm_epsilon = 1e-6;
  double default_rope_theta = 10000.0;
  double default_partial_rotary = 1.0;
  int32_t default_max_positions = 2048;
  int32_t default_sliding_window = 0;  // 0: none
  // What the family's class writes for tokens that were not told: beyond a smaller vocabulary it means none.
  int32_t default_special_token = -1;
  int32_t default_head_dim = 0;  // 0: hidden_size / num_attention_heads
  // Changes what was read by this row into what the family is; nullptr: nothing.
  void (*refine)(ModelReader& reader) = nullptr;
};

gsl::span<const ArchitectureSpec* const> supported_architectures();

// nullptr where there is no such row. Rows live as long as the process.
const ArchitectureSpec* find_architecture(std::string_view name);
const ArchitectureSpec* find_architecture_by_model_type(std::string_view model_type);

// "LlamaForCausalLM, MistralForCausalLM, ...".
std::string supported_architecture_names();
// Words for the error about a name that has no row: what it is, or which row's name is nearest.
std::string unknown_architecture_hint(std::string_view name);

// The full key of a part of a layer: layer_key(spec, 3, spec.keys.query).
std::string layer_key(const ArchitectureSpec& spec, int32_t layer, std::string_view part);

}  // namespace quire
