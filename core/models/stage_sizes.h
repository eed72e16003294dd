// What each stage of a transformer must be sized for: computed here for those who plan and those who take.
#pragma once

#include "core/models/transformer.h"
#include "core/models/transformer_executor.h"

namespace quire {

struct StageSizes {
  TransformerShape shape;  // with the layers of the stage
  kernels::KvShape kv;
  StepLimits limits;
  kernels::ContextLimits context;
};

// The cache's shape with the heads of the model.
kernels::KvShape with_heads(kernels::KvShape kv, const TransformerShape& shape);

StageSizes stage_sizes(const Transformer& transformer, size_t stage_idx, const TransformerShape& shape,
                       const TransformerExecutorOptions& options);

}  // namespace quire
