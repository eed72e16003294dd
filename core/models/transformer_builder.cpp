#include "core/models/transformer_builder.h"

#include <algorithm>
#include <limits>

#include "core/base/error.h"
#include "core/base/task_team.h"
#include "core/models/host_experts.h"
#include "core/models/stage_checks.h"
#include "core/models/transformer_shape.h"

namespace quire {
namespace {

using Devices = gsl::span<const std::shared_ptr<Device>>;

void trim_all(const Devices& devices) {
  for (const std::shared_ptr<Device>& device : devices) device->trim();
}

// True if the devices of a stage's shards do not all reach each other's memory.
bool gathers_on_host(const Devices& devices, const Placement& placement, int32_t device, int32_t num_shards) {
  for (int32_t a = 0; a < num_shards; ++a) {
    for (int32_t b = 0; b < a; ++b) {
      const Device& one = *devices[static_cast<size_t>(placement.device_of_shard(device, a))];
      const Device& other = *devices[static_cast<size_t>(placement.device_of_shard(device, b))];
      if (!one.reaches(other)) return true;
    }
  }
  return false;
}

// Returns a stage of the first shard, without weights.
PipelineStage empty_stage(const Devices& devices, const Placement& placement, const LayerRange& run,
                          int32_t num_shards) {
  PipelineStage stage;
  stage.device = devices[static_cast<size_t>(run.device)];
  stage.first_layer = run.first;
  stage.num_layers = run.end - run.first;
  if (stage.device->is_remote()) return stage;
  stage.gathers_on_host = gathers_on_host(devices, placement, run.device, num_shards);
  stage.layers.resize(static_cast<size_t>(stage.num_layers));
  return stage;
}

// Returns the stages of the first shard, without weights.
Transformer empty_stages(const Devices& devices, const Placement& placement, int32_t num_shards) {
  Transformer transformer;
  for (const LayerRange& run : layer_ranges(placement))
    transformer.stages.push_back(empty_stage(devices, placement, run, num_shards));
  const int32_t host = host_experts_device(placement);
  if (host >= 0) transformer.host_experts.device = devices[static_cast<size_t>(host)];
  return transformer;
}

// Returns whether each layer has host experts; empty if none has.
std::vector<bool> layers_with_host_experts(const Placement& placement) {
  std::vector<bool> on_host;
  if (host_experts_device(placement) < 0) return on_host;
  for (size_t i = 0; i < placement.device_of_layer.size(); ++i)
    on_host.push_back(has_host_experts(placement, gsl::narrow<int32_t>(i)));
  return on_host;
}

PipelineStage& stage_of(Transformer& transformer, int32_t layer) {
  size_t i = transformer.stages.size() - 1;
  while (transformer.stages[i].first_layer > layer) --i;
  return transformer.stages[i];
}

// The devices of a model, and the places of its stages on them.
struct StageDevices {
  Devices devices;
  const Placement& placement;
};

// Puts the stages of a shard on its devices.
void place(std::vector<PipelineStage>& stages, const StageDevices& on, int32_t rank) {
  const std::vector<LayerRange> runs = layer_ranges(on.placement);
  for (size_t i = 0; i < stages.size(); ++i) {
    const int32_t device = on.placement.device_of_shard(runs[i].device, rank);
    stages[i].device = on.devices[static_cast<size_t>(device)];
  }
}

// What a draft network takes from its target.
struct Loan {
  const Transformer* lender = nullptr;
  bool embedding = false;
  bool head = false;
};

// Builder of the pieces of all shards. It builds each piece for all shards in turn, so that the pages of the
// file are still in memory for the next shard.
class ShardsBuilder {
 public:
  ShardsBuilder(const ModelConfig& config, WeightProvider& weights, const BuildOptions& options,
                const Loan& loan, const StageDevices& devices, Transformer& first)
      : weights_(weights),
        options_(options),
        loan_(loan),
        on_host_(layers_with_host_experts(devices.placement)),
        first_(first) {
    const std::vector<int32_t>& shares = devices.placement.shares;
    for (int32_t rank = 0; rank < options.num_shards; ++rank)
      models_.push_back(shard_of(config.spec, {rank, options.num_shards, shares}));
    first_.peers.resize(models_.size() - 1, first_);
    for (int32_t rank = 0; rank < options.num_shards; ++rank) {
      at(rank).shard = {rank, options.num_shards, shares};
      place(at(rank).stages, devices, rank);
      at(rank).shape = transformer_shape(model(rank), on_host_);
      add_states(at(rank));
    }
    if (first_.host_experts.exist()) first_.host_experts.shape = host_experts_shape(model(0), on_host_);
  }

  void build_ropes() {
    each_shard([&](int32_t rank) {
      for (PipelineStage& stage : at(rank).stages) {
        if (stage.device->is_remote()) continue;
        for (const RopeSpec& rope : model(rank).ropes)
          build(rope, builder(rank, stage.device), stage.ropes.emplace_back());
      }
    });
  }

  // Builds the embedding and the heads that are tied to it, so that the table is read only once.
  void build_embedding() {
    LayerBuilder embedding = builder(0, first_.stages.front().device);
    if (loan_.embedding) {
      build_borrowed(model(0).embedding, loan_.lender->embedding, embedding, first_.embedding);
      return embedding.prepare();
    }
    const HostTensor table = read_table(model(0).embedding, embedding);
    build(model(0).embedding, table, embedding, first_.embedding);
    embedding.prepare();
    if (loan_.head || !is_tied(model(0).head, embedding)) return;
    each_shard([&](int32_t rank) {
      LayerBuilder head = builder(rank, at(rank).stages.back().device);
      build_tied(model(rank).head, table, head, at(rank).head);
      head.prepare();
    });
  }

  void build_head() {
    each_shard([&](int32_t rank) {
      LayerBuilder head = builder(rank, at(rank).stages.back().device);
      if (loan_.head) {
        build_borrowed(model(rank).head, loan_.lender->head, head, at(rank).head);
        return head.prepare();
      }
      if (is_tied(model(rank).head, head)) return;
      build(model(rank).head, head, at(rank).head);
      head.prepare();
    });
  }

  void build_layer(int32_t layer) {
    each_shard([&](int32_t rank) {
      PipelineStage& stage = stage_of(at(rank), layer);
      if (stage.device->is_remote()) return;
      LayerBuilder parts = builder(rank, stage.device);
      LayerBuilder host_parts = builder(rank, first_.host_experts.device);
      const bool on_host = !on_host_.empty() && on_host_[static_cast<size_t>(layer)];
      build(model(rank).layers[static_cast<size_t>(layer)], layer, parts, on_host ? host_parts : parts,
            stage.layers[static_cast<size_t>(layer - stage.first_layer)]);
      for (LayerBuilder* of_device : {&parts, &host_parts}) {
        of_device->set_activations(options_.activations);
        of_device->prepare();
      }
    });
  }

  // Builds the stages of other processes: their ropes and layers. Each has the shards that it was started
  // with.
  void build_remote(size_t stage_idx) {
    PipelineStage& stage = first_.stages[stage_idx];
    if (!stage.device->is_remote()) return;
    Expects(options_.shared != nullptr);
    stage.remote = stage.device->peer()->build({*options_.shared, stage.first_layer,
                                                stage.first_layer + stage.num_layers, options_.activations,
                                                options_.mode});
  }

 private:
  // Requires the memory for the states that a draft network reads.
  static void add_states(Transformer& of) {
    int32_t& columns = of.shape.columns.at(kernels::Scratch::states);
    columns = std::max(columns, of.shape.hidden_size * gsl::narrow<int32_t>(of.state_layers.size()));
  }
  Transformer& at(int32_t rank) { return rank == 0 ? first_ : first_.peers[static_cast<size_t>(rank) - 1]; }
  const ModelSpec& model(int32_t rank) const { return models_[static_cast<size_t>(rank)]; }
  LayerBuilder builder(int32_t rank, const std::shared_ptr<Device>& device) const {
    return LayerBuilder(model(rank), weights_, device, options_.mode);
  }
  template <typename Build>
  void each_shard(Build build) {
    for (int32_t rank = 0; rank < gsl::narrow<int32_t>(models_.size()); ++rank) build(rank);
  }

  WeightProvider& weights_;
  const BuildOptions& options_;
  const Loan& loan_;
  const std::vector<bool> on_host_;  // whether each layer has host experts; empty: none has
  Transformer& first_;
  std::vector<ModelSpec> models_;  // one for each shard
};

// Numbers the layers of a stage whose host experts a card can multiply.
void number_packed_layers(PipelineStage& stage) {
  int32_t count = 0;
  for (TransformerLayer& layer : stage.layers)
    if (ExpertsLayer* const experts = packed_experts_of(layer)) experts->packed.slots_idx = count++;
}

void require_same_backends(const Transformer& transformer) {
  for (const Transformer& peer : transformer.peers) {
    for (size_t i = 0; i < peer.stages.size(); ++i)
      require_same_backend(*transformer.stages[i].device, *peer.stages[i].device);
  }
}

// Builds all weights of a transformer whose stages are empty.
void build_weights(const ModelConfig& config, WeightProvider& weights, const BuildOptions& options,
                   const Loan& loan, const StageDevices& devices, Transformer& transformer) {
  for (const PipelineStage& stage : transformer.stages) require_stage(config.spec, stage, options);
  require_host_experts(config.spec, layers_with_host_experts(devices.placement),
                       transformer.host_experts.device.get(), options);
  ShardsBuilder shards(config, weights, options, loan, devices, transformer);
  require_same_backends(transformer);
  shards.build_ropes();
  // A stage of another process takes longest and needs no work here, so it comes first. The embedding and the
  // head are larger than a layer.
  constexpr int32_t kEnds = 2;
  const auto num_stages = gsl::narrow<int32_t>(transformer.stages.size());
  const auto build_piece = [&](int32_t piece) {
    if (piece < num_stages) return shards.build_remote(static_cast<size_t>(piece));
    piece -= num_stages;
    if (piece == 0) return shards.build_embedding();
    if (piece == 1) return shards.build_head();
    shards.build_layer(piece - kEnds);
  };
  run_tasks(*options.threads, weights.is_concurrent() ? options.num_helpers : 0,
            num_stages + config.num_layers + kEnds, build_piece);
  for (PipelineStage& stage : transformer.stages) number_packed_layers(stage);
}

// Builds the draft network on the device of the target's last stage. It borrows what lies there whole.
std::shared_ptr<const DraftTransformer> build_drafter(const DraftBuild& draft, const Transformer& target,
                                                      const BuildOptions& options) {
  const std::shared_ptr<Device>& device = target.stages.back().device;
  const ModelConfig& config = draft.config.network;
  auto drafter = std::make_shared<DraftTransformer>();
  const Placement placement = place_on_one_device(config.num_layers);
  const StageDevices devices = {Devices(&device, 1), placement};
  drafter->network = empty_stages(devices.devices, placement, 1);
  drafter->feeds_normed = draft.config.feeds_normed;
  // Heads go as far as their target: their own configuration often has the length of their training.
  const bool is_model = draft.config.kind == DraftNetworkKind::model;
  drafter->max_positions = is_model ? config.max_positions : std::numeric_limits<int32_t>::max();
  drafter->token_of.assign(draft.token_of.begin(), draft.token_of.end());
  drafter->name = draft.name;
  BuildOptions own = options;
  own.num_shards = 1;
  own.drafter = nullptr;
  const bool is_beside = target.stages.front().device == device;
  const Loan loan = {&target, draft.config.borrows_embedding && is_beside,
                     draft.config.borrows_head && target.shard.num_shards == 1};
  build_weights(config, draft.weights, own, loan, devices, drafter->network);
  return drafter;
}

// Throws if a draft network reads states that are not on the last device.
void require_states(const Transformer& transformer) {
  if (transformer.state_layers.empty() ||
      transformer.state_layers.front() >= transformer.stages.back().first_layer)
    return;
  throw Error(
      ErrorCode::unsupported,
      "drafter: the draft network reads the input of layer {}, which is not on the last device; place "
      "the whole model on one device, or load it without a drafter",
      transformer.state_layers.front());
}

// Throws if the embedding or the head would lie in another process.
void require_local_ends(const Transformer& transformer) {
  if (!transformer.stages.front().device->is_remote() && !transformer.stages.back().device->is_remote())
    return;
  throw Error(
      ErrorCode::invalid_argument,
      "device: the embedding and the head stay in this process; name one of its devices too, such as cpu")
      .at("device");
}

}  // namespace

std::shared_ptr<const Transformer> build_transformer(const ModelConfig& config, WeightProvider& weights,
                                                     gsl::span<const std::shared_ptr<Device>> devices,
                                                     const Placement& placement,
                                                     const BuildOptions& options) {
  const int32_t num_shards = options.num_shards;
  require_placement(placement, config.num_layers, gsl::narrow<int32_t>(devices.size()), num_shards);
  auto transformer = std::make_shared<Transformer>(empty_stages(devices, placement, num_shards));
  const auto trim_at_end = gsl::finally([&] { trim_all(devices); });
  require_local_ends(*transformer);
  if (options.drafter != nullptr) transformer->state_layers = options.drafter->config.state_layers;
  require_states(*transformer);
  build_weights(config, weights, options, {}, {devices, placement}, *transformer);
  if (options.drafter != nullptr)
    transformer->drafter = build_drafter(*options.drafter, *transformer, options);
  return transformer;
}

std::shared_ptr<const Transformer> build_inner_stage(const ModelConfig& config, WeightProvider& weights,
                                                     gsl::span<const std::shared_ptr<Device>> devices,
                                                     const LayerRange& layers, const BuildOptions& options) {
  if (layers.first < 0 || layers.first >= layers.end || layers.end > config.num_layers) {
    throw Error(ErrorCode::invalid_argument, "layers {} to {} of a model that has {}", layers.first,
                int64_t{layers.end} - 1, config.num_layers);
  }
  auto transformer = std::make_shared<Transformer>();
  transformer->is_inner = true;
  Placement placement = place_on_one_device(config.num_layers);
  placement.spreads.assign(devices.size(), devices.size() > 1);
  transformer->stages.push_back(
      empty_stage(devices, placement, {0, layers.first, layers.end}, options.num_shards));
  const auto trim_at_end = gsl::finally([&] { trim_all(devices); });
  require_stage(config.spec, transformer->stages.front(), options);
  const Loan no_loan;
  ShardsBuilder shards(config, weights, options, no_loan, {devices, placement}, *transformer);
  require_same_backends(*transformer);
  shards.build_ropes();
  run_tasks(*options.threads, weights.is_concurrent() ? options.num_helpers : 0, layers.end - layers.first,
            [&](int32_t layer) { shards.build_layer(layers.first + layer); });
  return transformer;
}

}  // namespace quire
