// The post-processor: puts special tokens such as BOS and EOS around an encoded text.
#pragma once

#include <vector>

#include "core/base/ids.h"

namespace quire {

// A post-processor, immutable and safe to use from any thread.
class PostProcessor {
 public:
  struct Piece {
    bool is_text = false;  // the encoded text; otherwise `ids`
    TokenIds ids;
  };

  // Adds nothing to the text.
  PostProcessor() = default;
  explicit PostProcessor(std::vector<Piece> pieces) : pieces_(std::move(pieces)) {}

  // Returns the post-processor that applies `inner` and then this one.
  PostProcessor around(const PostProcessor& inner) const {
    if (inner.pieces_.empty()) return *this;
    std::vector<Piece> pieces;
    for (const Piece& piece : pieces_) {
      if (piece.is_text) {
        pieces.insert(pieces.end(), inner.pieces_.begin(), inner.pieces_.end());
      } else {
        pieces.push_back(piece);
      }
    }
    return PostProcessor(std::move(pieces));
  }

  TokenIds apply(TokenIds text) const {
    if (pieces_.empty()) return text;
    TokenIds ids;
    for (const Piece& piece : pieces_) {
      const TokenIds& part = piece.is_text ? text : piece.ids;
      ids.insert(ids.end(), part.begin(), part.end());
    }
    return ids;
  }

 private:
  std::vector<Piece> pieces_;
};

}  // namespace quire
