// Gemma 3n and 4: KV sharing across layers and per-layer embeddings. 3n has several residual streams (AltUp)
// and LAuReL; 4 has two head sizes and experts beside the dense MLP.
#include <cmath>

#include "core/config/families/experts.h"
#include "core/config/families/gemma_layers.h"

namespace quire::families {
namespace {

void common(ModelReader& reader) {
  reader.require_causal();
  reader.model().embedding.scale = std::sqrt(static_cast<float>(reader.hidden()));
  reader.model().head.softcap = reader.number_or("final_logit_softcapping", 0.0, 0.0, 1e6);
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    layer.attention_post_norm = reader.layer_norm(i, "post_attention_layernorm");
    layer.feed_forward_norm = reader.layer_norm(i, "pre_feedforward_layernorm");
    layer.feed_forward_post_norm = reader.layer_norm(i, "post_feedforward_layernorm");
    layer.attention().scale = 1.0f;
    layer.attention().value_norm = true;
    reader.norm_heads(layer, i, kernels::QkNorm::each_head);
  });
  if (has_rope_by_layer_type(reader.fields())) return;
  RopeSpec local;
  local.config.theta = reader.number_or("rope_local_base_freq", 10000.0, 1.0, 1e12);
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    if (reader.layer_type(i) == LayerType::sliding) reader.set_rope(layer, local);
  });
}

// --- Gemma 3n

// Returns a quantile of the standard normal distribution, by bisection of its distribution function.
float normal_quantile(double share) {
  double low = -10.0;
  double high = 10.0;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2.0;
    (0.5 * std::erfc(-middle / std::sqrt(2.0)) < share ? low : high) = middle;
  }
  return static_cast<float>((low + high) / 2.0);
}

double sparsity_of(const ModelReader& reader, int32_t layer) {
  const auto pattern = reader.fields().find("activation_sparsity_pattern");
  if (!pattern) return 0.0;
  if (!pattern->is_array()) return pattern->as_number(0.0, 0.999999);
  const std::vector<JsonView> entries = pattern->items();
  if (entries.size() != static_cast<size_t>(reader.num_layers())) {
    throw Error(ErrorCode::format, "{} must be a list of {} entries", pattern->where(), reader.num_layers());
  }
  return entries[static_cast<size_t>(layer)].as_number(0.0, 0.999999);
}

int32_t width_of(const ModelReader& reader, int32_t layer) {
  const auto width = reader.fields().find("intermediate_size");
  if (width && width->is_array())
    return static_cast<int32_t>(reader.layer_numbers("intermediate_size")[static_cast<size_t>(layer)]);
  return reader.require("intermediate_size", 1, 1 << 20);
}

StreamsPart streams_part(const ModelReader& reader, int32_t layer, int32_t streams) {
  StreamsPart part;
  const int32_t hidden = reader.hidden();
  part.router_norm = reader.layer_norm(layer, "altup.router_norm");
  part.router_norm.weight.scale = 1.0f / static_cast<float>(hidden);
  part.router = reader.layer_matrix(layer, "altup.modality_router", hidden, streams);
  part.prediction = reader.layer_matrix(layer, "altup.prediction_coefs", streams, streams * streams);
  part.correction = reader.layer_matrix(layer, "altup.correction_coefs", streams, streams);
  part.output_scale = {reader.key(layer, "altup.correct_output_scale"), hidden};
  if (!reader.flag("altup_correct_scale", true)) part.output_scale = {};
  return part;
}

LaurelPart laurel_part(const ModelReader& reader, int32_t layer) {
  const int32_t rank = reader.require("laurel_rank", 1, 65536);
  LaurelPart part;
  part.left = reader.layer_matrix(layer, "laurel.linear_left", reader.hidden(), rank);
  part.right = reader.layer_matrix(layer, "laurel.linear_right", rank, reader.hidden());
  part.norm = reader.layer_norm(layer, "laurel.post_laurel_norm");
  return part;
}

void gemma3n(ModelReader& reader) {
  common(reader);
  const int32_t streams = reader.int_or("altup_num_inputs", 4, 1, 16);
  if (reader.int_or("altup_active_idx", 0, 0, 15) != 0) {
    throw Error(ErrorCode::unsupported, "{}.altup_active_idx must be 0", reader.fields().where());
  }
  ModelSpec& model = reader.model();
  model.num_streams = streams;
  const int32_t hidden = reader.hidden();
  for (int32_t s = 0; s + 1 < streams; ++s) {
    const std::string number = std::to_string(s);
    model.embedding.stream_projections.push_back(
        reader.matrix("model.altup_projections." + number, hidden, hidden));
    model.head.stream_projections.push_back(
        reader.matrix("model.altup_unembed_projections." + number, hidden, hidden));
  }
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    layer.feed_forward = reader.mlp(i, mlp_keys("mlp."), width_of(reader, i));
    const double sparsity = sparsity_of(reader, i);
    layer.dense()->is_sparse = sparsity > 0.0;
    if (sparsity > 0.0) layer.dense()->sparsity_deviations = normal_quantile(sparsity);
    layer.laurel = laurel_part(reader, i);
    layer.streams = streams_part(reader, i, streams);
  });
  share_kv(reader);
  add_layer_inputs(reader);
}

// --- Gemma 4

// Returns the head sizes of a layer, which per_layer_config or older fields can override.
kernels::HeadShape heads_of(const ModelReader& reader, int32_t layer) {
  kernels::HeadShape heads = reader.heads();
  const bool is_full = reader.layer_type(layer) == LayerType::full;
  if (const auto layers = reader.fields().find("per_layer_config")) {
    const auto own = layers->find(std::to_string(layer));
    if (!own) return heads;
    if (const auto dim = own->find("head_dim")) heads.head_dim = static_cast<int32_t>(dim->as_int(1, 1024));
    if (const auto num = own->find("num_key_value_heads"))
      heads.num_kv_heads = static_cast<int32_t>(num->as_int(1, 1024));
  } else if (is_full) {
    heads.head_dim = reader.int_or("global_head_dim", heads.head_dim, 1, 1024);
    if (reader.flag("attention_k_eq_v"))
      heads.num_kv_heads = reader.int_or("num_global_key_value_heads", heads.num_kv_heads, 1, 1024);
  }
  return heads;
}

void size_heads(ModelReader& reader) {
  const std::vector<RopeSpec> ropes = reader.model().ropes;
  reader.model().ropes.clear();
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    AttentionPart& part = layer.attention();
    RopeSpec rope = ropes[static_cast<size_t>(part.rope_idx)];
    rope.rotary_dim = 0;
    part.values_are_keys = reader.flag("attention_k_eq_v") && reader.layer_type(i) == LayerType::full;
    reader.set_heads(layer, i, heads_of(reader, i));
    reader.set_rope(layer, rope);
  });
}

void add_experts(ModelReader& reader, LayerSpec& layer, int32_t index) {
  ExpertsPart experts = routed(reader, index, {"router.proj", "experts."});
  const int32_t width = reader.require("moe_intermediate_size", 1, 1 << 20);
  experts.expert = stacked_expert(reader, index, {"experts.gate_up_proj", "experts.down_proj"},
                                  experts.num_experts, width);
  experts.normalised = true;
  experts.expert_scale = {reader.key(index, "router.per_expert_scale"), experts.num_experts};
  experts.router_norm = ModelReader::bare_norm(kernels::NormKind::rms, reader.epsilon(), reader.hidden());
  const float scale = 1.0f / std::sqrt(static_cast<float>(reader.hidden()));
  experts.router_norm->weight = {reader.key(index, "router.scale"), reader.hidden(), 0.0f, scale};
  MlpPart dense = std::get<MlpPart>(std::move(layer.feed_forward));
  layer.feed_forward = MlpAndExpertsPart{std::move(dense), std::move(experts),
                                         reader.layer_norm(index, "post_feedforward_layernorm_1"),
                                         reader.layer_norm(index, "pre_feedforward_layernorm_2"),
                                         reader.layer_norm(index, "post_feedforward_layernorm_2")};
}

void gemma4(ModelReader& reader) {
  size_heads(reader);
  common(reader);
  const int32_t num_shared = reader.int_or("num_kv_shared_layers", 0, 0, 1024);
  const bool is_wide = reader.flag("use_double_wide_mlp");
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    const int32_t width = reader.require("intermediate_size", 1, 1 << 19);
    const bool is_shared = i >= reader.num_layers() - num_shared;
    layer.feed_forward = reader.mlp(i, mlp_keys("mlp."), is_wide && is_shared ? 2 * width : width);
    layer.output_scale = {reader.key(i, "layer_scalar"), 1};
    if (reader.flag("enable_moe_block")) add_experts(reader, layer, i);
  });
  share_kv(reader);
  add_layer_inputs(reader);
}

constexpr ArchitectureSpec kGemma3nRow = {.name = "Gemma3nForCausalLM",
                                          .model_type = "gemma3n_text",
                                          .has_dense_mlp = false,
                                          .qkv_bias = by_flag("attention_bias"),
                                          .attention_output_bias = by_flag("attention_bias"),
                                          .window = WindowRule::by_layer_type,
                                          .window_pattern = 5,
                                          .tied_by_default = true,
                                          .default_activation = "gelu_pytorch_tanh",
                                          .default_rope_theta = 1000000.0,
                                          .default_max_positions = 32768,
                                          .default_sliding_window = 512,
                                          .default_head_dim = 256,
                                          .refine = gemma3n};

// The text part of Gemma 4 in a checkpoint that embeds images and sound without towers.
constexpr ArchitectureSpec unified(ArchitectureSpec row) {
  row = renamed(row, "Gemma4UnifiedForConditionalGeneration", "gemma4_unified_text");
  row.default_max_positions = 262144;
  row.default_sliding_window = 1024;
  return row;
}

constexpr ArchitectureSpec gemma4_row() {
  ArchitectureSpec row = renamed(kGemma3nRow, "Gemma4ForCausalLM", "gemma4_text");
  row.window_pattern = 6;
  row.default_max_positions = 131072;
  row.refine = gemma4;
  return row;
}

}  // namespace

void share_kv(ModelReader& reader) {
  const int32_t num_shared = reader.int_or("num_kv_shared_layers", 0, 0, 1024);
  const int32_t first = reader.num_layers() - num_shared;
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    if (i < first) return;
    AttentionPart& part = layer.attention();
    for (int32_t s = 0; s < first; ++s)
      if (reader.layer_type(s) == reader.layer_type(i)) part.kv_source = s;
    if (part.kv_source < 0) {
      throw Error(ErrorCode::format,
                  "{}.num_kv_shared_layers: layer {} has no earlier layer of its type to share with",
                  reader.fields().where(), i);
    }
    part.reads_cache_only = true;
    part.values_are_keys = false;
    part.value_norm = false;
    part.k_norm = {};
    reader.set_heads(layer, i, part.heads);
    part.scale = 1.0f;
  });
}

void add_layer_inputs(ModelReader& reader) {
  const int32_t columns = reader.int_or("hidden_size_per_layer_input", 0, 0, 65536);
  if (columns == 0) return;
  const int32_t hidden = reader.hidden();
  LayerInputsPart part;
  part.table = "model.embed_tokens_per_layer";
  part.vocab_size = reader.int_or("vocab_size_per_layer_input", reader.model().vocab_size, 1, 1 << 22);
  part.columns = columns;
  part.table_scale = std::sqrt(static_cast<float>(columns));
  part.projection = reader.matrix("model.per_layer_model_projection", hidden, reader.num_layers() * columns);
  part.projection.prescale = 1.0f / std::sqrt(static_cast<float>(hidden));
  part.norm = reader.norm("model.per_layer_projection_norm", columns);
  part.sum_scale = 1.0f / std::sqrt(2.0f);
  reader.model().embedding.layer_inputs = std::move(part);
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    LayerInputPart input;
    input.gate = reader.layer_matrix(i, "per_layer_input_gate", hidden, columns);
    input.activation = reader.activation();
    input.projection = reader.layer_matrix(i, "per_layer_projection", columns, hidden);
    input.norm = reader.layer_norm(i, "post_per_layer_input_norm");
    layer.layer_input = std::move(input);
  });
}

const ArchitectureSpec kGemma3n = kGemma3nRow;
const ArchitectureSpec kGemma4 = gemma4_row();
const ArchitectureSpec kGemma4Unified = unified(gemma4_row());

}  // namespace quire::families
