// Mixers of the gated delta rule: with a decay for each head (GDN), as Qwen has them, and with a decay for
// each channel (KDA), as Kimi Linear has them.
#pragma once

#include "core/config/families/families.h"

namespace quire::families {

// Returns a convolution with SiLU and without bias. `names` are its tensors within the layer, `channels` the
// channels of each.
ConvPart delta_conv(const ModelReader& reader, int32_t layer, const std::vector<std::string>& names,
                    const std::vector<int32_t>& channels, int32_t num_taps);

// Returns the sizes of a GDN mixer by the fields of Qwen's configs; absent ones have the defaults of its
// class.
kernels::DeltaSpec gdn_sizes(const ModelReader& reader, const kernels::DeltaSpec& defaults);
// Returns the length of the convolution of such a mixer.
int32_t delta_taps(const ModelReader& reader);

// Makes a GDN mixer of Qwen: with in_proj_qkvz and in_proj_ba, which are interleaved by key head, or with
// in_proj_qkv, in_proj_z, in_proj_b and in_proj_a.
DeltaPart gdn_part(const ModelReader& reader, int32_t layer, bool is_interleaved);

// Makes a GDN mixer of the given sizes whose projections and convolutions are apart: q_proj, q_conv1d and so
// on.
DeltaPart separate_gdn_part(const ModelReader& reader, int32_t layer, const kernels::DeltaSpec& sizes);

// Names of a KDA mixer's tensors within a layer.
struct DeltaKeys {
  std::string prefix;        // of all tensors
  std::string_view out;      // name of the output matrix
  bool is_low_rank = false;  // decay and gate are products of two matrices
};
struct KdaSizes {
  int32_t num_heads = 0;
  int32_t head_dim = 0;
  int32_t num_taps = 0;
};
// Returns an object of published files with the fields of KDA: `linear_attn_config`.
std::optional<JsonView> linear_attn_config(const ModelReader& reader);
// Reads the sizes of KDA from linear_attn_config, or from the fields that transformers has for them.
KdaSizes kda_sizes(const ModelReader& reader, const KdaSizes& defaults);
// Makes a KDA mixer.
DeltaPart kda_part(const ModelReader& reader, int32_t layer, const DeltaKeys& keys, const KdaSizes& sizes);

// Refuses an activation other than SiLU, which these mixers and those of Mamba have.
void require_silu(const ModelReader& reader, std::string_view field);

}  // namespace quire::families
