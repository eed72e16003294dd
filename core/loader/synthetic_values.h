// Values out of thin air for matrices in any format: fast, and the same for the same seed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/loader/host_tensor.h"

namespace quire {

// A matrix that is to be made.
struct SyntheticRequest {
  std::string key;
  int32_t num_in = 0;
  int32_t num_out = 0;
  double bits = 4.0;  // EXL2: on average
};

class SyntheticValues {
 public:
  // Where only the layout is wanted, tensors have no data.
  SyntheticValues(uint64_t seed, bool has_data)
      : state_(seed * 0x9e3779b97f4a7c15ULL | 1U), has_data_(has_data) {}

  bool has_data() const { return has_data_; }
  uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }
  // Approximately normal, variance 1.
  float normal();
  void fill(gsl::span<std::byte> out);
  // Content undefined.
  HostTensor tensor(DType dtype, int64_t rows, int64_t columns, std::string_view what) const;
  HostTensor random_words(int64_t rows, int64_t columns, std::string_view what);
  HostTensor normal_halves(int64_t rows, int64_t columns, float deviation, std::string_view what);
  // A random order of the rows of a matrix: matrices of one block that share their input (q, k and v; gate
  // and up) share the order.
  std::vector<int32_t> order_of(const SyntheticRequest& request);

 private:
  uint64_t state_;
  bool has_data_;
  std::string shared_block_;
  std::vector<int32_t> shared_order_;
};

}  // namespace quire
