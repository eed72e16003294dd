#include "core/models/transformer_builder.h"

#include <array>
#include <deque>

#include <fmt/core.h>

#include "core/base/error.h"
#include "core/base/task_team.h"

namespace quire {
namespace {

// Builds one piece of a transformer on its device: the matrices of a piece are prepared together, when all of
// them have been read.
class PieceBuilder {
 public:
  PieceBuilder(const ModelConfig& config, WeightProvider& weights, std::shared_ptr<Device> device,
               BuildMode mode)
      : config_(config),
        spec_(*config.architecture),
        weights_(weights),
        device_(std::move(device)),
        mode_(mode) {}

  RotaryLayer rotary() const {
    RotaryLayer layer;
    layer.rotary_dim = config_.rotary_dim;
    layer.inv_freq = floats(inverse_frequencies(config_.rope, config_.rotary_dim), "rotary frequencies");
    return layer;
  }

  TransformerLayer layer(int32_t index) {
    TransformerLayer layer;
    add_attention(index, layer.attention);
    add_mlp(index, layer.mlp);
    prepare_matrices();
    return layer;
  }

  HostTensor table() { return weights_.table(embedding_name(), config_.vocab_size, config_.hidden_size); }

  EmbeddingLayer embedding(const HostTensor& stored) {
    const std::string what = "preparing " + embedding_name();
    EmbeddingLayer layer;
    layer.table = mode_ == BuildMode::plan
                      ? PreparedWeight::planned_table(*device_, stored.dtype(), config_.vocab_size,
                                                      config_.hidden_size, what)
                      : PreparedWeight::table(device_, stored.dtype(), stored.data(), config_.vocab_size,
                                              config_.hidden_size, what);
    return layer;
  }

  bool ties_head() const { return config_.tied_embeddings && !weights_.has_linear(head_key()); }

  HeadLayer tied_head(const HostTensor& table) { return head(embedding_name(), tied_source(table)); }

  HeadLayer head() {
    if (!weights_.has_linear(head_key())) {
      throw Error(ErrorCode::format,
                  "the tensor {}.weight is missing, and config.json does not tie the embeddings", head_key());
    }
    return head(head_key(), linear(head_key(), config_.hidden_size, config_.vocab_size, false).source());
  }

 private:
  void add_attention(int32_t index, AttentionLayer& layer) {
    const kernels::HeadShape& heads = config_.heads;
    const int32_t query_columns = heads.num_heads * heads.head_dim;
    const int32_t kv_columns = heads.num_kv_heads * heads.head_dim;
    layer.norm = norm(layer_key(spec_, index, spec_.keys.attention_norm));

    const std::string query_key = layer_key(spec_, index, spec_.keys.query);
    const LinearWeight& query = linear(query_key, config_.hidden_size, query_columns, config_.qkv_bias);
    const LinearWeight& key =
        linear(layer_key(spec_, index, spec_.keys.key), config_.hidden_size, kv_columns, config_.qkv_bias);
    const LinearWeight& value =
        linear(layer_key(spec_, index, spec_.keys.value), config_.hidden_size, kv_columns, config_.qkv_bias);
    request(layer.qkv, query_key, {query.source(), key.source(), value.source()});

    const std::string output_key = layer_key(spec_, index, spec_.keys.attention_output);
    const LinearWeight& output =
        linear(output_key, query_columns, config_.hidden_size, config_.attention_output_bias);
    request(layer.output, output_key, {output.source()});

    layer.heads = heads;
    layer.rope = spec_.rope_style;
    layer.rotary_dim = config_.rotary_dim;
    layer.scale = config_.attention_scale;
    layer.sliding_window = config_.sliding_windows[static_cast<size_t>(index)];
  }

  void add_mlp(int32_t index, MlpLayer& layer) {
    const int32_t hidden = config_.hidden_size;
    const int32_t intermediate = config_.intermediate_size;
    layer.norm = norm(layer_key(spec_, index, spec_.keys.mlp_norm));
    layer.activation = config_.activation;
    layer.gated = spec_.gated_mlp;
    layer.intermediate = intermediate;

    const std::string down_key = layer_key(spec_, index, spec_.keys.down);
    const std::string up_key = layer_key(spec_, index, spec_.keys.up);
    LinearWeight& down = linear(down_key, intermediate, hidden, config_.mlp_bias);
    LinearWeight& up = linear(up_key, hidden, intermediate, config_.mlp_bias);
    if (spec_.gated_mlp) {
      LinearWeight& gate =
          linear(layer_key(spec_, index, spec_.keys.gate), hidden, intermediate, config_.mlp_bias);
      const std::array<LinearWeight*, 2> producers = {&gate, &up};
      fold_row_order(down, producers);
      request(layer.gate_up, up_key, {gate.source(), up.source()});
    } else {
      const std::array<LinearWeight*, 1> producers = {&up};
      fold_row_order(down, producers);
      request(layer.gate_up, up_key, {up.source()});
    }
    request(layer.down, down_key, {down.source()});
  }

  HeadLayer head(const std::string& key, const WeightSource& projection) {
    HeadLayer head;
    head.norm = norm(std::string(spec_.keys.final_norm));
    head.vocab_size = config_.vocab_size;
    request(head.projection, key, {projection});
    prepare_matrices();
    return head;
  }

  std::string embedding_name() const { return std::string(spec_.keys.embedding) + ".weight"; }
  std::string head_key() const { return std::string(spec_.keys.head); }

  WeightSource tied_source(const HostTensor& table) const {
    WeightSource source;
    source.format = kernels::WeightFormat::dense;
    source.num_in = config_.hidden_size;
    source.num_out = config_.vocab_size;
    source.padded_out = config_.vocab_size;
    source.dense = {table.dtype(), table.data()};
    return source;
  }

  NormLayer norm(const std::string& key) {
    NormLayer layer;
    layer.kind = spec_.norm;
    layer.epsilon = config_.norm_epsilon;
    layer.columns = config_.hidden_size;
    layer.weight = floats(weights_.vector(key + ".weight", config_.hidden_size), key);
    if (spec_.norm == kernels::NormKind::layer) {
      layer.bias = floats(weights_.vector(key + ".bias", config_.hidden_size), key);
    }
    return layer;
  }

  // Stays until the piece is built.
  LinearWeight& linear(const std::string& key, int32_t num_in, int32_t num_out, bool needs_bias) {
    LinearRequest request;
    request.key = key;
    request.num_in = num_in;
    request.num_out = num_out;
    request.needs_bias = needs_bias;
    return read_.emplace_back(weights_.linear(request));
  }

  void request(PreparedWeight& target, const std::string& key, std::vector<WeightSource> parts) {
    requests_.push_back({std::move(parts), &target});
    requested_keys_ += (requested_keys_.empty() ? "" : ", ") + key;
  }

  void prepare_matrices() {
    const std::string what = "preparing " + requested_keys_;
    if (mode_ == BuildMode::plan) {
      PreparedWeight::plan_matrices(*device_, requests_, what);
    } else {
      PreparedWeight::prepare_matrices(device_, requests_, what);
    }
  }

  DeviceBuffer floats(const std::vector<float>& values, std::string_view what) const {
    return mode_ == BuildMode::plan ? DeviceBuffer::planned(values.size() * sizeof(float))
                                    : upload_floats(device_, values, what);
  }

  const ModelConfig& config_;
  const ArchitectureSpec& spec_;
  WeightProvider& weights_;
  const std::shared_ptr<Device> device_;
  const BuildMode mode_;
  std::deque<LinearWeight> read_;  // what requests point to
  std::vector<MatrixRequest> requests_;
  std::string requested_keys_;  // for messages
};

Transformer empty_stages(gsl::span<const std::shared_ptr<Device>> devices, const Placement& placement) {
  Transformer transformer;
  for (const LayerRun& run : layer_runs(placement)) {
    TransformerStage stage;
    stage.device = devices[static_cast<size_t>(run.device)];
    stage.first_layer = run.first;
    stage.layers.resize(static_cast<size_t>(run.end - run.first));
    transformer.stages.push_back(std::move(stage));
  }
  return transformer;
}

TransformerStage& stage_of(Transformer& transformer, int32_t layer) {
  size_t i = transformer.stages.size() - 1;
  while (transformer.stages[i].first_layer > layer) --i;
  return transformer.stages[i];
}

}  // namespace

TransformerShape transformer_shape(const ModelConfig& config) {
  TransformerShape shape;
  shape.num_layers = config.num_layers;
  shape.hidden_size = config.hidden_size;
  shape.heads = config.heads;
  shape.intermediate_size = config.intermediate_size;
  shape.rotary_dim = config.rotary_dim;
  shape.vocab_size = config.vocab_size;
  return shape;
}

std::shared_ptr<const Transformer> build_transformer(const ModelConfig& config, WeightProvider& weights,
                                                     gsl::span<const std::shared_ptr<Device>> devices,
                                                     const Placement& placement,
                                                     const BuildOptions& options) {
  require_placement(placement, config.num_layers, gsl::narrow<int32_t>(devices.size()));
  auto transformer = std::make_shared<Transformer>(empty_stages(devices, placement));
  const auto builder_for = [&](const TransformerStage& stage) {
    return PieceBuilder(config, weights, stage.device, options.mode);
  };
  const auto trim_at_end = gsl::finally([&] {
    for (const std::shared_ptr<Device>& device : devices) device->trim();
  });
  for (TransformerStage& stage : transformer->stages) stage.rotary = builder_for(stage).rotary();
  // The ends are larger than a layer: they begin.
  constexpr int32_t kEnds = 2;
  const auto build_piece = [&](int32_t piece) {
    TransformerStage& first = transformer->stages.front();
    TransformerStage& last = transformer->stages.back();
    if (piece == 0) {
      PieceBuilder embedding = builder_for(first);
      const HostTensor table = embedding.table();
      transformer->embedding = embedding.embedding(table);
      if (embedding.ties_head()) transformer->head = builder_for(last).tied_head(table);  // read once
    } else if (piece == 1) {
      PieceBuilder head = builder_for(last);
      if (!head.ties_head()) transformer->head = head.head();
    } else {
      const int32_t layer = piece - kEnds;
      TransformerStage& stage = stage_of(*transformer, layer);
      stage.layers[static_cast<size_t>(layer - stage.first_layer)] = builder_for(stage).layer(layer);
    }
  };
  run_tasks(*options.threads, weights.is_concurrent() ? options.num_helpers : 0, config.num_layers + kEnds,
            build_piece);
  return transformer;
}

}  // namespace quire
