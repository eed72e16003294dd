// InternLM 3: Llama with biases under names of their own.
#include "core/config/families/families.h"

namespace quire::families {
namespace {

void require_bias(MatrixPart& matrix) {
  matrix.bias = BiasRule::required;
}

// Reads the names that transformers has for these biases in Llama, too.
void internlm3(ModelReader& reader) {
  const bool attention = reader.flag("attention_bias");
  const bool mlp = reader.flag("mlp_bias");
  reader.each_layer([&](LayerSpec& layer, int32_t) {
    if (attention) {
      for (MatrixPart& matrix : layer.attention().qkv) require_bias(matrix);
      require_bias(layer.attention().output);
    }
    if (!mlp) return;
    for (MatrixPart& matrix : layer.dense()->gate_up) require_bias(matrix);
    require_bias(layer.dense()->down);
  });
}

}  // namespace

const ArchitectureSpec kInternLm3 = {.name = "InternLM3ForCausalLM",
                                     .model_type = "internlm3",
                                     .qkv_bias = by_flag("qkv_bias"),
                                     .attention_output_bias = by_flag("bias"),
                                     .mlp_bias = by_flag("bias"),
                                     .default_max_positions = 32768,
                                     .refine = internlm3};

}  // namespace quire::families
