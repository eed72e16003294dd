// Matrix products: dense panels in f32, quantized panels by exact integer dot products.
#pragma once

namespace quire::kernels {
namespace {

// y = product * prescale + bias, to `target` or added to it.
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

// ---- dense ----

template <DType kDtype>
QUIRE_LANE_INLINE F32 load_weights(const void* panel, int32_t k) {
  const size_t first = static_cast<size_t>(k) * kPanelColumns;
  if constexpr (kDtype == DType::f32) return load(static_cast<const float*>(panel) + first);
  if constexpr (kDtype == DType::f16) return load_half(static_cast<const uint16_t*>(panel) + first);
  return load_bfloat(static_cast<const uint16_t*>(panel) + first);
}

QUIRE_LANE_INLINE void prefetch(const void* address) {
  __builtin_prefetch(address, 0, 3);
}

// kRows x kPanels sums in registers, from panel `first` on. Every sum runs over k in order, so that its value
// depends on neither.
template <DType kDtype, int kRows, int kPanels>
void dense_tile(const DensePanels& panels, int32_t first, const float* input, size_t input_stride,
                const PanelOutput& output) {
  constexpr size_t kStepBytes = kPanelColumns * (kDtype == DType::f32 ? 4 : 2);
  constexpr size_t kPrefetchBytes = 4096 / kPanels;
  const char* data = static_cast<const char*>(panels.data) + static_cast<size_t>(first) * panels.panel_bytes;
  F32 sums[kRows][kPanels];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) sums[r][p] = splat(0.0f);
  }
  for (int32_t k = 0; k < panels.num_in; ++k) {
    F32 weights[kPanels];
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) {
      const char* panel = data + static_cast<size_t>(p) * panels.panel_bytes;
      weights[p] = load_weights<kDtype>(panel, k);
      prefetch(panel + static_cast<size_t>(k) * kStepBytes + kPrefetchBytes);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const F32 x = splat(input[static_cast<size_t>(r) * input_stride + static_cast<size_t>(k)]);
#pragma GCC unroll 4
      for (int p = 0; p < kPanels; ++p) sums[r][p] = fma(x, weights[p], sums[r][p]);
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

// kRows rows of all panels, as many panels at a time as make eight or more independent sums: a fused
// multiply-add takes four cycles, and two can begin in each.
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
    if (kTileRows >= 8 && rows >= 8) {
      done = 8;
      if constexpr (kTileRows >= 8) dense_row_tile<kDtype, 8>(panels, input, input_stride, part);
    } else if (kTileRows >= 4 && rows >= 4) {
      done = 4;
      if constexpr (kTileRows >= 4) dense_row_tile<kDtype, 4>(panels, input, input_stride, part);
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
    default:
      return dense_rows<DType::bf16>(panels, input, input_stride, rows, output);
  }
}

// ---- activations to integers ----

// x = code * scale with scale = amax / 32767. A block whose amax is NaN or infinite gets a NaN scale, so that
// a fault upstream is seen in every output of its row, and of no other row. A block below 2^-100 counts as 0.
QUIRE_LANE_INLINE void quantize_block(const float* x, int16_t* codes, float* scale, int32_t* sum) {
  const F32 low = load(x);
  const F32 high = load(x + 16);
  const I32 size_mask = splat_int(0x7fffffff);
  // Magnitudes of floats are ordered like their bits, with NaN above infinity.
  const int32_t amax_bits =
      max_lanes(maximum(bit_and(as_int(low), size_mask), bit_and(as_int(high), size_mask)));
  float amax;
  __builtin_memcpy(&amax, &amax_bits, sizeof amax);
  const bool finite = amax_bits < 0x7f800000;
  if (!finite || amax < 0x1p-100f) {
    __builtin_memset(codes, 0, kBlockRows * sizeof(int16_t));
    *scale = finite ? 0.0f : __builtin_nanf("");
    *sum = 0;
    return;
  }
  const F32 factor = splat(32767.0f / amax);
  const I32 low_codes = to_int(mul(low, factor));
  const I32 high_codes = to_int(mul(high, factor));
  store_int16(codes, low_codes);
  store_int16(codes + 16, high_codes);
  *scale = amax / 32767.0f;
  *sum = sum_lanes(add(low_codes, high_codes));
}

void quantize_row(const float* input, const int32_t* order, int32_t num_in, int32_t num_blocks, int32_t row,
                  int32_t tile_rows, int16_t* codes, float* scales, int32_t* sums) {
  for (int32_t block = 0; block < num_blocks; ++block) {
    float gathered[kBlockRows];
    const int32_t first = block * kBlockRows;
    const float* x = input + first;
    if (order != nullptr) {
      const int32_t* from = order + first;
      for (int32_t i = 0; i < kBlockRows; ++i) gathered[i] = from[i] < 0 ? 0.0f : input[from[i]];
      x = gathered;
    } else if (num_in - first < kBlockRows) {
      for (int32_t i = 0; i < kBlockRows; ++i) gathered[i] = first + i < num_in ? input[first + i] : 0.0f;
      x = gathered;
    }
    const size_t place =
        static_cast<size_t>(block) * static_cast<size_t>(tile_rows) + static_cast<size_t>(row);
    quantize_block(x, codes + place * kBlockRows, scales + place, sums + place);
  }
}

// ---- quantized ----

// The same word, or pair of codes, of kPanels panels.
template <int kPanels>
struct Panels {
  I32 of[kPanels];
};

template <int kBits, int kPanels>
QUIRE_LANE_INLINE Panels<kPanels> shift_right(Panels<kPanels> x) {
#pragma GCC unroll 2
  for (int i = 0; i < kPanels; ++i) x.of[i] = shift_right<kBits>(x.of[i]);
  return x;
}
template <int kPanels>
QUIRE_LANE_INLINE Panels<kPanels> bit_and(Panels<kPanels> x, I32 mask) {
#pragma GCC unroll 2
  for (int i = 0; i < kPanels; ++i) x.of[i] = bit_and(x.of[i], mask);
  return x;
}
template <int kPanels>
QUIRE_LANE_INLINE Panels<kPanels> bit_or(Panels<kPanels> x, Panels<kPanels> y) {
#pragma GCC unroll 2
  for (int i = 0; i < kPanels; ++i) x.of[i] = bit_or(x.of[i], y.of[i]);
  return x;
}

// Calls take(p, pairs) for the 16 pairs of rows of a block in each panel: lane n holds the codes of rows 2p
// (low half) and 2p + 1 (high half) of column n. The layout is that of code_layout.h.
template <int kBits, int kPanels, typename Take>
QUIRE_LANE_INLINE void for_each_pair(const uint32_t* const (&blocks)[kPanels], Take take) {
  using Word = Panels<kPanels>;
  // Left alone, the compiler loads a word again for every shift, and the loads become the bottleneck.
  const auto word = [&blocks](int i) __attribute__((always_inline)) {
    Word w;
#pragma GCC unroll 2
    for (int panel = 0; panel < kPanels; ++panel) {
      w.of[panel] = load_int(blocks[panel] + 16 * i);
      keep_in_register(w.of[panel]);
    }
    return w;
  };
  constexpr int32_t kMask = ((1 << kBits) - 1) * 0x10001;
  const I32 mask = splat_int(kMask);
  if constexpr (kBits == 2) {
#pragma GCC unroll 8
    for (int w = 0; w < 2; ++w) {
      const Word x = word(w);
      take(8 * w, bit_and(x, mask));
      take(8 * w + 1, bit_and(shift_right<2>(x), mask));
      take(8 * w + 2, bit_and(shift_right<4>(x), mask));
      take(8 * w + 3, bit_and(shift_right<6>(x), mask));
      take(8 * w + 4, bit_and(shift_right<8>(x), mask));
      take(8 * w + 5, bit_and(shift_right<10>(x), mask));
      take(8 * w + 6, bit_and(shift_right<12>(x), mask));
      take(8 * w + 7, bit_and(shift_right<14>(x), mask));
    }
  } else if constexpr (kBits == 3) {
    const Word x[3] = {word(0), word(1), word(2)};
#pragma GCC unroll 8
    for (int w = 0; w < 3; ++w) {
      take(5 * w, bit_and(x[w], mask));
      take(5 * w + 1, bit_and(shift_right<3>(x[w]), mask));
      take(5 * w + 2, bit_and(shift_right<6>(x[w]), mask));
      take(5 * w + 3, bit_and(shift_right<9>(x[w]), mask));
      take(5 * w + 4, bit_and(shift_right<12>(x[w]), mask));
    }
    const Word bit0 = bit_and(shift_right<15>(x[0]), splat_int(0x10001));
    const Word bit1 = bit_and(shift_right<14>(x[1]), splat_int(0x20002));
    const Word bit2 = bit_and(shift_right<13>(x[2]), splat_int(0x40004));
    take(15, bit_or(bit_or(bit0, bit1), bit2));
  } else if constexpr (kBits == 4) {
#pragma GCC unroll 8
    for (int w = 0; w < 4; ++w) {
      const Word x = word(w);
      take(4 * w, bit_and(x, mask));
      take(4 * w + 1, bit_and(shift_right<4>(x), mask));
      take(4 * w + 2, bit_and(shift_right<8>(x), mask));
      take(4 * w + 3, bit_and(shift_right<12>(x), mask));
    }
  } else if constexpr (kBits == 5) {
    const Word x[5] = {word(0), word(1), word(2), word(3), word(4)};
#pragma GCC unroll 8
    for (int w = 0; w < 5; ++w) {
      take(3 * w, bit_and(x[w], mask));
      take(3 * w + 1, bit_and(shift_right<5>(x[w]), mask));
      take(3 * w + 2, bit_and(shift_right<10>(x[w]), mask));
    }
    const Word bit0 = bit_and(shift_right<15>(x[0]), splat_int(0x10001));
    const Word bit1 = bit_and(shift_right<14>(x[1]), splat_int(0x20002));
    const Word bit2 = bit_and(shift_right<13>(x[2]), splat_int(0x40004));
    const Word bit3 = bit_and(shift_right<12>(x[3]), splat_int(0x80008));
    const Word bit4 = bit_and(shift_right<11>(x[4]), splat_int(0x100010));
    take(15, bit_or(bit_or(bit_or(bit0, bit1), bit_or(bit2, bit3)), bit4));
  } else if constexpr (kBits == 6) {
#pragma GCC unroll 8
    for (int h = 0; h < 2; ++h) {
      const Word x[3] = {word(3 * h), word(3 * h + 1), word(3 * h + 2)};
#pragma GCC unroll 8
      for (int w = 0; w < 3; ++w) {
        take(8 * h + 2 * w, bit_and(x[w], mask));
        take(8 * h + 2 * w + 1, bit_and(shift_right<6>(x[w]), mask));
      }
      const I32 low_mask = splat_int(0xf000f);
      const I32 high_mask = splat_int(0x300030);
      take(8 * h + 6,
           bit_or(bit_and(shift_right<12>(x[0]), low_mask), bit_and(shift_right<8>(x[2]), high_mask)));
      take(8 * h + 7,
           bit_or(bit_and(shift_right<12>(x[1]), low_mask), bit_and(shift_right<10>(x[2]), high_mask)));
    }
  } else {
#pragma GCC unroll 8
    for (int w = 0; w < 8; ++w) {
      const Word x = word(w);
      take(2 * w, bit_and(x, mask));
      take(2 * w + 1, bit_and(shift_right<8>(x), mask));
    }
  }
}

// Where a tile's activations and the panels' codes have been read up to.
template <int kPanels>
struct QuantCursor {
  const uint32_t* codes[kPanels];
  const int16_t* x;
  const float* x_scales;
  const int32_t* x_sums;
  int32_t group;
};

template <int kRows, int kPanels>
struct QuantTotals {
  F32 of[kRows][kPanels];
};

QUIRE_LANE_INLINE I32 splat_pair(const int16_t* x) {
  int32_t pair;
  __builtin_memcpy(&pair, x, sizeof pair);
  return splat_int(pair);
}

// Bytes ahead of the codes in use. 4 KiB to 8 KiB measured alike; none costs a quarter of the speed of one
// row.
constexpr size_t kCodePrefetchBytes = 6144;

// The block's dot products with kRows rows, exact, less zero * (sum of the row's codes).
//
// What was tried, on a Zen 5 core at 3.7 GHz, 4 bits, 8 rows: one panel at a time 317 Gop/s, because each
// product needs an activation broadcast from memory and two loads can begin in a cycle; with two panels a
// broadcast serves two products. A product takes five cycles and two can begin in each, so at least ten
// independent sums are needed: `kChains` makes up for few rows.
template <bool kGptq, int kBits, int kRows, int kPanels>
QUIRE_LANE_INLINE void add_block(const QuantCursor<kPanels>& at, const I32 (&zeros)[kPanels],
                                 F32 (&sums)[kRows][kPanels]) {
  constexpr int kWanted = kDotVectors / (kRows * kPanels);
  constexpr int kChains = kWanted >= 4 ? 4 : kWanted >= 2 ? 2 : 1;
  I32 dots[kRows][kPanels][kChains];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int i = 0; i < kPanels; ++i) {
#pragma GCC unroll 4
      for (int c = 0; c < kChains; ++c) dots[r][i][c] = splat_int(0);
    }
  }
  for_each_pair<kBits, kPanels>(
      at.codes, [&](int p, Panels<kPanels> pairs) __attribute__((always_inline)) {
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const I32 x = splat_pair(at.x + r * kBlockRows + 2 * p);
#pragma GCC unroll 2
          for (int i = 0; i < kPanels; ++i) {
            I32& dot = dots[r][i][p % kChains];
            dot = dot_pairs(dot, pairs.of[i], x);
          }
        }
      });
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const I32 x_sum = splat_int(at.x_sums[r]);
    const F32 x_scale = splat(at.x_scales[r]);
#pragma GCC unroll 2
    for (int i = 0; i < kPanels; ++i) {
      I32 dot = dots[r][i][0];
      if constexpr (kChains >= 2) dot = add(dot, dots[r][i][1]);
      if constexpr (kChains == 4) dot = add(dot, add(dots[r][i][2], dots[r][i][3]));
      const I32 offset = kGptq ? mul(zeros[i], x_sum) : shift_left<kBits - 1>(x_sum);
      sums[r][i] = fma(to_float(sub(dot, offset)), x_scale, sums[r][i]);
    }
  }
}

// All groups of a run. Fixed order for each output: within a group one fused multiply-add per block, then one
// per group; the integers before that are exact.
template <bool kGptq, int kBits, int kRows, int kPanels>
void quant_run(const QuantPanels& panels, int32_t num_groups, QuantCursor<kPanels>& cursor,
               QuantTotals<kRows, kPanels>& all_totals) {
  QuantTotals<kRows, kPanels> totals = all_totals;
  QuantCursor<kPanels> at = cursor;
  for (const int32_t end = at.group + num_groups; at.group < end; ++at.group) {
    F32 scales[kPanels];
    I32 zeros[kPanels];
#pragma GCC unroll 2
    for (int i = 0; i < kPanels; ++i) {
      // A panel that is not there is computed as its neighbour and not written.
      const size_t panel = i < panels.num_panels ? static_cast<size_t>(i) : 0;
      const size_t group = panel * static_cast<size_t>(panels.num_groups) + static_cast<size_t>(at.group);
      const I32 nibbles = load_nibbles(panels.nibbles + group * (kPanelColumns / 2));
      if constexpr (kGptq) {
        scales[i] = load_half(panels.scales + group * kPanelColumns);
        zeros[i] = add(nibbles, splat_int(panels.zero_offset));
      } else {
        scales[i] = lookup(panels.scale_table + static_cast<size_t>(at.group) * kPanelColumns, nibbles);
        zeros[i] = nibbles;
      }
    }
    F32 sums[kRows][kPanels];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int i = 0; i < kPanels; ++i) sums[r][i] = splat(0.0f);
    }
    for (int32_t b = panels.group_blocks[at.group]; b > 0; --b) {
#pragma GCC unroll 2
      for (int i = 0; i < kPanels; ++i) {
#pragma GCC unroll 8
        for (int line = 0; line < kBits; ++line) {
          prefetch(reinterpret_cast<const char*>(at.codes[i]) + kCodePrefetchBytes + 64 * line);
        }
      }
      add_block<kGptq, kBits, kRows, kPanels>(at, zeros, sums);
#pragma GCC unroll 2
      for (int i = 0; i < kPanels; ++i) at.codes[i] += 16 * kBits;
      at.x += kRows * kBlockRows;
      at.x_scales += kRows;
      at.x_sums += kRows;
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int i = 0; i < kPanels; ++i) totals.of[r][i] = fma(sums[r][i], scales[i], totals.of[r][i]);
    }
  }
  cursor = at;
  all_totals = totals;
}

template <int kRows>
void quant_panel_rows(const QuantPanels& panels, const QuantTile& tile, const PanelOutput& output) {
  constexpr int kPanels = kQuantPanels;
  QuantTotals<kRows, kPanels> totals;
  QuantCursor<kPanels> cursor;
  for (int i = 0; i < kPanels; ++i) {
    for (int r = 0; r < kRows; ++r) totals.of[r][i] = splat(0.0f);
    cursor.codes[i] =
        panels.codes + (i < panels.num_panels ? static_cast<size_t>(i) * panels.panel_words : 0);
  }
  cursor.x = tile.codes;
  cursor.x_scales = tile.scales;
  cursor.x_sums = tile.sums;
  cursor.group = 0;
  for (int32_t run = 0; run < panels.num_runs; ++run) {
    const int32_t num_groups = panels.runs[run].num_groups;
    if (panels.scales != nullptr) {
      quant_run<true, 4, kRows, kPanels>(panels, num_groups, cursor, totals);
      continue;
    }
    switch (panels.runs[run].bits) {
      case 2:
        quant_run<false, 2, kRows, kPanels>(panels, num_groups, cursor, totals);
        break;
      case 3:
        quant_run<false, 3, kRows, kPanels>(panels, num_groups, cursor, totals);
        break;
      case 4:
        quant_run<false, 4, kRows, kPanels>(panels, num_groups, cursor, totals);
        break;
      case 5:
        quant_run<false, 5, kRows, kPanels>(panels, num_groups, cursor, totals);
        break;
      case 6:
        quant_run<false, 6, kRows, kPanels>(panels, num_groups, cursor, totals);
        break;
      default:
        quant_run<false, 8, kRows, kPanels>(panels, num_groups, cursor, totals);
        break;
    }
  }
  for (int32_t i = 0; i < panels.num_panels; ++i) {
    PanelOutput part = output;
    part.target += i * kPanelColumns;
    if (part.bias != nullptr) part.bias += i * kPanelColumns;
    part.columns = i == panels.num_panels - 1 ? panels.last_columns : kPanelColumns;
    for (int r = 0; r < kRows; ++r) write_panel_row(part, r, totals.of[r][i]);
  }
}

void quant_panels(const QuantPanels& panels, const QuantTile& tile, const PanelOutput& output) {
  switch (tile.rows) {
    case 1:
      return quant_panel_rows<1>(panels, tile, output);
    case 2:
      return quant_panel_rows<2>(panels, tile, output);
    case 4:
      if constexpr (kTileRows >= 4) return quant_panel_rows<4>(panels, tile, output);
      break;
    default:
      if constexpr (kTileRows >= 8) return quant_panel_rows<8>(panels, tile, output);
  }
}

}  // namespace
}  // namespace quire::kernels
