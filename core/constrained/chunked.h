// A list in chunks: growing never moves existing elements, so a push takes constant time and addresses stay
// valid.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

namespace quire {

template <typename T>
class Chunked {
 public:
  size_t size() const { return size_; }
  T& operator[](size_t index) { return (*chunks_[index / kChunk])[index % kChunk]; }
  const T& operator[](size_t index) const { return (*chunks_[index / kChunk])[index % kChunk]; }

  void push_back(T value) {
    grow_to(size_ + 1);
    (*this)[size_ - 1] = std::move(value);
  }
  // New elements are value-initialized.
  void grow_to(size_t size) {
    while (chunks_.size() * kChunk < size) chunks_.push_back(std::make_unique<std::array<T, kChunk>>());
    if (size > size_) size_ = size;
  }

 private:
  static constexpr size_t kChunk = 1024;

  std::vector<std::unique_ptr<std::array<T, kChunk>>> chunks_;
  size_t size_ = 0;
};

}  // namespace quire
