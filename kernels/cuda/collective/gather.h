// Kernels of the all-gather over the shards of a stage (docs/adr/0064).
#pragma once

#include <cstdint>
#include <cuda_runtime.h>

#include "kernels/cuda/plan/gather_plan.h"

namespace quire::kernels {

// Memory of one shard that its peers write. See InboxLayout.
struct Inbox {
  uint64_t* flags = nullptr;
  uint64_t* words = nullptr;
  uint8_t* bytes = nullptr;
};

// Progress of one shard, on its card. Only its own kernels use it.
struct GatherState {
  uint64_t epoch;  // of the next gather; at least 2
  uint32_t ended;  // blocks of the running gather that have ended
};

// Pinned host memory that the host and the kernels of all shards use.
struct GatherControl {
  uint32_t stop;  // not 0: waits end at once
  uint32_t late;  // 1 + the rank of a shard that has waited too long; 0: none
};

struct GatherArguments {
  Inbox inboxes[kMaxGatherShards];
  int32_t starts[kMaxGatherShards + 1];  // first byte of each slice in a row of the result
  int32_t num_shards = 0;
  int32_t rank = 0;
  int32_t rows = 0;
  int32_t rows_per_round = 0;
  int32_t rounds = 0;
  uint64_t source_words = 0;
  uint64_t round_bytes = 0;
  const uint8_t* input = nullptr;
  uint8_t* output = nullptr;  // nullptr: this shard does not receive the result
  GatherState* state = nullptr;
  GatherControl* control = nullptr;
};

cudaError_t launch_gather(const GatherArguments& arguments, const GatherPlan& plan, cudaStream_t stream);

// Called once per device, with the device current: loads the kernels onto the card.
cudaError_t setup_gather();

}  // namespace quire::kernels
