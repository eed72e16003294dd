// SentencePiece's precompiled_charsmap: a double-array trie of byte strings, each with its replacement.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

// A map of replacements, immutable and safe to use from any thread.
class Charsmap {
 public:
  struct Match {
    std::string_view replacement;
    size_t num_bytes = 0;  // length of the match in the text
  };

  // Makes an empty map.
  Charsmap() = default;
  // `blob` has the size of the trie, the trie, and the replacements, each terminated by NUL. Throws
  // ErrorCode::format naming `where` if it is malformed.
  Charsmap(std::string_view blob, const std::string& where);

  // Return the shortest and the longest entry that `text` begins with.
  std::optional<Match> shortest(std::string_view text) const { return find(text, 1); }
  std::optional<Match> longest(std::string_view text) const { return find(text, SIZE_MAX); }

 private:
  std::optional<Match> find(std::string_view text, size_t max_matches) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace quire
