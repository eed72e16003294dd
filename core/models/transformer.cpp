#include "core/models/transformer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/layers/rows.h"

namespace quire {
namespace {

// Visits the matrices of a layer, each with the share of it that a token reads, and its vectors.
template <typename Matrix, typename Buffer>
void visit_weights(const TransformerLayer& layer, Matrix matrix, Buffer buffer) {
  layer.attention.each_matrix(matrix);
  layer.attention.each_buffer(buffer);
  layer.feed_forward.each_matrix(matrix);
  layer.feed_forward.each_buffer(buffer);
  if (layer.streams) {
    const StreamsLayer& streams = *layer.streams;
    for (const PreparedWeight* m : {&streams.router, &streams.prediction, &streams.correction})
      matrix(*m, 1.0);
    streams.router_norm.each_buffer(buffer);
    buffer(streams.output_scale);
  }
  if (layer.laurel) {
    matrix(layer.laurel->left, 1.0);
    matrix(layer.laurel->right, 1.0);
    layer.laurel->norm.each_buffer(buffer);
  }
  if (!layer.layer_input) return;
  matrix(layer.layer_input->gate, 1.0);
  matrix(layer.layer_input->projection, 1.0);
  layer.layer_input->norm.each_buffer(buffer);
}

uint64_t matrix_bytes(const TransformerLayer& layer) {
  uint64_t bytes = 0;
  visit_weights(
      layer, [&](const PreparedWeight& matrix, double) { bytes += matrix.bytes(); },
      [](const DeviceBuffer&) {});
  return bytes;
}

uint64_t vector_bytes(const TransformerLayer& layer) {
  uint64_t bytes = 0;
  visit_weights(
      layer, [](const PreparedWeight&, double) {},
      [&](const DeviceBuffer& buffer) { bytes += buffer.bytes(); });
  return bytes;
}

// The layer's own embedding enters: into the streams beside the first, or into the one that there is.
void add_layer_input(const ForwardPass& pass, const TransformerLayer& layer) {
  const LayerInputLayer& input = *layer.layer_input;
  const int32_t hidden = input.norm.columns;
  const float* given = pass.workspace.at(kernels::Scratch::projected);
  if (!layer.streams) {
    input.forward(pass, pass.workspace.hidden);
    return add_rows(pass, pass.workspace.hidden, given, hidden);
  }
  float* scaled = pass.workspace.at(kernels::Scratch::other);
  copy_rows(pass, scaled, hidden, pass.workspace.hidden, hidden, hidden);
  if (layer.streams->output_scale.bytes() != 0) {
    kernels::RowOpParams scale;
    scale.op = kernels::RowOp::scale_columns;
    scale.target = scaled;
    scale.a = layer.streams->output_scale.as<float>();
    scale.columns = hidden;
    run_row_op(pass, scale);
  }
  input.forward(pass, scaled);
  for (int32_t s = 1; s < layer.streams->num_streams; ++s)
    add_rows(pass, stream_at(pass, kernels::Scratch::streams, s - 1, hidden), given, hidden);
}

// The way around attention joins what attention gave: both count half, by their squares.
void add_laurel(const ForwardPass& pass, const LaurelLayer& laurel) {
  constexpr float kRootOfHalf = 0.70710678118654752f;
  add_rows(pass, pass.workspace.hidden, pass.workspace.at(kernels::Scratch::row), laurel.norm.columns);
  scale_rows(pass, pass.workspace.hidden, laurel.norm.columns, kRootOfHalf);
}

}  // namespace

uint64_t TransformerLayer::bytes() const {
  return matrix_bytes(*this) + vector_bytes(*this);
}

uint64_t TransformerLayer::taken_bytes(const Device& device) const {
  return device.taken_bytes(matrix_bytes(*this)) + vector_bytes(*this);
}

uint64_t TransformerLayer::step_bytes(int32_t num_tokens) const {
  double bytes = 0.0;
  visit_weights(
      *this,
      [&](const PreparedWeight& matrix, double share) {
        bytes += (1.0 - std::pow(1.0 - share, num_tokens)) * double(matrix.bytes());
      },
      [](const DeviceBuffer&) {});
  return static_cast<uint64_t>(bytes) + vector_bytes(*this);
}

int64_t TransformerLayer::token_products() const {
  double products = 0.0;
  visit_weights(
      *this,
      [&](const PreparedWeight& matrix, double share) { products += share * double(matrix.num_products()); },
      [](const DeviceBuffer&) {});
  return static_cast<int64_t>(products);
}

void TransformerLayer::forward(const ForwardPass& pass, const LayerCache& cache,
                               const kernels::Weight* next) const {
  const kernels::Workspace& space = pass.workspace;
  pass.take_break();
  const void* of_attention = nullptr;
  const void* of_feed_forward = nullptr;
  if (streams) streams->predict(pass);
  if (parallel || laurel) {
    norm_rows(pass, attention.norm, space.hidden, space.normed, pass.num_tokens());
    of_attention = space.normed;
  }
  if (parallel) {
    float* beside = space.at(kernels::Scratch::normed);
    if (!shares_norm) norm_rows(pass, feed_forward.norm, space.hidden, beside, pass.num_tokens());
    of_feed_forward = shares_norm ? space.normed : beside;
  }
  if (laurel) laurel->forward(pass, space.normed);
  attention.forward(pass, cache, of_attention, feed_forward.first());
  pass.take_break();
  if (laurel) add_laurel(pass, *laurel);
  feed_forward.forward(pass, of_feed_forward, next);
  if (streams) streams->correct(pass);
  if (layer_input) add_layer_input(pass, *this);
  if (output_scale != 1.0f) scale_rows(pass, space.hidden, attention.norm.columns, output_scale);
}

void Transformer::forward(size_t stage_idx, const ForwardPass& pass,
                          gsl::span<const LayerCache> caches) const {
  const PipelineStage& stage = stages[stage_idx];
  const std::vector<TransformerLayer>& layers = stage.layers;
  if (stage_idx == 0 && shard.rank == 0) embedding.forward(pass);
  if (shard.num_shards > 1) spread(pass);
  for (size_t i = 0; i < stage.ropes.size(); ++i) stage.ropes[i].forward(pass, pass.ropes[i]);
  const kernels::Weight* after_all = is_last(stage_idx) ? head.projection.get() : nullptr;
  for (size_t i = 0; i < layers.size(); ++i) {
    const kernels::Weight* after = i + 1 < layers.size() ? layers[i + 1].attention.qkv.get() : after_all;
    layers[i].forward(pass, caches[i], after);
  }
  if (is_last(stage_idx)) head.forward(pass);
}

// A gather in which the first shard has all columns.
void Transformer::spread(const ForwardPass& pass) const {
  const auto give = [&](float* rows, int32_t columns) {
    if (columns == 0) return;
    std::array<int32_t, kMaxShards + 1> starts{};
    std::fill(starts.begin() + 1, starts.end(), columns);
    kernels::AllGatherParams params;
    params.columns = {starts.data(), shard.num_shards, shard.rank};
    params.input = rows;
    params.rows = pass.num_tokens();
    params.output = rows;
    pass.context.check(pass.context.table().all_gather(pass.context.handle(), &params),
                       "spreading the residual stream");
  };
  const kernels::Workspace& space = pass.workspace;
  give(space.hidden, shape.hidden_size);
  for (const kernels::Scratch kind : {kernels::Scratch::streams, kernels::Scratch::layer_input})
    give(space.at(kind), shape.columns.scratch[static_cast<size_t>(kind)]);
}

uint64_t PipelineStage::rope_bytes() const {
  uint64_t bytes = 0;
  for (const RotaryLayer& rope : ropes) bytes += rope.bytes();
  return bytes;
}

namespace {

// Of the ends: matrices that were prepared together, tables of their own, and vectors.
struct EndBytes {
  uint64_t matrices = 0;
  uint64_t vectors = 0;

  void operator()(const PreparedWeight& matrix, double) { matrices += matrix.bytes(); }
  void operator()(const DeviceBuffer& buffer) { vectors += buffer.bytes(); }
};

uint64_t head_bytes(const Transformer& of) {
  EndBytes bytes;
  of.head.each_matrix([&](const PreparedWeight& matrix, double share) { bytes(matrix, share); });
  of.head.norm.each_buffer([&](const DeviceBuffer& buffer) { bytes(buffer); });
  return of.stages.back().device->taken_bytes(bytes.matrices) + bytes.vectors;
}

// Of one shard.
uint64_t weight_bytes(const Transformer& of) {
  uint64_t total = head_bytes(of);
  if (of.shard.rank == 0) total += of.embedding_taken_bytes();
  for (const PipelineStage& stage : of.stages) {
    total += stage.rope_bytes();
    for (const TransformerLayer& layer : stage.layers) total += layer.taken_bytes(*stage.device);
  }
  return total;
}

}  // namespace

void Transformer::each_weight(const std::function<void(const Device&, const PreparedWeight&)>& visit) const {
  const auto on = [&](const Device& device) {
    return [&visit, &device](const PreparedWeight& matrix, double) {
      if (matrix.get() != nullptr) visit(device, matrix);
    };
  };
  const auto on_first = on(*stages.front().device);
  on_first(embedding.table, 1.0);
  on_first(embedding.positions, 1.0);
  if (embedding.layer_inputs) on_first(embedding.layer_inputs->table, 1.0);
  embedding.each_matrix(on_first);
  for (const PipelineStage& stage : stages) {
    for (const TransformerLayer& layer : stage.layers)
      visit_weights(layer, on(*stage.device), [](const DeviceBuffer&) {});
  }
  head.each_matrix(on(*stages.back().device));
  for (const Transformer& peer : peers) peer.each_weight(visit);
}

uint64_t Transformer::embedding_taken_bytes() const {
  const Device& device = *stages.front().device;
  EndBytes bytes;
  embedding.each_matrix([&](const PreparedWeight& matrix, double share) { bytes(matrix, share); });
  embedding.each_buffer([&](const DeviceBuffer& buffer) { bytes(buffer); });
  uint64_t total = device.taken_bytes(embedding.table.bytes()) + bytes.vectors;
  if (bytes.matrices != 0) total += device.taken_bytes(bytes.matrices);
  if (embedding.positions.bytes() != 0) total += device.taken_bytes(embedding.positions.bytes());
  if (embedding.layer_inputs) total += device.taken_bytes(embedding.layer_inputs->table.bytes());
  return total;
}

uint64_t Transformer::head_taken_bytes() const {
  return sum_over_shards(head_bytes);
}

uint64_t Transformer::rope_bytes(size_t stage_idx) const {
  return sum_over_shards([&](const Transformer& of) { return of.stages[stage_idx].rope_bytes(); });
}

uint64_t Transformer::layer_taken_bytes(size_t stage_idx, size_t layer) const {
  return sum_over_shards([&](const Transformer& of) {
    const PipelineStage& stage = of.stages[stage_idx];
    return stage.layers[layer].taken_bytes(*stage.device);
  });
}

uint64_t Transformer::taken_bytes() const {
  return sum_over_shards(weight_bytes);
}

std::vector<uint64_t> Transformer::shard_taken_bytes() const {
  std::vector<uint64_t> bytes;
  bytes.reserve(static_cast<size_t>(shard.num_shards));
  for (int32_t rank = 0; rank < shard.num_shards; ++rank) bytes.push_back(weight_bytes(at_rank(rank)));
  return bytes;
}

uint64_t Transformer::step_bytes(int32_t num_tokens) const {
  return sum_over_shards([num_tokens](const Transformer& of) {
    EndBytes ends;
    of.head.each_matrix([&](const PreparedWeight& matrix, double share) { ends(matrix, share); });
    of.head.norm.each_buffer([&](const DeviceBuffer& buffer) { ends(buffer); });
    uint64_t total = ends.matrices + ends.vectors;
    for (const PipelineStage& stage : of.stages) {
      total += stage.rope_bytes();
      for (const TransformerLayer& layer : stage.layers) total += layer.step_bytes(num_tokens);
    }
    return total;
  });
}

int64_t Transformer::token_ops() const {
  return sum_over_shards([](const Transformer& of) {
    int64_t products = 0;
    for (const PipelineStage& stage : of.stages) {
      for (const TransformerLayer& layer : stage.layers) products += layer.token_products();
    }
    return 2 * products;
  });
}

int64_t Transformer::logit_ops() const {
  return sum_over_shards([](const Transformer& of) { return 2 * of.head.projection.num_products(); });
}

}  // namespace quire
