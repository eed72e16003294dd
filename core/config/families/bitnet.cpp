// BitNet: squared ReLU, and a norm before the output matrix of each block.
#include "core/config/families/families.h"

namespace quire::families {
namespace {

void bitnet(ModelReader& reader) {
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    layer.attention().sub_norm =
        reader.norm(reader.key(i, "self_attn.attn_sub_norm"), result_columns(layer.attention()));
    layer.dense()->sub_norm = reader.norm(reader.key(i, "mlp.ffn_sub_norm"), reader.intermediate());
  });
}

}  // namespace

const ArchitectureSpec kBitNet = {.name = "BitNetForCausalLM",
                                  .model_type = "bitnet",
                                  .qkv_bias = by_flag("attention_bias"),
                                  .attention_output_bias = by_flag("attention_bias"),
                                  .default_activation = "relu2",
                                  .default_norm_epsilon = 1e-5,
                                  .default_rope_theta = 500000.0,
                                  .refine = bitnet};

}  // namespace quire::families
