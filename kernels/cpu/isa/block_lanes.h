// Products with panels of blocks (interface/block_codes.h): exact integer dot products of the codes of 16 or
// 32 rows with activations, then in f32 the terms of these rows. All block types are one of ten kernels: what
// differs between the types of a kernel is read per block of 32 rows.
#pragma once

namespace quire::kernels {
namespace {

// Terms are a second stream of memory beside the codes, about an eighth as long.
constexpr size_t kTermPrefetchBytes = 1024;

// Codes of a kernel: their width, whether they select values, whether the halves of a block of 32 rows have
// terms of their own, and whether there are minima.
template <int kCodeBits, bool kHasValues, bool kIsSplit, bool kHasMin>
struct BlockKind {
  static constexpr int kBits = kCodeBits;
  static constexpr CodeKind kCodes = kHasValues ? CodeKind::table : CodeKind::linear;
  static constexpr bool kSplit = kIsSplit;
  static constexpr bool kMin = kHasMin;
  static constexpr int kHalves = kIsSplit ? 2 : 1;
};

// Scales and minima of 16 columns in one block of 32 rows.
template <typename Kind>
struct BlockGroupTerms {
  F32 scales[Kind::kHalves];
  F32 mins[Kind::kHalves];  // only with Kind::kMin
};

QUIRE_LANE_INLINE bool are_factors(BlockTerms kind) {
  return kind == BlockTerms::bytes || kind == BlockTerms::bytes_min || kind == BlockTerms::nibbles_min;
}

QUIRE_LANE_INLINE F32 load_half_terms(const uint8_t* p) {
  return load_half(reinterpret_cast<const uint16_t*>(p));
}

// Loads terms with factors; `bytes` are the factors of the block.
template <typename Kind>
QUIRE_LANE_INLINE void load_factors(const uint8_t* record, const uint8_t* bytes,
                                    BlockGroupTerms<Kind>& terms) {
  const F32 scale = load_half_terms(record);
  if constexpr (!Kind::kMin) {
#pragma GCC unroll 2
    for (int h = 0; h < Kind::kHalves; ++h)
      terms.scales[h] = mul(scale, to_float(load_signed_bytes(bytes + kPanelColumns * h)));
  } else {
    const F32 min = load_half_terms(record + 2 * kPanelColumns);
#pragma GCC unroll 2
    for (int h = 0; h < Kind::kHalves; ++h) {
      I32 of_scale, of_min;
      if constexpr (Kind::kSplit) {
        const I32 pairs = load_bytes(bytes + kPanelColumns * h);
        of_scale = bit_and(pairs, splat_int(15));
        of_min = shift_right<4>(pairs);
      } else {
        of_scale = load_bytes(bytes);
        of_min = load_bytes(bytes + kPanelColumns);
      }
      terms.scales[h] = mul(scale, to_float(of_scale));
      terms.mins[h] = mul(min, to_float(of_min));
    }
  }
}

// Loads the terms of block `block` of a panel. A type without minima in a kernel with minima has its zero
// there.
template <typename Kind>
QUIRE_LANE_INLINE BlockGroupTerms<Kind> load_block_terms(const BlockPanels& blocks, const uint8_t* panel,
                                                         int32_t block, [[maybe_unused]] F32 zero) {
  BlockGroupTerms<Kind> terms;
  constexpr int kColumns = kPanelColumns;
  if (are_factors(blocks.kind)) {
    constexpr int kHeader = (Kind::kMin ? 4 : 2) * kColumns;
    constexpr int kOfBlock = (Kind::kMin || Kind::kSplit ? 2 : 1) * kColumns;
    const uint8_t* record = panel + (block / kFactorBlocks) * (kHeader + kFactorBlocks * kOfBlock);
    prefetch(record + kTermPrefetchBytes);
    load_factors<Kind>(record, record + kHeader + (block % kFactorBlocks) * kOfBlock, terms);
    return terms;
  }
  const ptrdiff_t index = block;
  if constexpr (Kind::kSplit && !Kind::kMin) {  // e4m3
#pragma GCC unroll 2
    for (int h = 0; h < Kind::kHalves; ++h)
      terms.scales[h] = mul(load_float8(panel + (2 * index + h) * kColumns), splat(256.0f));
    return terms;
  }
  if (blocks.kind == BlockTerms::e8m0) {  // 2^-127, which would be subnormal, counts as 0
    terms.scales[0] = as_float(shift_left<23>(load_bytes(panel + index * kColumns)));
    return terms;
  }
  const bool with_min = blocks.kind == BlockTerms::half_min;
  const uint8_t* record = panel + index * (with_min ? 4 : 2) * kColumns;
  prefetch(record + kTermPrefetchBytes);
#pragma GCC unroll 2
  for (int h = 0; h < Kind::kHalves; ++h) {
    terms.scales[h] = load_half_terms(record);
    if constexpr (Kind::kMin)
      terms.mins[h] = with_min ? load_half_terms(record + 2 * kColumns) : mul(zero, terms.scales[h]);
  }
  return terms;
}

// Activations of a tile at one block.
template <int kRows>
struct BlockRowsAt {
  const int32_t* sums;
  const int32_t* half_sums;

  // Returns the sum of the codes of a half, or of the whole block.
  template <typename Kind>
  QUIRE_LANE_INLINE int32_t sum(int half, int r) const {
    if constexpr (!Kind::kSplit) return sums[r];
    return half == 0 ? half_sums[r] : sums[r] - half_sums[r];
  }
};

// total += (dot - zero * sum of x) * scale of the group - sum of x * min, both in units of the scale of x.
// With minima there is no zero: the terms contain it. They hold the negative of the minimum.
template <typename Kind, int kRows, int kPanels, int kStored>
QUIRE_LANE_INLINE void add_group(const Dots<kRows, kPanels, kStored>& dots,
                                 const BlockGroupTerms<Kind> (&terms)[kPanels], int half,
                                 [[maybe_unused]] int32_t zero, const BlockRowsAt<kRows>& x,
                                 QuantTotals<kRows, kPanels>& totals) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const int32_t x_sum = x.template sum<Kind>(half, r);
#pragma GCC unroll 4
    for (int i = 0; i < kPanels; ++i) {
      F32& total = totals.of[r][i];
      if constexpr (Kind::kMin) {
        total = fma(to_float(dots.sum(r, i)), terms[i].scales[half], total);
        total = fma(to_float(splat_int(x_sum)), terms[i].mins[half], total);
      } else {
        total = fma(to_float(sub(dots.sum(r, i), splat_int(zero * x_sum))), terms[i].scales[half], total);
      }
    }
  }
}

// Adds the sums of a span, times the scale of its activations, and clears them.
template <int kRows, int kPanels>
QUIRE_LANE_INLINE void end_span(const float* x_scales, QuantTotals<kRows, kPanels>& of_span,
                                QuantTotals<kRows, kPanels>& totals) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int i = 0; i < kPanels; ++i) {
      totals.of[r][i] = fma(of_span.of[r][i], splat(x_scales[r]), totals.of[r][i]);
      of_span.of[r][i] = splat(0.0f);
    }
  }
}

template <typename Kind, int kRows, int kStored, bool kPrefetchesNext>
void block_rows(const QuantPanels& panels, const QuantTile& tile, const PanelOutput& output) {
  constexpr int kPanels = kQuantPanels;
  constexpr int kBits = Kind::kBits;
  QuantTotals<kRows, kPanels> totals, of_span;
  const uint32_t* codes[kPanels];
  const uint8_t* of_panel[kPanels];
  for (int i = 0; i < kPanels; ++i) {
    for (int r = 0; r < kRows; ++r) totals.of[r][i] = of_span.of[r][i] = splat(0.0f);
    // A missing panel is computed like the first one and not written.
    const size_t panel = i < panels.num_panels ? static_cast<size_t>(i) : 0;
    codes[i] = panels.codes + panel * panels.panel_words;
    of_panel[i] = panels.blocks.terms + panel * panels.blocks.panel_bytes;
  }
  const uint32_t* next_codes = panels.next_codes;
  const int8_t* x_codes = tile.codes;
  const float* x_scales = tile.scales;
  BlockRowsAt<kRows> x = {tile.sums, tile.half_sums};
  const auto value_of = value_of_codes<Kind::kCodes>(panels);
  const int32_t zero = panels.zero_offset;
  for (int32_t block = 0; block < panels.blocks.num_blocks; ++block) {
    BlockGroupTerms<Kind> terms[kPanels];
#pragma GCC unroll 4
    for (int i = 0; i < kPanels; ++i) {
      prefetch_block(codes[i], kBits);
      terms[i] = load_block_terms<Kind>(panels.blocks, of_panel[i], block, splat(-static_cast<float>(zero)));
    }
    if constexpr (kPrefetchesNext) next_codes = prefetch_next(next_codes, panels.next_lines);
    Dots<kRows, kPanels, kStored> dots;
    dots.clear();
    dots.template add_halves<kBits, Kind::kSplit>(
        codes, x_codes, value_of, [&]() __attribute__((always_inline)) {
          add_group<Kind, kRows, kPanels, kStored>(dots, terms, 0, zero, x, of_span);
          dots.clear();
        });
    add_group<Kind, kRows, kPanels, kStored>(dots, terms, Kind::kHalves - 1, zero, x, of_span);
#pragma GCC unroll 4
    for (int i = 0; i < kPanels; ++i) codes[i] += 16 * kBits;
    x_codes += kRows * kBlockBytes<kStored>;
    x.sums += kRows;
    x.half_sums += kRows;
    if (block % kSpanBlocks == kSpanBlocks - 1 || block == panels.blocks.num_blocks - 1) {
      end_span(x_scales, of_span, totals);
      x_scales += kRows;
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

template <int kRows, int kStored, bool kPrefetchesNext>
void block_panel_rows(const QuantPanels& panels, const QuantTile& tile, const PanelOutput& output) {
  const auto run = [&](auto kind) {
    block_rows<decltype(kind), kRows, kStored, kPrefetchesNext>(panels, tile, output);
  };
  const BlockPanels& blocks = panels.blocks;
  if (panels.values != nullptr) {
    if (blocks.bits == 3) return run(BlockKind<3, true, true, false>());
    if (blocks.is_split) return run(BlockKind<4, true, true, false>());
    return run(BlockKind<4, true, false, false>());
  }
  switch (blocks.bits) {
    case 2:
      return run(BlockKind<2, false, true, true>());
    case 3:
      return run(BlockKind<3, false, true, false>());
    case 4:
      if (blocks.kind == BlockTerms::half) return run(BlockKind<4, false, false, false>());
      return run(BlockKind<4, false, false, true>());
    case 5:
      return run(BlockKind<5, false, false, true>());
    case 6:
      return run(BlockKind<6, false, true, false>());
    default:
      return run(BlockKind<8, false, false, false>());
  }
}

template <int kStored>
void block_panels(const QuantPanels& panels, const QuantTile& tile, const PanelOutput& output) {
  constexpr int32_t kMost = kQuantRows<kStored>;
  if (tile.rows == kMost && panels.next_lines > 0)
    return block_panel_rows<kMost, kStored, true>(panels, tile, output);
  switch (tile.rows) {
    case 1:
      return block_panel_rows<1, kStored, false>(panels, tile, output);
    case 2:
      return block_panel_rows<2, kStored, false>(panels, tile, output);
    case 4:
      if constexpr (kMost >= 4) return block_panel_rows<4, kStored, false>(panels, tile, output);
      break;
    default:
      if constexpr (kMost >= 8) return block_panel_rows<8, kStored, false>(panels, tile, output);
  }
}

}  // namespace
}  // namespace quire::kernels
