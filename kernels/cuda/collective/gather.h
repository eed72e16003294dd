// Kernels of the all-gather over the shards of a stage (docs/adr/0064).
#pragma once

#include <cstdint>
#include <cuda_runtime.h>

#include "kernels/cuda/plan/gather_plan.h"
#include "kernels/cuda/pointwise/pointwise.h"

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
  // Not 0: a step of this shard waits for weights that return from host memory, so its peers are patient.
  uint32_t awaits_weights[kMaxGatherShards];
};

struct GatherArguments {
  Inbox inboxes[kMaxGatherShards];
  int32_t starts[kMaxGatherShards + 1];  // first byte of each slice in a row of the result
  int32_t num_shards = 0;
  int32_t rank = 0;
  int32_t max_blocks = 1;  // of a gather
  int32_t rows = 0;
  int32_t rows_per_round = 0;
  int32_t rounds = 0;
  // True if no other shard is on this card. Otherwise the next kernel must not start while this one waits: it
  // could take the multiprocessors that the shard needs which this one waits for.
  bool is_alone = false;
  uint64_t source_words = 0;
  uint64_t round_bytes = 0;
  const uint8_t* input = nullptr;
  int32_t input_stride = 0;   // bytes from one row of the input to the next
  uint8_t* output = nullptr;  // nullptr: this shard does not receive the result
  // Rows of 16-bit elements: column c of the result goes to column place[c]; nullptr: to column c.
  const int32_t* place = nullptr;
  GatherState* state = nullptr;
  GatherControl* control = nullptr;
};

cudaError_t launch_gather(const GatherArguments& arguments, const GatherPlan& plan, Launch launch);

// Gathers rows of f32 and normalizes them: one kernel for a gather and the norm that reads its result.
// gathers_within returns true if the gather and the norm have a form for which there is such a kernel.
bool gathers_within(const GatherArguments& arguments, const GatherPlan& plan, const NormParams& norm);
// `place`: as for launch_norm.
cudaError_t launch_gather_norm(const GatherArguments& arguments, const NormParams& norm, const int32_t* place,
                               Launch launch);

// Sets GatherControl::awaits_weights of a shard, in the order of its stream.
cudaError_t launch_announce_weights(GatherControl* control, int32_t rank, bool awaits, Launch launch);

// Called once per device, with the device current: loads the kernels onto the card.
cudaError_t setup_gather();
cudaError_t setup_gather_norm();

}  // namespace quire::kernels
