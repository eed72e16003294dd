// ERNIE 4.5, dense and MoE.
#include "core/config/families/experts.h"
#include "core/config/families/families.h"

namespace quire::families {
namespace {

bool has_experts(const ModelReader& reader, int32_t layer) {
  const int32_t end = reader.int_or("moe_layer_end_index", -1, -1, 1024);
  return (layer + 1) % reader.int_or("moe_layer_interval", 1, 1, 1024) == 0 &&
         layer >= reader.int_or("moe_layer_start_index", 1, 0, 1024) && (end < 0 || layer <= end);
}

void ernie_moe(ModelReader& reader) {
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    if (!has_experts(reader, i)) return;
    ExpertsPart experts = routed(reader, i, {"mlp.gate", "mlp.experts.{}."});
    experts.choice_bias = {reader.key(i, "mlp.moe_statics.e_score_correction_bias"), experts.num_experts};
    experts.normalised = true;
    experts.least_sum = reader.number_or("moe_norm_min", 1e-12, 0.0, 1.0);
    const int32_t shared = reader.int_or("moe_num_shared_experts", 0, 0, 1024);
    add_shared(reader, i, "mlp.shared_experts.", shared * expert_width(reader), experts);
    ModelReader::set_experts(layer, std::move(experts));
  });
}

constexpr ArchitectureSpec kErnieRow = {.name = "Ernie4_5ForCausalLM",
                                        .model_type = "ernie4_5",
                                        .rope_style = kernels::RopeStyle::gptj_pairs,
                                        .qkv_bias = by_flag("use_bias"),
                                        .attention_output_bias = by_flag("use_bias"),
                                        .mlp_bias = by_flag("use_bias"),
                                        .tied_by_default = true,
                                        .default_norm_epsilon = 1e-5,
                                        .default_rope_theta = 500000.0,
                                        .default_max_positions = 131072};

constexpr ArchitectureSpec ernie_moe_row() {
  ArchitectureSpec row = renamed(kErnieRow, "Ernie4_5_MoeForCausalLM", "ernie4_5_moe");
  row.refine = ernie_moe;
  return row;
}

constexpr ArchitectureSpec ernie_row() {
  ArchitectureSpec row = kErnieRow;
  row.default_head_dim = 128;
  return row;
}

}  // namespace

const ArchitectureSpec kErnie45 = ernie_row();
const ArchitectureSpec kErnie45Moe = ernie_moe_row();

}  // namespace quire::families
