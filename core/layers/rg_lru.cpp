#include "core/layers/rg_lru.h"

#include <algorithm>
#include <cmath>

#include "core/layers/layer_builder.h"
#include "core/layers/rows.h"

namespace quire {

using kernels::Scratch;

namespace {

kernels::SelectiveScanSpec spec_of(const RgLruPart& part) {
  kernels::SelectiveScanSpec spec;
  spec.channels = part.channels;
  spec.state_dim = 1;
  spec.norm.gate = kernels::GateKind::gelu_tanh;
  spec.norm.group_columns = part.channels;
  spec.kind = kernels::ScanKind::rg_lru;
  return spec;
}

// Returns ln(8 softplus(x)).
float log_rate(float x) {
  const double softplus = std::max(double{x}, 0.0) + std::log1p(std::exp(-std::fabs(double{x})));
  return static_cast<float>(std::log(8.0 * softplus));
}

// Copies some columns of the convolved rows, in the activation dtype.
void take_block(const ForwardPass& pass, int32_t channels, int32_t first, int32_t width, void* target) {
  const size_t element = kernels::dtype_bytes(pass.activation_dtype());
  kernels::RowOpParams params;
  params.op = kernels::RowOp::copy;
  params.target = target;
  params.target_is_activation = params.a_is_activation = true;
  params.a = static_cast<const uint8_t*>(pass.workspace.qkv) + static_cast<size_t>(first) * element;
  params.a_stride = channels;
  params.columns = width;
  run_row_op(pass, params);
}

}  // namespace

void build(const RgLruPart& part, LayerBuilder& builder, RgLruLayer& layer) {
  static_cast<kernels::SelectiveScanSpec&>(layer) = spec_of(part);
  builder.request(layer.in, part.in);
  build(part.conv, builder, layer.conv);
  layer.gates.resize(static_cast<size_t>(part.num_blocks));
  for (int32_t block = 0; block < part.num_blocks; ++block)
    builder.request(layer.gates[static_cast<size_t>(block)], {part.step_gate, part.input_gate}, block);
  layer.step_bias = builder.vector(part.step_bias);
  layer.input_bias = builder.vector(part.input_bias);
  std::vector<float> rates = builder.host_vector(part.decay);
  for (float& rate : rates) rate = log_rate(rate);
  layer.a_log = builder.floats(rates, part.decay.name);
  build(part.out, part.outputs, builder, layer.out);
}

void needs(const RgLruPart& part, Needs& all) {
  require_state_sizes("the RG-LRU", 1, part.conv.num_taps);
  need_rows(part.in, part.channels, part.out, part.outputs, all);
  Needs::raise(all.shape().columns.qkv, part.channels);
  all.matrix(part.step_gate);
  all.row(2 * part.step_gate.num_out);
  all.scratch(Scratch::row, part.step_gate.num_in);
  all.scratch(Scratch::other, 2 * part.step_gate.num_out);
  all.scratch(Scratch::expanded, part.channels);
  all.scratch(Scratch::latent, part.channels);
  all.state(kernels::state_bytes(kernels::state_shape(convolution_of(part.conv))));
  all.state(kernels::state_bytes(kernels::state_shape(spec_of(part))));
}

void each_weight(const RgLruLayer& layer, WeightVisitor& visitor) {
  visitor.matrix(layer.in, 1.0);
  each_weight(layer.conv, visitor);
  for (const PreparedWeight& gate : layer.gates) visitor.matrix(gate, 1.0);
  for (const DeviceBuffer* vector : {&layer.step_bias, &layer.input_bias, &layer.a_log})
    visitor.vector(*vector);
  each_weight(layer.out, visitor);
}

uint64_t mechanisms(const RgLruPart&) {
  return kernels::kMechanismSelectiveScan | kernels::kMechanismConvolution;
}

void RgLruLayer::make_gates(const ForwardPass& pass, kernels::SelectiveScanParams& params) const {
  const kernels::Workspace& space = pass.workspace;
  const int32_t width = channels / static_cast<int32_t>(gates.size());
  float* const both = space.at(Scratch::other);
  float* const steps = space.at(Scratch::expanded);
  float* const inputs = space.at(Scratch::latent);
  int32_t first = 0;
  for (const PreparedWeight& gate : gates) {
    take_block(pass, channels, first, width, space.at(Scratch::row));
    multiply_rows(pass, gate, space.at(Scratch::row), both, pass.num_tokens());
    copy_rows(pass, steps + first, channels, both, 2 * width, width);
    copy_rows(pass, inputs + first, channels, both + width, 2 * width, width);
    first += width;
  }
  params.step = {steps, channels};
  params.input_gate = {inputs, channels};
  params.step_bias = step_bias.as<float>();
  params.input_bias = input_bias.as<float>();
}

void RgLruLayer::forward(const ForwardPass& pass, const LayerCache& cache, const Block& block) const {
  float* const rows = pass.workspace.at(Scratch::query);
  multiply_rows(pass, in, block.input_rows(pass), rows, pass.num_tokens());
  kernels::SelectiveScanParams params;
  static_cast<kernels::SelectiveScanSpec&>(params) = *this;
  params.input = convolve_rows(pass, cache, conv, rows, 2 * channels);
  set_state(pass, cache, conv_state_bytes(conv), params);
  make_gates(pass, params);
  params.a_log = a_log.as<float>();
  params.norm_input.gate = {rows + channels, 2 * channels};
  pass.context.check(pass.context.table().selective_scan(pass.context.handle(), &params), "the RG-LRU");
  out.forward(pass, block);
}

}  // namespace quire
