// SentencePiece's precompiled replacements: a double-array trie of byte strings, each with what is put in its
// place.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

// Immutable; any thread.
class Charsmap {
 public:
  struct Match {
    std::string_view replacement;
    size_t num_bytes = 0;  // of the text
  };

  // No replacements.
  Charsmap() = default;
  // `blob`: the bytes of the trie's size, the trie, and the replacements, each with a NUL after it.
  // ErrorCode::format naming `where` for a malformed one.
  Charsmap(std::string_view blob, const std::string& where);

  // The shortest and the longest string of the map that `text` begins with.
  std::optional<Match> shortest(std::string_view text) const { return find(text, 1); }
  std::optional<Match> longest(std::string_view text) const { return find(text, SIZE_MAX); }

 private:
  std::optional<Match> find(std::string_view text, size_t max_matches) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace quire
