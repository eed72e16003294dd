// Attention whose result is gated, as AFMoE, Muse Glimmer and others have it.
#pragma once

#include "core/config/families/families.h"

namespace quire::families {

// Multiplies each element of attention's result by the sigmoid of self_attn.gate_proj.
void gate_attention(ModelReader& reader, LayerSpec& layer, int32_t index);

}  // namespace quire::families
