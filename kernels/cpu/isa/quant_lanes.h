// Products with quantized panels: exact integer dot products of codes with activations of kBytes bytes, which
// are stored as kStored bytes.
#pragma once

namespace quire::kernels {
namespace {

// Activations to integers.

// x = code * scale with scale = amax / largest, for the up to four blocks of a span. For two bytes the
// largest code is 32639 = 127 * 256 + 127, so that high and low bytes fit signed bytes. A span whose amax is
// NaN or infinite gets a NaN scale, so that an error upstream is visible in every output of its row, and in
// no other row. A span below 2^-100 counts as 0.
struct SpanScale {
  float scale;
  float factor;  // x * factor is the code; 0 if the scale is 0 or NaN
};

template <int kBytes>
SpanScale span_scale(const float* x, int32_t num_rows) {
  constexpr float kLargest = kBytes == 1 ? 127.0f : 32639.0f;
  const I32 size_mask = splat_int(0x7fffffff);
  // Magnitudes of floats are ordered like their bits, with NaN above infinity.
  I32 largest = splat_int(0);
  for (int32_t i = 0; i < num_rows; i += 16)
    largest = maximum(largest, bit_and(as_int(load(x + i)), size_mask));
  const int32_t amax_bits = max_lanes(largest);
  if (amax_bits >= 0x7f800000) return {__builtin_nanf(""), 0.0f};
  float amax;
  __builtin_memcpy(&amax, &amax_bits, sizeof amax);
  if (amax < 0x1p-100f) return {0.0f, 0.0f};
  return {amax / kLargest, kLargest / amax};
}

// Converts one block to codes and adds up those of each half.
template <int kBytes>
void quantize_block(const float* x, float factor, int8_t* bytes, int32_t (&sums)[2]) {
  for (int half = 0; half < 2; ++half) {
    // 0 * NaN must not become a code.
    const I32 codes = factor == 0.0f ? splat_int(0) : to_int(mul(load(x + 16 * half), splat(factor)));
    store_activations<kStoredBytes<kBytes>>(bytes, half, codes);
    sums[half] = sum_lanes(codes);
  }
}

// Returns the elements of a span: in the input, or gathered.
inline const float* elements_of_span(const QuantRowSource& source, int32_t first, int32_t count,
                                     float* gathered) {
  if (source.order != nullptr) {
    const int32_t* from = source.order + first;
    for (int32_t i = 0; i < count; ++i) gathered[i] = from[i] < 0 ? 0.0f : source.input[from[i]];
    return gathered;
  }
  if (source.num_in - first >= count) return source.input + first;
  for (int32_t i = 0; i < count; ++i)
    gathered[i] = first + i < source.num_in ? source.input[first + i] : 0.0f;
  return gathered;
}

template <int kBytes>
void quantize_row(const QuantRowSource& source, const QuantRowTarget& target) {
  for (int32_t first_block = 0; first_block < source.num_blocks; first_block += kSpanBlocks) {
    const int32_t left = source.num_blocks - first_block;
    const int32_t blocks = left < kSpanBlocks ? left : kSpanBlocks;
    const int32_t count = blocks * kBlockRows;
    float gathered[kSpanBlocks * kBlockRows];
    const float* x = elements_of_span(source, first_block * kBlockRows, count, gathered);
    const SpanScale of_span = span_scale<kBytes>(x, count);
    target.scales[first_block / kSpanBlocks * target.tile_rows + target.row] = of_span.scale;
    for (int32_t b = 0; b < blocks; ++b) {
      const size_t place = static_cast<size_t>(first_block + b) * static_cast<size_t>(target.tile_rows) +
                           static_cast<size_t>(target.row);
      int8_t* const codes = target.codes + place * kBlockBytes<kStoredBytes<kBytes>>;
      int32_t sums[2];
      quantize_block<kBytes>(x + b * kBlockRows, of_span.factor, codes, sums);
      target.half_sums[place] = sums[0];
      target.sums[place] = sums[0] + sums[1];
    }
  }
}

// Products.

// Prefetch distance in bytes. 4 KiB to 8 KiB measured alike; without prefetch a product of one row loses a
// quarter of its speed.
constexpr size_t kCodePrefetchBytes = 6144;

// Read positions in a tile's activations and the panels' codes.
template <int kPanels>
struct QuantCursor {
  const uint32_t* codes[kPanels];
  const uint32_t* next_codes;
  const int8_t* x;
  const float* x_scales;  // scales of the span that contains the next block
  const int32_t* x_sums;
  int32_t group;
  int32_t block_of_span;
};

template <int kRows, int kPanels>
struct QuantTotals {
  F32 of[kRows][kPanels];
};

// Scales and zeros of the 16 columns of a group in each panel.
template <int kPanels>
struct GroupTerms {
  F32 scales[kPanels];
  I32 zeros[kPanels];  // coded
};

// Loads the scales of 16 columns, for group `index` counted over all panels.
QUIRE_LANE_INLINE F32 load_scales(const QuantPanels& panels, size_t index) {
  const auto* bytes = static_cast<const uint8_t*>(panels.scales);
  const size_t first = index * kPanelColumns;
  switch (panels.scale_dtype) {
    case DType::f16:
      return load_half(reinterpret_cast<const uint16_t*>(bytes) + first);
    case DType::bf16:
      return load_bfloat(reinterpret_cast<const uint16_t*>(bytes) + first);
    case DType::f8_e8m0:  // 2^-127, which would be subnormal, counts as 0
      return as_float(shift_left<23>(load_bytes(bytes + first)));
    default:
      return load(reinterpret_cast<const float*>(bytes) + first);
  }
}

// How codes of a run become values.
enum class CodeKind { exl2, linear, table };

template <CodeKind kKind, int kPanels>
QUIRE_LANE_INLINE GroupTerms<kPanels> terms_of_group(const QuantPanels& panels, int32_t group) {
  GroupTerms<kPanels> terms;
#pragma GCC unroll 4
  for (int i = 0; i < kPanels; ++i) {
    // A missing panel is computed like the first one and not written.
    const size_t panel = i < panels.num_panels ? static_cast<size_t>(i) : 0;
    const size_t index = panel * static_cast<size_t>(panels.num_groups) + static_cast<size_t>(group);
    if constexpr (kKind != CodeKind::exl2) {
      terms.scales[i] = load_scales(panels, index);
      terms.zeros[i] = splat_int(panels.zero_offset);
      if (panels.zeros != nullptr)
        terms.zeros[i] = add(terms.zeros[i], load_bytes(panels.zeros + index * kPanelColumns));
    } else {
      const I32 nibbles = load_nibbles(panels.nibbles + index * (kPanelColumns / 2));
      terms.scales[i] = lookup(panels.scale_table + static_cast<size_t>(group) * kPanelColumns, nibbles);
    }
  }
  return terms;
}

// Returns the function from quads of codes to quads of values.
template <CodeKind kKind>
QUIRE_LANE_INLINE auto value_of_codes(const QuantPanels& panels) {
  if constexpr (kKind == CodeKind::table) {
    const I32 table = load_table(panels.values);
    return [table](I32 codes) __attribute__((always_inline)) {
      return lookup_bytes(table, codes);
    };
  } else {
    return [](I32 codes) __attribute__((always_inline)) {
      return codes;
    };
  }
}

QUIRE_LANE_INLINE void prefetch_block(const uint32_t* codes, int bits) {
  for (int line = 0; line < bits; ++line) {
    prefetch(reinterpret_cast<const char*>(codes) + kCodePrefetchBytes + 64 * line);
  }
}

// Prefetches to the second-level cache; returns the address of the next lines.
QUIRE_LANE_INLINE const uint32_t* prefetch_next(const uint32_t* codes, int32_t lines) {
  for (const uint32_t* const end = codes + kLineWords * lines; codes != end; codes += kLineWords)
    __builtin_prefetch(codes, 0, 2);
  return codes;
}

// total += (dot - zero * sum of the codes of x) * scale of x * scale of the group.
template <CodeKind kKind, int kBits, int kRows, int kPanels, int kStored>
QUIRE_LANE_INLINE void add_to_totals(const Dots<kRows, kPanels, kStored>& dots,
                                     const GroupTerms<kPanels>& terms, const float* x_scales,
                                     const int32_t (&x_sums)[kRows], QuantTotals<kRows, kPanels>& totals) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const F32 x_scale = splat(x_scales[r]);
    const I32 x_sum = splat_int(x_sums[r]);
#pragma GCC unroll 4
    for (int i = 0; i < kPanels; ++i) {
      const I32 offset = kKind == CodeKind::exl2 ? shift_left<kBits - 1>(x_sum) : mul(terms.zeros[i], x_sum);
      const F32 product = mul(to_float(sub(dots.sum(r, i), offset)), x_scale);
      totals.of[r][i] = fma(product, terms.scales[i], totals.of[r][i]);
    }
  }
}

// Multiplies all groups of a run. The integer sums of the blocks that share a group and a span are exact;
// then one multiplication and one fused multiply-add follow, in the order of the blocks, for each output.
template <CodeKind kKind, int kBits, int kRows, int kPanels, int kStored, bool kPrefetchesNext>
void quant_run(const QuantPanels& panels, int32_t num_groups, QuantCursor<kPanels>& cursor,
               QuantTotals<kRows, kPanels>& all_totals) {
  QuantTotals<kRows, kPanels> totals = all_totals;
  QuantCursor<kPanels> at = cursor;
  const auto value_of = value_of_codes<kKind>(panels);
  for (const int32_t end = at.group + num_groups; at.group < end; ++at.group) {
    const GroupTerms<kPanels> terms = terms_of_group<kKind, kPanels>(panels, at.group);
    for (int32_t left = panels.group_blocks[at.group]; left > 0;) {
      const int32_t of_span = kSpanBlocks - at.block_of_span;
      const int32_t blocks = left < of_span ? left : of_span;
      Dots<kRows, kPanels, kStored> dots;
      dots.clear();
      int32_t x_sums[kRows] = {};
      for (int32_t b = 0; b < blocks; ++b) {
#pragma GCC unroll 4
        for (int i = 0; i < kPanels; ++i) prefetch_block(at.codes[i], kBits);
        if constexpr (kPrefetchesNext) at.next_codes = prefetch_next(at.next_codes, panels.next_lines);
        dots.template add_block<kBits>(at.codes, at.x, value_of);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) x_sums[r] += at.x_sums[r];
#pragma GCC unroll 4
        for (int i = 0; i < kPanels; ++i) at.codes[i] += 16 * kBits;
        at.x += kRows * kBlockBytes<kStored>;
        at.x_sums += kRows;
      }
      add_to_totals<kKind, kBits>(dots, terms, at.x_scales, x_sums, totals);
      left -= blocks;
      at.block_of_span += blocks;
      if (at.block_of_span == kSpanBlocks) {
        at.block_of_span = 0;
        at.x_scales += kRows;
      }
    }
  }
  cursor = at;
  all_totals = totals;
}

template <int kRows, int kStored, bool kPrefetchesNext>
void quant_panel_rows(const QuantPanels& panels, const QuantTile& tile, const PanelOutput& output) {
  constexpr int kPanels = kQuantPanels;
  QuantTotals<kRows, kPanels> totals;
  QuantCursor<kPanels> cursor;
  for (int i = 0; i < kPanels; ++i) {
    for (int r = 0; r < kRows; ++r) totals.of[r][i] = splat(0.0f);
    cursor.codes[i] =
        panels.codes + (i < panels.num_panels ? static_cast<size_t>(i) * panels.panel_words : 0);
  }
  cursor.next_codes = panels.next_codes;
  cursor.x = tile.codes;
  cursor.x_scales = tile.scales;
  cursor.x_sums = tile.sums;
  cursor.group = 0;
  cursor.block_of_span = 0;
  for (int32_t run = 0; run < panels.num_runs; ++run) {
    const int32_t num_groups = panels.runs[run].num_groups;
    if (panels.scales != nullptr) {
      if (panels.values != nullptr) {
        quant_run<CodeKind::table, 4, kRows, kPanels, kStored, kPrefetchesNext>(panels, num_groups, cursor,
                                                                                totals);
      } else if (panels.runs[run].bits == 4) {
        quant_run<CodeKind::linear, 4, kRows, kPanels, kStored, kPrefetchesNext>(panels, num_groups, cursor,
                                                                                 totals);
      } else {
        quant_run<CodeKind::linear, 8, kRows, kPanels, kStored, kPrefetchesNext>(panels, num_groups, cursor,
                                                                                 totals);
      }
      continue;
    }
    switch (panels.runs[run].bits) {
      case 2:
        quant_run<CodeKind::exl2, 2, kRows, kPanels, kStored, kPrefetchesNext>(panels, num_groups, cursor,
                                                                               totals);
        break;
      case 3:
        quant_run<CodeKind::exl2, 3, kRows, kPanels, kStored, kPrefetchesNext>(panels, num_groups, cursor,
                                                                               totals);
        break;
      case 4:
        quant_run<CodeKind::exl2, 4, kRows, kPanels, kStored, kPrefetchesNext>(panels, num_groups, cursor,
                                                                               totals);
        break;
      case 5:
        quant_run<CodeKind::exl2, 5, kRows, kPanels, kStored, kPrefetchesNext>(panels, num_groups, cursor,
                                                                               totals);
        break;
      case 6:
        quant_run<CodeKind::exl2, 6, kRows, kPanels, kStored, kPrefetchesNext>(panels, num_groups, cursor,
                                                                               totals);
        break;
      default:
        quant_run<CodeKind::exl2, 8, kRows, kPanels, kStored, kPrefetchesNext>(panels, num_groups, cursor,
                                                                               totals);
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

template <int kStored>
void quant_panels(const QuantPanels& panels, const QuantTile& tile, const PanelOutput& output) {
  constexpr int32_t kMost = kQuantRows<kStored>;
  if (tile.rows == kMost && panels.next_lines > 0)
    return quant_panel_rows<kMost, kStored, true>(panels, tile, output);
  switch (tile.rows) {
    case 1:
      return quant_panel_rows<1, kStored, false>(panels, tile, output);
    case 2:
      return quant_panel_rows<2, kStored, false>(panels, tile, output);
    case 4:
      if constexpr (kMost >= 4) return quant_panel_rows<4, kStored, false>(panels, tile, output);
      break;
    default:
      if constexpr (kMost >= 8) return quant_panel_rows<8, kStored, false>(panels, tile, output);
  }
}

}  // namespace
}  // namespace quire::kernels
