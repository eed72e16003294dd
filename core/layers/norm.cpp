#include "core/layers/norm.h"

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

}  // namespace quire
