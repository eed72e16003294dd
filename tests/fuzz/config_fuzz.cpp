// Any text as config.json and, after the first NUL, as generation_config.json: the result is an Error, or a
// description with consistent numbers.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/base/error.h"
#include "core/config/model_config.h"

namespace quire {
namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check_attention(const ModelConfig& config, const AttentionPart& part) {
  const kernels::HeadShape& heads = part.heads;
  require(heads.num_kv_heads >= 1 && heads.num_heads % heads.num_kv_heads == 0);
  require(part.sliding_window >= 0 && part.chunk >= 0);
  require(part.rotary_dim >= 0 && part.rotary_dim % 2 == 0 && part.rotary_dim <= heads.head_dim);
  require(part.rope_idx < static_cast<int32_t>(config.spec.ropes.size()));
  require((part.rope_idx >= 0) == (part.rotary_dim > 0));
  require(part.kv_idx >= 0 && part.kv_idx < static_cast<int32_t>(config.spec.kvs.size()));
  require(part.kv_source < config.num_layers);
}

void check_layer(const ModelConfig& config, const LayerSpec& layer) {
  if (const AttentionPart* const attention = layer.find_attention()) check_attention(config, *attention);
  if (layer.dense() != nullptr) require(!layer.dense()->down.key.empty());
  if (layer.experts() == nullptr) return;
  const ExpertsPart& experts = *layer.experts();
  require(experts.num_chosen >= 1 && experts.num_chosen <= experts.num_experts);
  require(experts.num_experts % experts.num_groups == 0 && experts.chosen_groups <= experts.num_groups);
}

void run(std::string_view input) {
  const size_t cut = input.find('\0');
  const bool has_generation = cut != std::string_view::npos;
  const ModelConfig config =
      parse_model_config(input.substr(0, cut), has_generation ? input.substr(cut + 1) : "");
  require(config.architecture != nullptr);
  require(config.num_layers >= 1 && config.num_layers <= 1024);
  require(config.spec.layers.size() == static_cast<size_t>(config.num_layers));
  for (const LayerSpec& layer : config.spec.layers) check_layer(config, layer);
  for (const RopeSpec& rope : config.spec.ropes) {
    require(rope.rotary_dim >= 2 && rope.rotary_dim % 2 == 0);
    for (const bool is_short : {false, true}) {
      for (const float frequency : inverse_frequencies(rope.config, rope.rotary_dim, is_short))
        require(std::isfinite(frequency) && frequency >= 0.0f);
    }
  }
  for (const TokenId id : config.eos_ids) require(id >= 0 && id < config.vocab_size);
  require(config.spec.head.norm.epsilon > 0.0f);
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t num_bytes) {
  try {
    quire::run(std::string_view(reinterpret_cast<const char*>(data), num_bytes));
  } catch (const quire::Error&) {  // the only permitted exception
  }
  return 0;
}
