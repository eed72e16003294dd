#include "core/config/model_spec.h"

namespace quire {

MlpPart* LayerSpec::dense() {
  if (auto* const both = std::get_if<MlpAndExpertsPart>(&feed_forward)) return &both->dense;
  return std::get_if<MlpPart>(&feed_forward);
}

ExpertsPart* LayerSpec::experts() {
  if (auto* const both = std::get_if<MlpAndExpertsPart>(&feed_forward)) return &both->experts;
  return std::get_if<ExpertsPart>(&feed_forward);
}

}  // namespace quire
