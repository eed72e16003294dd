// DeepSeek V2, V3 and V3.2: multi-head latent attention (MLA), MoE and sparse attention by an indexer; and
// families that differ from V3 by a switch: A.X K1 and Youtu-LLM.
#include "core/config/families/deepseek.h"

#include <cmath>

#include "core/config/families/experts.h"

namespace quire::families {
namespace {

// Reorders each head from [other | rotary] to [rotary | other].
ColumnOrder rotary_first(int32_t heads, int32_t rest, int32_t rotary) {
  auto order = std::make_shared<std::vector<int32_t>>();
  for (int32_t h = 0; h < heads; ++h) {
    const int32_t first = h * (rest + rotary);
    for (int32_t i = 0; i < rotary; ++i) order->push_back(first + rest + i);
    for (int32_t i = 0; i < rest; ++i) order->push_back(first + i);
  }
  return order;
}

LatentSizes read_sizes(const ModelReader& reader, const LatentSizes& defaults) {
  const auto read = [&](std::string_view name, int32_t fallback, int64_t min, int64_t max) {
    return fallback > 0 ? reader.int_or(name, fallback, min, max) : reader.require(name, min, max);
  };
  const bool has_one_matrix = reader.fields().is_null("q_lora_rank");
  LatentSizes sizes;
  sizes.query_rank = reader.int_or("q_lora_rank", has_one_matrix ? 0 : defaults.query_rank, 1, 65536);
  sizes.rank = read("kv_lora_rank", defaults.rank, 1, 65536);
  sizes.rest = read("qk_nope_head_dim", defaults.rest, 1, 1024);
  sizes.rotary = defaults.has_rotary ? read("qk_rope_head_dim", defaults.rotary, 2, 1024)
                                     : reader.int_or("qk_rope_head_dim", 0, 0, 0);
  sizes.has_rotary = defaults.has_rotary;
  sizes.value = read("v_head_dim", defaults.value, 1, 1024);
  return sizes;
}

NormPart latent_norm(const ModelReader& reader, int32_t layer, std::string_view part, int32_t columns) {
  NormPart norm = reader.norm(reader.key(layer, part), columns);
  norm.epsilon = 1e-6f;  // independent of the epsilon of other norms
  return norm;
}

// Returns the prefix of the tensors of attention: "self_attn.".
std::string attention_prefix(const ModelReader& reader) {
  const std::string_view query = reader.row().keys.query;
  return std::string(query.substr(0, query.find('.') + 1));
}

LatentPart latent_part(const ModelReader& reader, const LatentSizes& sizes, int32_t layer,
                       const ColumnOrder& order) {
  LatentPart part;
  const std::string prefix = attention_prefix(reader);
  const int32_t heads = reader.heads().num_heads;
  const BiasRule bias = reader.bias(by_flag("attention_bias"));
  const int32_t query_columns = heads * (sizes.rest + sizes.rotary);
  if (sizes.query_rank > 0) {
    part.query_down =
        reader.layer_matrix(layer, prefix + "q_a_proj", reader.hidden(), sizes.query_rank, bias);
    part.query_norm = latent_norm(reader, layer, prefix + "q_a_layernorm", sizes.query_rank);
    part.query = reader.layer_matrix(layer, prefix + "q_b_proj", sizes.query_rank, query_columns);
  } else {
    part.query = reader.layer_matrix(layer, prefix + "q_proj", reader.hidden(), query_columns);
  }
  part.query.order = order;
  part.latent = reader.layer_matrix(layer, prefix + "kv_a_proj_with_mqa", reader.hidden(),
                                    sizes.rank + sizes.rotary, bias);
  part.shared_key_dim = sizes.rotary;
  part.latent_norm = latent_norm(reader, layer, prefix + "kv_a_layernorm", sizes.rank);
  part.expand =
      reader.layer_matrix(layer, prefix + "kv_b_proj", sizes.rank, heads * (sizes.rest + sizes.value));
  return part;
}

void add_experts(ModelReader& reader) {
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    if (is_sparse_layer(reader, i)) ModelReader::set_experts(layer, deepseek_experts(reader, i));
  });
}

void add_bias(MlpPart& part) {
  for (MatrixPart& matrix : part.gate_up) matrix.bias = BiasRule::required;
  part.down.bias = BiasRule::required;
}

// DeepSeek V2 routes by softmax, scores a group by its best expert and has no bias for choosing experts.
void deepseek_v2(ModelReader& reader) {
  make_latent(reader);
  const std::string method = reader.fields().string_or({"topk_method"}, "greedy");
  if (method != "greedy" && method != "group_limited_greedy") {
    throw Error(ErrorCode::unsupported,
                "{}.topk_method: \"{}\" is not supported; supported are greedy and group_limited_greedy",
                reader.fields().where(), printable(method, 32));
  }
  const bool has_bias = reader.flag("mlp_bias");
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    if (has_bias) add_bias(*layer.dense());
    if (!is_sparse_layer(reader, i)) return;
    ExpertsPart experts = deepseek_experts(reader, i);
    if (has_bias && experts.shared) add_bias(*experts.shared);
    experts.score = kernels::RouterScore::softmax;
    experts.choice_bias = {};
    experts.group_by_two = false;
    experts.normalised = false;
    if (method == "greedy") experts.num_groups = experts.chosen_groups = 1;
    ModelReader::set_experts(layer, std::move(experts));
  });
}

void deepseek_v3(ModelReader& reader) {
  make_latent(reader);
  add_experts(reader);
}

void deepseek_v32(ModelReader& reader) {
  deepseek_v3(reader);
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    layer.attention().selects_keys = true;
    add_indexer(reader, layer, i, kernels::RopeStyle::neox_halves);
  });
}

// A.X K1 has a norm after the experts. Published files may lack the bias for choosing them.
void axk1(ModelReader& reader) {
  make_latent(reader);
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    if (!is_sparse_layer(reader, i, 1)) return;
    ExpertsPart experts = deepseek_experts(reader, i);
    experts.choice_bias.may_be_absent = true;
    ModelReader::set_experts(layer, std::move(experts));
    layer.feed_forward_post_norm = reader.layer_norm(i, "post_mlp_layernorm");
  });
}

// Youtu-LLM has no experts.
void youtu(ModelReader& reader) {
  make_latent(reader, {.query_rank = 1536, .rank = 512, .rest = 128, .rotary = 64, .value = 128});
}

constexpr ArchitectureSpec kDeepseekRow = {.name = "DeepseekV3ForCausalLM",
                                           .model_type = "deepseek_v3",
                                           .rope_style = kernels::RopeStyle::gptj_pairs,
                                           .default_max_positions = 4096,
                                           .refine = deepseek_v3};

constexpr ArchitectureSpec refined(std::string_view name, std::string_view type,
                                   void (*refine)(ModelReader&)) {
  ArchitectureSpec row = renamed(kDeepseekRow, name, type);
  row.refine = refine;
  return row;
}

constexpr ArchitectureSpec axk1_row() {
  ArchitectureSpec row = refined("AXK1ForCausalLM", "axk1", axk1);
  row.default_max_positions = 32768;
  return row;
}

constexpr ArchitectureSpec youtu_row() {
  ArchitectureSpec row = refined("YoutuForCausalLM", "youtu", youtu);
  row.tied_by_default = true;
  row.default_max_positions = 131072;
  return row;
}

}  // namespace

void make_latent(ModelReader& reader, const LatentSizes& defaults) {
  const LatentSizes sizes = read_sizes(reader, defaults);
  const int32_t heads = reader.heads().num_heads;
  const ColumnOrder order = rotary_first(heads, sizes.rest, sizes.rotary);
  const bool in_pairs = reader.flag("rope_interleave", true);
  reader.model().ropes.clear();
  RopeSpec rope;
  rope.config = read_rope_config(reader.fields(), {10000.0, 1.0, reader.max_positions(), 0});
  rope.rotary_dim = sizes.rotary;
  reader.each_attention([&](LayerSpec& layer, int32_t i) {
    AttentionPart& part = layer.attention();
    reader.set_heads(layer, i, {heads, heads, sizes.rest + sizes.rotary, sizes.value});
    part.qkv.clear();
    part.scale *= static_cast<float>(yarn_attention_factor(rope.config));
    part.latent = latent_part(reader, sizes, i, order);
    if (reader.flag("attention_bias")) part.output.bias = BiasRule::required;
    if (!sizes.has_rotary) return ModelReader::drop_rope(layer);
    reader.set_rope(layer, rope);
    if (!in_pairs) part.rope = kernels::RopeStyle::neox_halves;
  });
}

ExpertsPart deepseek_experts(ModelReader& reader, int32_t layer) {
  ExpertsPart experts = routed(reader, layer, {"mlp.gate", "mlp.experts.{}."});
  route_by_sigmoid(reader, experts, reader.key(layer, "mlp.gate.e_score_correction_bias"));
  const int32_t shared = reader.int_or("n_shared_experts", 0, 0, 1024);
  add_shared(reader, layer, "mlp.shared_experts.", shared * expert_width(reader), experts);
  return experts;
}

void clamp_swiglu(MlpPart& part, float limit) {
  part.activation = kernels::Activation::clamped_swish;
  part.a = 1.0f;
  part.limit = part.c = limit;
}

void add_indexer(ModelReader& reader, LayerSpec& layer, int32_t index, kernels::RopeStyle rope) {
  IndexerPart part;
  part.num_heads = reader.require("index_n_heads", 1, 1024);
  part.head_dim = reader.require("index_head_dim", 2, 1024);
  part.num_selected = reader.require("index_topk", 1, 1 << 30);
  part.rotary_dim = layer.attention().rotary_dim;
  part.rope = rope;
  part.scale = 1.0f / std::sqrt(static_cast<float>(part.head_dim));
  const int32_t rank = reader.require("q_lora_rank", 1, 65536);
  part.query = reader.layer_matrix(index, "self_attn.indexer.wq_b", rank, part.num_heads * part.head_dim);
  part.key = reader.layer_matrix(index, "self_attn.indexer.wk", reader.hidden(), part.head_dim);
  part.key_norm = ModelReader::bare_norm(kernels::NormKind::layer, 1e-6f, part.head_dim);
  part.key_norm.weight = {reader.key(index, "self_attn.indexer.k_norm.weight"), part.head_dim};
  part.key_norm.bias = {reader.key(index, "self_attn.indexer.k_norm.bias"), part.head_dim};
  part.weights =
      reader.layer_matrix(index, "self_attn.indexer.weights_proj", reader.hidden(), part.num_heads);
  part.weights.prescale = 1.0f / std::sqrt(static_cast<float>(part.num_heads));
  layer.attention().indexer = std::move(part);
}

const ArchitectureSpec kDeepseekV2 = refined("DeepseekV2ForCausalLM", "deepseek_v2", deepseek_v2);
const ArchitectureSpec kDeepseekV3 = kDeepseekRow;
const ArchitectureSpec kDeepseekV32 = refined("DeepseekV32ForCausalLM", "deepseek_v32", deepseek_v32);
const ArchitectureSpec kAxK1 = axk1_row();
const ArchitectureSpec kYoutu = youtu_row();

}  // namespace quire::families
