// GLM-5.3-Flash (Glm5Next): layers of the gated delta rule with a decay for each channel (KDA), and every
// fourth layer latent attention without RoPE to selected pools of keys. Hyper-connections around all blocks.
#include <algorithm>

#include "core/base/error.h"
#include "core/config/families/deepseek.h"
#include "core/config/families/delta.h"
#include "core/config/families/experts.h"

namespace quire::families {
namespace {

LayerType type_of_layer(const ModelReader&, int32_t layer) {
  return layer % 4 == 3 ? LayerType::full : LayerType::recurrent;
}

// Returns the lower bound of KDA's decay; nothing if there is none. An object `linear_attn_config` has one
// unless its safe_gate is false.
std::optional<float> decay_bound(const ModelReader& reader) {
  constexpr double kDefault = -5.0, kLeast = -1e3, kMost = -1e-3;
  const auto object = linear_attn_config(reader);
  const bool is_null = reader.fields().is_null("linear_lower_bound");
  if (const auto bound = object ? object->find("gate_lower_bound") : std::nullopt)
    return static_cast<float>(bound->as_number(kLeast, kMost));
  if (!is_null) return reader.number_or("linear_lower_bound", kDefault, kLeast, kMost);
  const auto is_safe = object ? object->find("safe_gate") : std::nullopt;
  return object && (!is_safe || is_safe->as_bool()) ? std::optional<float>(kDefault) : std::nullopt;
}

void add_kda(ModelReader& reader) {
  const KdaSizes sizes = kda_sizes(reader, {.num_heads = 64, .head_dim = 128, .num_taps = 4});
  const std::optional<float> bound = decay_bound(reader);
  reader.each_recurrent([&](LayerSpec& layer, int32_t i) {
    DeltaPart part = kda_part(reader, i, {{"self_attn."}, "o_proj", true}, sizes);
    if (bound) {
      part.decay_form = kernels::DeltaDecay::bounded;
      part.decay_bound = *bound;
    }
    layer.mixer = std::move(part);
  });
}

// Selects keys by pools of index_kpool tokens.
void pool_keys(const ModelReader& reader, int32_t index, IndexerPart& part) {
  part.pool = reader.int_or("index_kpool", 16, 2, 1024);
  if (part.num_selected % part.pool != 0) {
    throw Error(ErrorCode::format, "{}.index_topk: {} is not a multiple of index_kpool {}",
                reader.fields().where(), part.num_selected, part.pool);
  }
  if (!reader.flag("index_kpool_always_select_tail", true)) {
    throw Error(ErrorCode::unsupported, "{}.index_kpool_always_select_tail: false is not supported",
                reader.fields().where());
  }
  part.gate = reader.layer_matrix(index, "self_attn.indexer.index_kpool_compress_gate", reader.hidden(),
                                  part.head_dim);
  part.pool_bias = {reader.key(index, "self_attn.indexer.index_kpool_compress_ape"),
                    part.pool * part.head_dim};
}

// Returns whether a layer with attention uses the keys that an earlier one has selected: by indexer_types, or
// by a letter in index_topk_pattern, S, or by an interval, index_topk_freq. Layers with a state have entries
// in the lists too.
bool shares_selection(const ModelReader& reader, int32_t layer) {
  if (const auto listed = reader.layer_is("indexer_types", layer, "shared", "full")) return *listed;
  if (const auto pattern = reader.fields().find("index_topk_pattern"); pattern && !pattern->is_array()) {
    const std::string& letters = pattern->as_string();
    if (letters.size() == static_cast<size_t>(reader.num_layers()))
      return letters[static_cast<size_t>(layer)] == 'S';
    throw Error(ErrorCode::format, "{} must have {} letters, one for each layer", pattern->where(),
                reader.num_layers());
  }
  if (const auto shared = reader.layer_is("index_topk_pattern", layer, "shared", "full")) return *shared;
  const int32_t interval = reader.int_or("index_topk_freq", 1, 1, 1024);
  const int32_t offset = reader.int_or("index_skip_topk_offset", 2, 0, 1024);
  return std::max(layer - offset + 1, 0) % interval != 0;
}

void require_own_indexers(ModelReader& reader) {
  reader.each_layer([&](LayerSpec&, int32_t i) {
    if (!shares_selection(reader, i) || reader.layer_type(i) == LayerType::recurrent) return;
    throw Error(
        ErrorCode::unsupported,
        "{}.indexer_types: a selection of keys that layer {} shares with an earlier one is not supported",
        reader.fields().where(), i);
  });
}

void add_attention(ModelReader& reader) {
  require_own_indexers(reader);
  make_latent(reader, {.query_rank = 1536, .rank = 512, .rest = 256, .value = 256, .has_rotary = false});
  reader.each_attention([&](LayerSpec& layer, int32_t i) {
    AttentionPart& part = layer.attention();
    part.latent->query_norm->epsilon = part.latent->latent_norm.epsilon = reader.epsilon();
    part.selects_keys = true;
    add_indexer(reader, layer, i, kernels::RopeStyle::none);
    pool_keys(reader, i, *part.indexer);
  });
}

ConnectionPart connection(const ModelReader& reader, int32_t layer, const std::string& name) {
  ConnectionPart part;
  part.num_streams = reader.int_or("hc_mult", 4, 1, kernels::kMostConnectedStreams);
  part.columns = reader.hidden();
  part.iterations = reader.int_or("hc_sinkhorn_iters", 20, 1, 1000);
  part.epsilon = reader.number_or("hc_eps", 1e-6, 0.0, 0.1);
  const int32_t row = part.num_streams * part.columns, outputs = connection_products(part);
  part.products = reader.layer_matrix(layer, name + "_fn", row, outputs);
  part.norm = ModelReader::bare_norm(kernels::NormKind::rms, reader.epsilon(), row);
  part.scale = {reader.key(layer, name + "_scale"), 3};
  part.base = {reader.key(layer, name + "_base"), outputs};
  return part;
}

void connect_streams(ModelReader& reader) {
  reader.model().connects_streams = true;
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    layer.streams = ConnectionsPart{connection(reader, i, "hc_attn"), connection(reader, i, "hc_ffn")};
    reader.model().num_streams = std::get<ConnectionsPart>(layer.streams).mixer.num_streams;
  });
}

void add_feed_forward(ModelReader& reader) {
  const float limit = reader.number_or("swiglu_limit", 10.0, 1e-6, 1e6);
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    if (is_sparse_layer(reader, i, 3)) ModelReader::set_experts(layer, deepseek_experts(reader, i));
    if (MlpPart* const dense = layer.dense()) clamp_swiglu(*dense, limit);
    ExpertsPart* const experts = layer.experts();
    if (experts == nullptr) return;
    clamp_swiglu(experts->expert, limit);
    if (experts->shared) clamp_swiglu(*experts->shared, limit);
  });
}

void glm5_next(ModelReader& reader) {
  add_kda(reader);
  add_attention(reader);
  add_feed_forward(reader);
  connect_streams(reader);
}

}  // namespace

const ArchitectureSpec kGlm5Next = {.name = "Glm5NextForConditionalGeneration",
                                    .model_type = "glm5_next_text",
                                    .type_of_layer = type_of_layer,
                                    .default_norm_epsilon = 1e-5,
                                    .default_max_positions = 1 << 20,
                                    .has_head_dim = false,
                                    .refine = glm5_next};

}  // namespace quire::families
