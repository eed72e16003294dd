// Element types of files and host tensors.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <gsl/gsl>

#include "kernels/interface/types.h"

namespace quire {

using kernels::DType;

// Returns the safetensors spelling, such as "F16".
std::string_view dtype_name(DType dtype);

// Borrowed tensor in host memory.
struct TensorView {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  gsl::span<const std::byte> bytes;  // shape x dtype, row-major, little endian

  int64_t num_elements() const;
};

// Returns one element of any float type (f16, bf16, f32, f64) as float.
float element_as_float(const TensorView& tensor, int64_t index);

// Returns all elements as floats; throws ErrorCode::unsupported for an integer tensor.
std::vector<float> to_floats(const TensorView& tensor, std::string_view what);

}  // namespace quire
