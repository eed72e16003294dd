#include "core/models/transformer.h"

namespace quire {

void Transformer::forward(const ForwardPass& pass, gsl::span<const kernels::KvLayer> kv) const {
  embedding.forward(pass);
  rotary.forward(pass);
  for (size_t i = 0; i < layers.size(); ++i) {
    const kernels::Weight* after =
        i + 1 < layers.size() ? layers[i + 1].attention.qkv.get() : head.projection.get();
    layers[i].attention.forward(pass, kv[i], layers[i].mlp.gate_up.get());
    layers[i].mlp.forward(pass, after);
  }
  head.forward(pass);
}

uint64_t Transformer::weight_bytes() const {
  uint64_t total = embedding.table.bytes() + head.projection.bytes() + head.norm.weight.bytes();
  for (const TransformerLayer& layer : layers) {
    total +=
        layer.attention.qkv.bytes() + layer.attention.output.bytes() + layer.attention.norm.weight.bytes();
    total += layer.mlp.gate_up.bytes() + layer.mlp.down.bytes() + layer.mlp.norm.weight.bytes();
  }
  return total;
}

int64_t Transformer::token_ops() const {
  int64_t products = 0;
  for (const TransformerLayer& layer : layers) {
    products += layer.attention.qkv.num_products() + layer.attention.output.num_products();
    products += layer.mlp.gate_up.num_products() + layer.mlp.down.num_products();
  }
  return 2 * products;
}

}  // namespace quire
