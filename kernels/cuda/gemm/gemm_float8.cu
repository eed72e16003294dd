// GEMM of E4M3 by E4M3 (wgmma) with warp specialization. Both operands are read from shared memory as stored,
// so a warp issues four products for a block of K and then scales their sums: 64 multiply-adds and 64 scales
// for 64 columns by 128 tokens, while the products of other warpgroups run. Bytes: the weights once per tile
// of tokens, the activations once per pair of blocks. A block of K of 128 columns by 128 tokens takes 512
// clocks of the tensor cores.
#include <type_traits>
#include <utility>

#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/gemm/gemm_float8.cuh"
#include "kernels/cuda/gemm/gemm_stages.cuh"
#include "kernels/cuda/gemm/gemm_wide.cuh"

namespace quire::kernels {
namespace {

// Work of a block: token tiles of kOctets octets by kGroups warpgroups, each with a tile of columns.
template <int kOctetsOf, int kGroupsOf>
struct Float8Kind {
  static constexpr int kOctets = kOctetsOf, kGroups = kGroupsOf;
  static constexpr bool kPairs = kOctets == kMaxFloat8Octets;
  static constexpr int kReaders = 4 * kGroups;  // consumer warps
  static constexpr uint32_t kActivationsAt = float8_activations_at(kGroups);
  static constexpr int kBlocksAtOnce = kOctets > 8 ? 1 : kOctets > 2 ? 2 : 4;  // blocks of K
  // Registers of a consumer thread, if more than the launch gives to every thread; otherwise 0.
  static constexpr int kRegisters = kGroups == kMaxFloat8Groups ? 160 : 0;
};

#if QUIRE_WARPGROUP_PRODUCTS

// Task of a thread block: its first tile of columns, and one tile of tokens.
struct Float8Task {
  int column_tile;
  int token_tile;
};

__device__ __forceinline__ Float8Task task_at(const Float8Arguments& a, int number) {
  const int columns = number / a.shape.token_tiles, rank = static_cast<int>(blockIdx.y) & a.shape.pairs;
  return {((columns << a.shape.pairs) + rank) * a.shape.groups, number - columns * a.shape.token_tiles};
}
__device__ __forceinline__ int first_task(const Float8Arguments& a) {
  return static_cast<int>(blockIdx.y) >> a.shape.pairs;
}
__device__ __forceinline__ int task_step(const Float8Arguments& a) {
  return static_cast<int>(gridDim.y) >> a.shape.pairs;
}

template <typename Kind>
class Float8Ring : public SlotRing {
 public:
  __device__ __forceinline__ Float8Ring(const Float8Shape& s, uint32_t base)
      : SlotRing(base + kFloat8SlotsAt, base, kPipelineSlotBytes, s.pipeline_slots) {}
  // A slot is full when its producer has arrived, and free when all consumer warps have read it: those of
  // both blocks in a pair.
  __device__ __forceinline__ void create() const { create_with(1, Kind::kReaders * (Kind::kPairs ? 2 : 1)); }
  // Called by a whole warp.
  __device__ __forceinline__ void release(int lane) const {
    __syncwarp();
    if (lane != 0) return;
    barrier_arrive(free_barrier());
    if constexpr (Kind::kPairs) arrive_in_pair(address_in_block(free_barrier(), (blockIdx.y & 1) ^ 1));
  }

 private:
  static constexpr uint32_t kPipelineSlotBytes = float8_slot_bytes(Kind::kOctets, Kind::kGroups);
};

// Source of a task's blocks of K, block after block: weights of its first tile, then of the next ones, and
// activations.
struct Float8Source {
  const uint8_t* weights;
  size_t tile_stride;
  int num_tiles;  // tiles that exist; may be less than one per group
  const uint8_t* tokens;
  size_t token_stride;

  template <typename Kind>
  static __device__ __forceinline__ Float8Source of(const Float8Arguments& a, const Float8Task& task) {
    constexpr uint32_t kTokens = float8_token_bytes(Kind::kOctets);
    const size_t stride = static_cast<size_t>(a.num_blocks) * kFloat8BlockBytes;
    return {a.tiles + task.column_tile * stride, stride,
            min(Kind::kGroups, a.column_tiles - task.column_tile),
            a.tokens + static_cast<size_t>(task.token_tile) * kTokens,
            static_cast<size_t>(a.shape.token_tiles) * kTokens};
  }
  __device__ __forceinline__ void next() {
    weights += kFloat8BlockBytes;
    tokens += token_stride;
  }
};

// Copies weights and activations with one lane. In a pair, each block copies half of the activations for
// both.
template <typename Kind>
__device__ __forceinline__ void copy_float8_block(const Float8Source& from, uint32_t stage, uint32_t full) {
  barrier_expect(full, float8_token_bytes(Kind::kOctets) + max(0, from.num_tiles) * kFloat8BlockBytes);
#pragma unroll
  for (int g = 0; g < Kind::kGroups; ++g)
    if (g < from.num_tiles)
      copy_bulk_expected(stage + g * kFloat8TileStride, from.weights + g * from.tile_stride,
                         kFloat8BlockBytes, full);
}
template <typename Kind>
__device__ __forceinline__ void copy_activations(const Float8Source& from, uint32_t stage, uint32_t full) {
  constexpr uint32_t kBytes = float8_token_bytes(Kind::kOctets);
  const uint32_t target = stage + Kind::kActivationsAt;
  if constexpr (Kind::kPairs) {
    const uint32_t half = (blockIdx.y & 1) * (kBytes / 2);
    copy_bulk_to_pair(target + half, from.tokens + half, kBytes / 2, full);
  } else {
    copy_bulk_expected(target, from.tokens, kBytes, full);
  }
}

// Runs producer warp `number`. Producers take turns: issuing a copy takes a warp about 100 clocks, and small
// token tiles are multiplied quickly. Copies of weights do not wait for the previous kernel.
template <typename Kind>
__device__ __forceinline__ void fill_float8(const Float8Arguments& a, uint32_t base, int number, int lane) {
  const int turns = producer_turns(a.shape.pipeline_slots);
  if (number >= turns) return;
  Float8Ring<Kind> ring(a.shape, base);
  bool waited = false;
  int until_turn = number;  // ring slots until this warp's turn
#pragma unroll 1
  for (int task = first_task(a); task < a.shape.tasks; task += task_step(a)) {
    Float8Source from = Float8Source::of<Kind>(a, task_at(a, task));
#pragma unroll 1
    for (int block = 0; block < a.num_blocks; ++block, ring.next(), from.next()) {
      if (until_turn-- > 0) continue;
      until_turn = turns - 1;
      if (lane == 0) {
        ring.wait_until_free();
        copy_float8_block<Kind>(from, ring.address(), ring.full_barrier());
      }
      if (!waited) wait_for_predecessor();
      waited = true;
      if (lane == 0) copy_activations<Kind>(from, ring.address(), ring.full_barrier());
      __syncwarp();
    }
  }
}

// Returns a wgmma descriptor: the next eight rows follow after 1,024 bytes; 128-byte swizzle.
__device__ __forceinline__ uint64_t float8_operand(uint32_t address) {
  return (address & 0x3ffffU) >> 4 | uint64_t{1} << 16 | uint64_t{kFloat8OctetBytes >> 4} << 32 |
         uint64_t{1} << 62;
}

// sums = a tile of columns by a tile of tokens, for a block of K. Runs asynchronously: see wait_for_products.
template <int kOctets>
__device__ __forceinline__ void start_float8(HalfSums<kOctets>& sums, uint32_t weights, uint32_t codes) {
  constexpr int kAtOnce = 32;  // bytes of K
  const uint64_t a = float8_operand(weights), b = float8_operand(codes);
  begin_products();
  multiply_float8<false>(sums, a, b);
#pragma unroll
  for (int k = 1; k < kBlockRows / kAtOnce; ++k)
    multiply_float8<true>(sums, a + k * (kAtOnce >> 4), b + k * (kAtOnce >> 4));
  commit_products();
}

// sums += products of a block, scaled.
template <int kOctets>
__device__ __forceinline__ void add_all_scaled(uint32_t stage, const Float8Places& at,
                                               const HalfSums<kOctets>& products, HalfSums<kOctets>& sums) {
  const Float8ColumnScales columns = column_scales(stage, at);
#pragma unroll
  for (int n = 0; n < kOctets; ++n) add_scaled(stage, at, columns, n, products[n], sums[n]);
}

// Multiplies the next kCount blocks of K: starts all of their products before it scales the first.
template <typename Kind, int kCount>
__device__ __forceinline__ void multiply_some(Float8Ring<Kind>& ring, const Float8Places& at, int lane,
                                              HalfSums<Kind::kOctets>& sums) {
  constexpr int kOctets = Kind::kOctets;
  HalfSums<kOctets> products[kCount];
  Float8Ring<Kind> done = ring;
#pragma unroll
  for (int i = 0; i < kCount; ++i, ring.next()) {
    ring.wait_until_full();
    start_float8<kOctets>(products[i], ring.address() + at.weights, ring.address() + Kind::kActivationsAt);
  }
  const auto finish = [&]<int i>(std::integral_constant<int, i>) {
    wait_for_products<kCount - 1 - i>();
    add_all_scaled<kOctets>(done.address(), at, products[i], sums);
    done.release(lane);
    done.next();
  };
  [&]<int... i>(std::integer_sequence<int, i...>) {
    (finish(std::integral_constant<int, i>{}), ...);
  }
  (std::make_integer_sequence<int, kCount>{});
}

// sums += the products of all blocks of K in order. Small token tiles have registers for the products of
// several blocks; one at a time, the warp would wait for each.
template <typename Kind>
__device__ __forceinline__ void multiply_blocks(const Float8Arguments& a, Float8Ring<Kind>& ring, int warp,
                                                int lane, HalfSums<Kind::kOctets>& sums) {
  constexpr int kAtOnce = Kind::kBlocksAtOnce;
  const Float8Places at = float8_places(Kind::kOctets, Kind::kGroups, warp, lane);
  int block = 0;
#pragma unroll 1
  for (; block + kAtOnce <= a.num_blocks; block += kAtOnce)
    multiply_some<Kind, kAtOnce>(ring, at, lane, sums);
  if constexpr (kAtOnce > 1) {
#pragma unroll 1
    for (; block < a.num_blocks; ++block) multiply_some<Kind, 1>(ring, at, lane, sums);
  }
}

// Runs a consumer warp: 16 columns of its warpgroup's tile by the tokens.
template <typename Kind>
__device__ __forceinline__ void read_float8(const Float8Arguments& a, uint32_t base, int warp, int lane) {
  Float8Ring<Kind> ring(a.shape, base);
  wait_for_predecessor();
#pragma unroll 1
  for (int number = first_task(a); number < a.shape.tasks; number += task_step(a)) {
    const Float8Task task = task_at(a, number);
    HalfSums<Kind::kOctets> sums;
    fill_half<Kind::kOctets>(sums, 0.0f);
    multiply_blocks<Kind>(a, ring, warp, lane, sums);
    finish_float8<Kind::kOctets>(a, columns_of(a, task.column_tile + (warp >> 2), warp, lane),
                                 task.token_tile * (Kind::kOctets * kFloat8Octet) + 2 * (lane & 3), sums);
  }
}

#endif

// For a card without these products the kernel is empty and no block is launched: see setup_gemm_float8.
template <typename Kind>
constexpr int kBounds = QUIRE_WARPGROUP_PRODUCTS ? float8_threads(Kind::kGroups) : 32;

template <typename Kind>
__global__ void __launch_bounds__(kBounds<Kind>, float8_blocks_at_once(Kind::kOctets, Kind::kGroups))
    gemm_float8_kernel(const __grid_constant__ Float8Arguments a) {
#if QUIRE_WARPGROUP_PRODUCTS
  extern __shared__ __align__(1024) uint8_t shared[];
  release_successor();
  const int warp = static_cast<int>(uniform(threadIdx.x >> 5)), lane = lane_index();
  const uint32_t base = shared_address(shared);
  if (threadIdx.x == 0) Float8Ring<Kind>(a.shape, base).create();
  if constexpr (Kind::kPairs) sync_cluster();
  __syncthreads();
  if (warp < Kind::kReaders) {
    if constexpr (Kind::kRegisters > 0) acquire_registers<Kind::kRegisters>();
    read_float8<Kind>(a, base, warp, lane);
  } else {
    if constexpr (Kind::kRegisters > 0) release_registers<24>();
    fill_float8<Kind>(a, base, warp - Kind::kReaders, lane);
  }
  if constexpr (Kind::kPairs)
    sync_cluster();  // a block must not end while the other one still copies to its
                     // memory
#endif
}

// Calls with the kernel of every kind.
template <typename Call>
void each_kind(Call call) {
  call(gemm_float8_kernel<Float8Kind<1, 1>>, 1, 1);
  call(gemm_float8_kernel<Float8Kind<1, 2>>, 1, 2);
  call(gemm_float8_kernel<Float8Kind<2, 1>>, 2, 1);
  call(gemm_float8_kernel<Float8Kind<2, 2>>, 2, 2);
  call(gemm_float8_kernel<Float8Kind<4, 1>>, 4, 1);
  call(gemm_float8_kernel<Float8Kind<4, 2>>, 4, 2);
  call(gemm_float8_kernel<Float8Kind<8, 1>>, 8, 1);
  call(gemm_float8_kernel<Float8Kind<8, 2>>, 8, 2);
  call(gemm_float8_kernel<Float8Kind<16, 1>>, 16, 1);
  call(gemm_float8_kernel<Float8Kind<16, 2>>, 16, 2);
  call(gemm_float8_kernel<Float8Kind<16, 3>>, 16, 3);
}

}  // namespace

cudaError_t launch_gemm_float8(const Float8Arguments& a, cudaStream_t stream, bool dependent) {
  const Float8Shape& s = a.shape;
  const dim3 cluster(1, s.pairs != 0 ? 2 : 1), grid(1, static_cast<unsigned>(s.blocks)),
      block(static_cast<unsigned>(float8_threads(s.groups)));
  cudaError_t error = cudaErrorNotSupported;
  each_kind([&](auto kernel, int octets, int groups) {
    if (octets == s.octets && groups == s.groups)
      error = launch_clusters(cluster, kernel, grid, block, s.shared_bytes, stream, dependent, a);
  });
  return error;
}

cudaError_t setup_gemm_float8(int shared_limit, bool* available) {
  return setup_kinds([](auto call) { each_kind(call); }, float8_threads, shared_limit, available);
}

}  // namespace quire::kernels
