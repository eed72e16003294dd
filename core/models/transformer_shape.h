// Sizes that determine the memory of a transformer, computed from its specification.
#pragma once

#include "core/layers/needs.h"

namespace quire {

TransformerShape transformer_shape(const ModelSpec& model);

}  // namespace quire
