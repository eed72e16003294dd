// Generated values for synthetic matrices in any format: fast, and the same for the same seed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/loader/host_tensor.h"

namespace quire {

// Matrix to generate.
struct SyntheticRequest {
  std::string key;
  int32_t num_in = 0;
  int32_t num_out = 0;
  double bits = 4.0;  // EXL2: on average; EXL3: of all weights
};

// Values of one tensor. They depend only on the seed and the tensor's name, not on tensors generated before.
class SyntheticValues {
 public:
  // If only the layout is needed (`has_data` is false), tensors have no data.
  SyntheticValues(uint64_t seed, std::string_view name, bool has_data);

  bool has_data() const { return has_data_; }
  uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }
  // Returns an approximately normal value with variance 1.
  float normal();
  void fill(gsl::span<std::byte> out);
  // Returns a tensor with undefined content.
  HostTensor tensor(DType dtype, int64_t rows, int64_t columns, std::string_view what) const;
  HostTensor random_words(int64_t rows, int64_t columns, std::string_view what);
  HostTensor normal_halves(int64_t rows, int64_t columns, float deviation, std::string_view what);
  // Returns a random order of the rows of a matrix. Matrices of a block with the same input (q, k and v; gate
  // and up) get the same order.
  std::vector<int32_t> order_of(const SyntheticRequest& request);

 private:
  std::vector<int32_t> random_order(int32_t count);

  uint64_t seed_;
  uint64_t state_;
  bool has_data_;
};

}  // namespace quire
