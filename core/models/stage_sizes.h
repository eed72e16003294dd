// What each stage of a transformer must be sized for: computed here for the plan and for the taking.
#pragma once

#include "core/models/transformer.h"
#include "core/models/transformer_executor.h"

namespace quire {

// Where a stage stands.
struct StagePlace {
  int32_t num_layers = 0;
  bool is_last = true;
  bool crosses_backends = false;  // to or from a neighbour
  bool draws = false;             // tokens are drawn where the logits lie
  int32_t first_layer = 0;
};

struct StageSizes {
  TransformerShape shape;  // with the layers of the stage
  CachePages kv;
  StepLimits limits;
  kernels::ContextLimits context;
};

// Tokens that a sequence may have.
int32_t max_context(const TransformerExecutorOptions& options);
// Whether tokens are drawn where the logits lie.
bool draws_on_device(const Transformer& transformer);
// Whether a step can be issued after draws that are not known yet: where they are made and where tokens
// enter is one device.
bool follows_on_device(const Transformer& transformer);
StagePlace place_of_stage(const Transformer& transformer, size_t stage_idx);
StageSizes stage_sizes(const StagePlace& place, const TransformerShape& shape,
                       const TransformerExecutorOptions& options);

}  // namespace quire
