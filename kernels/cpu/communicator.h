// Communicator of the tensor-parallel shards of a stage: contexts whose threads exchange results.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "kernels/interface/types.h"

namespace quire::kernels {

// What a shard gives to a gather.
struct GatherInput {
  const void* rows = nullptr;
  int32_t stride = 0;  // elements between rows; 0: the columns of the shard
};

// A gather has two barriers: at the first all inputs have been set, at the second all shards have read them.
struct Communicator {
  explicit Communicator(std::vector<Context*> shards)
      : contexts(std::move(shards)), inputs(contexts.size()) {}

  // Barrier of the shards. Returns true when all have arrived, or false once one of them cannot continue.
  bool meet();
  void interrupt();
  void resume();

  const std::vector<Context*> contexts;
  std::vector<GatherInput> inputs;  // each written by its shard before the first barrier

 private:
  alignas(64) std::atomic<uint32_t> barriers_passed_{0};  // counts barriers passed and interruptions; shards
                                                          // wait on it
  std::atomic<size_t> arrived_{0};                        // shards that have arrived at the current barrier
  std::atomic<bool> interrupted_{false};
};

}  // namespace quire::kernels
