// Whether a stage can run its part of a model.
#pragma once

#include "core/config/model_spec.h"
#include "core/models/transformer.h"
#include "core/models/transformer_builder.h"

namespace quire {

// Throws ErrorCode::unsupported where the backend lacks a mechanism of the layers or cannot cut them, or
// where a layer takes what one of another device leaves; ErrorCode::invalid_argument where num_shards is not
// a number of shards that the model can have.
void require_stage(const ModelSpec& model, const PipelineStage& stage, const BuildOptions& options);

}  // namespace quire
