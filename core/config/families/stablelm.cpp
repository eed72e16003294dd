// StableLM: layer norms and a quarter of each head that turns; where blocks are parallel, one norm serves
// both.
#include "core/config/families/families.h"

namespace quire::families {
namespace {

void stablelm(ModelReader& reader) {
  if (reader.flag("qk_layernorm")) {
    throw Error(ErrorCode::unsupported, "{}.qk_layernorm: a norm of its own for each head is not supported",
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
