// Tensor in host memory, or one whose bytes are still in its file.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include <gsl/gsl>

#include "core/base/error.h"
#include "core/tensor/dtype.h"
#include "kernels/interface/host_memory.h"
#include "kernels/interface/weight_source.h"

namespace quire {

// Bytes of a tensor that a device reads directly from the file. For one thread at a time.
class UnreadTensor {
 public:
  // Fills `out` with the bytes of the tensor from `offset` on. An exception ends the preparation of the
  // weight.
  using Read = std::function<void(uint64_t offset, gsl::span<std::byte> out)>;
  explicit UnreadTensor(Read read);
  UnreadTensor(const UnreadTensor&) = delete;
  UnreadTensor& operator=(const UnreadTensor&) = delete;

  // Receives each piece that was read, in order. An exception counts as a failed read.
  using Look = std::function<void(uint64_t offset, gsl::span<const std::byte> piece)>;
  void inspect_pieces(Look look) { look_ = std::move(look); }
  const kernels::UnreadBytes* bytes() const { return &bytes_; }
  // Throws the stored exception of a failed read, which a device cannot pass on.
  void rethrow_failure() const;

 private:
  static bool read(void* owner, uint64_t offset, void* out, size_t count);

  const Read read_;
  Look look_;
  const kernels::UnreadBytes bytes_{.owner = this, .read = read};
  std::exception_ptr failure_;
};

inline const kernels::UnreadBytes* bytes_of(const UnreadTensor* tensor) {
  return tensor == nullptr ? nullptr : tensor->bytes();
}

// Calls `prepare`, which lets a device read these tensors; null pointers are skipped. The device only reports
// that a read failed; the original exception of the read is thrown instead.
template <typename Prepare>
void while_device_reads(gsl::span<const UnreadTensor* const> tensors, Prepare prepare) {
  try {
    prepare();
  } catch (const Error&) {
    for (const UnreadTensor* tensor : tensors)
      if (tensor != nullptr) tensor->rethrow_failure();
    throw;
  }
}

// Move-only; a move does not change the address of the bytes.
class HostTensor {
 public:
  HostTensor() = default;
  // Allocates uninitialized memory. size_bytes is shape x dtype. Throws ErrorCode::out_of_memory with the
  // number of bytes and `what`.
  HostTensor(DType dtype, std::vector<int64_t> shape, size_t size_bytes, std::string_view what);
  // Returns a tensor with type, shape and size but no data, if its values are not needed.
  static HostTensor without_data(DType dtype, std::vector<int64_t> shape, size_t size_bytes);
  // Returns a tensor whose bytes are still in its file.
  static HostTensor in_file(DType dtype, std::vector<int64_t> shape, size_t size_bytes,
                            UnreadTensor::Read read);

  DType dtype() const { return dtype_; }
  // Type of the blocks whose bytes these are, or none.
  kernels::BlockType blocks() const { return blocks_; }
  void set_blocks(kernels::BlockType blocks) { blocks_ = blocks; }
  const std::vector<int64_t>& shape() const { return shape_; }
  size_t size_bytes() const { return size_bytes_; }
  bool empty() const { return size_bytes_ == 0; }
  const void* data() const { return data_.get(); }        // nullptr if it has no data
  UnreadTensor* unread() const { return unread_.get(); }  // nullptr unless its bytes are still in a file
  gsl::span<std::byte> bytes() { return {data_.get(), size_bytes_}; }
  gsl::span<const std::byte> bytes() const { return {data_.get(), size_bytes_}; }

  // Returns the elements; sizeof(T) must be the size of the type.
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

  // Returns a view that is valid as long as this tensor.
  TensorView view() const { return {dtype_, shape_, bytes()}; }

 private:
  DType dtype_ = DType::f32;
  kernels::BlockType blocks_ = kernels::BlockType::none;
  std::vector<int64_t> shape_;
  size_t size_bytes_ = 0;
  std::unique_ptr<std::byte[], kernels::HostMemoryDeleter> data_;
  std::unique_ptr<UnreadTensor> unread_;
};

}  // namespace quire
