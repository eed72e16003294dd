#include "core/tokenizer/sentencepiece_normalizer.h"

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/tokenizer/encode_scratch.h"

namespace quire {

// Returns the next part of the text with its replacement: a kept text, the longest entry of the charsmap, or
// one character.
Charsmap::Match SentencePieceNormalizer::next(std::string_view text) const {
  size_t num_kept = 0;
  int32_t node = 0;
  for (size_t pos = 0; pos < text.size();) {
    node = options_.kept.child(node, static_cast<unsigned char>(text[pos++]));
    if (node == ByteTrie::kNone) break;
    if (options_.kept.value(node) != ByteTrie::kNone) num_kept = pos;
  }
  if (num_kept > 0) return {text.substr(0, num_kept), num_kept};
  if (const auto match = options_.map.longest(text)) return *match;
  const size_t num_bytes = decode_utf8(text, 0).length;
  return {text.substr(0, num_bytes), num_bytes};
}

std::string SentencePieceNormalizer::normalize(std::string_view text, EncodeScratch& scratch) const {
  const bool removes = options_.remove_extra_whitespaces;
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  bool after_space = removes;  // the next space is superfluous
  bool empty = removes;        // only spaces so far
  if (!empty && options_.add_dummy_prefix) out += space();
  for (size_t pos = 0; pos < text.size();) {
    const Charsmap::Match match = next(text.substr(pos));
    pos += match.num_bytes;
    std::string_view part = match.replacement;
    if (empty && part == " ") continue;
    if (empty && options_.add_dummy_prefix) out += space();
    empty = false;
    while (after_space && part.starts_with(' ')) part.remove_prefix(1);
    for (const char c : part) {
      if (c == ' ') {
        out += space();
      } else {
        out += c;
      }
    }
    if (!part.empty()) after_space = removes && part.ends_with(' ');
    if (out.size() > scratch.max_normalized_bytes) {
      throw Error(ErrorCode::unsupported, "the tokenizer's replacements make the text longer than {} bytes",
                  scratch.max_normalized_bytes);
    }
  }
  while (removes && out.ends_with(space())) out.resize(out.size() - space().size());
  return out;
}

}  // namespace quire
