// Falcon 1 and 2: one matrix for q, k and v; attention and MLP parallel, except in the RefinedWeb models,
// which have ALiBi instead of RoPE.
#include <cmath>

#include "core/config/families/alibi.h"
#include "core/config/families/bloom.h"
#include "core/config/families/families.h"

namespace quire::families {
namespace {

// Returns whether the model has several KV heads and parallel blocks by itself, as Falcon 40B has. The code
// that it was first published with had no switch for that, but a model type of its own.
bool is_new_decoder(const ModelReader& reader) {
  const bool is_first_code = reader.fields().string_or({"model_type"}, "") == "RefinedWeb";
  return reader.flag("new_decoder_architecture", is_first_code);
}

// Rows of the stored matrix are grouped by KV head: its queries, its key, its value. With one KV head that is
// q, k and v in order. GGUF files have all q, all k and all v in order.
void group_heads(ModelReader& reader, bool is_new) {
  const bool is_shared = reader.flag("multi_query", true) && !is_new;
  kernels::HeadShape heads = reader.heads();
  if (is_shared) heads.num_kv_heads = 1;
  const int32_t dim = heads.head_dim;
  const int32_t of_queries = heads.num_heads / heads.num_kv_heads * dim;
  const ColumnOrder order = order_of_blocks(heads.num_kv_heads, {of_queries, dim, dim});
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    reader.set_heads(layer, i, heads);
    if (!is_shared && !reader.flag("separate_qkv")) layer.attention().qkv.front().order = order;
  });
}

// The bias of a score is added before it is divided by sqrt(head_dim).
void falcon_alibi(ModelReader& reader) {
  use_alibi(reader);
  reader.each_layer([](LayerSpec& layer, int32_t) {
    for (float& slope : layer.attention().slopes) slope *= layer.attention().scale;
  });
}

void falcon(ModelReader& reader) {
  const bool is_new = is_new_decoder(reader);
  group_heads(reader, is_new);
  if (reader.flag("alibi")) falcon_alibi(reader);
  const bool is_parallel = reader.flag("parallel_attn", true) || is_new;
  const int32_t num_norms = reader.int_or("num_ln_in_parallel_attn", is_new ? 2 : 1, 1, 2);
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    layer.parallel = is_parallel;
    layer.shares_norm = is_parallel && num_norms == 1;
    if (!is_parallel || num_norms == 1) return;
    layer.attention_norm = reader.layer_norm(i, "ln_attn");
    layer.feed_forward_norm = reader.layer_norm(i, "ln_mlp");
  });
}

}  // namespace

const ArchitectureSpec kFalcon = {.name = "FalconForCausalLM",
                                  .model_type = "falcon",
                                  .keys = bloom_keys(),
                                  .norm = kernels::NormKind::layer,
                                  .gated_mlp = false,
                                  .default_intermediate_ratio = 4,
                                  .qkv_bias = by_flag("bias"),
                                  .attention_output_bias = by_flag("bias"),
                                  .mlp_bias = by_flag("bias"),
                                  .tied_by_default = true,
                                  .default_activation = "gelu",
                                  .default_norm_epsilon = 1e-5,
                                  .refine = falcon};

}  // namespace quire::families
