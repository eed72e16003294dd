#include "core/models/transformer.h"

#include <algorithm>
#include <array>

#include "core/layers/rows.h"
#include "core/layers/weight_bytes.h"

namespace quire {
namespace {

// Visitor that calls a function for the matrices and tables of a transformer, with their device.
class DeviceMatrixVisitor final : public WeightVisitor {
 public:
  using Visit = std::function<void(const Device&, const PreparedWeight&)>;
  DeviceMatrixVisitor(const Device& device, const Visit& visit) : device_(device), visit_(visit) {}
  void matrix(const PreparedWeight& weight, double) override { table(weight); }
  void table(const PreparedWeight& weight) override {
    if (weight.get() != nullptr && !weight.is_borrowed()) visit_(device_, weight);
  }
  void vector(const DeviceBuffer&) override {}

 private:
  const Device& device_;
  const Visit& visit_;
};

template <typename Layer>
WeightBytes bytes_of(const Layer& layer) {
  WeightBytes bytes;
  each_weight(layer, bytes);
  return bytes;
}

uint64_t weight_bytes(const Transformer& shard) {
  uint64_t total = shard.own_head_bytes();
  if (shard.shard.rank == 0) total += shard.embedding_taken_bytes();
  for (const PipelineStage& stage : shard.stages) {
    total += stage.rope_bytes();
    for (const TransformerLayer& layer : stage.layers) {
      total += layer.taken_bytes(*stage.device);
      if (layer.feed_forward.on_host) total += layer.host_taken_bytes(*shard.host_experts.device);
    }
    if (stage.remote != nullptr) total += stage.remote->bytes().layer_sum();
  }
  return total;
}

}  // namespace

void Transformer::forward(size_t stage_idx, const ForwardPass& pass,
                          gsl::span<const LayerCache> caches) const {
  const PipelineStage& stage = stages[stage_idx];
  const std::vector<TransformerLayer>& layers = stage.layers;
  if (stage_idx == 0 && shard.rank == 0 && !is_inner) embedding.forward(pass);
  if (shard.num_shards > 1) spread(pass);
  for (size_t i = 0; i < stage.ropes.size(); ++i) stage.ropes[i].forward(pass, pass.ropes[i]);
  for (size_t i = 0; i < layers.size(); ++i) {
    keep_states(pass, stage.first_layer + gsl::narrow_cast<int32_t>(i));
    layers[i].forward(pass, caches[i]);
  }
  keep_states(pass, stage.first_layer + gsl::narrow_cast<int32_t>(layers.size()));
  if (is_last(stage_idx)) head.forward(pass);
}

void Transformer::keep_states(const ForwardPass& pass, int32_t layer) const {
  if (shard.rank > 0) return;
  const int32_t hidden = shape.hidden_size;
  const int32_t columns = hidden * gsl::narrow_cast<int32_t>(state_layers.size());
  float* states = pass.workspace.at(kernels::Scratch::states);
  for (const int32_t of : state_layers) {
    if (of == layer) copy_rows(pass, states, columns, pass.workspace.hidden, hidden, hidden);
    states += hidden;
  }
}

// Broadcasts by an all-gather in which the first shard has all columns.
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
                       "broadcasting the residual stream");
  };
  const kernels::Workspace& space = pass.workspace;
  give(space.hidden, shape.hidden_size);
  for (const kernels::Scratch kind : {kernels::Scratch::streams, kernels::Scratch::layer_input})
    give(space.at(kind), shape.columns.scratch[static_cast<size_t>(kind)]);
}

size_t Transformer::home_of(size_t stage_idx) const {
  Expects(stage_idx > 0);
  size_t home = stage_idx - 1;
  while (home > 0 && stages[home].remote != nullptr) --home;
  return home;
}

bool Transformer::is_linked(size_t stage_idx) const {
  const auto& remote = stages[stage_idx].remote;
  return remote != nullptr && remote->link_bytes(*stages[home_of(stage_idx)].device) > 0;
}

std::vector<std::shared_ptr<Device>> Transformer::devices() const {
  std::vector<std::shared_ptr<Device>> devices;
  for (size_t i = 0; i < stages.size(); ++i) {
    for (int32_t rank = 0; rank < shard.num_shards; ++rank) {
      const std::shared_ptr<Device>& device = at_rank(rank).stages[i].device;
      if (std::find(devices.begin(), devices.end(), device) == devices.end()) devices.push_back(device);
    }
  }
  return devices;
}

uint64_t PipelineStage::rope_bytes() const {
  if (remote != nullptr) return remote->bytes().ropes;
  uint64_t bytes = 0;
  for (const RotaryLayer& rope : ropes) bytes += bytes_of(rope).vectors();
  return bytes;
}

void Transformer::each_weight(const std::function<void(const Device&, const PreparedWeight&)>& visit) const {
  DeviceMatrixVisitor first(*stages.front().device, visit);
  quire::each_weight(embedding, first);
  for (const PipelineStage& stage : stages) {
    DeviceMatrixVisitor here(*stage.device, visit);
    DeviceMatrixVisitor on_host(host_experts.exist() ? *host_experts.device : *stage.device, visit);
    for (const TransformerLayer& layer : stage.layers) {
      each_weight_here(layer, here);
      each_host_weight(layer, on_host);
    }
  }
  DeviceMatrixVisitor last(*stages.back().device, visit);
  quire::each_weight(head, last);
  for (const Transformer& peer : peers) peer.each_weight(visit);
  if (drafter != nullptr) drafter->network.each_weight(visit);
}

uint64_t Transformer::embedding_taken_bytes() const {
  return bytes_of(embedding).taken(*stages.front().device);
}

uint64_t Transformer::own_head_bytes() const {
  return bytes_of(head).taken(*stages.back().device);
}

uint64_t Transformer::own_layer_bytes(size_t stage_idx, size_t layer) const {
  const PipelineStage& stage = stages[stage_idx];
  return stage.remote != nullptr ? stage.remote->bytes().layers[layer]
                                 : stage.layers[layer].taken_bytes(*stage.device);
}

uint64_t Transformer::host_experts_taken_bytes(size_t stage_idx, size_t layer) const {
  if (!host_experts.exist() || stages[stage_idx].remote != nullptr) return 0;
  const TransformerLayer& of = stages[stage_idx].layers[layer];
  return of.feed_forward.on_host ? of.host_taken_bytes(*host_experts.device) : 0;
}

uint64_t Transformer::taken_bytes() const {
  return sum_over_shards(weight_bytes) + drafter_taken_bytes();
}

uint64_t Transformer::drafter_taken_bytes() const {
  return drafter == nullptr ? 0 : drafter->network.taken_bytes();
}

std::vector<uint64_t> Transformer::shard_taken_bytes() const {
  std::vector<uint64_t> bytes;
  bytes.reserve(static_cast<size_t>(shard.num_shards));
  for (int32_t rank = 0; rank < shard.num_shards; ++rank) bytes.push_back(weight_bytes(at_rank(rank)));
  bytes.front() += drafter_taken_bytes();
  return bytes;
}

uint64_t Transformer::step_bytes(int32_t num_tokens) const {
  return host_experts_step_bytes(num_tokens) + sum_over_shards([=](const Transformer& of) {
           uint64_t total = 0;
           for (size_t i = 0; i < of.stages.size(); ++i) total += of.own_step_bytes(i, num_tokens);
           return total;
         });
}

uint64_t Transformer::own_step_bytes(size_t stage_idx, int32_t num_tokens) const {
  const PipelineStage& stage = stages[stage_idx];
  if (stage.device->is_remote()) return 0;
  uint64_t total = stage.rope_bytes();
  if (is_last(stage_idx)) total += bytes_of(head).matrices() + bytes_of(head).vectors();
  for (const TransformerLayer& layer : stage.layers)
    total += layer.step_bytes(num_tokens) - layer.host_step_bytes(num_tokens);
  return total;
}

uint64_t Transformer::host_experts_step_bytes(int32_t num_tokens) const {
  uint64_t total = 0;
  for (const PipelineStage& stage : stages)
    for (const TransformerLayer& layer : stage.layers) total += layer.host_step_bytes(num_tokens);
  return total;
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
