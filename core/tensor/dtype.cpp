#include "core/tensor/dtype.h"

#include <cstring>

#include "core/base/error.h"
#include "kernels/interface/half.h"

namespace quire {
namespace {

template <typename T>
T load(const TensorView& tensor, int64_t index) {
  T value;
  std::memcpy(&value, tensor.bytes.data() + static_cast<size_t>(index) * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "F32";
    case DType::f16:
      return "F16";
    case DType::bf16:
      return "BF16";
    case DType::f64:
      return "F64";
    case DType::i8:
      return "I8";
    case DType::u8:
      return "U8";
    case DType::i16:
      return "I16";
    case DType::i32:
      return "I32";
    case DType::i64:
      return "I64";
    case DType::f8_e4m3:
      return "F8_E4M3";
    case DType::f8_e8m0:
      return "F8_E8M0";
  }
  return "?";
}

int64_t TensorView::num_elements() const {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

float element_as_float(const TensorView& tensor, int64_t index) {
  switch (tensor.dtype) {
    case DType::f16:
      return kernels::half_to_float(load<uint16_t>(tensor, index));
    case DType::bf16:
      return kernels::bfloat16_to_float(load<uint16_t>(tensor, index));
    case DType::f32:
      return load<float>(tensor, index);
    case DType::f64:
      return static_cast<float>(load<double>(tensor, index));
    default:
      break;
  }
  throw Error(ErrorCode::unsupported, "a tensor of type {} is not a float tensor", dtype_name(tensor.dtype));
}

std::vector<float> to_floats(const TensorView& tensor, std::string_view what) {
  const bool is_float = tensor.dtype == DType::f16 || tensor.dtype == DType::bf16 ||
                        tensor.dtype == DType::f32 || tensor.dtype == DType::f64;
  if (!is_float)
    throw Error(ErrorCode::unsupported, "{}: type {}, but a float type is needed", what,
                dtype_name(tensor.dtype));
  std::vector<float> out(static_cast<size_t>(tensor.num_elements()));
  for (size_t i = 0; i < out.size(); ++i) out[i] = element_as_float(tensor, static_cast<int64_t>(i));
  return out;
}

}  // namespace quire
