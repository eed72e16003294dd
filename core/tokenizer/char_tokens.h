// The tokens of single characters, by code point.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/base/ids.h"

namespace quire {

// A table in pages of 256 code points; only pages with tokens exist. Immutable once filled; then safe to use
// from any thread.
class CharTokens {
 public:
  static constexpr TokenId kNone = -1;

  CharTokens() : pages_(0x1100, kNoPage) {}

  void set(uint32_t code_point, TokenId id) {
    int32_t& page = pages_[code_point >> 8];
    if (page == kNoPage) {
      page = static_cast<int32_t>(tokens_.size());
      tokens_.resize(tokens_.size() + 256, kNone);
    }
    tokens_[static_cast<size_t>(page) + (code_point & 0xff)] = id;
  }
  TokenId find(uint32_t code_point) const {
    const int32_t page = pages_[code_point >> 8];
    return page == kNoPage ? kNone : tokens_[static_cast<size_t>(page) + (code_point & 0xff)];
  }

 private:
  static constexpr int32_t kNoPage = -1;

  std::vector<int32_t> pages_;  // index of the page in tokens_
  std::vector<TokenId> tokens_;
};

}  // namespace quire
