// Kimi Linear and Ling 3 (BailingHybrid): layers of the gated delta rule with a decay for each channel (KDA),
// latent attention in between, and the experts of DeepSeek V3.
#include "core/base/error.h"
#include "core/config/families/deepseek.h"
#include "core/config/families/delta.h"
#include "core/config/families/experts.h"

namespace quire::families {
namespace {

// Returns whether a list of layers, which are counted from one, has this layer.
bool lists_layer(const ModelReader& reader, const JsonView& list, int32_t layer) {
  if (!list.is_array())
    throw Error(ErrorCode::format, "{} must be a list of numbers of layers", list.where());
  for (const JsonView& entry : list.items())
    if (entry.as_int(1, reader.num_layers()) == layer + 1) return true;
  return false;
}

LayerType type_of_kimi_layer(const ModelReader& reader, int32_t layer) {
  const auto object = linear_attn_config(reader);
  if (!object || !object->find("full_attn_layers") || !object->find("kda_layers"))
    return layer > 0 && layer % 4 == 0 ? LayerType::full : LayerType::recurrent;
  const bool is_full = lists_layer(reader, object->at("full_attn_layers"), layer);
  if (is_full == lists_layer(reader, object->at("kda_layers"), layer)) {
    throw Error(ErrorCode::format, "{}: layer {} must be in one of full_attn_layers and kda_layers",
                object->where(), layer + 1);
  }
  return is_full ? LayerType::full : LayerType::recurrent;
}

LayerType type_of_ling_layer(const ModelReader& reader, int32_t layer) {
  const int32_t size = reader.int_or("layer_group_size", 6, 1, 1024);
  return (layer + 1) % size == 0 ? LayerType::full : LayerType::recurrent;
}

// Sets the routing of DeepSeek V3 by the names that these families have for its fields.
void route(ModelReader& reader, ExpertsPart& experts, const std::string& bias_name) {
  route_by_sigmoid(reader, experts, bias_name);
  experts.normalised = reader.flag("moe_renormalize", experts.normalised);
}

int32_t shared_width(const ModelReader& reader) {
  const int32_t num = reader.fields().int_or({{"num_shared_experts", "n_shared_experts"}, 0, 1024}, 1);
  return num * expert_width(reader);
}

void require_sigmoid(const ModelReader& reader) {
  const auto form = reader.fields().find(FieldNames{"moe_router_activation_func", "score_function"});
  if (!form || form->as_string() == "sigmoid") return;
  throw Error(ErrorCode::unsupported, "{}: \"{}\" is not supported; supported is sigmoid", form->where(),
              printable(form->as_string(), 32));
}

ExpertsPart kimi_experts(ModelReader& reader, int32_t layer) {
  ExpertsPart experts =
      routed(reader, layer, {"block_sparse_moe.gate", "block_sparse_moe.experts.{}.", true});
  route(reader, experts, reader.key(layer, "block_sparse_moe.gate.e_score_correction_bias"));
  add_shared(reader, layer, "block_sparse_moe.shared_experts.", shared_width(reader), experts);
  return experts;
}

// Latent attention has no RoPE: its keys' part for all heads is like the rest.
void kimi_linear(ModelReader& reader) {
  require_sigmoid(reader);
  if (!reader.flag("mla_use_nope", true))
    throw Error(ErrorCode::unsupported, "{}.mla_use_nope: false is not supported", reader.fields().where());
  make_latent(reader, {.rank = 512, .rest = 128, .rotary = 64, .value = 128});
  reader.drop_ropes();
  const KdaSizes sizes = kda_sizes(reader, {.num_heads = 32, .head_dim = 128, .num_taps = 4});
  reader.each_recurrent([&](LayerSpec& layer, int32_t i) {
    layer.mixer = kda_part(reader, i, {{"self_attn."}, "o_proj", true}, sizes);
  });
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    if (is_sparse_layer(reader, i, 1)) ModelReader::set_experts(layer, kimi_experts(reader, i));
  });
}

ExpertsPart ling_experts(ModelReader& reader, int32_t layer) {
  ExpertsPart experts = routed(reader, layer, {"mlp.gate", "mlp.experts.{}."});
  route(reader, experts, reader.key(layer, "mlp.gate.expert_bias"));
  add_shared(reader, layer, "mlp.shared_experts.", shared_width(reader), experts);
  return experts;
}

// Each head of latent attention has an output gate. transformers writes the rotary dimensions as head_dim,
// and that of KDA as linear_head_dim.
void bailing_hybrid(ModelReader& reader) {
  require_sigmoid(reader);
  make_latent(reader, {.rank = 512, .rest = 128, .rotary = 64, .value = 128});
  reader.each_attention([&](LayerSpec& layer, int32_t i) {
    const int32_t heads = layer.attention().heads.num_heads;
    layer.attention().gate =
        OutputGatePart{reader.layer_matrix(i, "attention.g_proj", reader.hidden(), heads)};
  });
  const int32_t heads = reader.int_or("linear_num_heads", reader.heads().num_heads, 1, 1024);
  const int32_t dim = reader.int_or("linear_head_dim", reader.heads().head_dim, 1, 1024);
  const int32_t taps =
      reader.fields().int_or({{"short_conv_kernel_size", "linear_conv_kernel_dim"}, 2, 64}, 4);
  const bool is_bounded = reader.flag("kda_safe_gate", true);
  const float bound = reader.number_or("kda_lower_bound", -5.0, -1e3, -1e-3);
  reader.each_recurrent([&](LayerSpec& layer, int32_t i) {
    DeltaPart part = kda_part(reader, i, {{"attention."}, "dense", false}, {heads, dim, taps});
    if (is_bounded) {
      part.decay_form = kernels::DeltaDecay::bounded;
      part.decay_bound = bound;
    }
    layer.mixer = std::move(part);
  });
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    if (is_sparse_layer(reader, i, 2)) ModelReader::set_experts(layer, ling_experts(reader, i));
  });
}

constexpr TensorKeys ling_keys() {
  TensorKeys keys;
  keys.embedding = "model.word_embeddings";
  keys.query = "attention.q_proj";
  keys.key = "attention.k_proj";
  keys.value = "attention.v_proj";
  keys.attention_output = "attention.dense";
  return keys;
}

}  // namespace

const ArchitectureSpec kKimiLinear = {.name = "KimiLinearForCausalLM",
                                      .model_type = "kimi_linear",
                                      .type_of_layer = type_of_kimi_layer,
                                      .default_norm_epsilon = 1e-5,
                                      .default_max_positions = 1 << 20,
                                      .refine = kimi_linear};

const ArchitectureSpec kBailingHybrid = {.name = "BailingHybridForCausalLM",
                                         .model_type = "bailing_hybrid",
                                         .keys = ling_keys(),
                                         .type_of_layer = type_of_ling_layer,
                                         .rope_style = kernels::RopeStyle::gptj_pairs,
                                         .default_rope_theta = 6000000.0,
                                         .default_max_positions = 262144,
                                         .default_head_dim = 128,
                                         .refine = bailing_hybrid};

}  // namespace quire::families
