#include "core/layers/norm.h"

#include "core/layers/layer_builder.h"

namespace quire {

DeviceBuffer upload_floats(const std::shared_ptr<Device>& device, const std::vector<float>& values,
                           std::string_view what) {
  if (values.empty()) return {};
  DeviceBuffer buffer(device, values.size() * sizeof(float), what);
  buffer.upload(gsl::as_bytes(gsl::span<const float>(values)));
  return buffer;
}

kernels::NormParams NormLayer::params() const {
  kernels::NormParams out;
  static_cast<kernels::NormSpec&>(out) = *this;
  out.weight = weight.as<float>();
  out.bias = bias.as<float>();
  return out;
}

void build(const NormPart& part, LayerBuilder& builder, NormLayer& layer) {
  static_cast<kernels::NormSpec&>(layer) = static_cast<const kernels::NormSpec&>(part);
  layer.weight = builder.vector(part.weight);
  layer.bias = builder.vector(part.bias);
  layer.of_sum = part.of_sum;
  layer.stream_scale = part.stream_scale;
}

void each_weight(const NormLayer& layer, WeightVisitor& visitor) {
  visitor.vector(layer.weight);
  visitor.vector(layer.bias);
}

uint64_t mechanisms(const NormPart& part) {
  const bool is_bare = part.weight.name.empty();
  return kernels::mechanisms_of(part) | (is_bare ? uint64_t{kernels::kMechanismBareNorm} : 0U);
}

uint64_t mechanisms(const std::optional<NormPart>& part, kernels::Mechanism place) {
  return part ? kernels::mechanisms_of(*part) | place : 0U;
}

}  // namespace quire
