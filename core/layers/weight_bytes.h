// Adds up the bytes of weights.
#pragma once

#include <vector>

#include "core/layers/weight_visitor.h"

namespace quire {

// Bytes of the weights that were visited.
class WeightBytes final : public WeightVisitor {
 public:
  void matrix(const PreparedWeight& weight, double share) override;
  void table(const PreparedWeight& weight) override { tables_.push_back(weight.bytes()); }
  void vector(const DeviceBuffer& values) override { vectors_ += values.bytes(); }

  uint64_t matrices() const { return matrices_; }
  uint64_t vectors() const { return vectors_; }
  // Device memory that they take.
  uint64_t taken(const Device& device) const;

 private:
  uint64_t matrices_ = 0;
  uint64_t vectors_ = 0;
  std::vector<uint64_t> tables_;
};

}  // namespace quire
