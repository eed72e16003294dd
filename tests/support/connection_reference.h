// Hyper-connections of one token in double precision.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "kernels/interface/op_params.h"

namespace quire::testing {

struct ConnectionReference {
  std::vector<double> pre;
  std::vector<double> post;
  std::vector<double> mixing;  // C, by rows
};

// `products` and `base` have connection_products numbers, `scale` has three.
inline ConnectionReference connection_reference(const kernels::ConnectionSpec& spec, const float* products,
                                                const float* scale, const float* base) {
  const auto n = static_cast<size_t>(spec.num_streams);
  const double epsilon = double{spec.epsilon};
  const auto scaled = [&](size_t section, size_t i) {
    const size_t at = section * n + i;
    return double{products[at]} * double{scale[section]} + double{base[at]};
  };
  const auto sigmoid = [](double x) { return 1.0 / (1.0 + std::exp(-x)); };
  ConnectionReference out;
  for (size_t i = 0; i < n; ++i) out.pre.push_back(sigmoid(scaled(0, i)) + epsilon);
  for (size_t i = 0; i < n; ++i) out.post.push_back(2.0 * sigmoid(scaled(1, i)));
  for (size_t i = 0; i < n * n; ++i) out.mixing.push_back(std::exp(scaled(2, i)));
  // Divides n numbers, `step` apart, by their sum and `added`.
  const auto divide = [&](size_t first, size_t step, double added) {
    double sum = added;
    for (size_t i = 0; i < n; ++i) sum += out.mixing[first + i * step];
    for (size_t i = 0; i < n; ++i) out.mixing[first + i * step] /= sum;
  };
  for (size_t row = 0; row < n; ++row) divide(row * n, 1, 0.0);
  for (double& number : out.mixing) number += epsilon;
  for (int32_t iteration = 0; iteration < spec.iterations; ++iteration) {
    for (size_t row = 0; row < n && iteration > 0; ++row) divide(row * n, 1, epsilon);
    for (size_t column = 0; column < n; ++column) divide(column, n, epsilon);
  }
  return out;
}

}  // namespace quire::testing
