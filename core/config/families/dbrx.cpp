// DBRX (MoE): q, k and v are clipped; the matrices of all experts are stacked in one tensor.
#include "core/config/families/experts.h"
#include "core/config/families/families.h"

namespace quire::families {
namespace {

constexpr TensorKeys dbrx_keys() {
  TensorKeys keys;
  keys.embedding = "transformer.wte";
  keys.layers = "transformer.blocks.";
  keys.attention_norm = "norm_attn_norm.norm_1";
  keys.qkv = "norm_attn_norm.attn.Wqkv";
  keys.attention_output = "norm_attn_norm.attn.out_proj";
  keys.mlp_norm = "norm_attn_norm.norm_2";
  keys.final_norm = "transformer.norm_f";
  return keys;
}

void require_norm(const ModelReader& reader) {
  const auto power = reader.fields().find("moe_normalize_expert_weights");
  if (!power || power->as_number(0.0, 1e3) == 1.0) return;
  throw Error(ErrorCode::unsupported, "{} must be 1", power->where());
}

void dbrx(ModelReader& reader) {
  const float clip = reader.number_or("clip_qkv", 0.0, 0.0, 1e6);
  require_norm(reader);
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    layer.attention().clip = clip;
    ExpertsPart experts = routed(reader, i, {"ffn.router.layer", "ffn."});
    experts.normalised = true;
    experts.expert = reader.mlp(i, {"", "ffn.experts.mlp.w1", "ffn.experts.mlp.v1", "ffn.experts.mlp.w2"},
                                expert_width(reader));
    for (MatrixPart* matrix :
         {&experts.expert.gate_up[0], &experts.expert.gate_up[1], &experts.expert.down}) {
      matrix->num_slabs = experts.num_experts;
    }
    experts.expert.down.transposed = true;
    ModelReader::set_experts(layer, std::move(experts));
  });
}

}  // namespace

const ArchitectureSpec kDbrx = {.name = "DbrxForCausalLM",
                                .model_type = "dbrx",
                                .keys = dbrx_keys(),
                                .norm = kernels::NormKind::layer,
                                .norm_has_bias = false,
                                .has_dense_mlp = false,
                                .default_norm_epsilon = 1e-5,
                                .refine = dbrx};

}  // namespace quire::families
