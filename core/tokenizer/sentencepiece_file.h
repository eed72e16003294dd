// The contents of a SentencePiece model (tokenizer.model) that encoding and decoding need.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

struct SentencePieceFile {
  enum class Algorithm { unigram = 1, bpe = 2 };
  enum class PieceType { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
  struct Piece {
    std::string text;
    float score = 0.0F;
    PieceType type = PieceType::normal;
  };

  std::vector<Piece> pieces;  // by id
  Algorithm algorithm = Algorithm::unigram;
  bool byte_fallback = false;
  int32_t bos_id = 1;  // -1 if there is none
  int32_t eos_id = 2;
  int32_t pad_id = -1;
  std::string unknown_surface = " \xe2\x81\x87 ";  // text that the unknown piece decodes to
  std::string charsmap;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

// Throws ErrorCode::format if the file is malformed, and ErrorCode::unsupported if it needs something that
// this build does not support; both name `where`.
SentencePieceFile read_sentencepiece_file(std::string_view contents, const std::string& where);

}  // namespace quire
