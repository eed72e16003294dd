// MPT: ALiBi, layer norms without biases, one matrix for q, k and v.
#include "core/config/families/alibi.h"
#include "core/config/families/families.h"

namespace quire::families {
namespace {

constexpr TensorKeys mpt_keys() {
  TensorKeys keys;
  keys.embedding = "transformer.wte";
  keys.layers = "transformer.blocks.";
  keys.attention_norm = "norm_1";
  keys.qkv = "attn.Wqkv";
  keys.attention_output = "attn.out_proj";
  keys.mlp_norm = "norm_2";
  keys.up = "ffn.up_proj";
  keys.down = "ffn.down_proj";
  keys.final_norm = "transformer.norm_f";
  return keys;
}

// Refuses variants of the training code that no published model uses.
void require_published_variant(const ModelReader& reader) {
  for (const char* field : {"no_bias", "alibi"}) {
    if (!reader.flag(field, true))
      throw Error(ErrorCode::unsupported, "{}.{}: false is not supported", reader.fields().where(), field);
  }
  for (const char* field : {"qk_ln", "prefix_lm", "attn_uses_sequence_id"}) {
    if (reader.flag(field))
      throw Error(ErrorCode::unsupported, "{}.{}: true is not supported", reader.fields().where(), field);
  }
  const auto type = reader.fields().find("attn_type");
  if (type && type->as_string() != "multihead_attention")
    throw Error(ErrorCode::unsupported, "{}: only multihead_attention is supported", type->where());
  const auto norm = reader.fields().find("norm_type");
  if (norm && !norm->as_string().ends_with("layernorm"))
    throw Error(ErrorCode::unsupported, "{}: only layernorm and low_precision_layernorm are supported",
                norm->where());
  if (const auto scale = reader.fields().find("logit_scale"))
    throw Error(ErrorCode::unsupported, "{}: only null is supported", scale->where());
}

void mpt(ModelReader& reader) {
  require_published_variant(reader);
  use_alibi(reader, reader.number_or("alibi_bias_max", 8.0, 1.0, 64.0));
  const float clip = reader.number_or("clip_qkv", 0.0, 0.0, 1e6);
  const float scale = reader.number_or("softmax_scale", 0.0, 0.0, 1e6);
  reader.each_layer([&](LayerSpec& layer, int32_t) {
    layer.attention().clip = clip;
    if (scale != 0.0f) layer.attention().scale = scale;
  });
}

}  // namespace

const ArchitectureSpec kMpt = {.name = "MptForCausalLM",
                               .model_type = "mpt",
                               .keys = mpt_keys(),
                               .norm = kernels::NormKind::layer,
                               .norm_has_bias = false,
                               .gated_mlp = false,
                               .default_intermediate_ratio = 4,
                               .tied_by_default = true,
                               .default_activation = "gelu",
                               .default_norm_epsilon = 1e-5,
                               .refine = mpt};

}  // namespace quire::families
