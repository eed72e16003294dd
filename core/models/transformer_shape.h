// The sizes that the memory of a transformer depends on, out of its description.
#pragma once

#include "core/config/model_spec.h"
#include "core/models/transformer_memory.h"

namespace quire {

TransformerShape transformer_shape(const ModelSpec& model);

}  // namespace quire
