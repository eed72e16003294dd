#include "core/loader/host_tensor.h"

#include <new>
#include <utility>

#include "core/base/error.h"

namespace quire {

HostTensor::HostTensor(DType dtype, std::vector<int64_t> shape, size_t size_bytes, std::string_view what)
    : dtype_(dtype), shape_(std::move(shape)), size_bytes_(size_bytes) {
  if (size_bytes == 0) return;
  auto* memory =
      static_cast<std::byte*>(::operator new (size_bytes, std::align_val_t{kAlignmentBytes}, std::nothrow));
  if (!memory) throw Error(ErrorCode::out_of_memory, "{}: no host memory for {} bytes", what, size_bytes);
  data_.reset(memory);
}

HostTensor HostTensor::without_data(DType dtype, std::vector<int64_t> shape, size_t size_bytes) {
  HostTensor tensor;
  tensor.dtype_ = dtype;
  tensor.shape_ = std::move(shape);
  tensor.size_bytes_ = size_bytes;
  return tensor;
}

void HostTensor::Release::operator()(std::byte* memory) const noexcept {
  ::operator delete (memory, std::align_val_t{kAlignmentBytes});
}

}  // namespace quire
