// GEMM of E4M3 by E4M3 on cards without warpgroup products: mma.sync, cp.async.
//
// The four warps of a group multiply a tile of 64 columns, 16 each, by all tokens of the tile. All warps of a
// block copy a block of K of the weights and the activations to a ring slot, several slots ahead of the one
// that they multiply, and meet once per slot.
//
// A warp multiplies 16 columns by 128 tokens by 128 of K with 64 products (mma) of 4,096 multiply-adds. It
// reads 18 KB of shared memory for them, 144 clocks of a multiprocessor; at 512 multiply-adds per clock, the
// peak rate of compute capability 8.9, the products take 512. A warp keeps its operand of the weights for all
// tokens of a block of K, and scales the sums of 8 tokens before it multiplies the next, so that products
// take few registers.
//
// Codes are multiplied and summed in the order of K within a block, then scaled and added to the earlier
// blocks, for every tile in the same order.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/gemm/gemm_float8.cuh"

// Compute capability 8.9 and 12.0. On 9.0 and 10.0 the compiler replaces such a product by conversions and
// two products of f16, which are no faster than full activations.
#if (__CUDA_ARCH__ >= 890 && __CUDA_ARCH__ < 900) || __CUDA_ARCH__ >= 1200
#define QUIRE_FLOAT8_STRIPS 1
#else
#define QUIRE_FLOAT8_STRIPS 0
#endif

namespace quire::kernels {
namespace {

// Work of a block: token tiles of kOctets octets by kGroups tiles of columns.
template <int kOctetsOf, int kGroupsOf>
struct StripsKind {
  static constexpr int kOctets = kOctetsOf, kGroups = kGroupsOf;
  static constexpr int kThreads = float8_strip_threads(kGroups);
};

#if QUIRE_FLOAT8_STRIPS

// The blocks of K of a thread block's tasks, in the order of work.
class Float8Walk {
 public:
  __device__ __forceinline__ explicit Float8Walk(const Float8Arguments& a)
      : a_(a), task_(static_cast<int>(blockIdx.y)) {}
  __device__ __forceinline__ bool valid() const { return task_ < a_.shape.tasks; }
  __device__ __forceinline__ int column_tile() const {
    return task_ / a_.shape.token_tiles * a_.shape.groups;
  }
  __device__ __forceinline__ int token_tile() const { return task_ % a_.shape.token_tiles; }
  __device__ __forceinline__ int block() const { return block_; }
  __device__ __forceinline__ void next() {
    if (++block_ < a_.num_blocks) return;
    block_ = 0;
    next_task();
  }
  __device__ __forceinline__ void next_task() { task_ += static_cast<int>(gridDim.y); }

 private:
  const Float8Arguments& a_;
  int task_;
  int block_ = 0;
};

// Copies kBytes with all threads of the block.
template <uint32_t kBytes, int kThreads>
__device__ __forceinline__ void copy_together(uint32_t target, const uint8_t* source) {
#pragma unroll
  for (uint32_t first = 0; first < kBytes; first += kThreads * 16) {
    const uint32_t at = first + threadIdx.x * 16;
    if (at < kBytes) copy_async_16(target + at, source + at);
  }
}

// Fills ring slots ahead of the products.
template <typename Kind>
class Float8StripRing {
 public:
  __device__ __forceinline__ Float8StripRing(const Float8Arguments& a, uint32_t base)
      : a_(a), walk_(a), slots_(base + kFloat8SlotsAt) {
#pragma unroll 1
    for (int i = 1; i < a.shape.pipeline_slots; ++i) copy_block();
  }
  // Waits for the next slot and returns its address. Then fills the slot that was returned before, which no
  // warp reads any more.
  __device__ __forceinline__ uint32_t take() {
    wait_for_slot();
    __syncthreads();
    copy_block();
    const uint32_t slot = slots_ + reading_ * kSlotBytes;
    if (++reading_ == a_.shape.pipeline_slots) reading_ = 0;
    return slot;
  }

 private:
  static constexpr uint32_t kSlotBytes = float8_slot_bytes(Kind::kOctets, Kind::kGroups);

  __device__ __forceinline__ void copy_block() {
    if (walk_.valid()) {
      const uint32_t slot = slots_ + filling_ * kSlotBytes;
      const size_t of_tile = static_cast<size_t>(a_.num_blocks) * kFloat8BlockBytes;
#pragma unroll
      for (int g = 0; g < Kind::kGroups; ++g) {
        const int tile = walk_.column_tile() + g;
        if (tile < a_.column_tiles)
          copy_together<kFloat8BlockBytes, Kind::kThreads>(
              slot + g * kFloat8TileStride,
              a_.tiles + tile * of_tile + static_cast<size_t>(walk_.block()) * kFloat8BlockBytes);
      }
      constexpr uint32_t kTokens = float8_token_bytes(Kind::kOctets);
      copy_together<kTokens, Kind::kThreads>(
          slot + float8_activations_at(Kind::kGroups),
          a_.tokens +
              (static_cast<size_t>(walk_.block()) * a_.shape.token_tiles + walk_.token_tile()) * kTokens);
      walk_.next();
      if (++filling_ == a_.shape.pipeline_slots) filling_ = 0;
    }
    commit_copies();
  }
  // One group of copies is committed per slot, and all slots but one are ahead of the reader.
  __device__ __forceinline__ void wait_for_slot() const {
    static_assert(kMaxFloat8StripSlots == 4);
    switch (a_.shape.pipeline_slots) {
      case 2:
        return wait_for_copies<0>();
      case 3:
        return wait_for_copies<1>();
      default:
        return wait_for_copies<2>();
    }
  }

  const Float8Arguments& a_;
  Float8Walk walk_;
  uint32_t slots_;
  int reading_ = 0;
  int filling_ = 0;
};

// Returns the address of the 16 bytes from 16 * piece on of row `row` of codes.
__device__ __forceinline__ uint32_t codes_at(uint32_t codes, int row, int piece) {
  return codes + (row >> 3) * kFloat8OctetBytes + float8_place(row, piece * 16);
}

// sums += the products of a block of K, scaled.
template <typename Kind>
__device__ __forceinline__ void multiply_strip_block(uint32_t slot, const Float8Places& at, int warp,
                                                     int lane, HalfSums<Kind::kOctets>& sums) {
  constexpr int kSteps = kBlockRows / 32;
  uint32_t weights[kSteps][4];
#pragma unroll
  for (int k = 0; k < kSteps; ++k)
    load_matrices(weights[k],
                  codes_at(slot + at.weights, 16 * (warp & 3) + (lane & 15), 2 * k + (lane >> 4)));
  const Float8ColumnScales columns = column_scales(slot, at);
  const uint32_t tokens = slot + float8_activations_at(Kind::kGroups);
#pragma unroll
  for (int n = 0; n < Kind::kOctets; ++n) {
    float products[4] = {};
#pragma unroll
    for (int k = 0; k < kSteps; k += 2) {
      uint32_t b[4];  // of two steps
      load_matrices(b, codes_at(tokens, 8 * n + (lane & 7), 2 * k + (lane >> 3)));
      mma_16x8x32_e4m3(products, weights[k], b[0], b[1]);
      mma_16x8x32_e4m3(products, weights[k + 1], b[2], b[3]);
    }
    add_scaled(slot, at, columns, n, products, sums[n]);
  }
}

#endif

// For a card without these products the kernel is empty and no block is launched: see
// setup_gemm_float8_strips.
template <typename Kind>
constexpr int kBounds = QUIRE_FLOAT8_STRIPS ? Kind::kThreads : 32;

template <typename Kind>
__global__ void __launch_bounds__(kBounds<Kind>, float8_strip_blocks(Kind::kOctets, Kind::kGroups))
    gemm_float8_strips_kernel(const __grid_constant__ Float8Arguments a) {
#if QUIRE_FLOAT8_STRIPS
  extern __shared__ __align__(1024) uint8_t shared[];
  release_successor();
  const int warp = static_cast<int>(uniform(threadIdx.x >> 5)), lane = lane_index();
  const Float8Places at = float8_places(Kind::kOctets, Kind::kGroups, warp, lane);
  wait_for_predecessor();
  Float8StripRing<Kind> ring(a, shared_address(shared));
#pragma unroll 1
  for (Float8Walk task(a); task.valid(); task.next_task()) {
    HalfSums<Kind::kOctets> sums;
    fill_half<Kind::kOctets>(sums, 0.0f);
#pragma unroll 1
    for (int block = 0; block < a.num_blocks; ++block)
      multiply_strip_block<Kind>(ring.take(), at, warp, lane, sums);
    finish_float8<Kind::kOctets>(a, columns_of(a, task.column_tile() + (warp >> 2), warp, lane),
                                 task.token_tile() * (Kind::kOctets * kFloat8Octet) + 2 * (lane & 3), sums);
  }
#endif
}

// Calls with the kernel of every kind.
template <typename Call>
void each_kind(Call call) {
  call(gemm_float8_strips_kernel<StripsKind<1, 1>>, 1, 1);
  call(gemm_float8_strips_kernel<StripsKind<1, 2>>, 1, 2);
  call(gemm_float8_strips_kernel<StripsKind<2, 1>>, 2, 1);
  call(gemm_float8_strips_kernel<StripsKind<2, 2>>, 2, 2);
  call(gemm_float8_strips_kernel<StripsKind<4, 1>>, 4, 1);
  call(gemm_float8_strips_kernel<StripsKind<4, 2>>, 4, 2);
  call(gemm_float8_strips_kernel<StripsKind<8, 1>>, 8, 1);
  call(gemm_float8_strips_kernel<StripsKind<8, 2>>, 8, 2);
  call(gemm_float8_strips_kernel<StripsKind<16, 1>>, 16, 1);
  call(gemm_float8_strips_kernel<StripsKind<16, 2>>, 16, 2);
}

}  // namespace

cudaError_t launch_gemm_float8_strips(const Float8Arguments& a, cudaStream_t stream, bool dependent) {
  const Float8Shape& s = a.shape;
  const dim3 grid(1, static_cast<unsigned>(s.blocks)),
      block(static_cast<unsigned>(float8_strip_threads(s.groups)));
  cudaError_t error = cudaErrorNotSupported;
  each_kind([&](auto kernel, int octets, int groups) {
    if (octets == s.octets && groups == s.groups)
      error = launch_kernel(kernel, grid, block, s.shared_bytes, stream, dependent, a);
  });
  return error;
}

cudaError_t setup_gemm_float8_strips(int shared_limit, bool* available) {
  return setup_kinds([](auto call) { each_kind(call); }, float8_strip_threads, shared_limit, available);
}

}  // namespace quire::kernels
