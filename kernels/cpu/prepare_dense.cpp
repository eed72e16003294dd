#include <cstring>

#include "kernels/cpu/device.h"
#include "kernels/cpu/weight.h"

namespace quire::kernels {
namespace {

// Copies [N, K] elements to panels [K][16]; columns beyond the last stay 0.
template <typename Element>
void fill_panel(const WeightSource& source, int32_t panel, Element* target) {
  const auto* data = static_cast<const Element*>(source.dense.data);
  const auto num_in = static_cast<size_t>(source.num_in);
  for (int32_t lane = 0; lane < kPanelColumns; ++lane) {
    const int32_t n = panel * kPanelColumns + lane;
    if (n >= source.num_out) return;
    const Element* column = data + static_cast<size_t>(stored_column(source, n)) * num_in;
    for (size_t k = 0; k < num_in; ++k) {
      const size_t feature = source.row_order != nullptr ? static_cast<size_t>(source.row_order[k]) : k;
      target[feature * kPanelColumns + static_cast<size_t>(lane)] = column[k];
    }
  }
}

// Stores the scales of adjacent columns side by side: [groups of rows][16].
void fill_scales(const WeightSource& source, int32_t panel, int32_t num_groups, float* target) {
  const DenseSource& dense = source.dense;
  for (int32_t lane = 0; lane < kPanelColumns; ++lane) {
    const int32_t n = panel * kPanelColumns + lane;
    if (n >= source.num_out) return;
    const auto row = static_cast<size_t>(stored_column(source, n) / dense.scale_out);
    const float* scales = dense.scales + row * static_cast<size_t>(num_groups);
    for (size_t g = 0; g < static_cast<size_t>(num_groups); ++g)
      target[g * kPanelColumns + static_cast<size_t>(lane)] = scales[g];
  }
}

}  // namespace

void prepare_dense_part(Device& device, const WeightSource& source, const PartLayout& layout,
                        WeightPart& part) {
  part.dtype = source.dense.dtype;
  part.prescale = source.prescale;
  part.panel_bytes = layout.panel_bytes;
  part.data = AlignedBuffer(device.meter, layout.data_bytes);
  part.num_groups = layout.num_groups;
  part.scale_rows = source.dense.scale_in;
  part.scales = AlignedBuffer(device.meter, layout.scale_bytes);
  device.pool.share(part.num_panels, 1, [&](int32_t, int64_t first, int64_t last) {
    for (int64_t panel = first; panel < last; ++panel) {
      auto* target = part.data.as<uint8_t>() + static_cast<size_t>(panel) * part.panel_bytes;
      if (part.dtype == DType::f32) {
        fill_panel(source, static_cast<int32_t>(panel), reinterpret_cast<uint32_t*>(target));
      } else if (part.dtype == DType::f8_e4m3) {
        fill_panel(source, static_cast<int32_t>(panel), target);
        fill_scales(source, static_cast<int32_t>(panel), part.num_groups, part.panel_scales(panel));
      } else {
        fill_panel(source, static_cast<int32_t>(panel), reinterpret_cast<uint16_t*>(target));
      }
    }
  });
}

}  // namespace quire::kernels
