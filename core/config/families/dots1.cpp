// dots.llm1: the attention of Qwen 3 and the MoE of DeepSeek.
#include "core/config/families/deepseek.h"
#include "core/config/families/experts.h"

namespace quire::families {
namespace {

void dots1(ModelReader& reader) {
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    reader.norm_heads(layer, i, kernels::QkNorm::each_head);
    if (is_sparse_layer(reader, i)) ModelReader::set_experts(layer, deepseek_experts(reader, i));
  });
}

}  // namespace

const ArchitectureSpec kDots1 = {.name = "Dots1ForCausalLM",
                                 .model_type = "dots1",
                                 .qkv_bias = by_flag("attention_bias"),
                                 .attention_output_bias = by_flag("attention_bias"),
                                 .window = WindowRule::by_layer_type,
                                 .window_pattern = 1,
                                 .default_sliding_window = 4096,
                                 .refine = dots1};

}  // namespace quire::families
