// Qwen3-Next, Qwen3.5 and those after it: layers of the gated delta rule, and every fourth layer with
// attention whose result is gated. The norms outside the mixers have their weights stored minus one.
#include "core/config/families/delta.h"
#include "core/config/families/qwen.h"

namespace quire::families {
namespace {

// The matrix of the queries also has those of the gate, side by side for each head.
void split_gate(LayerSpec& layer) {
  AttentionPart& part = layer.attention();
  MatrixPart& query = part.qkv.front();
  const std::vector<int32_t> halves = {part.heads.head_dim, part.heads.head_dim};
  query.num_out *= 2;
  part.gate = OutputGatePart{query};
  query.order = order_of_part(part.heads.num_heads, halves, 0);
  part.gate->projection.order = order_of_part(part.heads.num_heads, halves, 1);
}

void set_mixers(ModelReader& reader, bool is_interleaved) {
  reader.each_attention([&](LayerSpec& layer, int32_t i) {
    reader.norm_heads(layer, i, kernels::QkNorm::each_head);
    split_gate(layer);
  });
  reader.each_recurrent(
      [&](LayerSpec& layer, int32_t i) { layer.mixer = gdn_part(reader, i, is_interleaved); });
}

void qwen3_next(ModelReader& reader) {
  set_mixers(reader, true);
  add_qwen_experts(reader, true);
}

void qwen3_5(ModelReader& reader) {
  set_mixers(reader, false);
}

// All layers have experts, and the weights of the chosen ones always sum to one.
void qwen3_5_moe(ModelReader& reader) {
  set_mixers(reader, false);
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    ExpertsPart experts = qwen_experts(reader, i);
    experts.normalised = true;
    ModelReader::set_experts(layer, std::move(experts));
  });
}

LayerType type_of_layer(const ModelReader& reader, int32_t layer) {
  const int32_t interval = reader.int_or("full_attention_interval", 4, 1, 1024);
  return (layer + 1) % interval == 0 ? LayerType::full : LayerType::recurrent;
}

constexpr ArchitectureSpec kQwen3NextRow = {.name = "Qwen3NextForCausalLM",
                                            .model_type = "qwen3_next",
                                            .norm_offset = 1.0f,
                                            .type_of_layer = type_of_layer,
                                            .qkv_bias = by_flag("attention_bias"),
                                            .attention_output_bias = by_flag("attention_bias"),
                                            .default_partial_rotary = 0.25,
                                            .default_max_positions = 32768,
                                            .default_head_dim = 256,
                                            .refine = qwen3_next};

constexpr ArchitectureSpec qwen3_5_row() {
  ArchitectureSpec row = renamed(kQwen3NextRow, "Qwen3_5ForCausalLM", "qwen3_5_text");
  row.refine = qwen3_5;
  return row;
}

constexpr ArchitectureSpec qwen3_5_moe_row() {
  ArchitectureSpec row = renamed(kQwen3NextRow, "Qwen3_5MoeForCausalLM", "qwen3_5_moe_text");
  row.has_dense_mlp = false;
  row.refine = qwen3_5_moe;
  return row;
}

}  // namespace

const ArchitectureSpec kQwen3Next = kQwen3NextRow;
const ArchitectureSpec kQwen35 = qwen3_5_row();
const ArchitectureSpec kQwen35Moe = qwen3_5_moe_row();

}  // namespace quire::families
