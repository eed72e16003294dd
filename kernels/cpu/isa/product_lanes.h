// What all products share: prefetch, and the output.
#pragma once

namespace quire::kernels {
namespace {

QUIRE_LANE_INLINE void prefetch(const void* address) {
  __builtin_prefetch(address, 0, 3);
}

// Stores y = product * prescale + bias to `target`, or adds it.
QUIRE_LANE_INLINE void write_panel_row(const PanelOutput& output, int32_t row, F32 product) {
  float* target = output.target + static_cast<size_t>(row) * output.stride;
  F32 y = product;
  if (output.prescale != 1.0f) y = mul(y, splat(output.prescale));
  if (output.bias != nullptr) y = add(y, load(output.bias));
  if (output.accumulate) y = add(load_partial(target, output.columns), y);
  if (output.columns == kPanelColumns) {
    store(target, y);
  } else {
    store_partial(target, y, output.columns);
  }
}

}  // namespace
}  // namespace quire::kernels
