// What the mixers with a recurrent state have in common: their place in a slot, the taps of convolutions,
// products by two matrices, and the matrix that writes their result.
#pragma once

#include <string_view>
#include <type_traits>

#include "core/layers/block.h"
#include "core/layers/low_rank.h"
#include "core/layers/needs.h"
#include "core/layers/shard_cut.h"

namespace quire {

class LayerBuilder;

// Taps of the convolution of a mixer, in the layout of the kernels.
struct ConvLayer {
  DeviceBuffer taps;  // [num_taps, channels], the newest token's last
  DeviceBuffer bias;  // [channels], or empty
  int32_t channels = 0;
  int32_t num_taps = 0;
  bool silu = false;

  kernels::ConvolutionSpec spec() const;
  // Returns the taps of the channels from `first` on.
  kernels::ConvolutionTaps from(int32_t first) const;
};

kernels::ConvolutionSpec convolution_of(const ConvPart& part);
// Returns the bytes of a convolution's state for one sequence.
size_t conv_state_bytes(const ConvLayer& conv);

// Convolves the first columns of f32 rows whose width is `stride`, with the state at the beginning of the
// slot. The results are in workspace.qkv, in the activation dtype. Returns them in f32: if activations have
// another type, they replace the inputs.
kernels::StateRows convolve_rows(const ForwardPass& pass, const LayerCache& cache, const ConvLayer& conv,
                                 float* rows, int32_t stride);

void build(const ConvPart& part, LayerBuilder& builder, ConvLayer& layer);
void each_weight(const ConvLayer& layer, WeightVisitor& visitor);

// The matrix that writes a mixer's result.
struct ResultLayer {
  PreparedWeight matrix;
  ShardColumns outputs;  // columns that the matrix computes

  // Adds the product of the rows in workspace.attention to the residual stream, after the norm of the block.
  void forward(const ForwardPass& pass, const Block& block) const;
};

void build(const MatrixPart& part, const ShardColumns& outputs, LayerBuilder& builder, ResultLayer& layer);
void each_weight(const ResultLayer& layer, WeightVisitor& visitor);

// Returns the sum of the outputs of matrices that are evaluated together.
int32_t columns_of(const MatrixParts& parts);
// Requires the buffers of a mixer: rows of `in` in Scratch::query, results of `columns` columns, and the
// product by `out`.
void need_rows(const MatrixParts& in, int32_t columns, const MatrixPart& out, const ShardColumns& outputs,
               Needs& all);
// Keeps the outputs of a shard. The state itself is computed by every shard.
void cut_result(MatrixPart& out, ShardColumns& outputs, const ShardCut& shard);

// Fills in what all operations have: the batch, f32 rows, the result in workspace.attention, and the state at
// `offset` bytes in a slot of the layer.
void set_state(const ForwardPass& pass, const LayerCache& cache, size_t offset,
               kernels::StateOpParams& params);
// Throws ErrorCode::unsupported if a size exceeds what the kernels support. `what` names the mixer.
void require_state_sizes(std::string_view what, int32_t state_dim, int32_t num_taps);

// Mixers with a state have no pages, and their heads are not cut.
template <typename Part>
concept StatePart =
    std::is_base_of_v<kernels::DeltaSpec, Part> || std::is_base_of_v<kernels::Mamba2Spec, Part> ||
    std::is_base_of_v<kernels::Mamba1Spec, Part> || std::is_base_of_v<kernels::LightningSpec, Part> ||
    std::is_same_v<ShortConvPart, Part> || std::is_same_v<RgLruPart, Part>;
template <StatePart Part>
void cut(Part& part, bool, ShardCut& shard) {
  cut_result(part.out, part.outputs, shard);
}
template <StatePart Part>
bool can_cut_heads(const Part&, const ShardCut&) {
  return false;
}
template <StatePart Part>
int32_t source_of_pages(const Part&) {
  return -1;
}
template <StatePart Part>
int32_t first_source(const Part&, int32_t layer) {
  return layer;
}

}  // namespace quire
