// MiniMax M2: q and k norms over all heads together, MoE with sigmoid routing.
#include "core/config/families/experts.h"

namespace quire::families {
namespace {

void minimax_m2(ModelReader& reader) {
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    reader.norm_heads(layer, i, kernels::QkNorm::all_heads);
    ExpertsPart experts = routed(reader, i, {"block_sparse_moe.gate", "block_sparse_moe.experts.{}.", true});
    route_by_sigmoid(reader, experts, reader.key(i, "block_sparse_moe.e_score_correction_bias"));
    ModelReader::set_experts(layer, std::move(experts));
    if (reader.fields().find("rotary_dim")) {
      RopeSpec rope = reader.model().ropes[static_cast<size_t>(layer.attention().rope_idx)];
      rope.rotary_dim = reader.require("rotary_dim", 2, 1024);
      reader.set_rope(layer, rope);
    }
  });
}

}  // namespace

const ArchitectureSpec kMiniMaxM2 = {.name = "MiniMaxM2ForCausalLM",
                                     .model_type = "minimax_m2",
                                     .default_rope_theta = 5000000.0,
                                     .default_max_positions = 196608,
                                     .refine = minimax_m2};

}  // namespace quire::families
