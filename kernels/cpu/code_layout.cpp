#include "kernels/cpu/code_layout.h"

#include <algorithm>
#include <cstddef>

namespace quire::kernels {
namespace {

constexpr void add_piece(CodeLayout& layout, int row, int word, int shift, int from_bit, int num_bits) {
  layout.pieces[row][layout.num_pieces[row]++] = {static_cast<uint8_t>(word), static_cast<uint8_t>(shift),
                                                  static_cast<uint8_t>(from_bit),
                                                  static_cast<uint8_t>((1 << num_bits) - 1)};
}

// Adds a piece of the codes of quad q: their bits from from_bit on lie at bit `shift` of each byte of a word,
// and byte b holds row 4q + b.
constexpr void add_quad(CodeLayout& layout, int quad, int word, int shift, int from_bit, int num_bits) {
  for (int byte = 0; byte < 4; ++byte) {
    add_piece(layout, 4 * quad + byte, word, 8 * byte + shift, from_bit, num_bits);
  }
}

// Puts as many whole codes into each byte as fit, starting at the low bits of each word. The remaining high
// bits hold the codes of the last quads in pieces.
constexpr CodeLayout make_layout(int bits) {
  CodeLayout layout{};
  const int whole = 8 / bits;
  for (int quad = 0; quad < 8 && quad < bits * whole; ++quad) {
    add_quad(layout, quad, quad / whole, bits * (quad % whole), 0, bits);
  }
  if (bits == 3) {
    add_quad(layout, 6, 0, 6, 0, 2);
    add_quad(layout, 6, 2, 6, 2, 1);
    add_quad(layout, 7, 1, 6, 0, 2);
    add_quad(layout, 7, 2, 7, 2, 1);
  } else if (bits == 5) {
    for (int i = 0; i < 2; ++i) {
      add_quad(layout, 5 + i, 2 * i, 5, 0, 3);
      add_quad(layout, 5 + i, 2 * i + 1, 5, 3, 2);
    }
    add_quad(layout, 7, 4, 5, 0, 3);
    add_quad(layout, 7, 1, 7, 3, 1);
    add_quad(layout, 7, 3, 7, 4, 1);
  } else if (bits == 6) {
    for (int i = 0; i < 6; ++i) add_quad(layout, 6 + i / 3, i, 6, 2 * (i % 3), 2);
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
      uint32_t* target = words + ptrdiff_t{16} * piece.word;
      const uint8_t* source = codes + ptrdiff_t{16} * row;
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
      const uint32_t* source = words + ptrdiff_t{16} * piece.word;
      uint8_t* target = codes + ptrdiff_t{16} * row;
      for (int n = 0; n < 16; ++n) {
        const uint32_t value = ((source[n] >> piece.shift) & piece.mask) << piece.from_bit;
        target[n] = static_cast<uint8_t>(target[n] | value);
      }
    }
  }
}

}  // namespace quire::kernels
