// How the codes of a quantized block lie in memory.
//
// A block is 32 rows of 16 columns, `bits` vectors of 16 words: word w of column n is words[16 * w + n]. In
// the words of a column, rows 2p and 2p + 1 lie 16 bits apart, so that one shift and one mask give both as a
// pair of 16-bit integers for the multiply-add of pairs. For 2 to 6 bits this is the arrangement that
// ExLlamaV2 makes in GPU memory; an 8-bit word holds rows 4w, 4w + 2, 4w + 1, 4w + 3 from its low byte up.
#pragma once

#include <cstdint>

namespace quire::kernels {

// A piece of a code: its bits from_bit.. (as many as mask has) lie at bit `shift` of word `word`.
struct CodePiece {
  uint8_t word;
  uint8_t shift;
  uint8_t from_bit;
  uint8_t mask;
};

// The pieces of the 32 codes of a column, at most five each.
struct CodeLayout {
  CodePiece pieces[32][5];
  uint8_t num_pieces[32];
};

// bits: 2, 3, 4, 5, 6 or 8.
const CodeLayout& code_layout(int32_t bits);

// Codes [32][16], one byte each, to words [bits][16] and back.
void pack_block(int32_t bits, const uint8_t* codes, uint32_t* words);
void unpack_block(int32_t bits, const uint32_t* words, uint8_t* codes);

}  // namespace quire::kernels
