// Where the shards of a stage meet: contexts whose threads hand each other what they have made.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "kernels/interface/types.h"

namespace quire::kernels {

// A gather has two meetings: after the first all inputs are there, after the second all have read them.
struct Communicator {
  explicit Communicator(std::vector<Context*> shards)
      : contexts(std::move(shards)), inputs(contexts.size(), nullptr) {}

  // Returns when all shards have come, or false once one of them cannot go on.
  bool meet();
  void interrupt();
  void resume();

  const std::vector<Context*> contexts;
  std::vector<const void*> inputs;  // of the gather, each written by its shard before the first meeting

 private:
  alignas(64) std::atomic<uint32_t> meetings_{0};  // ends of meetings, and interruptions; shards wait on it
  std::atomic<size_t> arrived_{0};                 // at the meeting that is open
  std::atomic<bool> interrupted_{false};
};

}  // namespace quire::kernels
