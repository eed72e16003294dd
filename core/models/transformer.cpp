#include "core/models/transformer.h"

namespace quire {
namespace {

uint64_t matrix_bytes(const TransformerLayer& layer) {
  return layer.attention.qkv.bytes() + layer.attention.output.bytes() + layer.mlp.gate_up.bytes() +
         layer.mlp.down.bytes();
}

}  // namespace

uint64_t TransformerLayer::bytes() const {
  return matrix_bytes(*this) + attention.norm.bytes() + attention.q_norm.bytes() + attention.k_norm.bytes() +
         mlp.norm.bytes();
}

uint64_t TransformerLayer::taken_bytes(const Device& device) const {
  const uint64_t matrices = matrix_bytes(*this);
  return device.taken_bytes(matrices) + (bytes() - matrices);
}

void Transformer::forward(size_t stage_idx, const ForwardPass& pass,
                          gsl::span<const kernels::KvLayer> kv) const {
  const TransformerStage& stage = stages[stage_idx];
  const std::vector<TransformerLayer>& layers = stage.layers;
  if (stage_idx == 0) embedding.forward(pass);
  stage.rotary.forward(pass);
  const kernels::Weight* behind = is_last(stage_idx) ? head.projection.get() : nullptr;
  for (size_t i = 0; i < layers.size(); ++i) {
    const kernels::Weight* after = i + 1 < layers.size() ? layers[i + 1].attention.qkv.get() : behind;
    layers[i].attention.forward(pass, kv[i], layers[i].mlp.gate_up.get());
    layers[i].mlp.forward(pass, after);
  }
  if (is_last(stage_idx)) head.forward(pass);
}

uint64_t Transformer::embedding_taken_bytes() const {
  return stages.front().device->taken_bytes(embedding.table.bytes());
}

uint64_t Transformer::head_taken_bytes() const {
  return stages.back().device->taken_bytes(head.projection.bytes()) + head.norm.bytes();
}

uint64_t Transformer::taken_bytes() const {
  uint64_t total = embedding_taken_bytes() + head_taken_bytes();
  for (const TransformerStage& stage : stages) {
    total += stage.rotary.inv_freq.bytes();
    for (const TransformerLayer& layer : stage.layers) total += layer.taken_bytes(*stage.device);
  }
  return total;
}

uint64_t Transformer::step_bytes() const {
  uint64_t total = head.projection.bytes() + head.norm.bytes();
  for (const TransformerStage& stage : stages) {
    total += stage.rotary.inv_freq.bytes();
    for (const TransformerLayer& layer : stage.layers) total += layer.bytes();
  }
  return total;
}

int64_t Transformer::token_ops() const {
  int64_t products = 0;
  for (const TransformerStage& stage : stages) {
    for (const TransformerLayer& layer : stage.layers) {
      products += layer.attention.qkv.num_products() + layer.attention.output.num_products();
      products += layer.mlp.gate_up.num_products() + layer.mlp.down.num_products();
    }
  }
  return 2 * products;
}

}  // namespace quire
