// Aho-Corasick automaton (1975): finds any of many strings in one pass over a text that may arrive in pieces.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gsl/gsl>

#include "core/tokenizer/byte_trie.h"

namespace quire {

// A search automaton, immutable and safe to use from any thread. A state is a number; 0 is the start.
class AhoCorasick {
 public:
  static constexpr int32_t kNone = -1;

  // If strings are equal, the first one counts.
  explicit AhoCorasick(gsl::span<const std::string> strings);

  // Returns the state after one more byte. Amortized constant time.
  int32_t step(int32_t state, unsigned char byte) const;
  // Returns the index of the longest string that ends here, or kNone.
  int32_t match(int32_t state) const { return matches_[static_cast<size_t>(state)]; }
  // Returns the length in bytes of a string, by its index.
  size_t length(int32_t string_idx) const { return lengths_[static_cast<size_t>(string_idx)]; }
  // Returns how many of the last bytes could be the beginning of a string.
  uint32_t depth(int32_t state) const { return depths_[static_cast<size_t>(state)]; }

 private:
  ByteTrie trie_;
  std::vector<int32_t> fallbacks_;  // node of the longest proper suffix
  std::vector<int32_t> matches_;
  std::vector<uint32_t> depths_;
  std::vector<size_t> lengths_;  // by string index
};

}  // namespace quire
