#include "core/loader/host_tensor.h"

#include <utility>

#include "core/base/error.h"

namespace quire {

UnreadTensor::UnreadTensor(Read read) : read_(std::move(read)) {}

bool UnreadTensor::read(void* owner, uint64_t offset, void* out, size_t count) {
  auto& tensor = *static_cast<UnreadTensor*>(owner);
  const gsl::span<std::byte> piece(static_cast<std::byte*>(out), count);
  try {
    tensor.read_(offset, piece);
    if (tensor.look_) tensor.look_(offset, piece);
    return true;
  } catch (...) {
    tensor.failure_ = std::current_exception();
    return false;
  }
}

void UnreadTensor::rethrow_failure() const {
  if (failure_ != nullptr) std::rethrow_exception(failure_);
}

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

HostTensor HostTensor::in_file(DType dtype, std::vector<int64_t> shape, size_t size_bytes,
                               UnreadTensor::Read read) {
  HostTensor tensor = without_data(dtype, std::move(shape), size_bytes);
  tensor.unread_ = std::make_unique<UnreadTensor>(std::move(read));
  return tensor;
}

}  // namespace quire
