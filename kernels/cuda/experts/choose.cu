// The router's product and the choice after it in one kernel, for the tokens of one tile of the narrow
// kernel: its blocks are a cluster, and once all have written their logits the first one chooses.
#include <algorithm>

#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/experts/choose.h"
#include "kernels/cuda/experts/route.cuh"
#include "kernels/cuda/gemm/gemm_narrow.cuh"

namespace quire::kernels {
namespace {

constexpr int32_t kMostBlocks = 8;  // of a cluster on every card that has them
constexpr int32_t kMostRows = 8;
static_assert(kMostRows <= kNarrowWarps);

// kEach: of up to 32 * kEach experts. kOneRow: one token, whose norm the product takes where it is to.
template <int kEach, bool kOneRow>
__global__ void __launch_bounds__(kNarrowThreads) choose_kernel(const __grid_constant__ ChoiceArguments a) {
  extern __shared__ __align__(128) uint8_t shared[];
  release_successor();
  const GemmArguments& product = a.product;
  multiply_narrow<TileKind::dense, kOneRow>(
      product, shared, 0, product.rows, [&](const ChainShare& share, int lane) {
        bring_row<TileKind::dense>(product, shared, share, lane);
        if (product.norm.input == nullptr || blockIdx.y != 0) return;
        const auto* row = reinterpret_cast<const __half*>(shared + product.shape.activations_at);
        copy_normed_row(row, product.matrix.num_rows, static_cast<__half*>(product.norm.output));
      });
  meet_cluster();
  const int row = static_cast<int>(threadIdx.x >> 5);
  if (blockIdx.y != 0 || row >= product.rows) return;
  auto* tables = reinterpret_cast<float*>(shared + kFreeAt);
  route_row<kEach>(a.route, row, tables + row * route_floats(a.route.num_experts), threadIdx.x & 31);
}

using ChooseKernel = void (*)(ChoiceArguments);

template <bool kOneRow>
ChooseKernel kernel_for(int32_t num_experts) {
  return num_experts <= 128   ? choose_kernel<4, kOneRow>
         : num_experts <= 256 ? choose_kernel<8, kOneRow>
                              : choose_kernel<kMaxExperts / 32, kOneRow>;
}

}  // namespace

bool choice_fits(const Matrix& router, const GemmShape& shape, int32_t rows, int32_t num_experts) {
  const size_t tables = static_cast<size_t>(rows * route_floats(num_experts)) * sizeof(float);
  return router.kind == TileKind::dense && shape.tiles == 1 && rows <= kMostRows &&
         kFreeAt + tables <= shape.shared_bytes;
}

cudaError_t launch_choose(const ChoiceArguments& arguments, Launch l) {
  ChoiceArguments a = arguments;
  GemmShape& shape = a.product.shape;
  shape.blocks = std::min(shape.blocks, kMostBlocks);
  const auto blocks = static_cast<unsigned>(shape.blocks);
  const auto kernel =
      a.product.rows == 1 ? kernel_for<true>(a.route.num_experts) : kernel_for<false>(a.route.num_experts);
  return launch_clusters(dim3(1, blocks), kernel, dim3(1, blocks), dim3(kNarrowThreads), shape.shared_bytes,
                         l.stream, l.dependent, a);
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
