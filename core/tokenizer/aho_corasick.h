// Finds any of many strings in one pass over a text, however it is cut (Aho and Corasick, 1975).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gsl/gsl>

#include "core/tokenizer/byte_trie.h"

namespace quire {

// Immutable; any thread. A state is a number: 0 to begin with.
class AhoCorasick {
 public:
  static constexpr int32_t kNone = -1;

  // Of equal strings the first counts.
  explicit AhoCorasick(gsl::span<const std::string> strings);

  // The state after one more byte. Amortised constant over a text.
  int32_t step(int32_t state, unsigned char byte) const;
  // The index of the longest string that ends here, or kNone.
  int32_t match(int32_t state) const { return matches_[static_cast<size_t>(state)]; }
  // The bytes of a string by its index.
  size_t length(int32_t string_idx) const { return lengths_[static_cast<size_t>(string_idx)]; }
  // How many of the last bytes may be the beginning of a string.
  uint32_t depth(int32_t state) const { return depths_[static_cast<size_t>(state)]; }

 private:
  ByteTrie trie_;
  std::vector<int32_t> fallbacks_;  // the longest proper suffix that is a node as well
  std::vector<int32_t> matches_;
  std::vector<uint32_t> depths_;
  std::vector<size_t> lengths_;  // by string
};

}  // namespace quire
