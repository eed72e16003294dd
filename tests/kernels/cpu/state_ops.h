// Layers with a recurrent state for tests: each with random weights, a run on a device, and a plain
// recurrence token by token in double precision.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/interface/kernel_table.h"
#include "tests/support/random_numbers.h"

namespace quire::testing {

// The context that runs an operation.
struct StateTarget {
  const kernels::KernelTable& table;
  kernels::Context* context;
  // Returns weights where the device reads them, or nullptr if there are none.
  std::function<const float*(const std::vector<float>&)> place = [](const std::vector<float>& weights) {
    return weights.empty() ? nullptr : weights.data();
  };
};

class StateOp {
 public:
  virtual ~StateOp() = default;
  virtual kernels::StateShape shape() const = 0;
  virtual int32_t output_columns() const = 0;
  // Runs a step. `rows` has one row of all inputs for each token, `input_columns` wide, and may be
  // overwritten.
  virtual kernels::Status run(const StateTarget& target, const kernels::StateOpParams& common,
                              float* rows) const = 0;
  // Returns the results of a sequence whose inputs are `rows`, from position 0 on.
  virtual std::vector<double> reference(const std::vector<float>& rows) const = 0;

  int32_t input_columns() const { return input_columns_; }
  // Returns inputs of `count` tokens.
  std::vector<float> random_rows(Random& random, int32_t count) const;
  const std::string& name() const { return name_; }

 protected:
  explicit StateOp(std::string name) : name_(std::move(name)) {}
  // Reserves columns of a row of inputs; returns the first.
  int32_t take(int32_t columns);

 private:
  std::string name_;
  int32_t input_columns_ = 0;
};

// Returns operations of every kind, with shapes that fill vectors and shapes that do not.
std::vector<std::unique_ptr<StateOp>> all_state_ops(Random& random);
// Returns one small operation of each kind.
std::vector<std::unique_ptr<StateOp>> small_state_ops(Random& random);

// Computes a gated norm of one group in double precision.
void gated_norm_reference(const kernels::GatedNormSpec& spec, const double* input, const float* gate,
                          const float* weight, double* output);

}  // namespace quire::testing
