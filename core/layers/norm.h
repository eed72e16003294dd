// The parameters of one normalisation, in device memory.
#pragma once

#include <string_view>
#include <vector>

#include "core/tensor/device.h"
#include "kernels/interface/op_params.h"

namespace quire {

// A vector of floats in device memory; empty where the model has none.
DeviceBuffer upload_floats(const std::shared_ptr<Device>& device, const std::vector<float>& values,
                           std::string_view what);

struct NormLayer {
  kernels::NormKind kind = kernels::NormKind::rms;
  float epsilon = 1e-5f;
  int32_t columns = 0;
  DeviceBuffer weight;  // [columns] f32
  DeviceBuffer bias;    // [columns] f32, or empty

  uint64_t bytes() const { return weight.bytes() + bias.bytes(); }
  // Everything but input, rows and output.
  kernels::NormParams params() const;
};

}  // namespace quire
