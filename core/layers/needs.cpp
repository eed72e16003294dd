#include "core/layers/needs.h"

#include <algorithm>
#include <utility>

namespace quire {

Needs::Needs(const ModelSpec& model) : model_(model) {
  shape_.num_layers = static_cast<int32_t>(model.layers.size());
  shape_.hidden_size = model.hidden_size;
  shape_.vocab_size = model.vocab_size;
  shape_.max_columns = model.hidden_size;
  for (const RopeSpec& rope : model.ropes) shape_.rotary_dims.push_back(rope.rotary_dim);
}

void Needs::cache(const LayerCacheSize& size) {
  const LayerCacheSize before = std::exchange(shape_.caches.back(), size);
  shape_.caches.back().state_bytes = before.state_bytes;
  shape_.caches.back().state_parts = before.state_parts;
  if (size.source_layer < 0) return;
  int32_t& seen = shape_.caches[static_cast<size_t>(size.source_layer)].window;
  seen = seen == 0 || size.window == 0 ? 0 : std::max(seen, size.window);
}

void Needs::state(uint64_t bytes) {
  LayerCacheSize& layer = shape_.caches.back();
  layer.state_bytes += bytes;
  const auto part = std::find(layer.state_parts.begin(), layer.state_parts.end(), uint64_t{0});
  Expects(part != layer.state_parts.end());
  *part = bytes;
}

void Needs::solved_lines(uint64_t bytes) {
  shape_.state_line_bytes = std::max(shape_.state_line_bytes, bytes);
}

void Needs::scratch(kernels::Scratch kind, int32_t columns) {
  raise(shape_.columns.at(kind), columns);
}

void Needs::slice(const ShardColumns& columns, int32_t rows) {
  if (columns.is_split()) scratch(kernels::Scratch::slice, rows * columns.split().own());
}

void Needs::matrix(const MatrixPart& part) {
  row(part.num_in);
  row(part.outputs());
}

void Needs::expert_matrix(int32_t num_in, int32_t num_out) {
  row(num_in);
  row(num_out);
  raise(shape_.expert_columns, num_in + num_out);
}

void Needs::raise(int32_t& most, int32_t value) {
  most = std::max(most, value);
}

}  // namespace quire
