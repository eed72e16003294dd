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

struct NormLayer : kernels::NormSpec {
  DeviceBuffer weight;  // [columns] f32, or empty
  DeviceBuffer bias;    // [columns] f32, or empty

  // Everything but input, rows and output.
  kernels::NormParams params() const;

  template <typename Visit>
  void each_buffer(Visit visit) const {
    visit(weight);
    visit(bias);
  }
};

}  // namespace quire
