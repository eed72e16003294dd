#include "core/layers/unbuilt_mixers.h"

#include <variant>

#include <gsl/gsl>

#include "core/base/error.h"

namespace quire {

void require_built_mixers(const ModelConfig& config, const std::string& path) {
  for (const LayerSpec& layer : config.spec.layers) {
    const bool is_unbuilt =
        std::visit([]<typename Part>(const Part&) { return UnbuiltPart<Part>; }, layer.mixer);
    if (!is_unbuilt) continue;
    throw Error(ErrorCode::unsupported,
                "{}: {} has layers with a recurrent state ({}), which this version does not support", path,
                config.architecture->name, mixer_name(layer.mixer));
  }
}

void refuse_unbuilt() {
  Expects(false && "a model with such a mixer is refused before it is built");
  std::terminate();
}

}  // namespace quire
