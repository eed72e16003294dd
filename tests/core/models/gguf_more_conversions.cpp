// Conversions of families with experts under names of their own, and of GPT-2 and its successors.
#include <cmath>

#include "tests/core/models/gguf_conversion.h"

namespace quire::testing {
namespace {

using Tensors = std::vector<StoredTensor>;
using Parts = std::vector<std::pair<std::string, std::string>>;

uint32_t number(const Json& config, const char* field) {
  return config[field].get<uint32_t>();
}

// Returns a tensor whose rows are groups of consecutive parts, with the parts of all groups together.
StoredTensor apart(const std::string& name, const StoredTensor& tensor, size_t groups,
                   const std::vector<size_t>& parts) {
  StoredTensor out = {name, tensor.dtype, tensor.shape, {}};
  const size_t row_bytes = tensor.bytes.size() / static_cast<size_t>(tensor.shape[0]);
  const size_t group_rows = static_cast<size_t>(tensor.shape[0]) / groups;
  size_t first = 0;
  for (const size_t rows : parts) {
    for (size_t group = 0; group < groups; ++group)
      out.bytes += tensor.bytes.substr((group * group_rows + first) * row_bytes, rows * row_bytes);
    first += rows;
  }
  return out;
}

Tensors convert_gpt2(const Json&, const std::string& rest, const StoredTensor& tensor) {
  static const Parts kNames = {{"attn.c_attn.weight", "attn_qkv.weight"},
                               {"attn.c_proj.weight", "attn_output.weight"},
                               {"mlp.c_fc.weight", "ffn_up.weight"},
                               {"mlp.c_proj.weight", "ffn_down.weight"}};
  for (const auto& [name, stored] : kNames) {
    if (rest != name) continue;
    const auto rows = static_cast<size_t>(tensor.shape[0]), columns = static_cast<size_t>(tensor.shape[1]);
    StoredTensor out = {stored, tensor.dtype, {tensor.shape[1], tensor.shape[0]}, {}};
    for (size_t column = 0; column < columns; ++column)
      for (size_t row = 0; row < rows; ++row)
        out.bytes += tensor.bytes.substr((row * columns + column) * 2, 2);
    return {out};
  }
  return {};
}

std::string ending_of(const std::string& name) {
  return name.substr(name.rfind('.'));
}

Tensors convert_by_head(const Json& config, const std::string& rest, const StoredTensor& tensor) {
  if (rest.find("query_key_value") == std::string::npos) return {};
  const size_t heads = number(config, config.contains("n_head") ? "n_head" : "num_attention_heads");
  const size_t dim = number(config, "hidden_size") / heads;
  return {apart("attn_qkv" + ending_of(rest), tensor, heads, {dim, dim, dim})};
}

Tensors convert_falcon_40b(const Json& config, const std::string& rest, const StoredTensor& tensor) {
  if (rest.find("query_key_value") == std::string::npos) return {};
  const size_t heads = number(config, "num_attention_heads"), kv_heads = number(config, "num_kv_heads");
  const size_t dim = number(config, "hidden_size") / heads;
  return {apart("attn_qkv" + ending_of(rest), tensor, kv_heads, {heads / kv_heads * dim, dim, dim})};
}

void gpt2(const Json&, GgufBuilder& file) {
  file.add_u32("gpt2.feed_forward_length", 256);
}
void starcoder(const Json&, GgufBuilder& file) {
  file.add_u32("starcoder.feed_forward_length", 256);
}
void bloom(const Json&, GgufBuilder& file) {
  file.add_u32("bloom.feed_forward_length", 256).add_u32("bloom.attention.head_count_kv", 4);
}
void mpt(const Json&, GgufBuilder& file) {
  file.add_u32("mpt.feed_forward_length", 256).add_f32("mpt.attention.max_alibi_bias", 8.0f);
}
void gpt_neox(const Json& config, GgufBuilder& file) {
  file.add_flag("gptneox.use_parallel_residual", config["use_parallel_residual"].get<bool>());
}
void falcon_7b(const Json&, GgufBuilder& file) {
  file.add_u32("falcon.feed_forward_length", 256).add_u32("falcon.attention.head_count_kv", 1);
}
void falcon_40b(const Json& config, GgufBuilder& file) {
  file.add_u32("falcon.feed_forward_length", 256);
  file.add_u32("falcon.attention.head_count_kv", number(config, "num_kv_heads"));
}

void minimax_m2(const Json& config, GgufBuilder& file) {
  file.add_u32("minimax-m2.expert_feed_forward_length", number(config, "intermediate_size"));
  file.add_u32("minimax-m2.expert_gating_func", 2);
}
void phimoe(const Json& config, GgufBuilder& file) {
  file.add_f32("phimoe.rope.scaling.attn_factor", config["rope_parameters"]["long_mscale"].get<float>());
}
void afmoe(const Json& config, GgufBuilder& file) {
  file.add_u32("afmoe.leading_dense_block_count", number(config, "num_dense_layers"));
  file.add_u32("afmoe.expert_shared_count", number(config, "num_shared_experts"));
  file.add_f32("afmoe.expert_weights_scale", config["route_scale"].get<float>());
  file.add_u32("afmoe.expert_gating_func", 2);
}
void ernie_moe(const Json& config, GgufBuilder& file) {
  file.add_u32("ernie4_5-moe.expert_count", number(config, "moe_num_experts"));
  file.add_u32("ernie4_5-moe.expert_used_count", number(config, "moe_k"));
  file.add_u32("ernie4_5-moe.interleave_moe_layer_step", number(config, "moe_layer_interval"));
  file.add_u32("ernie4_5-moe.leading_dense_block_count", number(config, "moe_layer_start_index"));
  file.add_u32("ernie4_5-moe.expert_shared_count", number(config, "moe_num_shared_experts"));
}
void exaone_moe(const Json& config, GgufBuilder& file) {
  file.add_u32("exaone-moe.expert_shared_count", number(config, "num_shared_experts"));
}
// The scaling by alpha is in the base of the rotary embedding.
void hunyuan_moe(const Json& config, GgufBuilder& file) {
  const double dim = number(config, "head_dim"), alpha = config["rope_parameters"]["alpha"];
  file.add_f32("hunyuan-moe.rope.freq_base",
               static_cast<float>(10000.0 * std::pow(alpha, dim / (dim - 2.0))));
  file.add_u32("hunyuan-moe.expert_used_count", number(config, "moe_topk"));
  file.add_u32("hunyuan-moe.expert_shared_feed_forward_length", number(config, "intermediate_size"));
}

const Parts kByHeadParts = {{"attention.dense", "attn_output"},
                            {"self_attention.dense", "attn_output"},
                            {"mlp.dense_h_to_4h", "ffn_up"},
                            {"mlp.dense_4h_to_h", "ffn_down"},
                            {"self_attention.query_key_value", "attn_qkv"}};
const Parts kFalcon40bParts = {{"self_attention.dense", "attn_output"},
                               {"mlp.dense_h_to_4h", "ffn_up"},
                               {"mlp.dense_4h_to_h", "ffn_down"},
                               {"ln_mlp", "attn_norm"},
                               {"ln_attn", "attn_norm_2"}};
const Parts kGpt2Parts = {{"attn.c_attn", "attn_qkv"}, {"attn.c_proj", "attn_output"}};
const Parts kMptParts = {{"attn.Wqkv", "attn_qkv"}, {"attn.out_proj", "attn_output"},
                         {"norm_1", "attn_norm"},   {"norm_2", "ffn_norm"},
                         {"ffn.up_proj", "ffn_up"}, {"ffn.down_proj", "ffn_down"}};
const Parts kAfmoeParts = {{"post_attention_layernorm", "post_attention_norm"},
                           {"pre_mlp_layernorm", "ffn_norm"},
                           {"self_attn.gate_proj", "attn_gate"},
                           {"mlp.router.gate", "ffn_gate_inp"}};
const Parts kHunyuanParts = {{"mlp.gate.wg", "ffn_gate_inp"},
                             {"mlp.shared_mlp.gate_proj", "ffn_gate_shexp"},
                             {"mlp.shared_mlp.up_proj", "ffn_up_shexp"},
                             {"mlp.shared_mlp.down_proj", "ffn_down_shexp"}};
const Parts kExaone4Parts = {{"post_attention_layernorm", "post_attention_norm"}};

}  // namespace

std::vector<GgufConversion> more_gguf_conversions() {
  return {
      {"gpt2", "gpt2", false, false, kGpt2Parts, gpt2, convert_gpt2},
      {"gpt_bigcode", "starcoder", false, false, kGpt2Parts, starcoder},
      {"gpt_neox", "gptneox", false, false, kByHeadParts, gpt_neox, convert_by_head},
      {"bloom", "bloom", false, false, kByHeadParts, bloom, convert_by_head},
      {"mpt", "mpt", false, false, kMptParts, mpt},
      {"falcon_7b", "falcon", false, false, kByHeadParts, falcon_7b},
      {"falcon_40b", "falcon", false, false, kFalcon40bParts, falcon_40b, convert_falcon_40b},
      {"glm", "chatglm"},
      {"exaone4", "exaone4", false, false, kExaone4Parts},
      {"exaone_moe", "exaone-moe", false, false, {}, exaone_moe, convert_vectors},
      {"minimax_m2", "minimax-m2", false, false, {}, minimax_m2, convert_vectors},
      {"phimoe", "phimoe", false, false, {}, phimoe},
      {"afmoe", "afmoe", false, false, kAfmoeParts, afmoe, convert_vectors},
      {"ernie4_5_moe", "ernie4_5-moe", false, false, {}, ernie_moe, convert_vectors},
      {"hunyuan_v1_moe", "hunyuan-moe", false, false, kHunyuanParts, hunyuan_moe},
  };
}

}  // namespace quire::testing
