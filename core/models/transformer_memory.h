// All device memory that running a stage of a transformer needs beside its weights, taken once at fixed
// addresses.
#pragma once

#include <memory>
#include <vector>

#include "core/tensor/device.h"

namespace quire {

// The sizes of one transformer, or of a stage of it, that its memory depends on.
struct TransformerShape {
  int32_t num_layers = 0;
  int32_t hidden_size = 0;
  kernels::HeadShape heads;
  int32_t intermediate_size = 0;
  int32_t rotary_dim = 0;
  int32_t vocab_size = 0;
};

struct StepLimits {
  int32_t max_tokens = 0;      // of one step
  int32_t max_logit_rows = 0;  // of one step
};

// Bytes of each kind, computed from sizes alone, before anything is taken.
struct TransformerMemoryPlan {
  uint64_t kv_bytes = 0;
  uint64_t activation_bytes = 0;
  uint64_t total_bytes() const { return kv_bytes + activation_bytes; }
};

TransformerMemoryPlan plan_transformer_memory(const KernelTable& table, const TransformerShape& shape,
                                              const kernels::KvShape& kv, const StepLimits& limits);

// Throws ErrorCode::out_of_memory with the bytes of the buffer that did not fit; nothing stays taken.
class TransformerMemory {
 public:
  TransformerMemory(const std::shared_ptr<Device>& device, const TransformerShape& shape,
                    const kernels::KvShape& kv, const StepLimits& limits);

  const kernels::Workspace& workspace() const { return workspace_; }
  const kernels::KvShape& kv_shape() const { return kv_shape_; }
  gsl::span<const kernels::KvLayer> kv_layers() const { return kv_layers_; }

 private:
  template <typename T>
  T* take(const std::shared_ptr<Device>& device, uint64_t bytes, std::string_view what);

  kernels::KvShape kv_shape_;
  kernels::Workspace workspace_;
  std::vector<kernels::KvLayer> kv_layers_;
  std::vector<DeviceBuffer> buffers_;
};

}  // namespace quire
