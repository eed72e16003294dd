// Small models of one layer, each with other kinds of parts, and weights for them.
#pragma once

#include <string>
#include <vector>

#include "core/layers/layer_builder.h"
#include "core/layers/transformer_layer.h"

namespace quire::testing {

inline constexpr int32_t kHidden = 64;

struct PartCase {
  const char* name;
  ModelSpec model;
  const char* mechanisms;  // names of the mechanisms that the layer needs
};
// Prints the name of the case in test messages.
void PrintTo(const PartCase& part, std::ostream* out);

// Returns a model for each kind of part.
std::vector<PartCase> part_cases();

// Provider of random f16 matrices. All elements of vectors are 1.
class SyntheticTestWeights final : public WeightProvider {
 public:
  bool is_concurrent() const override { return true; }
  bool has_linear(const std::string&) const override { return true; }
  bool has_tensor(const std::string&) const override { return true; }
  LinearWeight linear(const LinearRequest& request) override;
  std::vector<float> vector(const std::string& name, int32_t count) override;
  HostTensor table(const std::string& name, int32_t rows, int32_t columns) override;

  const std::vector<LinearRequest>& requests() const { return requests_; }

 private:
  std::vector<LinearRequest> requests_;
};

}  // namespace quire::testing
