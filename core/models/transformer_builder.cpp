#include "core/models/transformer_builder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <numeric>

#include <fmt/core.h>

#include "core/base/error.h"
#include "core/base/task_team.h"
#include "core/models/stage_checks.h"
#include "core/models/transformer_shape.h"

namespace quire {
namespace {

// The text part of a checkpoint of several kinds of input stands at one of these places.
constexpr std::array<std::string_view, 3> kTextPrefixes = {"language_model.", "model.language_model.",
                                                           "language_model.model."};

// A name as the files spell it: as it is, or within the text part.
std::string spelled(const WeightProvider& weights, const std::string& name, bool is_matrix) {
  const auto is_there = [&](const std::string& at) {
    return weights.has_tensor(at) || (is_matrix && weights.has_linear(at));
  };
  if (is_there(name)) return name;
  const std::string inner = name.starts_with("model.") ? name.substr(6) : name;
  for (const std::string_view prefix : kTextPrefixes) {
    for (const std::string& rest : {name, inner}) {
      std::string at = std::string(prefix) + rest;
      if (is_there(at)) return at;
    }
  }
  return name;
}

// Builds one piece of a transformer on its device: the matrices of a piece are prepared together, when all of
// them have been described.
class PieceBuilder {
 public:
  // `model` is that of the shard.
  PieceBuilder(const ModelSpec& model, WeightProvider& weights, std::shared_ptr<Device> device,
               const BuildOptions& options)
      : model_(model),
        weights_(weights),
        device_(std::move(device)),
        mode_(options.mode),
        activations_(options.activations) {}

  RotaryLayer rotary(const RopeSpec& rope) const {
    const auto frequencies = [&](bool is_short) {
      std::vector<float> values = inverse_frequencies(rope.config, rope.rotary_dim, is_short);
      if (rope.reversed) {
        for (float& value : values) value = -value;
      }
      return floats(values, "rotary frequencies");
    };
    RotaryLayer layer;
    layer.rotary_dim = rope.rotary_dim;
    layer.inv_freq = frequencies(false);
    layer.magnitude = static_cast<float>(rope.config.magnitude);
    if (rope.config.kind != RopeKind::longrope) return layer;
    layer.short_inv_freq = frequencies(true);
    layer.short_magnitude = static_cast<float>(rope.config.short_magnitude);
    layer.short_context = rope.config.original_max_positions;
    return layer;
  }

  TransformerLayer layer(int32_t index) {
    const LayerSpec& spec = model_.layers[static_cast<size_t>(index)];
    TransformerLayer layer;
    layer.parallel = spec.parallel;
    layer.shares_norm = spec.shares_norm;
    add_attention(spec, layer.attention);
    add_feed_forward(spec, layer.feed_forward);
    if (spec.streams) add_streams(*spec.streams, layer.streams.emplace());
    if (spec.laurel) add_laurel(*spec.laurel, layer.laurel.emplace());
    if (spec.layer_input) add_layer_input(*spec.layer_input, index, layer.layer_input.emplace());
    if (!spec.output_scale.name.empty()) layer.output_scale = host_vector(spec.output_scale).front();
    for (PrepareRequest& request : requests_) {
      for (WeightSource& part : request.parts) part.activations = activations_;
    }
    prepare_matrices();
    return layer;
  }

  HostTensor table() { return weights_.table(embedding_name(), model_.vocab_size, model_.hidden_size); }

  EmbeddingLayer embedding(const HostTensor& stored) {
    const EmbeddingPart& part = model_.embedding;
    EmbeddingLayer layer;
    layer.table = prepare_table(stored, embedding_name());
    layer.scale = part.scale;
    layer.hidden = model_.hidden_size;
    if (part.norm) layer.norm = norm(*part.norm);
    if (!part.positions_key.empty())
      layer.positions = table(part.positions_key, part.num_positions, model_.hidden_size);
    if (part.layer_inputs) add_layer_inputs(*part.layer_inputs, layer.layer_inputs.emplace());
    layer.stream_projections.resize(part.stream_projections.size());
    for (size_t s = 0; s < part.stream_projections.size(); ++s)
      request(layer.stream_projections[s], {part.stream_projections[s]});
    if (!requests_.empty()) prepare_matrices();
    return layer;
  }

  bool ties_head() const { return model_.head.tied && !weights_.has_linear(head_key()); }

  // The table stays until the piece is built.
  HeadLayer tied_head(const HostTensor& table) {
    unread_.push_back(table.unread());
    return head(embedding_name(), tied_source(table));
  }

  HeadLayer head() {
    if (!weights_.has_linear(head_key())) {
      throw Error(ErrorCode::format,
                  "the tensor {}.weight is missing, and config.json does not tie the embeddings", head_key());
    }
    return head(head_key(), linear(model_.head.projection).source());
  }

 private:
  int32_t num_layers() const { return gsl::narrow<int32_t>(model_.layers.size()); }

  // ---- attention ----

  void add_attention(const LayerSpec& spec, AttentionLayer& layer) {
    const AttentionPart& part = spec.attention();
    static_cast<kernels::AttentionSpec&>(layer) = static_cast<const kernels::AttentionSpec&>(part);
    layer.rope_idx = part.rope_idx;
    layer.norm = norm(spec.attention_norm);
    if (spec.attention_post_norm) layer.post_norm = norm(*spec.attention_post_norm);
    if (part.sub_norm) layer.sub_norm = norm(*part.sub_norm);
    layer.q_norm = vector(part.q_norm);
    layer.k_norm = vector(part.k_norm);
    layer.sinks = vector(part.sinks);
    if (!part.qkv.empty()) request(layer.qkv, part.qkv);
    if (!part.output.key.empty()) request(layer.output, {part.output});
    if (part.latent) add_latent(*part.latent, layer.low_rank.emplace());
    if (part.indexer) add_indexer(*part.indexer, layer.indexer.emplace());
    if (part.head_experts) add_head_experts(*part.head_experts, layer.head_experts.emplace());
    if (part.differential) layer.differential = differential(part);
    layer.results = part.results;
    layer.outputs = part.outputs;
  }

  void add_latent(const LatentPart& part, LatentLayer& layer) {
    if (part.query_down) request(layer.query_down, {*part.query_down});
    if (part.query_norm) layer.query_norm = norm(*part.query_norm);
    request(layer.query, {part.query});
    request(layer.latent, {part.latent});
    layer.latent_norm = norm(part.latent_norm);
    request(layer.expand, {part.expand});
  }

  void add_indexer(const IndexerPart& part, IndexerLayer& layer) {
    static_cast<kernels::IndexerSpec&>(layer) = static_cast<const kernels::IndexerSpec&>(part);
    request(layer.query, {part.query});
    request(layer.key, {part.key});
    request(layer.weights, {part.weights});
    layer.key_norm = norm(part.key_norm);
  }

  void add_head_experts(const HeadExpertsPart& part, HeadExpertsLayer& layer) {
    static_cast<kernels::RouterSpec&>(layer.router) = static_cast<const kernels::RouterSpec&>(part);
    request(layer.router.matrix, {part.router});
    add_expert_matrices({part.query}, part.num_experts, layer.query);
    add_expert_matrices({part.output}, part.num_experts, layer.output);
    layer.output_bias = vector(part.output_bias);
  }

  DifferentialLayer differential(const AttentionPart& attention) {
    const DifferentialPart& part = *attention.differential;
    const auto power = [&](const VectorPart& a, const VectorPart& b) {
      const std::vector<float> left = host_vector(a);
      const std::vector<float> right = host_vector(b);
      return std::exp(std::inner_product(left.begin(), left.end(), right.begin(), 0.0));
    };
    DifferentialLayer layer;
    layer.lambda = static_cast<float>(power(part.query_1, part.key_1) - power(part.query_2, part.key_2) +
                                      double{part.initial});
    layer.norm.columns = value_dim(attention.heads);
    layer.norm.epsilon = part.epsilon;
    return layer;
  }

  // ---- feed-forward ----

  void add_feed_forward(const LayerSpec& spec, FeedForwardLayer& layer) {
    const FeedForwardPart& part = spec.feed_forward;
    layer.norm.columns = spec.feed_forward_norm.columns;
    if (!spec.shares_norm) layer.norm = norm(spec.feed_forward_norm);
    if (spec.feed_forward_post_norm) layer.post_norm = norm(*spec.feed_forward_post_norm);
    if (part.dense) add_mlp(*part.dense, layer.dense.emplace());
    if (part.experts) add_experts(*part.experts, layer.experts.emplace());
    if (part.dense_post_norm) layer.dense_post_norm = norm(*part.dense_post_norm);
    if (part.experts_norm) layer.experts_norm = norm(*part.experts_norm);
    if (part.experts_post_norm) layer.experts_post_norm = norm(*part.experts_post_norm);
  }

  void add_mlp(const MlpPart& part, MlpLayer& layer) {
    static_cast<kernels::MlpSpec&>(layer) = static_cast<const kernels::MlpSpec&>(part);
    layer.activated = part.activated;
    layer.outputs = part.outputs;
    if (part.sub_norm) layer.sub_norm = norm(*part.sub_norm);
    if (!part.xielu_key.empty()) read_xielu(part.xielu_key, layer);
    LinearWeight& down = linear(part.down);
    request_folded(layer.gate_up, part.gate_up, down);
    requests_.push_back({{down.source()}, &layer.down});
    name_request(part.down.key);
  }

  // Producers of what `consumer` reads write in the order of its rows, where they are matrices of their own.
  void request_folded(PreparedWeight& target, const MatrixParts& parts, LinearWeight& consumer,
                      int32_t expert = 0) {
    std::vector<LinearWeight*> producers;
    for (const MatrixPart& part : parts) producers.push_back(&linear(part, expert));
    const bool can_fold = std::all_of(parts.begin(), parts.end(), [&](const MatrixPart& part) {
      return part.num_out == consumer.num_in && (!part.order || is_run(*part.order));
    });
    if (can_fold) fold_row_order(consumer, producers);
    PrepareRequest made;
    for (const LinearWeight* producer : producers) made.parts.push_back(producer->source());
    made.target = &target;
    requests_.push_back(std::move(made));
    name_request(parts.front().key);
  }

  // Whether outputs are those of the matrix as stored, or a shard's slice of them.
  static bool is_run(const std::vector<int32_t>& order) {
    for (size_t i = 1; i < order.size(); ++i)
      if (order[i] != order[i - 1] + 1) return false;
    return true;
  }

  // alpha of positive and negative numbers are kept by what softplus makes of them.
  void read_xielu(const std::string& key, kernels::MlpSpec& spec) {
    const auto number = [&](std::string_view name) {
      return host_vector({fmt::format("{}.{}", key, name), 1}).front();
    };
    const auto softplus = [](float x) { return std::log1p(std::exp(x)); };
    spec.b = weights_.has_tensor(key + ".beta") ? number("beta") : 0.5f;
    spec.limit = weights_.has_tensor(key + ".eps") ? number("eps") : -1e-6f;
    spec.a = softplus(number("alpha_p"));
    spec.c = spec.b + softplus(number("alpha_n"));
  }

  void add_experts(const ExpertsPart& part, ExpertsLayer& layer) {
    static_cast<kernels::RouterSpec&>(layer.router) = static_cast<const kernels::RouterSpec&>(part);
    request(layer.router.matrix, {part.router});
    layer.router.choice_bias = vector(part.choice_bias);
    layer.router.expert_scale = vector(part.expert_scale);
    if (part.router_norm) layer.router_norm = norm(*part.router_norm);
    layer.expert = static_cast<const kernels::MlpSpec&>(part.expert);
    layer.activated = part.expert.activated;
    layer.outputs = part.expert.outputs;
    add_expert_mlps(part.expert, part.num_experts, layer);
    if (part.shared) add_mlp(*part.shared, layer.shared.emplace());
    if (part.shared_gate) request(layer.shared_gate, {*part.shared_gate});
    layer.output_bias = vector(part.output_bias);
  }

  void add_expert_mlps(const MlpPart& part, int32_t num_experts, ExpertsLayer& layer) {
    layer.gate_up.matrices.resize(static_cast<size_t>(num_experts));
    layer.down.matrices.resize(static_cast<size_t>(num_experts));
    const size_t first = requests_.size();
    for (int32_t e = 0; e < num_experts; ++e) {
      LinearWeight& down = linear(part.down, e);
      request_folded(layer.gate_up.matrices[static_cast<size_t>(e)], part.gate_up, down, e);
      requests_.push_back({{down.source()}, &layer.down.matrices[static_cast<size_t>(e)]});
    }
    mark_experts(first);
    collected_.push_back(&layer.gate_up);
    collected_.push_back(&layer.down);
  }

  void add_expert_matrices(const MatrixParts& parts, int32_t num_experts, ExpertMatrices& experts) {
    experts.matrices.resize(static_cast<size_t>(num_experts));
    const size_t first = requests_.size();
    for (int32_t e = 0; e < num_experts; ++e) request(experts.matrices[static_cast<size_t>(e)], parts, e);
    mark_experts(first);
    collected_.push_back(&experts);
  }

  // The requests from `first` on.
  void mark_experts(size_t first) {
    for (size_t i = first; i < requests_.size(); ++i)
      for (WeightSource& part : requests_[i].parts) part.is_expert = true;
  }

  // ---- streams ----

  void add_streams(const StreamsPart& part, StreamsLayer& layer) {
    layer.num_streams = model_.num_streams;
    layer.router_norm = norm(part.router_norm);
    layer.output_scale = vector(part.output_scale);
    request(layer.router, {part.router});
    request(layer.prediction, {part.prediction});
    request(layer.correction, {part.correction});
  }

  void add_laurel(const LaurelPart& part, LaurelLayer& layer) {
    layer.norm = norm(part.norm);
    request(layer.left, {part.left});
    request(layer.right, {part.right});
  }

  void add_layer_input(const LayerInputPart& part, int32_t index, LayerInputLayer& layer) {
    layer.activation = part.activation;
    layer.norm = norm(part.norm);
    layer.columns = part.gate.num_out;
    layer.layer_idx = index;
    layer.num_layers = num_layers();
    request(layer.gate, {part.gate});
    request(layer.projection, {part.projection});
  }

  void add_layer_inputs(const LayerInputsPart& part, LayerInputsLayer& layer) {
    layer.table = table(part.table, part.vocab_size, part.columns * num_layers());
    layer.table_scale = part.table_scale;
    layer.norm = norm(part.norm);
    layer.sum_scale = part.sum_scale;
    layer.num_layers = num_layers();
    request(layer.projection, {part.projection});
  }

  // ---- ends ----

  HeadLayer head(const std::string& key, const WeightSource& projection) {
    HeadLayer head;
    head.norm = norm(model_.head.norm);
    head.vocab_size = model_.vocab_size;
    head.logit_scale = model_.head.scale;
    head.softcap = model_.head.softcap;
    head.vocabulary = model_.head.vocabulary;
    requests_.push_back({{projection}, &head.projection});
    name_request(key);
    head.stream_projections.resize(model_.head.stream_projections.size());
    for (size_t s = 0; s < head.stream_projections.size(); ++s)
      request(head.stream_projections[s], {model_.head.stream_projections[s]});
    prepare_matrices();
    return head;
  }

  std::string embedding_name() const { return spelled(weights_, model_.embedding.key + ".weight", false); }
  std::string head_key() const { return spelled(weights_, model_.head.projection.key, true); }

  WeightSource tied_source(const HostTensor& table) const {
    WeightSource source;
    source.unread = bytes_of(table.unread());
    source.format = kernels::WeightFormat::dense;
    source.num_in = model_.hidden_size;
    source.num_out = model_.vocab_size;
    source.padded_out = model_.vocab_size;
    source.dense = {table.dtype(), table.data()};
    if (const ColumnOrder& order = model_.head.projection.order; order) {
      source.num_out = gsl::narrow<int32_t>(order->size());
      source.column_order = order->data();
    }
    return source;
  }

  PreparedWeight table(const std::string& key, int32_t rows, int32_t columns) {
    const std::string name = spelled(weights_, key + ".weight", false);
    return prepare_table(weights_.table(name, rows, columns), name);
  }

  PreparedWeight prepare_table(const HostTensor& stored, const std::string& name) {
    const std::string what = "preparing " + name;
    const UnreadTensor* const unread = stored.unread();
    const TableSource source = {stored.dtype(), gsl::narrow<int32_t>(stored.shape()[0]),
                                gsl::narrow<int32_t>(stored.shape()[1]), stored.data(), bytes_of(unread)};
    if (mode_ == BuildMode::plan) return PreparedWeight::planned_table(*device_, source, what);
    PreparedWeight table;
    while_device_reads({&unread, 1}, [&] { table = PreparedWeight::table(device_, source, what); });
    return table;
  }

  // ---- tensors ----

  std::vector<float> host_vector(const VectorPart& part) {
    std::vector<float> values = weights_.vector(spelled(weights_, part.name, false), part.count);
    if (part.offset != 0.0f || part.scale != 1.0f) {
      for (float& value : values) value = (value + part.offset) * part.scale;
    }
    if (!part.order) return values;
    std::vector<float> taken;
    for (const int32_t element : *part.order) taken.push_back(values[static_cast<size_t>(element)]);
    return taken;
  }

  DeviceBuffer vector(const VectorPart& part) {
    return part.name.empty() ? DeviceBuffer() : floats(host_vector(part), part.name);
  }

  NormLayer norm(const NormPart& part) {
    NormLayer layer;
    static_cast<kernels::NormSpec&>(layer) = static_cast<const kernels::NormSpec&>(part);
    layer.weight = vector(part.weight);
    layer.bias = vector(part.bias);
    return layer;
  }

  static std::string with_number(const std::string& key, int32_t expert) {
    const size_t at = key.find("{}");
    return at == std::string::npos ? key : key.substr(0, at) + std::to_string(expert) + key.substr(at + 2);
  }

  // Stays until the piece is built.
  LinearWeight& linear(const MatrixPart& part, int32_t expert = 0) {
    LinearRequest request;
    request.key = spelled(weights_, with_number(part.key, expert), true);
    request.num_in = part.num_in;
    request.num_out = part.num_out;
    request.needs_bias = part.bias == BiasRule::required;
    request.prescale = part.prescale;
    request.part.num_experts = part.num_slabs;
    request.part.expert = part.num_slabs > 0 ? expert : 0;
    request.part.input_major = part.transposed;
    request.read_by = ReadBy::device;
    LinearWeight& weight = read_.emplace_back(weights_.linear(request));
    unread_.push_back(weight.unread());
    for (float& value : weight.bias) value *= part.prescale;
    if (part.order) apply_order(*part.order, weight);
    return weight;
  }

  // An order may give an output several times, or not all of them.
  static void apply_order(const std::vector<int32_t>& order, LinearWeight& weight) {
    weight.column_order = order;
    weight.num_out = gsl::narrow<int32_t>(order.size());
    if (!weight.bias.empty()) weight.bias.resize(std::max(weight.bias.size(), order.size()));
  }

  void request(PreparedWeight& target, const MatrixParts& parts, int32_t expert = 0) {
    PrepareRequest made;
    for (const MatrixPart& part : parts) made.parts.push_back(linear(part, expert).source());
    made.target = &target;
    requests_.push_back(std::move(made));
    if (expert == 0) name_request(parts.front().key);
  }

  void name_request(const std::string& key) {
    requested_keys_ += (requested_keys_.empty() ? "" : ", ") + key;
  }

  void prepare_matrices() {
    const std::string what = "preparing " + requested_keys_;
    if (mode_ == BuildMode::plan) {
      PreparedWeight::plan_matrices(*device_, requests_, what);
    } else {
      while_device_reads(unread_, [&] { PreparedWeight::prepare_matrices(device_, requests_, what); });
    }
    for (ExpertMatrices* experts : collected_) experts->collect();
  }

  DeviceBuffer floats(const std::vector<float>& values, std::string_view what) const {
    return mode_ == BuildMode::plan ? DeviceBuffer::planned(values.size() * sizeof(float))
                                    : upload_floats(device_, values, what);
  }

  const ModelSpec& model_;
  WeightProvider& weights_;
  const std::shared_ptr<Device> device_;
  const BuildMode mode_;
  const kernels::ActivationDtype activations_;
  std::deque<LinearWeight> read_;            // what requests point to
  std::vector<const UnreadTensor*> unread_;  // or nullptr
  std::vector<PrepareRequest> requests_;
  std::vector<ExpertMatrices*> collected_;
  std::string requested_keys_;  // for messages
};

Transformer empty_stages(gsl::span<const std::shared_ptr<Device>> devices, const Placement& placement) {
  Transformer transformer;
  for (const LayerRun& run : layer_runs(placement)) {
    PipelineStage stage;
    stage.device = devices[static_cast<size_t>(run.device)];
    stage.first_layer = run.first;
    stage.layers.resize(static_cast<size_t>(run.end - run.first));
    transformer.stages.push_back(std::move(stage));
  }
  return transformer;
}

PipelineStage& stage_of(Transformer& transformer, int32_t layer) {
  size_t i = transformer.stages.size() - 1;
  while (transformer.stages[i].first_layer > layer) --i;
  return transformer.stages[i];
}

// Builds the pieces of all shards: the same piece of one shard after another, so that a file's pages are
// still there when the next one reads them.
class ShardsBuilder {
 public:
  ShardsBuilder(const ModelConfig& config, WeightProvider& weights, const BuildOptions& options,
                Transformer& first)
      : weights_(weights), options_(options), first_(first) {
    for (int32_t rank = 0; rank < options.num_shards; ++rank)
      models_.push_back(shard_of(config.spec, {rank, options.num_shards}));
    first_.peers.resize(models_.size() - 1, first_);
    for (int32_t rank = 0; rank < options.num_shards; ++rank) {
      at(rank).shard = {rank, options.num_shards};
      at(rank).shape = transformer_shape(model(rank));
    }
  }

  void build_ropes() {
    each_shard([&](int32_t rank) {
      for (PipelineStage& stage : at(rank).stages) {
        for (const RopeSpec& rope : model(rank).ropes)
          stage.ropes.push_back(builder(rank, stage).rotary(rope));
      }
    });
  }

  // The table is read once where the heads are tied to it.
  void build_embedding() {
    PieceBuilder embedding = builder(0, first_.stages.front());
    const HostTensor table = embedding.table();
    first_.embedding = embedding.embedding(table);
    if (!embedding.ties_head()) return;
    each_shard([&](int32_t rank) { at(rank).head = builder(rank, at(rank).stages.back()).tied_head(table); });
  }

  void build_head() {
    each_shard([&](int32_t rank) {
      PieceBuilder head = builder(rank, at(rank).stages.back());
      if (!head.ties_head()) at(rank).head = head.head();
    });
  }

  void build_layer(int32_t layer) {
    each_shard([&](int32_t rank) {
      PipelineStage& stage = stage_of(at(rank), layer);
      stage.layers[static_cast<size_t>(layer - stage.first_layer)] = builder(rank, stage).layer(layer);
    });
  }

 private:
  Transformer& at(int32_t rank) { return rank == 0 ? first_ : first_.peers[static_cast<size_t>(rank) - 1]; }
  const ModelSpec& model(int32_t rank) const { return models_[static_cast<size_t>(rank)]; }
  PieceBuilder builder(int32_t rank, const PipelineStage& stage) const {
    return PieceBuilder(model(rank), weights_, stage.device, options_);
  }
  template <typename Build>
  void each_shard(Build build) {
    for (int32_t rank = 0; rank < gsl::narrow<int32_t>(models_.size()); ++rank) build(rank);
  }

  WeightProvider& weights_;
  const BuildOptions& options_;
  Transformer& first_;
  std::vector<ModelSpec> models_;  // of each shard
};

}  // namespace

std::shared_ptr<const Transformer> build_transformer(const ModelConfig& config, WeightProvider& weights,
                                                     gsl::span<const std::shared_ptr<Device>> devices,
                                                     const Placement& placement,
                                                     const BuildOptions& options) {
  require_placement(placement, config.num_layers, gsl::narrow<int32_t>(devices.size()));
  auto transformer = std::make_shared<Transformer>(empty_stages(devices, placement));
  const auto trim_at_end = gsl::finally([&] {
    for (const std::shared_ptr<Device>& device : devices) device->trim();
  });
  for (const PipelineStage& stage : transformer->stages) require_stage(config.spec, stage, options);
  ShardsBuilder shards(config, weights, options, *transformer);
  shards.build_ropes();
  // The ends are larger than a layer: they begin.
  constexpr int32_t kEnds = 2;
  const auto build_piece = [&](int32_t piece) {
    if (piece == 0) return shards.build_embedding();
    if (piece == 1) return shards.build_head();
    shards.build_layer(piece - kEnds);
  };
  run_tasks(*options.threads, weights.is_concurrent() ? options.num_helpers : 0, config.num_layers + kEnds,
            build_piece);
  return transformer;
}

}  // namespace quire
