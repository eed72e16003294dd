#include <algorithm>
#include <cstring>

#include "kernels/cpu/code_layout.h"
#include "kernels/cpu/device.h"
#include "kernels/cpu/weight.h"

namespace quire::kernels {
namespace {

void fill_codes(const WeightSource& source, const PartLayout& layout, const PanelSource& columns,
                uint32_t* target) {
  const CodedSource& coded = source.coded;
  for (size_t row = 0; row < layout.stored_rows.size(); row += kBlockRows) {
    uint8_t codes[kBlockRows * kPanelColumns] = {};
    for (size_t i = 0; i < kBlockRows; ++i) {
      const int32_t stored = layout.stored_rows[row + i];
      if (stored < 0) continue;
      for (int32_t lane = 0; lane < columns.count; ++lane)
        codes[i * kPanelColumns + static_cast<size_t>(lane)] =
            static_cast<uint8_t>(coded.code(stored, columns.stored[lane]));
    }
    pack_block(coded.bits, codes, target);
    target += ptrdiff_t{kPanelColumns} * coded.bits;
  }
}

// Fills scales and zeros of 16 columns in one group; columns beyond the last stay 0.
void fill_terms(const WeightSource& source, int32_t group, const PanelSource& columns, size_t place,
                WeightPart& part) {
  const CodedSource& coded = source.coded;
  const size_t scale_bytes = dtype_bytes(coded.scale_dtype);
  const auto* scales = static_cast<const uint8_t*>(coded.scales) +
                       static_cast<size_t>(group) * static_cast<size_t>(source.padded_out) * scale_bytes;
  for (int32_t lane = 0; lane < columns.count; ++lane) {
    const size_t target = place * kPanelColumns + static_cast<size_t>(lane);
    const auto column = static_cast<size_t>(columns.stored[lane]);
    std::memcpy(part.scales.as<uint8_t>() + target * scale_bytes, scales + column * scale_bytes, scale_bytes);
    if (!coded.has_zeros()) continue;
    part.coded.zeros.as<uint8_t>()[target] =
        static_cast<uint8_t>(coded.zero(group, columns.stored[lane]) - coded.zero_offset);
  }
}

void fill_panel(const WeightSource& source, const PartLayout& layout, int32_t panel, WeightPart& part) {
  const PanelSource columns = columns_of_panel(source, panel);
  const auto index = static_cast<size_t>(panel);
  fill_codes(source, layout, columns,
             reinterpret_cast<uint32_t*>(part.data.as<uint8_t>() + index * part.panel_bytes));
  for (int32_t g = 0; g < part.num_groups; ++g) {
    const size_t place = index * static_cast<size_t>(part.num_groups) + static_cast<size_t>(g);
    fill_terms(source, g, columns, place, part);
  }
}

}  // namespace

void prepare_coded_part(Device& device, const WeightSource& source, const PartLayout& layout,
                        WeightPart& part) {
  part.prescale = source.prescale;
  part.scales = AlignedBuffer(device.meter, layout.scale_bytes);
  part.coded.zeros = AlignedBuffer(device.meter, layout.zero_bytes);
  part.coded.zero_offset = source.coded.zero_offset;
  part.coded.scale_dtype = source.coded.scale_dtype;
  part.coded.has_values = source.coded.values != nullptr;
  if (part.coded.has_values) std::copy_n(source.coded.values, 16, part.coded.values);
  device.pool.share(part.num_panels, 1, [&](int32_t, int64_t first, int64_t last) {
    for (int64_t panel = first; panel < last; ++panel)
      fill_panel(source, layout, static_cast<int32_t>(panel), part);
  });
}

}  // namespace quire::kernels
