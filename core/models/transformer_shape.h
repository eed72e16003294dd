// Sizes that determine the memory of a transformer, computed from its specification.
#pragma once

#include <vector>

#include "core/layers/needs.h"

namespace quire {

// `on_host`: whether each layer has host experts, which need nothing here; empty: none has.
TransformerShape transformer_shape(const ModelSpec& model, const std::vector<bool>& on_host = {});
// Returns the sizes of the memory on the device of the host experts: rows of the feed-forward blocks alone,
// without caches, rotary angles or logits.
TransformerShape host_experts_shape(const ModelSpec& model, const std::vector<bool>& on_host);

}  // namespace quire
