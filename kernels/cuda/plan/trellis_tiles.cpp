#include "kernels/cuda/plan/trellis_tiles.h"

#include <algorithm>
#include <cmath>

#include "kernels/interface/half.h"

namespace quire::kernels {
namespace {

constexpr auto kOrder = static_cast<size_t>(kHadamardOrder);
constexpr int kLargestExponent = -4;  // the largest scale of an input is below 2^-4

// Returns the power of two by which the scales of inputs are multiplied.
float input_factor(const uint16_t* scales, size_t count) {
  float largest = 0.0f;
  for (size_t k = 0; k < count; ++k) largest = std::max(largest, std::abs(half_to_float(scales[k])));
  if (largest == 0.0f) return 1.0f;
  int exponent = 0;
  std::frexp(largest, &exponent);  // largest < 2^exponent
  return std::ldexp(1.0f, kLargestExponent - exponent);
}

}  // namespace

TrellisColumns trellis_columns(const WeightSource& source) {
  TrellisColumns columns;
  std::vector<std::vector<size_t>> copies(static_cast<size_t>(source.padded_out) / kOrder);
  for (int32_t j = 0; j < source.num_out; ++j) {
    const int32_t stored = source.column_order != nullptr ? source.column_order[j] : j;
    const int32_t transform = stored / kHadamardOrder;
    const auto lane = static_cast<size_t>(stored % kHadamardOrder);
    std::vector<size_t>& own = copies[static_cast<size_t>(transform)];
    const auto is_free = [&](size_t copy) { return columns.outputs[copy * kOrder + lane] < 0; };
    auto copy = std::find_if(own.begin(), own.end(), is_free);
    if (copy == own.end()) {
      copy = own.insert(own.end(), columns.stored.size());
      columns.stored.push_back(transform);
      columns.outputs.resize(columns.outputs.size() + kOrder, -1);
    }
    columns.outputs[*copy * kOrder + lane] = j;
  }
  return columns;
}

TrellisScales trellis_scales(const WeightSource& source, const TrellisColumns& columns) {
  TrellisScales scales;
  const auto inputs = static_cast<size_t>(hadamard_padded(source.num_in));
  const float factor = input_factor(source.trellis.input_scales, inputs);
  for (size_t k = 0; k < inputs; ++k)
    scales.inputs.push_back(half_to_float(source.trellis.input_scales[k]) * factor);
  const float rest = source.prescale / (static_cast<float>(kHadamardOrder) * factor);
  for (const int32_t transform : columns.stored)
    for (size_t lane = 0; lane < kOrder; ++lane)
      scales.outputs.push_back(
          half_to_float(source.trellis.output_scales[static_cast<size_t>(transform) * kOrder + lane]) * rest);
  return scales;
}

}  // namespace quire::kernels
