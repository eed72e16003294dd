// MiniMax-Text-01: lightning attention, full attention in between, and residuals of normalised rows. MiniMax
// M2: q and k norms over all heads together, MoE with sigmoid routing.
#include <cmath>

#include "core/config/families/delta.h"
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

// Returns the decay of each head in a layer. The files have it too, as tables that are not read.
std::vector<float> slopes(int32_t num_heads, int32_t layer, int32_t num_layers) {
  const double of_layer = 1.0 - layer / (num_layers - 1 + 1e-5) + 1e-5;
  std::vector<float> out;
  for (int32_t head = 0; head < num_heads; ++head)
    out.push_back(static_cast<float>(std::exp2(-8.0 * (head + 1) / num_heads) * of_layer));
  return out;
}

// The outputs of qkv_proj are q, k, v of the first head, then those of the next.
LightningPart lightning_part(const ModelReader& reader, int32_t layer) {
  LightningPart part;
  part.num_heads = reader.heads().num_heads;
  part.head_dim = reader.heads().head_dim;
  const int32_t columns = part.num_heads * part.head_dim;
  const int32_t hidden = reader.hidden();
  part.in = {reader.layer_matrix(layer, "self_attn.qkv_proj", hidden, 3 * columns),
             reader.layer_matrix(layer, "self_attn.output_gate", hidden, columns)};
  part.in.front().order = order_of_blocks(part.num_heads, {part.head_dim, part.head_dim, part.head_dim});
  part.slopes = slopes(part.num_heads, layer, reader.num_layers());
  part.norm = ModelReader::bare_norm(kernels::NormKind::rms, 1e-6f, columns);
  part.norm.weight = {reader.key(layer, "self_attn.norm.weight"), columns};
  part.out = reader.layer_matrix(layer, "self_attn.out_proj", columns, hidden);
  return part;
}

// Sets what the block after `norm` is added to, and the factor of its result.
void set_residual(const ModelReader& reader, const std::string& block, NormPart& norm, MatrixPart& output) {
  norm.stream_scale = reader.number_or(block + "_alpha_factor", 1.0, 1e-6, 1e3);
  output.prescale = reader.number_or(block + "_beta_factor", 1.0, -1e3, 1e3);
}

void minimax(ModelReader& reader) {
  require_silu(reader, "hidden_act");
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    const bool is_recurrent = reader.layer_type(i) == LayerType::recurrent;
    if (is_recurrent) layer.mixer = lightning_part(reader, i);
    set_residual(reader, is_recurrent ? "linear_attn" : "full_attn", layer.attention_norm,
                 *output_of(layer.mixer));
    ExpertsPart experts = routed(reader, i, {"block_sparse_moe.gate", "block_sparse_moe.experts.{}.", true});
    experts.normalised = true;
    set_residual(reader, "mlp", layer.feed_forward_norm, experts.expert.down);
    ModelReader::set_experts(layer, std::move(experts));
  });
}

LayerType type_of_layer(const ModelReader&, int32_t layer) {
  return layer % 2 == 0 ? LayerType::full : LayerType::recurrent;
}

}  // namespace

const ArchitectureSpec kMiniMax = {.name = "MiniMaxForCausalLM",
                                   .model_type = "minimax",
                                   .has_dense_mlp = false,
                                   .type_of_layer = type_of_layer,
                                   .default_norm_epsilon = 1e-5,
                                   .default_rope_theta = 1000000.0,
                                   .default_max_positions = 131072,
                                   .refine = minimax};

const ArchitectureSpec kMiniMaxM2 = {.name = "MiniMaxM2ForCausalLM",
                                     .model_type = "minimax_m2",
                                     .default_rope_theta = 5000000.0,
                                     .default_max_positions = 196608,
                                     .refine = minimax_m2};

}  // namespace quire::families
