// StableLM: layer norms and partial RoPE (a quarter of each head). If the blocks are parallel, they share one
// norm.
#include "core/config/families/families.h"

namespace quire::families {
namespace {

void stablelm(ModelReader& reader) {
  if (reader.flag("qk_layernorm")) {
    throw Error(ErrorCode::unsupported, "{}.qk_layernorm: separate norms for each head are not supported",
                reader.fields().where());
  }
  if (!reader.flag("use_parallel_residual")) return;
  reader.each_layer([](LayerSpec& layer, int32_t) { layer.parallel = layer.shares_norm = true; });
}

}  // namespace

const ArchitectureSpec kStableLm = {.name = "StableLmForCausalLM",
                                    .model_type = "stablelm",
                                    .norm = kernels::NormKind::layer,
                                    .qkv_bias = by_flag("use_qkv_bias"),
                                    .default_norm_epsilon = 1e-5,
                                    .default_partial_rotary = 0.25,
                                    .default_max_positions = 4096,
                                    .refine = stablelm};

}  // namespace quire::families
