// Any text as config.json and, after the first NUL, as generation_config.json: refused with an Error, or a
// description whose numbers fit each other.
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

void run(std::string_view input) {
  const size_t cut = input.find('\0');
  const bool has_generation = cut != std::string_view::npos;
  const ModelConfig config =
      parse_model_config(input.substr(0, cut), has_generation ? input.substr(cut + 1) : "");
  require(config.architecture != nullptr);
  require(config.num_layers >= 1 && config.num_layers <= 1024);
  require(config.sliding_windows.size() == static_cast<size_t>(config.num_layers));
  for (const int32_t window : config.sliding_windows) require(window >= 0);
  require(config.heads.num_kv_heads >= 1 && config.heads.num_heads % config.heads.num_kv_heads == 0);
  require(config.rotary_dim >= 2 && config.rotary_dim % 2 == 0 && config.rotary_dim <= config.heads.head_dim);
  for (const float frequency : inverse_frequencies(config.rope, config.rotary_dim)) {
    require(std::isfinite(frequency) && frequency > 0.0f);
  }
  for (const TokenId id : config.eos_ids) require(id >= 0 && id < config.vocab_size);
  require(config.norm_epsilon > 0.0f);
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t num_bytes) {
  try {
    quire::run(std::string_view(reinterpret_cast<const char*>(data), num_bytes));
  } catch (const quire::Error&) {  // the one way to refuse
  }
  return 0;
}
