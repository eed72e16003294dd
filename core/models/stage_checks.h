// Checks whether a stage can run its part of a model.
#pragma once

#include "core/config/model_spec.h"
#include "core/models/transformer.h"
#include "core/models/transformer_builder.h"

namespace quire {

// Throws ErrorCode::unsupported if the backend lacks a mechanism of the layers or tensor parallelism, or if a
// layer uses data of a layer on another device. Throws ErrorCode::invalid_argument if the model cannot have
// num_shards shards.
void require_stage(const ModelSpec& model, const PipelineStage& stage, const BuildOptions& options);

// Throws ErrorCode::invalid_argument unless a layer may have so many shards.
void require_num_shards(int32_t num_shards);
// Throws ErrorCode::unsupported if num_shards is more than 1 and the device does not support shards.
void require_shards_on(const Device& device, int32_t num_shards);

// Throws ErrorCode::unsupported if the backend lacks a mechanism of the feed-forward blocks of the layers
// that are true in `layers`.
void require_feed_forward(const ModelSpec& model, const std::vector<bool>& layers, const Device& device,
                          kernels::ActivationDtype activations);

// Throws ErrorCode::unsupported if two shards of a stage are on devices of different backends.
void require_same_backend(const Device& first, const Device& other);

}  // namespace quire
