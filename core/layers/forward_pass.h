// What every layer needs of the pass it takes part in.
#pragma once

#include "core/tensor/device.h"
#include "kernels/interface/op_params.h"

namespace quire {

// Borrowed for the duration of one forward pass; all arrays lie in device memory.
struct ForwardPass {
  const DeviceContext& context;
  const kernels::BatchView& batch;
  const kernels::Workspace& workspace;
  const kernels::KvShape& kv_shape;
};

}  // namespace quire
