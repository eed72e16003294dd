// The special tokens that a file puts around an encoded text.
#pragma once

#include <vector>

#include "core/base/ids.h"

namespace quire {

// Immutable; any thread.
class PostProcessor {
 public:
  struct Piece {
    bool is_text = false;  // the encoded text, else `ids`
    TokenIds ids;
  };

  // The text alone.
  PostProcessor() = default;
  explicit PostProcessor(std::vector<Piece> pieces) : pieces_(std::move(pieces)) {}

  // What `inner` puts around a text, and this around that.
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
