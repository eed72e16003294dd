// Interface of a visitor of a layer's weights.
#pragma once

#include "core/tensor/device.h"

namespace quire {

class WeightVisitor {
 public:
  virtual ~WeightVisitor() = default;
  // Visits a matrix that was prepared together with the others of its layer. `share` is the fraction of the
  // matrices of its kind that one token reads: 1, or less for experts. `weight` is empty if the model has no
  // such matrix.
  virtual void matrix(const PreparedWeight& weight, double share) = 0;
  // Visits a table, or a matrix that was prepared by itself.
  virtual void table(const PreparedWeight& weight) = 0;
  virtual void vector(const DeviceBuffer& values) = 0;
};

}  // namespace quire
