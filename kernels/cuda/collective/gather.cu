// All-gather of columns over cards.
#include <cstring>

#include "kernels/cuda/collective/gather.cuh"
#include "kernels/cuda/device/launch.cuh"

namespace quire::kernels {
namespace {

// Units that a thread loads before it uses the first of them.
constexpr int kUnitsAtOnce = 4;

// Waits until a peer has sent this epoch or a later one.
__device__ void wait_for_flag(const uint64_t* flag, uint64_t epoch, Patience patience) {
  while (load_flag(flag) < epoch && !patience.is_over()) {
  }
}

// Words that carry a unit of a slice.
__device__ void send_unit(uint64_t* words, uint64_t i, uint2 v, uint32_t mark) {
  store_words(words + 2 * i, make_ulonglong2(marked(v.x, mark), marked(v.y, mark)));
}
__device__ void send_unit(uint64_t* words, uint64_t i, uint32_t v, uint32_t mark) {
  store_word(words + i, marked(v, mark));
}
__device__ void send_unit(uint64_t* words, uint64_t i, uint16_t v, uint32_t mark) {
  send_unit(words, i, static_cast<uint32_t>(v), mark);
}

// Loads a unit; returns true if it is of this epoch.
__device__ bool receive_unit(const uint64_t* words, uint64_t i, uint32_t mark, uint2& v) {
  const ulonglong2 got = load_words(words + 2 * i);
  v = make_uint2(static_cast<uint32_t>(got.x), static_cast<uint32_t>(got.y));
  return got.x >> 32 == mark && got.y >> 32 == mark;
}
__device__ bool receive_unit(const uint64_t* words, uint64_t i, uint32_t mark, uint32_t& v) {
  const uint64_t got = load_word(words + i);
  v = static_cast<uint32_t>(got);
  return got >> 32 == mark;
}
__device__ bool receive_unit(const uint64_t* words, uint64_t i, uint32_t mark, uint16_t& v) {
  const uint64_t got = load_word(words + i);
  v = static_cast<uint16_t>(got);
  return got >> 32 == mark;
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
  // Returns unit i of the own slice of rows `first_row` on.
  __device__ Unit get(int first_row, uint32_t i) const {
    const uint32_t per_row = of_row(a.rank), row = i / per_row;
    const uint8_t* from =
        a.input + (static_cast<uint64_t>(first_row) + row) * static_cast<uint64_t>(a.input_stride);
    return reinterpret_cast<const Unit*>(from)[i - row * per_row];
  }
  // Writes unit i of a source's slice of rows `first_row` on to the result.
  __device__ void put(int source, int first_row, uint32_t i, Unit v) const {
    const uint32_t per_row = of_row(source), row = i / per_row;
    const uint64_t row_bytes = static_cast<uint64_t>(a.starts[a.num_shards]);
    uint8_t* const to = a.output + (static_cast<uint64_t>(first_row) + row) * row_bytes;
    const uint32_t at = static_cast<uint32_t>(a.starts[source]) / sizeof(Unit) + i - row * per_row;
    if (a.place == nullptr) {
      reinterpret_cast<Unit*>(to)[at] = v;
    } else {
      put_scattered(reinterpret_cast<uint16_t*>(to), at, v);
    }
  }

 private:
  __device__ void put_scattered(uint16_t* row, uint32_t at, Unit v) const {
    constexpr uint32_t kElements = sizeof(Unit) / sizeof(uint16_t);
    uint16_t elements[kElements];
    memcpy(elements, &v, sizeof(Unit));
#pragma unroll
    for (uint32_t e = 0; e < kElements; ++e) row[__ldg(a.place + at * kElements + e)] = elements[e];
  }
};

// Calls visit(i, values of units i, i + unit_step() and so on, how many) for all units of a thread.
template <typename Unit, typename Load, typename Visit>
__device__ __forceinline__ void each_units(uint32_t count, Load load, Visit visit) {
  for (uint32_t first = first_unit(); first < count; first += kUnitsAtOnce * unit_step()) {
    Unit v[kUnitsAtOnce];
    load(first, v);
#pragma unroll
    for (int j = 0; j < kUnitsAtOnce; ++j) {
      const uint32_t i = first + j * unit_step();
      if (i < count) visit(i, v[j]);
    }
  }
}

// Loads the units of the own slice of rows `first_row` on that a thread handles at once.
template <typename Unit>
__device__ __forceinline__ void load_own(const Slices<Unit>& slices, int first_row, uint32_t count,
                                         uint32_t first, Unit (&v)[kUnitsAtOnce]) {
#pragma unroll
  for (int j = 0; j < kUnitsAtOnce; ++j)
    if (const uint32_t i = first + j * unit_step(); i < count) v[j] = slices.get(first_row, i);
}

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
    Unit ignored;
    while (!receive_unit(own.words + source_at(a, epoch, peer), 0, mark_of(epoch), ignored) &&
           !patience.is_over()) {
    }
  }
}

// Gathers a small result: each word that a peer writes carries a mark of the epoch, so nothing else is waited
// for.
template <typename Unit>
__global__ void __launch_bounds__(kGatherThreads + kCountingThreads, 2)
    gather_inline(const __grid_constant__ GatherArguments a) {
  begin_gather(a);
  const Slices<Unit> slices{a};
  const uint32_t own_count = slices.count(a.rank, a.rows);
  Unit ahead[kUnitsAtOnce];  // the first units, loaded while the epoch comes
  load_own(slices, 0, own_count, first_unit(), ahead);
  const uint64_t epoch = read_epoch(a);
  if (threadIdx.x >= kGatherThreads) return advance_epoch(a, epoch + 1);
  const uint32_t mark = mark_of(epoch);
  each_units<Unit>(
      own_count,
      [&](uint32_t first, Unit(&v)[kUnitsAtOnce]) {
        if (first != first_unit()) load_own(slices, 0, own_count, first, ahead);
#pragma unroll
        for (int j = 0; j < kUnitsAtOnce; ++j) v[j] = ahead[j];
      },
      [&](uint32_t i, Unit v) {
        for (int peer = 0; peer < a.num_shards; ++peer)
          if (peer != a.rank) send_unit(a.inboxes[peer].words + source_at(a, epoch, a.rank), i, v, mark);
        if (a.output != nullptr) slices.put(a.rank, 0, i, v);
      });
  meet_peers(a, slices, epoch, Patience(a));
  for (int peer = 0; peer < a.num_shards && a.output != nullptr; ++peer) {
    if (peer == a.rank) continue;
    const uint64_t* const words = a.inboxes[a.rank].words + source_at(a, epoch, peer);
    const uint32_t count = slices.count(peer, a.rows);
    each_units<Unit>(
        count,
        [&](uint32_t first, Unit(&v)[kUnitsAtOnce]) {
          Patience patience(a);
          for (bool all = false; !all; all = all || patience.is_over()) {
            all = true;
#pragma unroll
            for (int j = 0; j < kUnitsAtOnce; ++j)
              if (const uint32_t i = first + j * unit_step(); i < count)
                all = receive_unit(words, i, mark, v[j]) && all;
          }
        },
        [&](uint32_t i, Unit v) { slices.put(peer, 0, i, v); });
  }
}

// Publishes the slice to the block of this number of each peer, and waits for theirs.
__device__ void exchange_flags(const GatherArguments& a, uint64_t epoch) {
  __syncthreads();
  const int peer = static_cast<int>(threadIdx.x);
  if (peer < a.num_shards && peer != a.rank) {
    const uint64_t line = (1 + static_cast<uint64_t>(blockIdx.x)) * kFlagStride;
    store_flag(a.inboxes[peer].flags + line + a.rank, epoch);
    wait_for_flag(a.inboxes[a.rank].flags + line + peer, epoch, Patience(a));
  }
  __syncthreads();
}

// Gathers a large result in rounds, each an epoch: slices are written to the inboxes of all peers and
// published by flags.
template <typename Unit>
__global__ void __launch_bounds__(kGatherThreads + kCountingThreads, 2)
    gather_flagged(const __grid_constant__ GatherArguments a) {
  begin_gather(a);
  const uint64_t begin = read_epoch(a);
  if (threadIdx.x >= kGatherThreads) return advance_epoch(a, begin + static_cast<uint64_t>(a.rounds));
  const Slices<Unit> slices{a};
  for (int round = 0; round < a.rounds; ++round) {
    const uint64_t epoch = begin + static_cast<uint64_t>(round);
    const int first_row = round * a.rows_per_round;
    const int rows = min(a.rows_per_round, a.rows - first_row);
    const auto slice = [&](int owner, int source) {
      const uint64_t offset = slice_offset(a.rows_per_round, a.starts[source], source);
      return reinterpret_cast<Unit*>(a.inboxes[owner].bytes + (epoch & 1) * a.round_bytes + offset);
    };
    const uint32_t own_count = slices.count(a.rank, rows);
    each_units<Unit>(
        own_count,
        [&](uint32_t first, Unit(&v)[kUnitsAtOnce]) { load_own(slices, first_row, own_count, first, v); },
        [&](uint32_t i, Unit v) {
          for (int peer = 0; peer < a.num_shards; ++peer)
            if (peer != a.rank) store_to_peer(slice(peer, a.rank) + i, v);
          if (a.output != nullptr) slices.put(a.rank, first_row, i, v);
        });
    exchange_flags(a, epoch);
    for (int peer = 0; peer < a.num_shards && a.output != nullptr; ++peer) {
      if (peer == a.rank) continue;
      for (uint32_t i = first_unit(); i < slices.count(peer, rows); i += unit_step())
        slices.put(peer, first_row, i, load_from_peer(slice(a.rank, peer) + i));
    }
  }
}

__global__ void announce_weights_kernel(GatherControl* control, int32_t rank, uint32_t awaits) {
  release_successor();
  wait_for_predecessor();
  store_shared(&control->awaits_weights[rank], awaits);
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

cudaError_t launch_gather(const GatherArguments& arguments, const GatherPlan& plan, Launch l) {
  return launch_kernel(kernel_of(plan), dim3(static_cast<unsigned>(plan.blocks)),
                       dim3(kGatherThreads + kCountingThreads), 0, l.stream, l.dependent, arguments);
}

cudaError_t launch_announce_weights(GatherControl* control, int32_t rank, bool awaits, Launch l) {
  return launch_kernel(announce_weights_kernel, dim3(1), dim3(1), 0, l.stream, l.dependent, control, rank,
                       awaits ? 1U : 0U);
}

cudaError_t setup_gather() {
  return load_kernels(gather_inline<uint2>, gather_inline<uint32_t>, gather_inline<uint16_t>,
                      gather_flagged<uint4>, gather_flagged<uint32_t>, gather_flagged<uint16_t>,
                      announce_weights_kernel);
}

}  // namespace quire::kernels
