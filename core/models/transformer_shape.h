// The sizes that the memory of a transformer depends on, from its description.
#pragma once

#include "core/layers/needs.h"

namespace quire {

TransformerShape transformer_shape(const ModelSpec& model);

}  // namespace quire
