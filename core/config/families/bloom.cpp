// BLOOM: ALiBi, layer norms with one after the embedding, q, k and v interleaved per head.
#include "core/config/families/bloom.h"

#include "core/config/families/alibi.h"
#include "core/config/families/families.h"

namespace quire::families {
namespace {

void bloom(ModelReader& reader) {
  if (reader.flag("apply_residual_connection_post_layernorm")) {
    throw Error(ErrorCode::unsupported, "{}.apply_residual_connection_post_layernorm: true is not supported",
                reader.fields().where());
  }
  use_alibi(reader);
  reader.model().embedding.norm = reader.norm("transformer.word_embeddings_layernorm", reader.hidden());
  if (reader.flag("separate_qkv")) return;  // in GGUF files
  const int32_t dim = reader.heads().head_dim;
  const ColumnOrder order = order_of_blocks(reader.heads().num_heads, {dim, dim, dim});
  reader.each_layer([&](LayerSpec& layer, int32_t) { layer.attention().qkv.front().order = order; });
}

}  // namespace

const ArchitectureSpec kBloom = {.name = "BloomForCausalLM",
                                 .model_type = "bloom",
                                 .keys = bloom_keys(),
                                 .norm = kernels::NormKind::layer,
                                 .gated_mlp = false,
                                 .default_intermediate_ratio = 4,
                                 .qkv_bias = kAlways,
                                 .attention_output_bias = kAlways,
                                 .mlp_bias = kAlways,
                                 .tied_by_default = true,
                                 .default_activation = "gelu_pytorch_tanh",
                                 .default_norm_epsilon = 1e-5,
                                 .refine = bloom};

}  // namespace quire::families
