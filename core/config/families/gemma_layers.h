// Parts shared by Gemma 3n and Gemma 4.
#pragma once

#include "core/config/families/families.h"

namespace quire::families {

// KV sharing: the last num_kv_shared_layers layers read the keys and values of the last layer of the same
// type before them.
void share_kv(ModelReader& reader);
// Adds per-layer embeddings, which enter at the end of each layer.
void add_layer_inputs(ModelReader& reader);

}  // namespace quire::families
