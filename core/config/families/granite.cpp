// Granite: multipliers for the embedding, the attention scores, the block outputs and the logits.
#include "core/config/families/experts.h"
#include "core/config/families/families.h"

namespace quire::families {
namespace {

void multiply(ModelReader& reader) {
  reader.model().embedding.scale = reader.number_or("embedding_multiplier", 1.0, 1e-9, 1e9);
  reader.model().head.scale = 1.0f / reader.number_or("logits_scaling", 1.0, 1e-9, 1e9);
  const float scale = reader.number_or("attention_multiplier", 1.0, 1e-9, 1e9);
  reader.each_layer([&](LayerSpec& layer, int32_t) { layer.attention().scale = scale; });
  reader.scale_blocks(reader.number_or("residual_multiplier", 1.0, 1e-9, 1e9));
}

void granite_moe(ModelReader& reader) {
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    ExpertsPart experts = routed(reader, i, {"block_sparse_moe.router.layer", "block_sparse_moe."});
    experts.score = kernels::RouterScore::softmax_of_chosen;
    experts.expert =
        stacked_expert(reader, i, {"block_sparse_moe.input_linear", "block_sparse_moe.output_linear"},
                       experts.num_experts, reader.intermediate());
    ModelReader::set_experts(layer, std::move(experts));
  });
  multiply(reader);
}

constexpr ArchitectureSpec kGraniteRow = {.name = "GraniteForCausalLM",
                                          .model_type = "granite",
                                          .qkv_bias = by_flag("attention_bias"),
                                          .attention_output_bias = by_flag("attention_bias"),
                                          .mlp_bias = by_flag("mlp_bias"),
                                          .refine = multiply};

constexpr ArchitectureSpec granite_moe_row() {
  ArchitectureSpec row = renamed(kGraniteRow, "GraniteMoeForCausalLM", "granitemoe");
  row.mlp_bias = kNever;
  row.refine = granite_moe;
  return row;
}

}  // namespace

const ArchitectureSpec kGranite = kGraniteRow;
const ArchitectureSpec kGraniteMoe = granite_moe_row();

}  // namespace quire::families
