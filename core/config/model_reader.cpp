#include "core/config/model_reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/base/error.h"

namespace quire {
namespace {

constexpr int64_t kMaxPositions = 1 << 30;

constexpr IntField kNumLayers = {{"num_hidden_layers", "n_layers", "n_layer", "num_layers"}, 1, 1024};
constexpr IntField kHiddenSize = {{"hidden_size", "d_model", "n_embd", "n_embed"}, 1, 65536};
constexpr IntField kIntermediateSize = {
    {"intermediate_size", "n_inner", "ffn_hidden_size", "ffn_dim"}, 1, 1 << 20};
constexpr IntField kNumHeads = {{"num_attention_heads", "n_heads", "n_head", "num_heads"}, 1, 1024};
constexpr IntField kNumKvHeads = {{"num_key_value_heads", "kv_n_heads", "multi_query_group_num",
                                   "num_kv_heads", "n_head_kv", "num_attention_groups"},
                                  1,
                                  1024};
constexpr IntField kHeadDim = {{"head_dim", "kv_channels"}, 1, 1024};
constexpr IntField kVocabSize = {{"vocab_size", "padded_vocab_size"}, 1, 1 << 22};
constexpr IntField kMaxPositionsField = {{"max_position_embeddings", "max_sequence_length",
                                          "model_max_length", "max_seq_len", "n_positions", "seq_length"},
                                         1,
                                         kMaxPositions};
constexpr IntField kSlidingWindow = {
    {"sliding_window", "sliding_window_size", "attention_window_size"}, 1, kMaxPositions};
constexpr IntField kWindowPattern = {
    {"sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers"}, 1, 1024};
constexpr IntField kMaxWindowLayers = {{"max_window_layers"}, 0, 1024};

struct ActivationName {
  std::string_view name;
  kernels::Activation activation;
};
constexpr std::array<ActivationName, 12> kActivations = {{
    {"silu", kernels::Activation::silu},
    {"swish", kernels::Activation::silu},
    {"gelu", kernels::Activation::gelu_erf},
    {"gelu_python", kernels::Activation::gelu_erf},
    {"gelu_new", kernels::Activation::gelu_tanh},
    {"gelu_fast", kernels::Activation::gelu_tanh},
    {"gelu_pytorch_tanh", kernels::Activation::gelu_tanh},
    {"quick_gelu", kernels::Activation::gelu_quick},
    {"relu", kernels::Activation::relu},
    {"relu2", kernels::Activation::relu_squared},
    {"relu_squared", kernels::Activation::relu_squared},
    {"xielu", kernels::Activation::xielu},
}};

// Returns whether a layer has a window if there are no `layer_types`: all except every `pattern`-th have one.
bool is_windowed(WindowRule rule, size_t layer, size_t num_layers, size_t pattern) {
  if (rule == WindowRule::by_layer_type_from_first) return layer % pattern != 0;
  if (rule == WindowRule::by_layer_type_from_last) return (num_layers - 1 - layer) % pattern != 0;
  return (layer + 1) % pattern != 0;
}

// Returns the name under which transformers keeps the RoPE settings of a layer type.
std::string_view settings_name(LayerType type) {
  return type == LayerType::full ? "full_attention" : "sliding_attention";
}

kernels::HeadShape read_heads(const ConfigFields& fields, const ArchitectureSpec& row, int32_t hidden_size) {
  kernels::HeadShape heads;
  heads.num_heads = fields.require_int(kNumHeads);
  heads.num_kv_heads = fields.int_or(kNumKvHeads, heads.num_heads);
  if (heads.num_heads % heads.num_kv_heads != 0) {
    throw Error(ErrorCode::format, "{}.num_key_value_heads: {} does not divide {} heads", fields.where(),
                heads.num_kv_heads, heads.num_heads);
  }
  if (row.has_head_dim && (fields.find(kHeadDim.names) || row.default_head_dim != 0)) {
    heads.head_dim = fields.int_or(kHeadDim, row.default_head_dim);
  } else if (hidden_size % heads.num_heads == 0) {
    heads.head_dim = hidden_size / heads.num_heads;
  } else {
    throw Error(ErrorCode::format, "{}.num_attention_heads: {} does not divide hidden_size {}",
                fields.where(), heads.num_heads, hidden_size);
  }
  if (heads.head_dim > kHeadDim.max) {
    throw Error(ErrorCode::format, "{}: heads of {} dimensions, more than the limit of {}", fields.where(),
                heads.head_dim, kHeadDim.max);
  }
  return heads;
}

void require_rotary_dim(const ConfigFields& fields, const RopeSpec& rope, int32_t head_dim) {
  if (rope.rotary_dim < 2 || rope.rotary_dim % 2 != 0 || rope.rotary_dim > head_dim) {
    throw Error(ErrorCode::format,
                "{}.head_dim: rotary embedding of {} dimensions, not an even number above 0", fields.where(),
                rope.rotary_dim);
  }
  const auto num = static_cast<size_t>(rope.rotary_dim) / 2;
  const bool fits =
      rope.config.kind != RopeKind::longrope ||
      (rope.config.longrope.factors.size() == num && rope.config.longrope.short_factors.size() == num);
  if (fits) return;
  throw Error(ErrorCode::format, "{}.rope_scaling: long_factor and short_factor must have {} entries each",
              fields.where(), num);
}

}  // namespace

MlpKeys mlp_keys(const std::string& prefix) {
  return {"", prefix + "gate_proj", prefix + "up_proj", prefix + "down_proj"};
}

ModelReader::ModelReader(const ConfigFields& fields, const ArchitectureSpec& row)
    : fields_(fields), row_(row) {
  read_sizes();
  read_layer_types();
  read_ends();
  for (int32_t i = 0; i < static_cast<int32_t>(layer_types_.size()); ++i)
    model_.layers.push_back(standard_layer(i));
  read_ropes();
}

void ModelReader::read_sizes() {
  const size_t listed = num_listed_layers(fields_, row_);
  const int64_t num_layers = listed > 0 && !fields_.find(kNumLayers.names)
                                 ? std::min(static_cast<int64_t>(listed), kNumLayers.max)
                                 : fields_.require_int(kNumLayers);
  layer_types_.resize(static_cast<size_t>(num_layers), LayerType::full);
  model_.hidden_size = fields_.require_int(kHiddenSize);
  if (row_.has_dense_mlp) {
    const int64_t fallback = int64_t{row_.default_intermediate_ratio} * model_.hidden_size;
    intermediate_ =
        fallback > 0 ? fields_.int_or(kIntermediateSize, fallback) : fields_.require_int(kIntermediateSize);
  }
  model_.vocab_size = fields_.require_int(kVocabSize);
  max_positions_ = fields_.int_or(kMaxPositionsField, row_.default_max_positions);
  if (row_.has_attention) heads_ = read_heads(fields_, row_, model_.hidden_size);
  epsilon_ = static_cast<float>(fields_.number_or({"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon",
                                                   "norm_eps", "norm_epsilon", "layernorm_epsilon"},
                                                  row_.default_norm_epsilon, 1e-12, 0.1));
  activation_ = read_activation();
}

void ModelReader::read_layer_types() {
  const size_t num_layers = layer_types_.size();
  if (auto listed = listed_layer_types(fields_, row_, num_layers)) {
    layer_types_ = *std::move(listed);
  } else if (row_.type_of_layer != nullptr) {
    for (size_t i = 0; i < num_layers; ++i)
      layer_types_[i] = row_.type_of_layer(*this, static_cast<int32_t>(i));
  } else if (row_.window == WindowRule::by_layer_switch) {
    const auto first = static_cast<size_t>(fields_.int_or(kMaxWindowLayers, 28));
    for (size_t i = first; i < num_layers; ++i) layer_types_[i] = LayerType::sliding;
  } else if (row_.window >= WindowRule::by_layer_type) {
    const auto pattern = static_cast<size_t>(fields_.int_or(kWindowPattern, row_.window_pattern));
    for (size_t i = 0; i < num_layers; ++i)
      if (is_windowed(row_.window, i, num_layers, pattern)) layer_types_[i] = LayerType::sliding;
  }
}

void ModelReader::read_ropes() {
  const RopeDefaults defaults = {row_.default_rope_theta, row_.default_partial_rotary, max_positions_, 0};
  const bool by_type = has_rope_by_layer_type(fields_);
  if (row_.lists_ropes && !by_type) return;
  for (size_t i = 0; i < model_.layers.size(); ++i) {
    if (model_.layers[i].find_attention() == nullptr) continue;
    RopeSpec rope;
    rope.config =
        read_rope_config(fields_, defaults, by_type ? settings_name(layer_types_[i]) : std::string_view());
    set_rope(model_.layers[i], rope);
  }
}

void ModelReader::set_rope(LayerSpec& layer, const RopeSpec& rope) {
  AttentionPart& part = layer.attention();
  RopeSpec own = rope;
  const int32_t head_dim = part.heads.head_dim;
  const double turning = own.config.kind == RopeKind::proportional ? 1.0 : own.config.partial_factor;
  if (own.rotary_dim == 0) own.rotary_dim = static_cast<int32_t>(head_dim * turning);
  require_rotary_dim(fields_, own, head_dim);
  const auto found = std::find(model_.ropes.begin(), model_.ropes.end(), own);
  part.rope_idx = static_cast<int32_t>(found - model_.ropes.begin());
  if (found == model_.ropes.end()) model_.ropes.push_back(own);
  part.rope = row_.rope_style;
  part.rotary_dim = own.rotary_dim;
}

void ModelReader::set_bases(const std::vector<double>& bases) {
  const std::vector<RopeSpec> ropes = std::exchange(model_.ropes, {});
  for (size_t i = 0; i < model_.layers.size(); ++i) {
    LayerSpec& layer = model_.layers[i];
    RopeSpec rope = ropes[static_cast<size_t>(layer.attention().rope_idx)];
    rope.config.theta = bases[i];
    if (bases[i] > 0.0) {
      set_rope(layer, rope);
    } else {
      drop_rope(layer);
    }
  }
}

void ModelReader::drop_rope(LayerSpec& layer) {
  AttentionPart& part = *layer.find_attention();
  part.rope = kernels::RopeStyle::none;
  part.rope_idx = -1;
  part.rotary_dim = 0;
}

void ModelReader::drop_ropes() {
  model_.ropes.clear();
  each_attention([](LayerSpec& layer, int32_t) { drop_rope(layer); });
}

void ModelReader::use_learned_positions(std::string_view key, int32_t offset) {
  model_.embedding.positions_key = key;
  model_.embedding.num_positions = max_positions_ + offset;
  model_.embedding.position_offset = offset;
  drop_ropes();
}

bool ModelReader::has_rope(int32_t layer) const {
  const std::vector<int64_t> listed = layer_numbers("no_rope_layers");
  const int32_t interval = int_or("no_rope_layer_interval", 4, 1, 1024);
  return listed.empty() ? (layer + 1) % interval != 0 : listed[static_cast<size_t>(layer)] != 0;
}

void ModelReader::read_ends() {
  model_.embedding.key = row_.keys.embedding;
  model_.head.norm = norm(std::string(row_.keys.final_norm), hidden());
  model_.head.projection = matrix(std::string(row_.keys.head), hidden(), model_.vocab_size);
  model_.head.tied = flag("tie_word_embeddings", row_.tied_by_default);
}

LayerSpec ModelReader::standard_layer(int32_t index) {
  LayerSpec layer;
  layer.attention_norm = layer_norm(index, row_.keys.attention_norm);
  layer.feed_forward_norm = layer_norm(index, row_.keys.mlp_norm);
  if (row_.has_attention && quire::has_attention(layer_type(index))) {
    add_attention(index, layer);
  } else {
    layer.mixer = EmptyPart();
  }
  if (row_.has_dense_mlp) {
    const TensorKeys& keys = row_.keys;
    layer.feed_forward =
        mlp(index,
            {std::string(keys.gate_up), std::string(keys.gate), std::string(keys.up), std::string(keys.down)},
            intermediate_);
  }
  return layer;
}

void ModelReader::add_attention(int32_t index, LayerSpec& layer) {
  AttentionPart& attention = layer.attention();
  const bool is_off = row_.window == WindowRule::by_layer_switch && !flag("use_sliding_window");
  const bool is_windowed = row_.window == WindowRule::every_layer ||
                           (row_.window != WindowRule::no_layer && layer_type(index) == LayerType::sliding);
  if (is_windowed && !is_off) {
    const bool unlimited = fields_.is_null("sliding_window");
    attention.sliding_window = fields_.int_or(kSlidingWindow, unlimited ? 0 : row_.default_sliding_window);
  }
  set_heads(layer, index, heads_);
}

void ModelReader::set_heads(LayerSpec& layer, int32_t index, const kernels::HeadShape& heads) {
  AttentionPart& part = layer.attention();
  part.heads = heads;
  part.scale = 1.0f / std::sqrt(static_cast<float>(heads.head_dim));
  add_matrices(index, part);
}

void ModelReader::add_matrices(int32_t index, AttentionPart& part) {
  const TensorKeys& keys = row_.keys;
  const BiasRule has_bias = bias(row_.qkv_bias);
  part.qkv.clear();
  if (!keys.qkv.empty()) {
    part.qkv.push_back(layer_matrix(index, keys.qkv, hidden(), qkv_columns(part), has_bias));
  } else {
    part.qkv.push_back(layer_matrix(index, keys.query, hidden(), query_columns(part), has_bias));
    if (key_columns(part) > 0)
      part.qkv.push_back(layer_matrix(index, keys.key, hidden(), key_columns(part), has_bias));
    if (value_columns(part) > 0)
      part.qkv.push_back(layer_matrix(index, keys.value, hidden(), value_columns(part), has_bias));
  }
  part.output = layer_matrix(index, keys.attention_output, result_columns(part), hidden(),
                             bias(row_.attention_output_bias));
}

int32_t ModelReader::require(std::string_view name, int64_t min, int64_t max) const {
  return fields_.require_int({{name}, min, max});
}

int32_t ModelReader::int_or(std::string_view name, int64_t fallback, int64_t min, int64_t max) const {
  return fields_.int_or({{name}, min, max}, fallback);
}

float ModelReader::number_or(std::string_view name, double fallback, double min, double max) const {
  return static_cast<float>(fields_.number_or({name}, fallback, min, max));
}

std::vector<JsonView> ModelReader::layer_list(std::string_view name) const {
  const auto list = fields_.find(name);
  return list ? layer_entries(*list, fields_, layer_types_.size()) : std::vector<JsonView>();
}

std::vector<int64_t> ModelReader::layer_numbers(std::string_view name, int64_t min, int64_t max) const {
  std::vector<int64_t> out;
  for (const JsonView& entry : layer_list(name)) out.push_back(entry.as_int(min, max));
  return out;
}

std::vector<double> ModelReader::layer_reals(std::string_view name, double min, double max) const {
  std::vector<double> out;
  for (const JsonView& entry : layer_list(name)) out.push_back(entry.as_number(min, max));
  return out;
}

std::optional<bool> ModelReader::layer_is(std::string_view name, int32_t layer, std::string_view yes,
                                          std::string_view no) const {
  const std::vector<JsonView> entries = layer_list(name);
  if (entries.empty()) return std::nullopt;
  const JsonView& entry = entries[static_cast<size_t>(layer)];
  const std::string word = entry.as_string();
  if (word == yes || word == no) return word == yes;
  throw Error(ErrorCode::unsupported, "{}: \"{}\" is not supported; supported are {} and {}", entry.where(),
              printable(word, 32), yes, no);
}

void ModelReader::require_causal() const {
  const auto value = fields_.find("use_bidirectional_attention");
  if (!value) return;
  if (value->is_bool() ? !value->as_bool() : value->as_string() == "vision") return;
  throw Error(ErrorCode::unsupported, "{}: attention to later tokens is not supported", value->where());
}

// Reads the activation: a string, or an object with a `name`.
kernels::Activation ModelReader::read_activation() const {
  auto value = fields_.find("hidden_activation");
  if (!value && !row_.ignores_hidden_act)
    value = fields_.find({"hidden_act", "mlp_hidden_act", "activation_function", "ffn_act_fn", "activation"});
  if (value && value->is_object()) value = value->at("name");
  const std::string name = value ? value->as_string() : std::string(row_.default_activation);
  std::string names;
  for (const ActivationName& row : kActivations) {
    if (row.name == name) return row.activation;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  }
  throw Error(ErrorCode::unsupported, "{}: \"{}\" is not supported; supported are {}",
              value ? value->where() : fields_.where(), printable(name, 32), names);
}

std::string ModelReader::key(int32_t layer, std::string_view part) const {
  return layer_key(row_, layer, part);
}

MatrixPart ModelReader::matrix(std::string key, int32_t num_in, int32_t num_out, BiasRule bias) const {
  MatrixPart part;
  part.key = std::move(key);
  part.num_in = num_in;
  part.num_out = num_out;
  part.bias = bias;
  return part;
}

MatrixPart ModelReader::layer_matrix(int32_t layer, std::string_view part, int32_t num_in, int32_t num_out,
                                     BiasRule bias) const {
  return matrix(key(layer, part), num_in, num_out, bias);
}

NormPart ModelReader::bare_norm(kernels::NormKind kind, float epsilon, int32_t columns) {
  NormPart part;
  part.kind = kind;
  part.epsilon = epsilon;
  part.columns = columns;
  return part;
}

NormPart ModelReader::norm(const std::string& key, int32_t columns) const {
  NormPart part = bare_norm(row_.norm, epsilon_, columns);
  if (row_.norm_has_weight) part.weight = {key + ".weight", columns, row_.norm_offset};
  if (row_.norm == kernels::NormKind::layer && row_.norm_has_weight && row_.norm_has_bias)
    part.bias = {key + ".bias", columns};
  return part;
}

NormPart ModelReader::layer_norm(int32_t layer, std::string_view part) const {
  return norm(key(layer, part), hidden());
}

MlpPart ModelReader::mlp(int32_t layer, const MlpKeys& keys, int32_t intermediate) const {
  MlpPart part;
  const BiasRule has_bias = bias(row_.mlp_bias);
  part.activation = activation_;
  part.gated = row_.gated_mlp;
  part.intermediate = intermediate;
  if (!keys.gate_up.empty()) {
    part.gate_up.push_back(layer_matrix(layer, keys.gate_up, hidden(), 2 * intermediate, has_bias));
  } else {
    if (part.gated) part.gate_up.push_back(layer_matrix(layer, keys.gate, hidden(), intermediate, has_bias));
    part.gate_up.push_back(layer_matrix(layer, keys.up, hidden(), intermediate, has_bias));
  }
  part.down = layer_matrix(layer, keys.down, intermediate, hidden(), has_bias);
  return part;
}

BiasRule ModelReader::bias(const BiasSwitch& rule) const {
  const bool has = rule.kind == BiasSwitch::Kind::always ||
                   (rule.kind == BiasSwitch::Kind::flag && flag(rule.flag, rule.flag_default));
  return has ? BiasRule::required : BiasRule::none;
}

void ModelReader::each_layer(const std::function<void(LayerSpec&, int32_t)>& change) {
  for (int32_t i = 0; i < num_layers(); ++i) change(model_.layers[static_cast<size_t>(i)], i);
}

void ModelReader::each_attention(const std::function<void(LayerSpec&, int32_t)>& change) {
  each_layer([&](LayerSpec& layer, int32_t i) {
    if (layer.find_attention() != nullptr) change(layer, i);
  });
}

void ModelReader::each_recurrent(const std::function<void(LayerSpec&, int32_t)>& change) {
  each_layer([&](LayerSpec& layer, int32_t i) {
    if (layer_type(i) == LayerType::recurrent) change(layer, i);
  });
}

void ModelReader::norm_heads(LayerSpec& layer, int32_t index, kernels::QkNorm what) {
  AttentionPart& part = layer.attention();
  part.qk_norm = what;
  part.qk_norm_kind = row_.norm;
  part.qk_norm_epsilon = epsilon_;
  const bool is_whole = what == kernels::QkNorm::all_heads;
  const int32_t of_query = is_whole ? query_columns(part) : part.heads.head_dim;
  const int32_t of_key = is_whole ? part.heads.num_kv_heads * part.heads.head_dim : part.heads.head_dim;
  part.q_norm = {key(index, row_.keys.q_norm) + ".weight", of_query, row_.norm_offset};
  part.k_norm = {key(index, row_.keys.k_norm) + ".weight", of_key, row_.norm_offset};
}

void ModelReader::bias_head_norms(LayerSpec& layer) {
  constexpr size_t kEnding = std::string_view("weight").size();
  AttentionPart& part = layer.attention();
  const auto bias_of = [](const VectorPart& weight) {
    VectorPart bias = weight;
    bias.name.replace(bias.name.size() - kEnding, kEnding, "bias");
    bias.offset = 0.0f;
    return bias;
  };
  part.q_norm_bias = bias_of(part.q_norm);
  part.k_norm_bias = bias_of(part.k_norm);
}

void ModelReader::scale_blocks(float factor) {
  for (LayerSpec& layer : model_.layers) {
    if (layer.attention_post_norm) {
      layer.attention_post_norm->weight.scale *= factor;
    } else if (MatrixPart* const output = output_of(layer.mixer)) {
      output->prescale *= factor;
    }
    if (layer.feed_forward_post_norm) {
      layer.feed_forward_post_norm->weight.scale *= factor;
      continue;
    }
    if (MlpPart* const dense = layer.dense()) dense->down.prescale *= factor;
    ExpertsPart* const experts = layer.experts();
    if (experts == nullptr) continue;
    (experts->narrow ? experts->narrow->up : experts->expert.down).prescale *= factor;
    if (experts->shared) experts->shared->down.prescale *= factor;
  }
}

void ModelReader::set_experts(LayerSpec& layer, ExpertsPart experts) {
  layer.feed_forward = std::move(experts);
}

ColumnOrder order_of_blocks(int32_t blocks, const std::vector<int32_t>& part_sizes) {
  const int32_t block = std::accumulate(part_sizes.begin(), part_sizes.end(), 0);
  auto order = std::make_shared<std::vector<int32_t>>();
  order->reserve(static_cast<size_t>(blocks) * static_cast<size_t>(block));
  int32_t first = 0;
  for (const int32_t size : part_sizes) {
    for (int32_t b = 0; b < blocks; ++b) {
      for (int32_t i = 0; i < size; ++i) order->push_back(b * block + first + i);
    }
    first += size;
  }
  return order;
}

ColumnOrder order_of_part(int32_t blocks, const std::vector<int32_t>& part_sizes, size_t part) {
  const int32_t block = std::accumulate(part_sizes.begin(), part_sizes.end(), 0);
  const auto parts_before = part_sizes.begin() + static_cast<ptrdiff_t>(part);
  const int32_t first = std::accumulate(part_sizes.begin(), parts_before, 0);
  auto order = std::make_shared<std::vector<int32_t>>();
  for (int32_t b = 0; b < blocks; ++b)
    for (int32_t i = 0; i < part_sizes[part]; ++i) order->push_back(b * block + first + i);
  return order;
}

}  // namespace quire
