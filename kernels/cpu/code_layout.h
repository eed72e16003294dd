// Memory layout of the codes of a quantized block.
//
// A block is 32 rows of 16 columns, `bits` vectors of 16 words: word w of column n is words[16 * w + n]. Rows
// 4q to 4q + 3 are a quad: their codes lie in the four bytes of a word, at the same bits of each, so that a
// shift and a mask yield all four as bytes for the product of bytes. isa/code_lanes.h decodes them.
#pragma once

#include <cstdint>

namespace quire::kernels {

// Piece of a code: its bits from from_bit on (as many as mask has), stored at bit `shift` of word `word`.
struct CodePiece {
  uint8_t word;
  uint8_t shift;
  uint8_t from_bit;
  uint8_t mask;
};

// Pieces of the 32 codes of a column, at most three each.
struct CodeLayout {
  CodePiece pieces[32][3];
  uint8_t num_pieces[32];
};

// Returns the layout for 2, 3, 4, 5, 6 or 8 bits.
const CodeLayout& code_layout(int32_t bits);

// Convert codes [32][16], one byte each, to words [bits][16] and back.
void pack_block(int32_t bits, const uint8_t* codes, uint32_t* words);
void unpack_block(int32_t bits, const uint32_t* words, uint8_t* codes);

}  // namespace quire::kernels
