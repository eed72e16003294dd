// All-gather of columns over cards.
//
// Gathers are numbered; the number is their epoch, which every shard counts in its own memory, so that
// recorded steps replay. A shard writes to inboxes of its peers and reads only its own. There are two copies
// of what peers write, used by turns. A shard begins epoch e + 2 after every peer has sent it something of
// epoch e + 1, and a peer sends that after all its work of epoch e, because kernels of a stream run one after
// another. So no shard overwrites what a slow one still has to read.
//
// Units of a slice are dealt out to blocks in the same way by the shard that sends them and by those that
// receive them. So a block waits only for the blocks of its own number.
#include "kernels/cuda/collective/gather.h"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/peer_memory.cuh"

namespace quire::kernels {
namespace {

constexpr uint32_t kPollsBetweenChecks = 256;

// Bound of a wait. Now and then it also checks whether the waits of the step are to end.
struct Patience {
  GatherControl* control;
  uint32_t rank;
  uint32_t polls = 0;

  __device__ bool is_over() {
    pause_between_polls();
    if (++polls % kPollsBetweenChecks != 0) return false;
    if (load_shared(&control->stop) != 0) return true;
    if (polls < max_polls()) return false;
    store_shared(&control->late, rank + 1);
    store_shared(&control->stop, 1);
    return true;
  }
};

// Returns the mark of an epoch; 0 for none that a gather has. Epochs of one parity have different marks.
__device__ uint32_t mark_of(uint64_t epoch) {
  return static_cast<uint32_t>(epoch >> 1);
}

__device__ uint64_t next_epoch(uint64_t epoch) {
  return mark_of(epoch) == 0 ? epoch + 2 : epoch;
}

// Advances the epoch once all blocks have read it.
__device__ void end_gather(const GatherArguments& a, uint64_t next) {
  __syncthreads();
  if (threadIdx.x != 0) return;
  __threadfence();
  if (atomicAdd(&a.state->ended, 1U) != gridDim.x - 1) return;
  a.state->ended = 0;
  a.state->epoch = next_epoch(next);
}

// Waits until a peer has sent this epoch or a later one.
__device__ void wait_for_flag(const uint64_t* flag, uint64_t epoch, Patience patience) {
  while (load_flag(flag) < epoch && !patience.is_over()) {
  }
}

// Words that carry a unit of a slice.
__device__ void send_unit(uint64_t* words, uint64_t i, uint2 v, uint32_t mark) {
  const uint64_t upper = static_cast<uint64_t>(mark) << 32;
  store_words(words + 2 * i, make_ulonglong2(upper | v.x, upper | v.y));
}
__device__ void send_unit(uint64_t* words, uint64_t i, uint32_t v, uint32_t mark) {
  store_word(words + i, static_cast<uint64_t>(mark) << 32 | v);
}
__device__ void send_unit(uint64_t* words, uint64_t i, uint16_t v, uint32_t mark) {
  send_unit(words, i, static_cast<uint32_t>(v), mark);
}

__device__ void receive_unit(const uint64_t* words, uint64_t i, uint32_t mark, Patience patience, uint2& v) {
  ulonglong2 got = load_words(words + 2 * i);
  while ((got.x >> 32 != mark || got.y >> 32 != mark) && !patience.is_over()) got = load_words(words + 2 * i);
  v = make_uint2(static_cast<uint32_t>(got.x), static_cast<uint32_t>(got.y));
}
__device__ void receive_unit(const uint64_t* words, uint64_t i, uint32_t mark, Patience patience,
                             uint32_t& v) {
  uint64_t got = load_word(words + i);
  while (got >> 32 != mark && !patience.is_over()) got = load_word(words + i);
  v = static_cast<uint32_t>(got);
}
__device__ void receive_unit(const uint64_t* words, uint64_t i, uint32_t mark, Patience patience,
                             uint16_t& v) {
  uint32_t word;
  receive_unit(words, i, mark, patience, word);
  v = static_cast<uint16_t>(word);
}

__device__ uint32_t first_unit() {
  return blockIdx.x * kGatherThreads + threadIdx.x;
}
__device__ uint32_t unit_step() {
  return gridDim.x * kGatherThreads;
}

// Slices in units of the gather.
template <typename Unit>
struct Slices {
  const GatherArguments& a;

  __device__ uint32_t of_row(int source) const {
    return static_cast<uint32_t>(a.starts[source + 1] - a.starts[source]) / sizeof(Unit);
  }
  __device__ uint32_t count(int source, int rows) const {
    return of_row(source) * static_cast<uint32_t>(rows);
  }
  // Writes unit i of a source's slice of rows `first_row` on to the result.
  __device__ void put(int source, int first_row, uint32_t i, Unit v) const {
    const uint32_t per_row = of_row(source), row = i / per_row;
    const uint64_t row_bytes = static_cast<uint64_t>(a.starts[a.num_shards]);
    uint8_t* to = a.output + (static_cast<uint64_t>(first_row) + row) * row_bytes + a.starts[source];
    reinterpret_cast<Unit*>(to)[i - row * per_row] = v;
  }
};

// Waits for something of every peer. A peer without columns, and a shard without a result, need no more.
template <typename Unit>
__device__ void meet_peers(const GatherArguments& a, const Slices<Unit>& slices, uint64_t epoch,
                           Patience patience) {
  const int peer = static_cast<int>(threadIdx.x);
  if (blockIdx.x != 0 || peer >= a.num_shards || peer == a.rank) return;
  const Inbox& own = a.inboxes[a.rank];
  if (slices.count(a.rank, a.rows) == 0) store_flag(a.inboxes[peer].flags + a.rank, epoch);
  if (slices.count(peer, a.rows) == 0) {
    wait_for_flag(own.flags + peer, epoch, patience);
  } else if (a.output == nullptr) {
    const uint64_t source = (epoch & 1) * static_cast<uint64_t>(a.num_shards) + static_cast<uint64_t>(peer);
    Unit ignored;
    receive_unit(own.words + source * a.source_words, 0, mark_of(epoch), patience, ignored);
  }
}

// Gathers a small result: each word that a peer writes carries a mark of the epoch, so nothing else is waited
// for.
template <typename Unit>
__global__ void __launch_bounds__(kGatherThreads) gather_inline(const __grid_constant__ GatherArguments a) {
  const uint64_t epoch = a.state->epoch;
  const uint32_t mark = mark_of(epoch);
  const Slices<Unit> slices{a};
  const Patience patience{a.control, static_cast<uint32_t>(a.rank)};
  const uint64_t first_source = (epoch & 1) * static_cast<uint64_t>(a.num_shards);
  const auto* const input = reinterpret_cast<const Unit*>(a.input);
  for (uint32_t i = first_unit(); i < slices.count(a.rank, a.rows); i += unit_step()) {
    const Unit v = input[i];
    const uint64_t words = (first_source + static_cast<uint64_t>(a.rank)) * a.source_words;
    for (int peer = 0; peer < a.num_shards; ++peer)
      if (peer != a.rank) send_unit(a.inboxes[peer].words + words, i, v, mark);
    if (a.output != nullptr) slices.put(a.rank, 0, i, v);
  }
  meet_peers(a, slices, epoch, patience);
  for (int peer = 0; peer < a.num_shards && a.output != nullptr; ++peer) {
    if (peer == a.rank) continue;
    const uint64_t words = (first_source + static_cast<uint64_t>(peer)) * a.source_words;
    for (uint32_t i = first_unit(); i < slices.count(peer, a.rows); i += unit_step()) {
      Unit v;
      receive_unit(a.inboxes[a.rank].words + words, i, mark, patience, v);
      slices.put(peer, 0, i, v);
    }
  }
  end_gather(a, epoch + 1);
}

// Publishes the slice to the block of this number of each peer, and waits for theirs.
__device__ void exchange_flags(const GatherArguments& a, uint64_t epoch, Patience patience) {
  __syncthreads();
  const int peer = static_cast<int>(threadIdx.x);
  if (peer < a.num_shards && peer != a.rank) {
    const uint64_t line = (1 + static_cast<uint64_t>(blockIdx.x)) * kFlagStride;
    store_flag(a.inboxes[peer].flags + line + a.rank, epoch);
    wait_for_flag(a.inboxes[a.rank].flags + line + peer, epoch, patience);
  }
  __syncthreads();
}

// Gathers a large result in rounds, each an epoch: slices are written to the inboxes of all peers and
// published by flags.
template <typename Unit>
__global__ void __launch_bounds__(kGatherThreads) gather_flagged(const __grid_constant__ GatherArguments a) {
  const uint64_t begin = a.state->epoch;
  const Slices<Unit> slices{a};
  const Patience patience{a.control, static_cast<uint32_t>(a.rank)};
  const auto* const input = reinterpret_cast<const Unit*>(a.input);
  for (int round = 0; round < a.rounds; ++round) {
    const uint64_t epoch = begin + static_cast<uint64_t>(round);
    const int first_row = round * a.rows_per_round;
    const int rows = min(a.rows_per_round, a.rows - first_row);
    const auto slice = [&](int owner, int source) {
      const uint64_t offset = slice_offset(a.rows_per_round, a.starts[source], source);
      return reinterpret_cast<Unit*>(a.inboxes[owner].bytes + (epoch & 1) * a.round_bytes + offset);
    };
    const uint64_t first_input = static_cast<uint64_t>(first_row) * slices.of_row(a.rank);
    for (uint32_t i = first_unit(); i < slices.count(a.rank, rows); i += unit_step()) {
      const Unit v = input[first_input + i];
      for (int peer = 0; peer < a.num_shards; ++peer)
        if (peer != a.rank) store_to_peer(slice(peer, a.rank) + i, v);
      if (a.output != nullptr) slices.put(a.rank, first_row, i, v);
    }
    exchange_flags(a, epoch, patience);
    for (int peer = 0; peer < a.num_shards && a.output != nullptr; ++peer) {
      if (peer == a.rank) continue;
      for (uint32_t i = first_unit(); i < slices.count(peer, rows); i += unit_step())
        slices.put(peer, first_row, i, load_from_peer(slice(a.rank, peer) + i));
    }
  }
  end_gather(a, begin + static_cast<uint64_t>(a.rounds));
}

using Kernel = void (*)(GatherArguments);

Kernel kernel_of(const GatherPlan& plan) {
  if (plan.is_inline) {
    if (plan.unit_bytes == 8) return gather_inline<uint2>;
    return plan.unit_bytes == 4 ? gather_inline<uint32_t> : gather_inline<uint16_t>;
  }
  if (plan.unit_bytes == 16) return gather_flagged<uint4>;
  return plan.unit_bytes == 4 ? gather_flagged<uint32_t> : gather_flagged<uint16_t>;
}

}  // namespace

// Not launched early (programmatic dependent launch): a gather may send only after all work before it.
cudaError_t launch_gather(const GatherArguments& arguments, const GatherPlan& plan, cudaStream_t stream) {
  return launch_kernel(kernel_of(plan), dim3(static_cast<unsigned>(plan.blocks)), dim3(kGatherThreads), 0,
                       stream, false, arguments);
}

cudaError_t setup_gather() {
  return load_kernels(gather_inline<uint2>, gather_inline<uint32_t>, gather_inline<uint16_t>,
                      gather_flagged<uint4>, gather_flagged<uint32_t>, gather_flagged<uint16_t>);
}

}  // namespace quire::kernels
