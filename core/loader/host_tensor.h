// A tensor in host memory of its own.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include <gsl/gsl>

#include "core/tensor/dtype.h"
#include "kernels/interface/host_memory.h"

namespace quire {

// Move-only; the bytes stay where they are when it moves.
class HostTensor {
 public:
  HostTensor() = default;
  // Memory that is not yet filled. Throws ErrorCode::out_of_memory with the bytes and `what`. size_bytes is
  // shape x dtype.
  HostTensor(DType dtype, std::vector<int64_t> shape, size_t size_bytes, std::string_view what);
  // Type, shape and size alone, of a tensor that nobody is going to look at.
  static HostTensor without_data(DType dtype, std::vector<int64_t> shape, size_t size_bytes);

  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  size_t size_bytes() const { return size_bytes_; }
  bool empty() const { return size_bytes_ == 0; }
  const void* data() const { return data_.get(); }  // nullptr where it has none
  gsl::span<std::byte> bytes() { return {data_.get(), size_bytes_}; }
  gsl::span<const std::byte> bytes() const { return {data_.get(), size_bytes_}; }

  // The elements; sizeof(T) must be the size of the type.
  template <typename T>
  gsl::span<const T> elements() const {
    Expects(sizeof(T) == kernels::dtype_bytes(dtype_));
    return {reinterpret_cast<const T*>(data_.get()), size_bytes_ / sizeof(T)};
  }
  template <typename T>
  gsl::span<T> elements() {
    Expects(sizeof(T) == kernels::dtype_bytes(dtype_));
    return {reinterpret_cast<T*>(data_.get()), size_bytes_ / sizeof(T)};
  }

  // Borrowed until this tensor goes.
  TensorView view() const { return {dtype_, shape_, bytes()}; }

 private:
  DType dtype_ = DType::f32;
  std::vector<int64_t> shape_;
  size_t size_bytes_ = 0;
  std::unique_ptr<std::byte[], kernels::HostMemoryDeleter> data_;
};

}  // namespace quire
