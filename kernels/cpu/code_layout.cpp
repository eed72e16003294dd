#include "kernels/cpu/code_layout.h"

#include <algorithm>

namespace quire::kernels {
namespace {

constexpr void add_piece(CodeLayout& layout, int row, int word, int shift, int from_bit, int num_bits) {
  layout.pieces[row][layout.num_pieces[row]++] = {static_cast<uint8_t>(word), static_cast<uint8_t>(shift),
                                                  static_cast<uint8_t>(from_bit),
                                                  static_cast<uint8_t>((1 << num_bits) - 1)};
}

// Rows in order fill each word with `pairs` pairs; even rows in the low half, odd rows in the high half.
constexpr void fill_words(CodeLayout& layout, int bits, int first_row, int first_word, int words, int pairs) {
  for (int i = 0; i < 2 * words * pairs; ++i) {
    const int pair_of_word = i / 2 % pairs;
    add_piece(layout, first_row + i, first_word + i / (2 * pairs), bits * pair_of_word + 16 * (i % 2), 0,
              bits);
  }
}

// Rows 30 and 31 of the odd widths: one bit in the top of each half of each word.
constexpr void fill_top_bits(CodeLayout& layout, int bits) {
  for (int bit = 0; bit < bits; ++bit) {
    add_piece(layout, 30, bit, 15, bit, 1);
    add_piece(layout, 31, bit, 31, bit, 1);
  }
}

// The last four of 16 rows of 6 bits: four bits in the tops of two words, two in the third.
constexpr void fill_six_bit_tail(CodeLayout& layout, int first_row, int first_word) {
  for (int i = 0; i < 4; ++i) {
    const int half = 16 * (i % 2);
    add_piece(layout, first_row + i, first_word + i / 2, 12 + half, 0, 4);
    add_piece(layout, first_row + i, first_word + 2, 12 + 2 * (i / 2) + half, 4, 2);
  }
}

constexpr CodeLayout make_layout(int bits) {
  CodeLayout layout{};
  switch (bits) {
    case 3:
      fill_words(layout, 3, 0, 0, 3, 5);
      fill_top_bits(layout, 3);
      break;
    case 5:
      fill_words(layout, 5, 0, 0, 5, 3);
      fill_top_bits(layout, 5);
      break;
    case 6:
      for (int half = 0; half < 2; ++half) {
        fill_words(layout, 6, 16 * half, 3 * half, 3, 2);
        fill_six_bit_tail(layout, 16 * half + 12, 3 * half);
      }
      break;
    default:  // 2, 4, 8: no code is split
      fill_words(layout, bits, 0, 0, bits, 16 / bits);
      break;
  }
  return layout;
}

constexpr CodeLayout kLayouts[] = {make_layout(2), make_layout(3), make_layout(4),
                                   make_layout(5), make_layout(6), make_layout(8)};

}  // namespace

const CodeLayout& code_layout(int32_t bits) {
  return kLayouts[bits == 8 ? 5 : bits - 2];
}

void pack_block(int32_t bits, const uint8_t* codes, uint32_t* words) {
  const CodeLayout& layout = code_layout(bits);
  std::fill_n(words, 16 * bits, 0U);
  for (int row = 0; row < 32; ++row) {
    for (int i = 0; i < layout.num_pieces[row]; ++i) {
      const CodePiece piece = layout.pieces[row][i];
      uint32_t* target = words + 16 * piece.word;
      const uint8_t* source = codes + 16 * row;
      for (int n = 0; n < 16; ++n) {
        target[n] |= ((static_cast<uint32_t>(source[n]) >> piece.from_bit) & piece.mask) << piece.shift;
      }
    }
  }
}

void unpack_block(int32_t bits, const uint32_t* words, uint8_t* codes) {
  const CodeLayout& layout = code_layout(bits);
  std::fill_n(codes, 32 * 16, uint8_t{0});
  for (int row = 0; row < 32; ++row) {
    for (int i = 0; i < layout.num_pieces[row]; ++i) {
      const CodePiece piece = layout.pieces[row][i];
      const uint32_t* source = words + 16 * piece.word;
      uint8_t* target = codes + 16 * row;
      for (int n = 0; n < 16; ++n) {
        const uint32_t value = ((source[n] >> piece.shift) & piece.mask) << piece.from_bit;
        target[n] = static_cast<uint8_t>(target[n] | value);
      }
    }
  }
}

}  // namespace quire::kernels
