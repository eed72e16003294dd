#include "core/layers/weight_bytes.h"

namespace quire {

void WeightBytes::matrix(const PreparedWeight& weight, double) {
  matrices_ += weight.bytes();
}

uint64_t WeightBytes::taken(const Device& device) const {
  uint64_t total = vectors_;
  if (matrices_ != 0) total += device.taken_bytes(matrices_);
  for (const uint64_t table : tables_) {
    if (table != 0) total += device.taken_bytes(table);
  }
  return total;
}

}  // namespace quire
