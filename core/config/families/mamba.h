// Mixers of Mamba 1 and 2, which several families have beside attention.
#pragma once

#include "core/config/families/families.h"

namespace quire::families {

// Names of Mamba's fields in config.json.
struct MambaFields {
  std::string_view num_heads = "mamba_n_heads";
  std::string_view head_dim = "mamba_d_head";
  std::string_view num_groups = "mamba_n_groups";
  std::string_view state_dim = "mamba_d_state";
  std::string_view num_taps = "mamba_d_conv";
  std::string_view expand = "mamba_expand";
  std::string_view projection_bias = "mamba_proj_bias";
  std::string_view conv_bias = "mamba_conv_bias";
};

// Sizes that a family's class defaults to.
struct MambaDefaults {
  int32_t num_heads = 128;
  int32_t head_dim = 64;  // 0: the channels divided by the heads, as "auto" in config.json
  int32_t num_groups = 1;
  int32_t state_dim = 256;
};

// Returns the names of tensors in models that have layers of Mamba and layers of attention (Jamba, Bamba,
// Falcon-H1).
constexpr TensorKeys keys_beside_mamba() {
  TensorKeys keys;
  keys.mlp_norm = "pre_ff_layernorm";
  keys.gate = "feed_forward.gate_proj";
  keys.up = "feed_forward.up_proj";
  keys.down = "feed_forward.down_proj";
  keys.final_norm = "model.final_layernorm";
  return keys;
}

// Number of channels of a mixer.
enum class InnerSize : uint8_t {
  expanded,  // expand * hidden_size, which heads * head_dim must equal
  by_heads,  // heads * head_dim
  by_field,  // mamba_d_ssm, or expand * hidden_size if it is null
};

// Makes a Mamba-2 mixer. `prefix` is that of its tensors within a layer.
Mamba2Part mamba2_part(const ModelReader& reader, int32_t layer, const std::string& prefix,
                       const MambaFields& fields, const MambaDefaults& defaults, InnerSize inner);

// Norms of dt, B and C in Mamba 1.
enum class SelectionNorms : uint8_t { none, without_weights, weighted };

// Makes a Mamba-1 mixer. `rank` is the field with the rank of dt.
Mamba1Part mamba1_part(const ModelReader& reader, int32_t layer, const std::string& prefix,
                       const MambaFields& fields, std::string_view rank, SelectionNorms norms);

}  // namespace quire::families
