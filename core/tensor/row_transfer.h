// Transfer of rows between the devices of a model.
#pragma once

#include "core/tensor/device.h"

namespace quire {

// Rows of f32 in the memory of a context.
struct ContextRows {
  const DeviceContext& context;
  float* rows = nullptr;
};

// Copies `num_rows` rows of `columns` f32, after the work issued on `from` and before later work of `to`.
// Waits for `from` if the two devices have different backends. One of them is then the host, otherwise this
// throws ErrorCode::unsupported.
void transfer_rows(const ContextRows& from, const ContextRows& to, int32_t num_rows, int32_t columns);

}  // namespace quire
