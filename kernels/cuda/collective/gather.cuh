// Parts of the all-gathers of columns over cards.
//
// Gathers are numbered; the number is their epoch, which every shard counts in its own memory, so that
// recorded steps replay. A shard writes to inboxes of its peers and reads only its own. There are two copies
// of what peers write, used by turns. A shard begins epoch e + 2 after every peer has sent it something of
// epoch e + 1, and a peer sends that after all its work of epoch e, because kernels of a stream run one after
// another. So no shard overwrites what a slow one still has to read.
//
// Units of a slice are dealt out to blocks in the same way by the shard that sends them and by those that
// receive them. So a block waits only for the blocks of its own number.
#pragma once

#include "kernels/cuda/collective/gather.h"
#include "kernels/cuda/device/peer_memory.cuh"
#include "kernels/cuda/device/ptx.cuh"

namespace quire::kernels {

constexpr uint32_t kPollsBetweenChecks = 256;

// Longest wait for a peer that computes, and for one whose step waits for weights from host memory.
constexpr uint64_t kMostWait = 1'500'000'000;  // ns
constexpr uint64_t kMostWaitForWeights = 20 * kMostWait;

// Bound of a wait. Now and then it also checks whether the waits of the step are to end.
class Patience {
 public:
  __device__ explicit Patience(const GatherArguments& a) : a_(a) {}

  // Called after each poll that found nothing.
  __device__ bool is_over() {
    pause_between_polls();
    if (++polls_ % kPollsBetweenChecks != 0) return false;
    if (load_shared(&a_.control->stop) != 0) return true;
    const uint64_t now = wait_time();
    if (polls_ == kPollsBetweenChecks) begin_ = now;
    const uint64_t waited = now - begin_;
    if (waited < kMostWait || (waited < kMostWaitForWeights && a_peer_awaits_weights())) return false;
    store_shared(&a_.control->late, static_cast<uint32_t>(a_.rank) + 1);
    store_shared(&a_.control->stop, 1);
    return true;
  }

 private:
  __device__ bool a_peer_awaits_weights() const {
    bool any = false;
    for (int peer = 0; peer < a_.num_shards; ++peer)
      any |= peer != a_.rank && load_shared(&a_.control->awaits_weights[peer]) != 0;
    return any;
  }

  const GatherArguments& a_;
  uint32_t polls_ = 0;
  uint64_t begin_ = 0;
};

// Returns the mark of an epoch; 0 for none that a gather has. Epochs of one parity have different marks.
__device__ __forceinline__ uint32_t mark_of(uint64_t epoch) {
  return static_cast<uint32_t>(epoch >> 1);
}

__device__ __forceinline__ uint64_t next_epoch(uint64_t epoch) {
  return mark_of(epoch) == 0 ? epoch + 2 : epoch;
}

// Threads of a block besides those that gather.
constexpr int kCountingThreads = 32;

// Waits for the kernels before a gather: it may send only after all work before it. With no other shard on
// the card the next kernel starts meanwhile.
__device__ __forceinline__ void begin_gather(const GatherArguments& a) {
  if (a.is_alone) release_successor();
  wait_for_predecessor();
}

// Returns the epoch of the gather, when all threads of the block have read it.
__device__ __forceinline__ uint64_t read_epoch(const GatherArguments& a) {
  const uint64_t epoch = a.state->epoch;
  __syncthreads();
  return epoch;
}

// Called by the threads of each block that do not gather. Advances the epoch once all blocks have read it;
// only later kernels read it again. Threads that gather would first wait until what they have sent has
// arrived.
__device__ __forceinline__ void advance_epoch(const GatherArguments& a, uint64_t next) {
  if (threadIdx.x % kCountingThreads != 0) return;
  __threadfence();
  if (atomicAdd(&a.state->ended, 1U) != gridDim.x - 1) return;
  a.state->ended = 0;
  a.state->epoch = next_epoch(next);
}

// Returns a word that carries 32 bits of a slice.
__device__ __forceinline__ uint64_t marked(uint32_t bits, uint32_t mark) {
  return static_cast<uint64_t>(mark) << 32 | bits;
}

// Returns the first word of a source's slice among the words of an inbox.
__device__ __forceinline__ uint64_t source_at(const GatherArguments& a, uint64_t epoch, int source) {
  return ((epoch & 1) * static_cast<uint64_t>(a.num_shards) + static_cast<uint64_t>(source)) * a.source_words;
}

}  // namespace quire::kernels
