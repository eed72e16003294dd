// The Qwen families, dense and MoE.
#include "core/config/families/qwen.h"

#include "core/config/families/experts.h"

namespace quire::families {
namespace {

constexpr ArchitectureSpec kQwen2Row = {.name = "Qwen2ForCausalLM",
                                        .model_type = "qwen2",
                                        .qkv_bias = kAlways,
                                        .window = WindowRule::by_layer_switch,
                                        .default_max_positions = 32768,
                                        .default_sliding_window = 4096};

void norm_heads(ModelReader& reader) {
  reader.each_layer(
      [&](LayerSpec& layer, int32_t i) { reader.norm_heads(layer, i, kernels::QkNorm::each_head); });
}

// Returns whether a layer has experts: every decoder_sparse_step-th layer, except those in mlp_only_layers.
bool has_experts(const ModelReader& reader, int32_t layer) {
  if (const auto dense = reader.fields().find("mlp_only_layers")) {
    for (const JsonView& entry : dense->items())
      if (entry.as_int(0, 1 << 20) == layer) return false;
  }
  return (layer + 1) % reader.int_or("decoder_sparse_step", 1, 1, 1024) == 0;
}

void add_experts(ModelReader& reader) {
  add_qwen_experts(reader, false);
}

void qwen3_moe(ModelReader& reader) {
  norm_heads(reader);
  add_experts(reader);
}

// Qwen3-VL stacks experts as [experts, inputs, outputs], and its chosen weights always sum to one.
void qwen3_vl_moe(ModelReader& reader) {
  norm_heads(reader);
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    if (!has_experts(reader, i)) return;
    ExpertsPart experts = routed(reader, i, {"mlp.gate", "mlp.experts."});
    experts.expert = stacked_expert(reader, i, {"mlp.experts.gate_up_proj", "mlp.experts.down_proj", true},
                                    experts.num_experts, expert_width(reader));
    experts.normalised = true;
    ModelReader::set_experts(layer, std::move(experts));
  });
}

constexpr TensorKeys qwen1_keys() {
  TensorKeys keys;
  keys.embedding = "transformer.wte";
  keys.layers = "transformer.h.";
  keys.attention_norm = "ln_1";
  keys.qkv = "attn.c_attn";
  keys.attention_output = "attn.c_proj";
  keys.mlp_norm = "ln_2";
  keys.gate = "mlp.w2";
  keys.up = "mlp.w1";
  keys.down = "mlp.c_proj";
  keys.final_norm = "transformer.ln_f";
  return keys;
}

// intermediate_size counts gate and up together. Beyond seq_length the model's code scales queries and the
// base of the rotary embedding, which is not supported.
void qwen1(ModelReader& reader) {
  const TensorKeys& keys = reader.row().keys;
  const int32_t width = reader.require("intermediate_size", 2, 1 << 20) / 2;
  const MlpKeys names = {"", std::string(keys.gate), std::string(keys.up), std::string(keys.down)};
  reader.each_layer([&](LayerSpec& layer, int32_t i) { layer.feed_forward = reader.mlp(i, names, width); });
  reader.limit_positions(reader.int_or("seq_length", 8192, 1, 1 << 30));
}

constexpr ArchitectureSpec qwen1_row() {
  ArchitectureSpec row = renamed(kQwen2Row, "QWenLMHeadModel", "qwen");
  row.keys = qwen1_keys();
  row.has_dense_mlp = false;
  row.window = WindowRule::no_layer;
  row.default_max_positions = 8192;
  row.refine = qwen1;
  return row;
}

constexpr ArchitectureSpec qwen3_row() {
  ArchitectureSpec row = renamed(kQwen2Row, "Qwen3ForCausalLM", "qwen3");
  row.qkv_bias = row.attention_output_bias = by_flag("attention_bias");
  row.default_head_dim = 128;
  row.refine = norm_heads;
  return row;
}

constexpr ArchitectureSpec qwen2_moe_row() {
  ArchitectureSpec row = renamed(kQwen2Row, "Qwen2MoeForCausalLM", "qwen2_moe");
  row.qkv_bias = by_flag("qkv_bias", true);
  row.refine = add_experts;
  return row;
}

constexpr ArchitectureSpec qwen3_moe_row() {
  ArchitectureSpec row = renamed(qwen3_row(), "Qwen3MoeForCausalLM", "qwen3_moe");
  row.default_head_dim = 0;
  row.refine = qwen3_moe;
  return row;
}

// Text parts of checkpoints with a vision tower.
constexpr ArchitectureSpec qwen2_vl_row(std::string_view name, std::string_view model_type) {
  ArchitectureSpec row = renamed(kQwen2Row, name, model_type);
  row.default_norm_epsilon = 1e-5;
  row.default_rope_theta = 1000000.0;
  return row;
}

constexpr ArchitectureSpec qwen3_vl_row() {
  ArchitectureSpec row = renamed(qwen3_row(), "Qwen3VLForConditionalGeneration", "qwen3_vl_text");
  row.window = WindowRule::no_layer;
  row.default_rope_theta = 500000.0;
  row.default_max_positions = 128000;
  return row;
}

constexpr ArchitectureSpec qwen3_vl_moe_row() {
  ArchitectureSpec row = renamed(qwen3_vl_row(), "Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe_text");
  row.default_head_dim = 0;
  row.refine = qwen3_vl_moe;
  return row;
}

}  // namespace

ExpertsPart qwen_experts(ModelReader& reader, int32_t layer) {
  ExpertsPart experts = routed(reader, layer, {"mlp.gate", "mlp.experts.{}."});
  const int32_t shared = reader.int_or("shared_expert_intermediate_size", 0, 0, 1 << 20);
  add_shared(reader, layer, "mlp.shared_expert.", shared, experts);
  if (shared > 0)
    experts.shared_gate = reader.layer_matrix(layer, "mlp.shared_expert_gate", reader.hidden(), 1);
  return experts;
}

void add_qwen_experts(ModelReader& reader, bool is_normalised) {
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    if (!has_experts(reader, i)) return;
    ExpertsPart experts = qwen_experts(reader, i);
    experts.normalised = reader.flag("norm_topk_prob", is_normalised);
    ModelReader::set_experts(layer, std::move(experts));
  });
}

const ArchitectureSpec kQwen1 = qwen1_row();
const ArchitectureSpec kQwen2 = kQwen2Row;
const ArchitectureSpec kQwen3 = qwen3_row();
const ArchitectureSpec kQwen2Moe = qwen2_moe_row();
const ArchitectureSpec kQwen3Moe = qwen3_moe_row();
const ArchitectureSpec kQwen2Vl = qwen2_vl_row("Qwen2VLForConditionalGeneration", "qwen2_vl_text");
const ArchitectureSpec kQwen25Vl = qwen2_vl_row("Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl_text");
const ArchitectureSpec kQwen3Vl = qwen3_vl_row();
const ArchitectureSpec kQwen3VlMoe = qwen3_vl_moe_row();

}  // namespace quire::families
