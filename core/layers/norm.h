// A normalization layer with its parameters in device memory.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "core/config/model_spec.h"
#include "core/layers/weight_visitor.h"

namespace quire {

class LayerBuilder;

// Copies floats to device memory. Returns an empty buffer if there are none.
DeviceBuffer upload_floats(const std::shared_ptr<Device>& device, const std::vector<float>& values,
                           std::string_view what);

struct NormLayer : kernels::NormSpec {
  DeviceBuffer weight;  // [columns] f32, or empty
  DeviceBuffer bias;    // [columns] f32, or empty
  bool of_sum = false;  // see NormPart
  float stream_scale = 0.0f;

  // Returns all parameters except input, rows and output.
  kernels::NormParams params() const;
};

void build(const NormPart& part, LayerBuilder& builder, NormLayer& layer);
void each_weight(const NormLayer& layer, WeightVisitor& visitor);
uint64_t mechanisms(const NormPart& part);
// Returns the mechanisms of an optional norm and that of its position in the layer, `place`; 0 if there is no
// norm.
uint64_t mechanisms(const std::optional<NormPart>& part, kernels::Mechanism place);

}  // namespace quire
