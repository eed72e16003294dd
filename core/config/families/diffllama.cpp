// DiffLlama: differential attention; the second half of the heads is subtracted from the first half.
#include <cmath>

#include "core/config/families/families.h"

namespace quire::families {
namespace {

// Value order: KV heads h and h + half side by side, for each h of the first half; then the same again for
// the second half.
ColumnOrder paired_values(int32_t kv_heads, int32_t dim) {
  auto order = std::make_shared<std::vector<int32_t>>();
  const int32_t half = kv_heads / 2;
  for (int32_t h = 0; h < kv_heads; ++h) {
    for (const int32_t source : {h % half, h % half + half}) {
      for (int32_t i = 0; i < dim; ++i) order->push_back(source * dim + i);
    }
  }
  return order;
}

void diffllama(ModelReader& reader) {
  const kernels::HeadShape heads = reader.heads();
  if (heads.num_kv_heads % 2 != 0) {
    throw Error(ErrorCode::format, "{}.num_key_value_heads must be even", reader.fields().where());
  }
  const ColumnOrder order = paired_values(heads.num_kv_heads, heads.head_dim);
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    AttentionPart& part = layer.attention();
    MatrixPart& value = part.qkv[2];
    value.order = order;
    part.heads.value_dim = 2 * heads.head_dim;
    DifferentialPart difference;
    const auto lambda = [&](std::string_view name) {
      return VectorPart{reader.key(i, name), heads.head_dim};
    };
    difference.query_1 = lambda("self_attn.lambda_q1");
    difference.key_1 = lambda("self_attn.lambda_k1");
    difference.query_2 = lambda("self_attn.lambda_q2");
    difference.key_2 = lambda("self_attn.lambda_k2");
    difference.initial = static_cast<float>(0.8 - 0.6 * std::exp(-0.3 * i));
    difference.epsilon = reader.epsilon();
    part.output.prescale *= 1.0f - difference.initial;
    part.differential = std::move(difference);
  });
}

}  // namespace

const ArchitectureSpec kDiffLlama = {.name = "DiffLlamaForCausalLM",
                                     .model_type = "diffllama",
                                     .qkv_bias = by_flag("attention_bias"),
                                     .attention_output_bias = by_flag("attention_bias"),
                                     .default_norm_epsilon = 1e-5,
                                     .refine = diffllama};

}  // namespace quire::families
