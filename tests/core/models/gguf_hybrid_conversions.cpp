// Conversions of families with recurrent layers.
#include <algorithm>
#include <array>
#include <cmath>

#include "tests/core/models/gguf_conversion.h"

namespace quire::testing {
namespace {

using Tensors = std::vector<StoredTensor>;

StoredTensor below(StoredTensor first, const StoredTensor& second) {
  first.bytes += second.bytes;
  first.shape[0] += second.shape[0];
  return first;
}

void add_list(const std::string& key, const Json& config, bool (*has)(const std::string& type),
              uint32_t value, GgufBuilder& file) {
  std::vector<uint32_t> list;
  const Json& types = config.contains("layer_types") ? config["layer_types"] : config["layers_block_type"];
  for (const Json& type : types) list.push_back(has(type.get<std::string>()) ? value : 0);
  file.add_numbers<uint32_t>(key, 4, list);
}

bool is_full(const std::string& type) {
  return type == "full_attention";
}
bool is_feed_forward(const std::string& type) {
  return type == "mlp" || type == "moe";
}

uint32_t number(const Json& config, const char* field) {
  return config[field].get<uint32_t>();
}

struct Sizes {
  uint32_t taps, state, inner, rank, groups;
};

void add_sizes(const std::string& architecture, const Sizes& sizes, GgufBuilder& file) {
  file.add_u32(architecture + ".ssm.conv_kernel", sizes.taps);
  file.add_u32(architecture + ".ssm.state_size", sizes.state);
  file.add_u32(architecture + ".ssm.inner_size", sizes.inner);
  file.add_u32(architecture + ".ssm.time_step_rank", sizes.rank);
  if (sizes.groups > 0) file.add_u32(architecture + ".ssm.group_count", sizes.groups);
}

void mamba(const Json& config, GgufBuilder& file) {
  file.add_u32("mamba.attention.head_count", 0).add_u32("mamba.feed_forward_length", 0);
  add_sizes("mamba",
            {number(config, "conv_kernel"), number(config, "state_size"), 2 * number(config, "hidden_size"),
             number(config, "time_step_rank"), 0},
            file);
  file.add_flag("mamba.ssm.dt_b_c_rms", config["model_type"] == "falcon_mamba");
}

void mamba2(const Json& config, GgufBuilder& file) {
  file.add_u32("mamba2.attention.head_count", 0).add_u32("mamba2.feed_forward_length", 0);
  add_sizes("mamba2",
            {number(config, "conv_kernel"), number(config, "state_size"), 2 * number(config, "hidden_size"),
             number(config, "num_heads"), number(config, "n_groups")},
            file);
}

// The norm is stored as a row for each group.
Tensors convert_mamba2(const Json& config, const std::string& rest, const StoredTensor& tensor) {
  if (rest.ends_with("mixer.norm.weight") || rest.ends_with("mamba.norm.weight")) {
    const char* const field = config.contains("n_groups") ? "n_groups" : "mamba_n_groups";
    StoredTensor grouped = tensor;
    grouped.shape = {config[field].get<int64_t>(), tensor.shape[0] / config[field].get<int64_t>()};
    return {with_floats("ssm_norm.weight", grouped, floats_of(tensor))};
  }
  Tensors converted = convert_vectors(config, rest, tensor);
  for (StoredTensor& one : converted)
    if (one.name == "ssm_a" || one.name == "ssm_d") one.shape.push_back(1);
  return converted;
}

void falcon_h1(const Json& config, GgufBuilder& file) {
  add_sizes("falcon-h1",
            {number(config, "mamba_d_conv"), number(config, "mamba_d_state"), number(config, "mamba_d_ssm"),
             number(config, "mamba_n_heads"), number(config, "mamba_n_groups")},
            file);
  file.add_u32("falcon-h1.attention.key_length", 16).add_u32("falcon-h1.attention.value_length", 16);
}

// The multipliers become part of the weights.
Tensors convert_falcon_h1(const Json& config, const std::string& rest, const StoredTensor& tensor) {
  const auto times = [&](const char* name, float factor) {
    std::vector<float> values = floats_of(tensor);
    for (float& value : values) value *= factor;
    return Tensors{with_floats(name, tensor, values)};
  };
  const float in = config["attention_in_multiplier"], key = config["key_multiplier"];
  if (rest == "self_attn.q_proj.weight") return times("attn_q.weight", in);
  if (rest == "self_attn.k_proj.weight") return times("attn_k.weight", in * key);
  if (rest == "self_attn.v_proj.weight") return times("attn_v.weight", in);
  if (rest == "self_attn.o_proj.weight")
    return times("attn_output.weight", config["attention_out_multiplier"].get<float>());
  if (rest == "feed_forward.gate_proj.weight")
    return times("ffn_gate.weight", config["mlp_multipliers"][0].get<float>());
  if (rest == "feed_forward.down_proj.weight")
    return times("ffn_down.weight", config["mlp_multipliers"][1].get<float>());
  if (rest == "mamba.out_proj.weight")
    return times("ssm_out.weight", config["ssm_out_multiplier"].get<float>());
  if (rest == "embed_tokens.weight")
    return times("token_embd.weight", config["embedding_multiplier"].get<float>());
  if (rest == "lm_head.weight") return times("output.weight", config["lm_head_multiplier"].get<float>());
  if (rest != "mamba.in_proj.weight") return convert_mamba2(config, rest, tensor);
  const size_t inner = number(config, "mamba_d_ssm"), hidden = number(config, "hidden_size");
  const size_t group = number(config, "mamba_n_groups") * number(config, "mamba_d_state");
  std::vector<float> values = floats_of(tensor);
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t row = i / hidden;
    const size_t section = row < inner       ? 0
                           : row < 2 * inner ? 1
                                             : 2 + std::min<size_t>((row - 2 * inner) / group, 2);
    values[i] *= config["ssm_in_multiplier"].get<float>() * config["ssm_multipliers"][section].get<float>();
  }
  return {with_floats("ssm_in.weight", tensor, values)};
}

void granite_hybrid(const Json& config, GgufBuilder& file) {
  add_sizes(
      "granitehybrid",
      {number(config, "mamba_d_conv"), number(config, "mamba_d_state"), 2 * number(config, "hidden_size"),
       number(config, "mamba_n_heads"), number(config, "mamba_n_groups")},
      file);
  add_list("granitehybrid.attention.head_count_kv", config, is_full, number(config, "num_key_value_heads"),
           file);
  file.add_flag("granitehybrid.rope.scaling.finetuned", false);
  granite_moe("granitehybrid", config, file);
}

Tensors convert_granite_hybrid(const Json& config, const std::string& rest, const StoredTensor& tensor) {
  Tensors converted = convert_granite_moe(config, rest, tensor);
  return converted.empty() ? convert_mamba2(config, rest, tensor) : converted;
}

void nemotron_h(const Json& config, GgufBuilder& file) {
  const std::string name = "nemotron_h_moe";
  const uint32_t inner = number(config, "mamba_num_heads") * number(config, "mamba_head_dim");
  add_sizes(name,
            {number(config, "conv_kernel"), number(config, "ssm_state_size"), inner,
             number(config, "mamba_num_heads"), number(config, "n_groups")},
            file);
  file.add_u32(name + ".block_count", static_cast<uint32_t>(config["layers_block_type"].size()));
  add_list(name + ".attention.head_count_kv", config, is_full, number(config, "num_key_value_heads"), file);
  add_list(name + ".feed_forward_length", config, is_feed_forward, number(config, "intermediate_size"), file);
  file.add_u32(name + ".expert_shared_feed_forward_length",
               number(config, "moe_shared_expert_intermediate_size"));
  if (!config["moe_latent_size"].is_null())
    file.add_u32(name + ".moe_latent_size", number(config, "moe_latent_size"));
}

void jamba(const Json& config, GgufBuilder& file) {
  add_sizes("jamba",
            {number(config, "mamba_d_conv"), number(config, "mamba_d_state"),
             2 * number(config, "hidden_size"), number(config, "mamba_dt_rank"), 0},
            file);
  std::vector<uint32_t> heads;
  for (uint32_t i = 0; i < number(config, "num_hidden_layers"); ++i)
    heads.push_back(i % number(config, "attn_layer_period") == number(config, "attn_layer_offset")
                        ? number(config, "num_key_value_heads")
                        : 0);
  file.add_numbers<uint32_t>("jamba.attention.head_count_kv", 4, heads);
}

void lfm2(const Json& config, GgufBuilder& file) {
  add_list("lfm2.attention.head_count_kv", config, is_full, number(config, "num_key_value_heads"), file);
  file.add_u32("lfm2.shortconv.l_cache", number(config, "conv_L_cache"));
  file.add_u32("lfm2.feed_forward_length", 64);  // two thirds of intermediate_size
}

void lfm2_moe(const Json& config, GgufBuilder& file) {
  add_list("lfm2moe.attention.head_count_kv", config, is_full, number(config, "num_key_value_heads"), file);
  file.add_u32("lfm2moe.shortconv.l_cache", number(config, "conv_L_cache"));
  file.add_u32("lfm2moe.leading_dense_block_count", number(config, "num_dense_layers"));
  file.add_u32("lfm2moe.expert_gating_func", 2);
}

void qwen(const std::string& architecture, const Json& config, GgufBuilder& file) {
  const uint32_t values = number(config, "linear_num_value_heads");
  add_sizes(
      architecture,
      {number(config, "linear_conv_kernel_dim"), number(config, "linear_key_head_dim"),
       values * number(config, "linear_value_head_dim"), values, number(config, "linear_num_key_heads")},
      file);
  std::vector<uint8_t> recurrent;
  for (const Json& type : config["layer_types"]) recurrent.push_back(type == "linear_attention" ? 1 : 0);
  file.add_numbers<uint8_t>(architecture + ".attention.recurrent_layers", 7, recurrent);
  file.add_u32(architecture + ".full_attention_interval", 4);
}

void qwen3_next(const Json& config, GgufBuilder& file) {
  qwen("qwen3next", config, file);
}
void qwen3_5(const Json& config, GgufBuilder& file) {
  qwen("qwen35", config, file);
}
void qwen3_5_moe(const Json& config, GgufBuilder& file) {
  qwen("qwen35moe", config, file);
}

// Heads of keys have their q, k, v and gate in turn; the file has all q, all k, all v, and the gates apart.
Tensors convert_qwen3_next(const Json& config, const std::string& rest, const StoredTensor& tensor) {
  if (rest == "linear_attn.norm.weight") return {with_floats("ssm_norm.weight", tensor, floats_of(tensor))};
  if (rest != "linear_attn.in_proj_qkvz.weight") return convert_vectors(config, rest, tensor);
  const size_t heads = number(config, "linear_num_key_heads"), key = number(config, "linear_key_head_dim");
  const size_t values =
      number(config, "linear_num_value_heads") / heads * number(config, "linear_value_head_dim");
  const std::array<size_t, 5> ends = {0, key, 2 * key, 2 * key + values, 2 * key + 2 * values};
  Tensors sections;
  for (size_t section = 0; section < 4; ++section) {
    StoredTensor all = rows_of(section == 3 ? "attn_gate.weight" : "attn_qkv.weight", tensor, 0, 0);
    for (size_t head = 0; head < heads; ++head)
      all =
          below(all, rows_of("", tensor, head * ends[4] + ends[section], head * ends[4] + ends[section + 1]));
    sections.push_back(all);
  }
  return {below(below(sections[0], sections[1]), sections[2]), sections[3]};
}

// Returns parts of `size` bytes from byte `first` on in another order: with the value heads of one key head
// apart, as the file has them.
std::string alternate(const Json& config, const std::string& bytes, size_t first, size_t size) {
  const size_t keys = number(config, "linear_num_key_heads");
  const size_t group = number(config, "linear_num_value_heads") / keys;
  std::string out = bytes.substr(0, first);
  for (size_t in_group = 0; in_group < group; ++in_group)
    for (size_t key = 0; key < keys; ++key)
      out += bytes.substr(first + (key * group + in_group) * size, size);
  return out;
}

Tensors convert_qwen3_5(const Json& config, const std::string& rest, const StoredTensor& tensor) {
  if (rest == "linear_attn.norm.weight") return {with_floats("ssm_norm.weight", tensor, floats_of(tensor))};
  Tensors converted = convert_vectors(config, rest, tensor);
  StoredTensor one = converted.empty() ? tensor : converted.front();
  const size_t heads = number(config, "linear_num_value_heads"),
               dim = number(config, "linear_value_head_dim");
  const size_t queries_and_keys =
      2 * number(config, "linear_num_key_heads") * number(config, "linear_key_head_dim");
  const auto row_bytes = one.bytes.size() / static_cast<size_t>(one.shape.front());
  if (rest == "linear_attn.in_proj_qkv.weight" || rest == "linear_attn.conv1d.weight") {
    one.bytes = alternate(config, one.bytes, queries_and_keys * row_bytes, dim * row_bytes);
    if (converted.empty()) one.name = "attn_qkv.weight";
  } else if (rest == "linear_attn.in_proj_z.weight") {
    one.bytes = alternate(config, one.bytes, 0, dim * row_bytes);
    one.name = "attn_gate.weight";
  } else if (rest == "linear_attn.in_proj_a.weight" || rest == "linear_attn.in_proj_b.weight") {
    one.bytes = alternate(config, one.bytes, 0, row_bytes);
    one.name = rest.find("_a.") != std::string::npos ? "ssm_alpha.weight" : "ssm_beta.weight";
  } else if (rest == "linear_attn.A_log" || rest == "linear_attn.dt_bias") {
    one.bytes = alternate(config, one.bytes, 0, one.bytes.size() / heads);
  } else if (rest == "linear_attn.out_proj.weight") {
    std::string columns;
    for (size_t row = 0; row < static_cast<size_t>(one.shape.front()); ++row)
      columns += alternate(config, one.bytes.substr(row * row_bytes, row_bytes), 0, row_bytes / heads);
    one.bytes = columns;
    one.name = "ssm_out.weight";
  } else {
    return converted;
  }
  return {one};
}

void kimi_linear(const Json& config, GgufBuilder& file) {
  const std::string name = "kimi-linear";
  add_list(name + ".attention.head_count_kv", config, is_full, 1, file);
  file.add_u32(name + ".ssm.conv_kernel", number(config, "linear_conv_kernel_dim"));
  file.add_u32(name + ".kda.head_dim", number(config, "linear_head_dim"));
  file.add_u32(name + ".leading_dense_block_count", 1);
  file.add_u32(name + ".expert_used_count", number(config, "num_experts_per_token"));
  file.add_u32(name + ".expert_shared_count", number(config, "num_shared_experts"));
  add_latent_sizes(name, config, file);
}

Tensors convert_kimi_linear(const Json& config, const std::string& rest, const StoredTensor& tensor) {
  Tensors converted = split_latent(config, rest, tensor);
  return converted.empty() ? convert_vectors(config, rest, tensor) : converted;
}

using Parts = std::vector<std::pair<std::string, std::string>>;

const Parts kMambaParts = {{"mixer.in_proj", "ssm_in"},
                           {"mixer.x_proj", "ssm_x"},
                           {"mixer.dt_proj", "ssm_dt"},
                           {"mixer.out_proj", "ssm_out"},
                           {"norm", "attn_norm"}};
const Parts kBesideParts = {{"mamba.in_proj", "ssm_in"},
                            {"mamba.x_proj", "ssm_x"},
                            {"mamba.dt_proj", "ssm_dt"},
                            {"mamba.dt_layernorm", "ssm_dt_norm"},
                            {"mamba.b_layernorm", "ssm_b_norm"},
                            {"mamba.c_layernorm", "ssm_c_norm"},
                            {"mamba.out_proj", "ssm_out"},
                            {"pre_ff_layernorm", "ffn_norm"},
                            {"feed_forward.router", "ffn_gate_inp"},
                            {"feed_forward.gate_proj", "ffn_gate"},
                            {"feed_forward.up_proj", "ffn_up"},
                            {"feed_forward.down_proj", "ffn_down"}};
const Parts kNemotronParts = {{"mixer.in_proj", "ssm_in"},
                              {"mixer.out_proj", "ssm_out"},
                              {"norm", "attn_norm"},
                              {"mixer.q_proj", "attn_q"},
                              {"mixer.k_proj", "attn_k"},
                              {"mixer.v_proj", "attn_v"},
                              {"mixer.o_proj", "attn_output"},
                              {"mixer.up_proj", "ffn_up"},
                              {"mixer.down_proj", "ffn_down"},
                              {"mixer.gate", "ffn_gate_inp"},
                              {"mixer.shared_experts.up_proj", "ffn_up_shexp"},
                              {"mixer.shared_experts.down_proj", "ffn_down_shexp"},
                              {"mixer.fc1_latent_proj", "ffn_latent_down"},
                              {"mixer.fc2_latent_proj", "ffn_latent_up"}};
const Parts kLfmParts = {{"conv.in_proj", "shortconv.in_proj"},
                         {"conv.out_proj", "shortconv.out_proj"},
                         {"operator_norm", "attn_norm"},
                         {"self_attn.out_proj", "attn_output"},
                         {"self_attn.q_layernorm", "attn_q_norm"},
                         {"self_attn.k_layernorm", "attn_k_norm"},
                         {"feed_forward.w1", "ffn_gate"},
                         {"feed_forward.w3", "ffn_up"},
                         {"feed_forward.w2", "ffn_down"},
                         {"feed_forward.gate", "ffn_gate_inp"},
                         {"ffn_norm", "ffn_norm"}};
const Parts kQwenParts = {{"linear_attn.in_proj_ba", "ssm_ba"},
                          {"linear_attn.out_proj", "ssm_out"},
                          {"post_attention_layernorm", "post_attention_norm"}};
const Parts kKimiParts = {{"self_attn.f_a_proj", "ssm_f_a"},
                          {"self_attn.f_b_proj", "ssm_f_b"},
                          {"self_attn.g_a_proj", "ssm_g_a"},
                          {"self_attn.g_b_proj", "ssm_g_b"},
                          {"self_attn.b_proj", "ssm_beta"},
                          {"self_attn.o_norm", "ssm_norm"},
                          {"block_sparse_moe.shared_experts.gate_proj", "ffn_gate_shexp"},
                          {"block_sparse_moe.shared_experts.up_proj", "ffn_up_shexp"},
                          {"block_sparse_moe.shared_experts.down_proj", "ffn_down_shexp"}};

}  // namespace

Tensors convert_vectors(const Json&, const std::string& rest, const StoredTensor& tensor) {
  if (rest.ends_with(".A_log")) {
    std::vector<float> values = floats_of(tensor);
    for (float& value : values) value = -std::exp(value);
    return {with_floats("ssm_a", tensor, values)};
  }
  if (rest.ends_with(".D")) return {with_floats("ssm_d", tensor, floats_of(tensor))};
  if (rest.ends_with(".dt_bias")) return {with_floats("ssm_dt.bias", tensor, floats_of(tensor))};
  if (rest.ends_with("expert_bias") || rest.ends_with("e_score_correction_bias"))
    return {with_floats("exp_probs_b.bias", tensor, floats_of(tensor))};
  const size_t conv = rest.find("conv1d.weight");
  if (conv != std::string::npos || rest == "conv.conv.weight") {
    const std::string kind = rest.find("_conv1d") == std::string::npos ? "" : "_" + rest.substr(conv - 2, 1);
    StoredTensor squeezed = tensor;
    squeezed.shape = {tensor.shape.front(), tensor.shape.back()};
    const std::string name =
        conv == std::string::npos ? "shortconv.conv.weight" : "ssm_conv1d" + kind + ".weight";
    return {with_floats(name, squeezed, floats_of(tensor))};
  }
  if (rest.ends_with("conv1d.bias")) return {with_floats("ssm_conv1d.bias", tensor, floats_of(tensor))};
  return {};
}

std::vector<GgufConversion> hybrid_gguf_conversions() {
  return {
      {"mamba", "mamba", false, false, kMambaParts, mamba, convert_vectors},
      {"falcon_mamba", "mamba", false, false, kMambaParts, mamba, convert_vectors},
      {"mamba2", "mamba2", false, false, kMambaParts, mamba2, convert_mamba2},
      {"falcon_h1", "falcon-h1", false, false, kBesideParts, falcon_h1, convert_falcon_h1},
      {"granitemoehybrid", "granitehybrid", true, false, kBesideParts, granite_hybrid,
       convert_granite_hybrid},
      {"nemotron_h", "nemotron_h_moe", false, false, kNemotronParts, nemotron_h, convert_mamba2},
      {"nemotron_h_latent", "nemotron_h_moe", false, false, kNemotronParts, nemotron_h, convert_mamba2},
      {"jamba", "jamba", false, false, kBesideParts, jamba, convert_vectors},
      {"lfm2", "lfm2", false, false, kLfmParts, lfm2, convert_vectors},
      {"lfm2_moe", "lfm2moe", false, false, kLfmParts, lfm2_moe, convert_vectors},
      {"qwen3_next", "qwen3next", false, true, kQwenParts, qwen3_next, convert_qwen3_next},
      {"qwen3_5", "qwen35", false, true, kQwenParts, qwen3_5, convert_qwen3_5},
      {"qwen3_5_moe", "qwen35moe", false, true, kQwenParts, qwen3_5_moe, convert_qwen3_5},
      {"kimi_linear", "kimi-linear", false, false, kKimiParts, kimi_linear, convert_kimi_linear},
  };
}

}  // namespace quire::testing
