// Products with dense panels, in f32.
#pragma once

namespace quire::kernels {
namespace {

template <DType kDtype>
QUIRE_LANE_INLINE F32 load_weights(const void* panel, int32_t k) {
  const size_t first = static_cast<size_t>(k) * kPanelColumns;
  if constexpr (kDtype == DType::f32) return load(static_cast<const float*>(panel) + first);
  if constexpr (kDtype == DType::f16) return load_half(static_cast<const uint16_t*>(panel) + first);
  if constexpr (kDtype == DType::f8_e4m3) return load_float8(static_cast<const uint8_t*>(panel) + first);
  return load_bfloat(static_cast<const uint16_t*>(panel) + first);
}

// Returns the scales of a panel's columns from row k on, times the factor that load_float8 leaves out: so a
// weight is rounded once, as in f32.
QUIRE_LANE_INLINE F32 load_panel_scales(const DensePanels& panels, int32_t panel, int32_t k) {
  const int32_t num_blocks = (panels.num_in - 1) / panels.scale_rows + 1;
  const size_t block = static_cast<size_t>(panel) * static_cast<size_t>(num_blocks) +
                       static_cast<size_t>(k / panels.scale_rows);
  return mul(load(panels.scales + block * kPanelColumns), splat(256.0f));
}

// Computes kRows x kPanels sums in registers, from panel `first` on. Every sum runs over k in order, so that
// its value does not depend on kRows or kPanels.
template <DType kDtype, int kRows, int kPanels>
void dense_tile(const DensePanels& panels, int32_t first, const float* input, size_t input_stride,
                const PanelOutput& output) {
  constexpr bool kScaled = kDtype == DType::f8_e4m3;
  constexpr size_t kStepBytes = kPanelColumns * dtype_bytes(kDtype);
  constexpr size_t kPrefetchBytes = 4096 / kPanels;
  const char* data = static_cast<const char*>(panels.data) + static_cast<size_t>(first) * panels.panel_bytes;
  F32 sums[kRows][kPanels];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) sums[r][p] = splat(0.0f);
  }
  for (int32_t k = 0; k < panels.num_in;) {
    F32 scales[kPanels];
    for (int p = 0; p < kPanels; ++p)
      scales[p] = kScaled ? load_panel_scales(panels, first + p, k) : splat(1.0f);
    const int32_t left = panels.num_in - k;
    const int32_t end = k + (kScaled && panels.scale_rows < left ? panels.scale_rows : left);
    for (; k < end; ++k) {
      F32 weights[kPanels];
#pragma GCC unroll 4
      for (int p = 0; p < kPanels; ++p) {
        const char* panel = data + static_cast<size_t>(p) * panels.panel_bytes;
        weights[p] = load_weights<kDtype>(panel, k);
        if constexpr (kScaled) weights[p] = mul(weights[p], scales[p]);
        prefetch(panel + static_cast<size_t>(k) * kStepBytes + kPrefetchBytes);
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const F32 x = splat(input[static_cast<size_t>(r) * input_stride + static_cast<size_t>(k)]);
#pragma GCC unroll 4
        for (int p = 0; p < kPanels; ++p) sums[r][p] = fma(x, weights[p], sums[r][p]);
      }
    }
  }
  for (int p = 0; p < kPanels; ++p) {
    PanelOutput part = output;
    part.target += (first + p) * kPanelColumns;
    if (part.bias != nullptr) part.bias += (first + p) * kPanelColumns;
    part.columns = first + p == panels.num_panels - 1 ? panels.last_columns : kPanelColumns;
    for (int r = 0; r < kRows; ++r) write_panel_row(part, r, sums[r][p]);
  }
}

// Multiplies kRows rows with all panels, with enough panels at a time for eight or more independent sums: a
// fused multiply-add takes four cycles, and two can start in each.
template <DType kDtype, int kRows>
void dense_row_tile(const DensePanels& panels, const float* input, size_t input_stride,
                    const PanelOutput& output) {
  constexpr int kTogether = dense_panels_together(kRows);
  int32_t p = 0;
  for (; p + kTogether <= panels.num_panels; p += kTogether) {
    dense_tile<kDtype, kRows, kTogether>(panels, p, input, input_stride, output);
  }
  if constexpr (kTogether > 1) {
    for (; p < panels.num_panels; ++p) dense_tile<kDtype, kRows, 1>(panels, p, input, input_stride, output);
  }
}

template <DType kDtype>
void dense_rows(const DensePanels& panels, const float* input, size_t input_stride, int32_t rows,
                const PanelOutput& output) {
  PanelOutput part = output;
  while (rows > 0) {
    int32_t done = 1;
    if (kDenseRows >= 8 && rows >= 8) {
      done = 8;
      if constexpr (kDenseRows >= 8) dense_row_tile<kDtype, 8>(panels, input, input_stride, part);
    } else if (kDenseRows >= 4 && rows >= 4) {
      done = 4;
      if constexpr (kDenseRows >= 4) dense_row_tile<kDtype, 4>(panels, input, input_stride, part);
    } else if (rows >= 2) {
      done = 2;
      dense_row_tile<kDtype, 2>(panels, input, input_stride, part);
    } else {
      dense_row_tile<kDtype, 1>(panels, input, input_stride, part);
    }
    rows -= done;
    input += static_cast<size_t>(done) * input_stride;
    part.target += static_cast<size_t>(done) * part.stride;
  }
}

void dense_panels(const DensePanels& panels, const float* input, size_t input_stride, int32_t rows,
                  const PanelOutput& output) {
  switch (panels.dtype) {
    case DType::f32:
      return dense_rows<DType::f32>(panels, input, input_stride, rows, output);
    case DType::f16:
      return dense_rows<DType::f16>(panels, input, input_stride, rows, output);
    case DType::f8_e4m3:
      return dense_rows<DType::f8_e4m3>(panels, input, input_stride, rows, output);
    default:
      return dense_rows<DType::bf16>(panels, input, input_stride, rows, output);
  }
}

}  // namespace
}  // namespace quire::kernels
