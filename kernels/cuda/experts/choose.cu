// The router's product and the choice of experts (MoE) in one kernel, for the tokens of one tile of the
// narrow kernel. Its blocks form a cluster. They send their logits to the first block as they compute them,
// and that block chooses. Such stores need no fence; a fence would cost as much as a round trip to memory.
#include <algorithm>

#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/experts/choose.h"
#include "kernels/cuda/experts/route.cuh"
#include "kernels/cuda/gemm/gemm_narrow.cuh"

namespace quire::kernels {
namespace {

// Blocks of a cluster: at most 8, which every card with clusters supports. At least 2, because a cluster
// launch of one block is not a cluster, and these stores are illegal instructions there.
constexpr int32_t kMaxBlocks = 8, kMinBlocks = 2;
constexpr int32_t kMaxRows = 8;
static_assert(kMaxRows <= kNarrowWarps);

// Layout after the memory of the shape: a barrier, then the tables of all rows.
constexpr uint32_t kTablesAt = 16;
uint32_t choice_bytes(int32_t rows, int32_t num_experts) {
  return kTablesAt + static_cast<uint32_t>(rows * route_floats(num_experts)) * sizeof(float);
}

// The product as its blocks compute it.
struct ChoiceWork {
  const Matrix& matrix;
  const GemmShape& shape;
  const __half* input;
  int input_stride;
  const Epilogue& epilogue;
  int row_bytes;     // bytes from one row's table to the next
  uint32_t tables;   // address in the first block
  uint32_t barrier;  // address in the first block
};

__device__ __forceinline__ int output_row(const ChoiceWork&, int token) {
  return token;
}
__device__ __forceinline__ void store_result(const ChoiceWork& a, int row, int column, float value) {
  if (a.matrix.bias != nullptr) value += a.matrix.bias[column];
  a.epilogue.output_f32[static_cast<size_t>(row) * a.epilogue.stride + column] = value;
  store_in_block(a.tables + row * a.row_bytes + column * 4, __float_as_uint(value), a.barrier);
}

// kEach: supports up to 32 * kEach experts. kOneRow: one token, and the product computes its norm if there is
// one.
template <int kEach, bool kOneRow>
__global__ void __launch_bounds__(kNarrowThreads) choose_kernel(const __grid_constant__ ChoiceArguments a) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) uint8_t shared[];
  release_successor();
  const GemmArguments& product = a.product;
  const int num_experts = a.route.num_experts;
  uint8_t* own = shared + product.shape.shared_bytes;
  const uint32_t barrier = shared_address(own);
  if (threadIdx.x == 0 && blockIdx.y == 0) {
    barrier_init(barrier, 1);
    fence_barrier_init();
  }
  sync_cluster();
  if (threadIdx.x == 0 && blockIdx.y == 0) barrier_expect(barrier, product.rows * num_experts * 4);
  const ChoiceWork work = {product.matrix,
                           product.shape,
                           product.input,
                           product.input_stride,
                           product.epilogue,
                           route_floats(num_experts) * 4,
                           address_in_block(barrier + kTablesAt, 0),
                           address_in_block(barrier, 0)};
  multiply_narrow<TileKind::dense, kOneRow>(
      work, shared, 0, product.rows, [&](const ChainShare& share, int lane) {
        load_row<TileKind::dense>(product, shared, share, lane);
        if (product.norm.input == nullptr || blockIdx.y != 0) return;
        const auto* row = reinterpret_cast<const __half*>(shared + product.shape.activations_at);
        copy_normed_row(row, product.matrix.num_rows, static_cast<__half*>(product.norm.output));
      });
  const int row = static_cast<int>(threadIdx.x >> 5);
  if (blockIdx.y != 0 || row >= product.rows) return;
  barrier_wait(barrier, 0);
  auto* tables = reinterpret_cast<float*>(own + kTablesAt);
  route_row<kEach>(a.route, row, tables + row * route_floats(num_experts), threadIdx.x & 31);
#endif
}

using ChooseKernel = void (*)(ChoiceArguments);

template <bool kOneRow>
ChooseKernel kernel_for(int32_t num_experts) {
  return num_experts <= 128   ? choose_kernel<4, kOneRow>
         : num_experts <= 256 ? choose_kernel<8, kOneRow>
                              : choose_kernel<kMaxExperts / 32, kOneRow>;
}

}  // namespace

bool choice_fits(const CardLimits& card, const Matrix& router, const GemmShape& shape, int32_t rows,
                 int32_t num_experts) {
  return router.kind == TileKind::dense && shape.tiles == 1 && rows <= kMaxRows &&
         shape.shared_bytes + choice_bytes(rows, num_experts) <= card.shared_per_block;
}

cudaError_t launch_choose(const ChoiceArguments& arguments, Launch l) {
  ChoiceArguments a = arguments;
  const int32_t rows = a.product.rows, num_experts = a.route.num_experts;
  const uint32_t own_bytes = choice_bytes(rows, num_experts);
  a.product.shape.blocks = std::clamp(a.product.shape.blocks, kMinBlocks, kMaxBlocks);
  const auto blocks = static_cast<unsigned>(a.product.shape.blocks);
  const auto kernel = rows == 1 ? kernel_for<true>(num_experts) : kernel_for<false>(num_experts);
  return launch_clusters(dim3(1, blocks), kernel, dim3(1, blocks), dim3(kNarrowThreads),
                         a.product.shape.shared_bytes + own_bytes, l.stream, l.dependent, a);
}

cudaError_t setup_choose(int shared_limit) {
  for (const int32_t num_experts : {128, 256, kMaxExperts}) {
    for (const auto kernel : {kernel_for<true>(num_experts), kernel_for<false>(num_experts)}) {
      const cudaError_t error =
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_limit);
      if (error != cudaSuccess) return error;
    }
  }
  return cudaSuccess;
}

}  // namespace quire::kernels
