// Laguna: a number of heads for each layer, attention gated by softplus, and experts routed by sigmoid scores
// of capped logits.
#include "core/base/error.h"
#include "core/config/families/experts.h"

namespace quire::families {
namespace {

// Returns whether attention has a gate for each head, and not for each element.
bool gates_heads(const ModelReader& reader) {
  const auto gating = reader.fields().find("gating");
  if (!gating || (gating->is_bool() && gating->as_bool())) return true;
  const std::string word = gating->as_string();
  if (word == "per-head" || word == "per-element") return word == "per-head";
  throw Error(ErrorCode::unsupported, "{}: \"{}\" is not supported; supported are per-head and per-element",
              gating->where(), printable(word, 32));
}

void set_attention(ModelReader& reader, LayerSpec& layer, int32_t index, int32_t num_heads) {
  AttentionPart& part = layer.attention();
  kernels::HeadShape heads = reader.heads();
  heads.num_heads = num_heads;
  reader.set_heads(layer, index, heads);
  reader.norm_heads(layer, index, kernels::QkNorm::each_head);
  const int32_t num_gates = gates_heads(reader) ? num_heads : result_columns(part);
  part.gate =
      OutputGatePart{reader.layer_matrix(index, "self_attn.g_proj", reader.hidden(), num_gates), true};
}

ExpertsPart experts_part(ModelReader& reader, int32_t index) {
  ExpertsPart experts = routed(reader, index, {"mlp.gate", "mlp.experts.{}."});
  route_by_sigmoid(reader, experts, reader.key(index, "mlp.experts.e_score_correction_bias"));
  experts.least_sum = 0.0f;
  experts.softcap = reader.number_or("moe_router_logit_softcapping", 0.0, 0.0, 1e6);
  experts.scale = reader.number_or("moe_routed_scaling_factor", 1.0, 1e-6, 1e6);
  const int32_t shared = reader.int_or("shared_expert_intermediate_size", 512, 0, 1 << 20);
  add_shared(reader, index, "mlp.shared_expert.", shared, experts);
  return experts;
}

void laguna(ModelReader& reader) {
  if (reader.flag("moe_apply_router_weight_on_input")) {
    throw Error(ErrorCode::unsupported, "{}.moe_apply_router_weight_on_input is not supported",
                reader.fields().where());
  }
  const std::vector<int64_t> heads = reader.layer_numbers("num_attention_heads_per_layer", 1, 1024);
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    const int32_t own =
        heads.empty() ? reader.heads().num_heads : static_cast<int32_t>(heads[static_cast<size_t>(i)]);
    set_attention(reader, layer, i, own);
    if (is_sparse_layer(reader, i, 1)) ModelReader::set_experts(layer, experts_part(reader, i));
  });
}

}  // namespace

const ArchitectureSpec kLaguna = {.name = "LagunaForCausalLM",
                                  .model_type = "laguna",
                                  .qkv_bias = by_flag("attention_bias"),
                                  .attention_output_bias = by_flag("attention_bias"),
                                  .window = WindowRule::by_layer_type,
                                  .window_pattern = 1,
                                  .default_max_positions = 131072,
                                  .default_sliding_window = 512,
                                  .default_head_dim = 128,
                                  .refine = laguna};

}  // namespace quire::families
