// The table of model families (architectures): each row describes how a family differs from the others. The
// rows are in core/config/families, one file per group of related families.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <gsl/gsl>

#include "kernels/interface/op_params.h"

namespace quire {

class ModelReader;
enum class LayerType : uint8_t;

// Tensor names of a family. Names of a layer follow "LAYERS<number>."; an empty name means that the family
// has no such tensor.
// Wide type: a table with a name for each tensor.
struct TensorKeys {
  std::string_view embedding = "model.embed_tokens";
  std::string_view layers = "model.layers.";  // including the dot before the number
  std::string_view attention_norm = "input_layernorm";
  std::string_view qkv = {};  // one tensor for all three; if empty, the next three
  std::string_view query = "self_attn.q_proj";
  std::string_view key = "self_attn.k_proj";
  std::string_view value = "self_attn.v_proj";
  std::string_view attention_output = "self_attn.o_proj";
  std::string_view q_norm = "self_attn.q_norm";  // if the family normalizes q and k
  std::string_view k_norm = "self_attn.k_norm";
  std::string_view mlp_norm = "post_attention_layernorm";
  std::string_view gate_up = {};  // one tensor for both; if empty, the next two
  std::string_view gate = "mlp.gate_proj";
  std::string_view up = "mlp.up_proj";
  std::string_view down = "mlp.down_proj";
  std::string_view final_norm = "model.norm";
  std::string_view head = "lm_head";
};

// The rule for biases of matrices: never, always, or depending on a flag of config.json.
struct BiasSwitch {
  enum class Kind : uint8_t { never, always, flag } kind = Kind::never;
  std::string_view flag = {};
  bool flag_default = false;
};

// The layers that use a sliding window of `sliding_window` tokens.
enum class WindowRule : uint8_t {
  no_layer,
  every_layer,      // if sliding_window is a number
  by_layer_switch,  // only with use_sliding_window, on the layers given by layer_types or max_window_layers
  by_layer_type,    // by layer_types; if absent, all except every n-th, n = sliding_window_pattern
  by_layer_type_from_first,  // the same, but the exceptions are counted from the first layer on
  by_layer_type_from_last,   // the same, but the exceptions are counted back from the last layer
};

// Properties of a model family.
// Wide type: each family is one row of a table of differences.
struct ArchitectureSpec {
  std::string_view name;        // an entry of `architectures` in config.json
  std::string_view model_type;  // used if `architectures` is absent
  TensorKeys keys = {};
  kernels::NormKind norm = kernels::NormKind::rms;
  bool norm_has_weight = true;
  bool norm_has_bias = true;  // for layer norms
  float norm_offset = 0.0f;   // added to the weights; 1 for Gemma
  bool gated_mlp = true;
  bool has_dense_mlp = true;  // false: `refine` sets the feed-forward parts
  bool has_attention = true;  // false: no layer has attention heads, and `refine` sets the mixers
  // Returns the type of a layer if config.json has no list of types; nullptr: `window` decides. Families with
  // recurrent layers, or with layers of one part, have such a function, and `refine` sets their mixers.
  LayerType (*type_of_layer)(const ModelReader& reader, int32_t layer) = nullptr;
  bool has_one_part_layers = false;        // layers may be a feed-forward part alone
  int32_t default_intermediate_ratio = 0;  // times hidden_size; 0: intermediate_size is required
  kernels::RopeStyle rope_style = kernels::RopeStyle::neox_halves;
  BiasSwitch qkv_bias = {};
  BiasSwitch attention_output_bias = {};
  BiasSwitch mlp_bias = {};
  WindowRule window = WindowRule::no_layer;
  int32_t window_pattern = 2;
  // Defaults of absent fields, as in the family's configuration class in transformers.
  bool tied_by_default = false;
  bool ignores_hidden_act = false;  // true: `hidden_activation` alone names the activation
  std::string_view default_activation = "silu";
  double default_norm_epsilon = 1e-6;
  double default_rope_theta = 10000.0;
  double default_partial_rotary = 1.0;
  bool lists_ropes = false;  // `refine` sets the RoPE of all layers, unless config.json has one for each type
  int32_t default_max_positions = 2048;
  int32_t default_sliding_window = 0;  // 0: none
  // The id that the family's class uses for special tokens that are not set; outside the vocabulary it means
  // none.
  int32_t default_special_token = -1;
  int32_t default_head_dim = 0;  // 0: hidden_size / num_attention_heads
  bool has_head_dim = true;      // false: the field head_dim does not count
  // Adjusts the model after it was read by the row's defaults; nullptr if nothing is to be done.
  void (*refine)(ModelReader& reader) = nullptr;
};

gsl::span<const ArchitectureSpec* const> supported_architectures();

// Return nullptr if there is no such row. Rows live as long as the process. Both also find the names of
// models with several kinds of input whose text part is the row, and of models published under another name.
const ArchitectureSpec* find_architecture(std::string_view name);
const ArchitectureSpec* find_architecture_by_model_type(std::string_view model_type);

// Returns whether `name` is the class of a row without its head: Qwen3Model for Qwen3ForCausalLM.
bool is_class_without_head(const ArchitectureSpec& spec, std::string_view name);
// Returns whether `name` is the row's class, in any case of letters, or that class without its head.
bool is_class_of(const ArchitectureSpec& spec, std::string_view name);

// Describes an unsupported class for an error: its kind, if the name shows it, and the nearest supported
// class, if one is near: "a classifier; the nearest supported architecture is Qwen3ForCausalLM".
std::string describe_unsupported(std::string_view name);

// Returns the full tensor name of a part of a layer: layer_key(spec, 3, spec.keys.query).
std::string layer_key(const ArchitectureSpec& spec, int32_t layer, std::string_view part);

}  // namespace quire
