#include "kernels/cpu/linear_trellis.h"

#include <algorithm>

#include "kernels/cpu/device.h"

namespace quire::kernels {
namespace {

TrellisPanel panel_of(const WeightPart& part, int32_t num_in, int32_t index) {
  TrellisPanel panel;
  panel.codebook = part.trellis.codebook;
  panel.half_bits = part.trellis.half_bits;
  panel.num_in = num_in;
  panel.words = reinterpret_cast<const uint16_t*>(part.data.as<uint8_t>() +
                                                  static_cast<size_t>(index) * part.panel_bytes);
  panel.input_scales = part.trellis.input_scales.as<uint16_t>();
  panel.output_scales = part.trellis.output_scales.as<float>() + static_cast<size_t>(index) * kHadamardOrder;
  return panel;
}

// Writes one row of a panel to the outputs that read it.
void write_outputs(const TrellisMatrixProduct& product, int32_t panel, const float* from, float* output) {
  const TrellisTerms& terms = product.part.trellis;
  const auto* runs = terms.runs.as<OutputRun>();
  const float* bias = product.part.bias.as<float>();
  for (int32_t i = terms.runs_of_panel[static_cast<size_t>(panel)];
       i < terms.runs_of_panel[static_cast<size_t>(panel) + 1]; ++i) {
    const OutputRun& run = runs[i];
    for (int32_t c = 0; c < run.count; ++c) {
      float y = from[run.lane + c];
      if (bias != nullptr) y += bias[run.output + c];
      float& target = output[run.output + c];
      target = product.accumulate ? target + y : y;
    }
  }
}

}  // namespace

void multiply_trellis(Context* context, const TrellisMatrixProduct& product) {
  const WeightPart& part = product.part;
  const IsaKernels& isa = context->device->isa;
  const int32_t row_units = (product.rows - 1) / kTrellisRows + 1;
  const int64_t work = int64_t{product.num_in} * kHadamardOrder * std::min(product.rows, kTrellisRows);
  share_work(context, int64_t{part.num_panels} * row_units, work, [&](int32_t, int64_t begin, int64_t end) {
    alignas(64) float outputs[kTrellisRows * kHadamardOrder];
    for (int64_t unit = begin; unit < end; ++unit) {
      const auto panel = static_cast<int32_t>(unit / row_units);
      const int32_t row = static_cast<int32_t>(unit % row_units) * kTrellisRows;
      const int32_t rows = std::min(kTrellisRows, product.rows - row);
      isa.trellis_panel(panel_of(part, product.num_in, panel),
                        product.input + static_cast<size_t>(row) * static_cast<size_t>(product.num_in),
                        static_cast<size_t>(product.num_in), rows, outputs);
      for (int32_t r = 0; r < rows; ++r)
        write_outputs(product, panel, outputs + ptrdiff_t{kHadamardOrder} * r,
                      product.output + static_cast<size_t>(row + r) * product.stride);
    }
  });
}

}  // namespace quire::kernels
