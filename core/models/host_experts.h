// Host experts: feed-forward blocks with experts (MoE) that lie on the host while their layers are on a card.
#pragma once

#include <string>
#include <vector>

#include "core/config/model_spec.h"
#include "core/models/transformer_builder.h"

namespace quire {

// Returns the layers with experts, ascending.
std::vector<int32_t> layers_with_experts(const ModelSpec& model);
// Returns why the feed-forward block of a layer cannot lie on another device than the layer; empty if it can.
std::string host_experts_refusal(const LayerSpec& layer);

// `on_host`: whether each layer has host experts; empty: none has. Throws ErrorCode::unsupported if a block
// cannot lie on `device`, or if the model has shards.
void require_host_experts(const ModelSpec& model, const std::vector<bool>& on_host, const Device* device,
                          const BuildOptions& options);

}  // namespace quire
