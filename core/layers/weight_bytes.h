// Memory of weights in bytes.
#pragma once

#include <vector>

#include "core/layers/weight_visitor.h"

namespace quire {

// Visitor that adds up the bytes of weights.
class WeightBytes final : public WeightVisitor {
 public:
  void matrix(const PreparedWeight& weight, double share) override;
  void table(const PreparedWeight& weight) override { tables_.push_back(weight.bytes()); }
  void vector(const DeviceBuffer& values) override { vectors_ += values.bytes(); }

  uint64_t matrices() const { return matrices_; }
  uint64_t vectors() const { return vectors_; }
  // Returns the device memory of the visited weights. The matrices share one allocation.
  uint64_t taken(const Device& device) const;

 private:
  uint64_t matrices_ = 0;
  uint64_t vectors_ = 0;
  std::vector<uint64_t> tables_;
};

}  // namespace quire
