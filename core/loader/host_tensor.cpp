#include "core/loader/host_tensor.h"

#include <utility>

#include "core/base/error.h"

namespace quire {

HostTensor::HostTensor(DType dtype, std::vector<int64_t> shape, size_t size_bytes, std::string_view what)
    : dtype_(dtype), shape_(std::move(shape)), size_bytes_(size_bytes) {
  if (size_bytes == 0) return;
  auto* memory = static_cast<std::byte*>(kernels::take_host_memory(size_bytes));
  if (!memory) throw Error(ErrorCode::out_of_memory, "{}: no host memory for {} bytes", what, size_bytes);
  data_ = {memory, {size_bytes}};
}

HostTensor HostTensor::without_data(DType dtype, std::vector<int64_t> shape, size_t size_bytes) {
  HostTensor tensor;
  tensor.dtype_ = dtype;
  tensor.shape_ = std::move(shape);
  tensor.size_bytes_ = size_bytes;
  return tensor;
}

}  // namespace quire
