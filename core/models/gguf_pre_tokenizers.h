// The ways to cut a text into words before byte-level BPE, by the names that GGUF files give them.
#pragma once

#include <array>
#include <string_view>

namespace quire {

// Wide type: a row of a table.
struct GgufPreTokenizer {
  std::string_view name;  // "tokenizer.ggml.pre"
  // Patterns that each cut the words of the one before, in that order. Unused entries are empty.
  std::array<std::string_view, 6> patterns = {};
  bool takes_whole_words = false;  // a word of the vocabulary is one token, whatever the merges are
  bool adds_bos = false;           // if the file does not decide it
  // True if tokens are text with U+2581 for spaces, and the text is cut only at line ends.
  bool is_plain_text = false;
};

// Returns nullptr if there is no such name. The empty name is that of old files, which have none.
const GgufPreTokenizer* find_gguf_pre_tokenizer(std::string_view name);

}  // namespace quire
