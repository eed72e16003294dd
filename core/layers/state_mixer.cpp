#include "core/layers/state_mixer.h"

#include "core/base/error.h"
#include "core/layers/layer_builder.h"
#include "core/layers/rows.h"

namespace quire {

using kernels::Scratch;

kernels::ConvolutionTaps ConvLayer::from(int32_t first) const {
  kernels::ConvolutionTaps out;
  if (num_taps == 0) return out;
  out.weight = taps.as<float>() + first;
  out.tap_stride = channels;
  if (bias.bytes() > 0) out.bias = bias.as<float>() + first;
  return out;
}

kernels::ConvolutionSpec convolution_of(const ConvPart& part) {
  kernels::ConvolutionSpec spec;
  spec.channels = part.channels;
  spec.taps = part.num_taps;
  spec.silu = part.silu;
  return spec;
}

kernels::ConvolutionSpec ConvLayer::spec() const {
  kernels::ConvolutionSpec out;
  out.channels = channels;
  out.taps = num_taps;
  out.silu = silu;
  return out;
}

size_t conv_state_bytes(const ConvLayer& conv) {
  return kernels::state_bytes(kernels::state_shape(conv.spec()));
}

kernels::StateRows convolve_rows(const ForwardPass& pass, const LayerCache& cache, const ConvLayer& conv,
                                 float* rows, int32_t stride) {
  kernels::ConvolveParams params;
  static_cast<kernels::ConvolutionSpec&>(params) = conv.spec();
  set_state(pass, cache, 0, params);
  params.output = pass.workspace.qkv;
  params.input = {rows, stride};
  params.weights = conv.from(0);
  pass.context.check(pass.context.table().convolve(pass.context.handle(), &params), "a convolution");
  if (pass.activation_dtype() == kernels::DType::f32) return {pass.workspace.qkv, conv.channels};
  kernels::RowOpParams copy;
  copy.op = kernels::RowOp::copy;
  copy.target = rows;
  copy.target_stride = stride;
  copy.a = pass.workspace.qkv;
  copy.a_is_activation = true;
  copy.columns = conv.channels;
  run_row_op(pass, copy);
  return {rows, stride};
}

// Transposes the taps, which the files have side by side for each channel.
void build(const ConvPart& part, LayerBuilder& builder, ConvLayer& layer) {
  layer.channels = part.channels;
  layer.num_taps = part.num_taps;
  layer.silu = part.silu;
  std::vector<float> stored;
  for (const VectorPart& weight : part.weights) {
    const std::vector<float> own = builder.host_vector(weight);
    stored.insert(stored.end(), own.begin(), own.end());
  }
  const auto channels = static_cast<size_t>(part.channels), num_taps = static_cast<size_t>(part.num_taps);
  Expects(stored.size() == channels * num_taps);
  std::vector<float> taps(stored.size());
  for (size_t i = 0; i < stored.size(); ++i) taps[i % num_taps * channels + i / num_taps] = stored[i];
  layer.taps = builder.floats(taps, part.weights.front().name);
  layer.bias = builder.vector(part.bias);
}

void each_weight(const ConvLayer& layer, WeightVisitor& visitor) {
  visitor.vector(layer.taps);
  visitor.vector(layer.bias);
}

void ResultLayer::forward(const ForwardPass& pass, const Block& block) const {
  const kernels::Workspace& space = pass.workspace;
  if (!block.post_norm)
    return multiply_rows_onto(pass, matrix, space.attention, space.hidden, pass.num_tokens(), outputs);
  float* const given = space.at(Scratch::projected);
  multiply_rows(pass, matrix, space.attention, given, pass.num_tokens(), outputs);
  block.add_result(pass, given);
}

void build(const MatrixPart& part, const ShardColumns& outputs, LayerBuilder& builder, ResultLayer& layer) {
  layer.outputs = outputs;
  builder.request(layer.matrix, {part});
}

void each_weight(const ResultLayer& layer, WeightVisitor& visitor) {
  visitor.matrix(layer.matrix, 1.0);
}

int32_t columns_of(const MatrixParts& parts) {
  int32_t columns = 0;
  for (const MatrixPart& part : parts) columns += part.outputs();
  return columns;
}

void need_rows(const MatrixParts& in, int32_t columns, const MatrixPart& out, const ShardColumns& outputs,
               Needs& all) {
  for (const MatrixPart& part : in) all.matrix(part);
  all.row(columns_of(in));
  all.scratch(Scratch::query, columns_of(in));
  Needs::raise(all.shape().columns.attention, columns);
  all.matrix(out);
  all.slice(outputs);
}

void cut_result(MatrixPart& out, ShardColumns& outputs, const ShardCut& shard) {
  outputs = shard.hidden();
  keep_own_outputs(out, outputs);
}

void set_state(const ForwardPass& pass, const LayerCache& cache, size_t offset,
               kernels::StateOpParams& params) {
  params.batch = pass.batch;
  params.store = cache.states;
  params.store.memory = static_cast<std::byte*>(cache.states.memory) + offset;
  params.rows_are_f32 = true;
  params.output = pass.workspace.attention;
}

void require_state_sizes(std::string_view what, int32_t state_dim, int32_t num_taps) {
  if (state_dim > kernels::kMaxStateKey) {
    throw Error(ErrorCode::unsupported, "{}: keys of {} elements are not supported; at most {} are", what,
                state_dim, kernels::kMaxStateKey);
  }
  if (num_taps > kernels::kMaxConvTaps) {
    throw Error(ErrorCode::unsupported, "{}: a convolution over {} tokens is not supported; at most {} are",
                what, num_taps, kernels::kMaxConvTaps);
  }
}

}  // namespace quire
