// What Gemma 3n and Gemma 4 have in common.
#pragma once

#include "core/config/families/families.h"

namespace quire::families {

// The last num_kv_shared_layers read the keys and values of the last layer of their kind before them.
void share_keys(ModelReader& reader);
// Embeddings of their own for every layer, which come in at its end.
void add_layer_inputs(ModelReader& reader);

}  // namespace quire::families
