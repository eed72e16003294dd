// Element types of files and host tensors.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <gsl/gsl>

#include "kernels/interface/types.h"

namespace quire {

using kernels::DType;

// "F16", as safetensors spells it.
std::string_view dtype_name(DType dtype);

// A tensor in host memory that somebody else owns.
struct TensorView {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  gsl::span<const std::byte> bytes;  // shape x dtype, row-major, little endian

  int64_t num_elements() const;
};

// One element as float, whatever the float type (f16, bf16, f32, f64).
float element_as_float(const TensorView& tensor, int64_t index);

// All elements as floats; throws ErrorCode::unsupported for an integer tensor.
std::vector<float> to_floats(const TensorView& tensor, std::string_view what);

}  // namespace quire
