#include "core/tokenizer/bpe_speller.h"

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/tokenizer/byte_alphabet.h"

namespace quire {

BpeSpeller::BpeSpeller(const Vocabulary& vocabulary, Options options, std::string where)
    : options_(std::move(options)), where_(std::move(where)) {
  if (options_.byte_fallback) fallback_ = ByteFallback(vocabulary);
  if (const auto id = vocabulary.find(options_.unknown); id && vocabulary.in_model(*id)) unknown_ = id;
  for (size_t place = 0; place < tables_.size(); ++place) fill_table(vocabulary, place);
}

// Fills the table of a place with the tokens that are one character plus the affixes of that place.
void BpeSpeller::fill_table(const Vocabulary& vocabulary, size_t place) {
  const std::string prefix = (place & kContinuing) != 0 ? options_.continuing_prefix : "";
  const std::string suffix = (place & kLast) != 0 ? options_.end_of_word_suffix : "";
  for (size_t idx = 0; idx < vocabulary.size(); ++idx) {
    const auto id = static_cast<TokenId>(idx);
    if (!vocabulary.contains(id) || !vocabulary.in_model(id)) continue;
    std::string_view text = vocabulary.text(id);
    if (text.size() <= prefix.size() + suffix.size() || !text.starts_with(prefix) ||
        !text.ends_with(suffix)) {
      continue;
    }
    text.remove_prefix(prefix.size());
    text.remove_suffix(suffix.size());
    const Utf8Char first = decode_utf8(text, 0);
    if (first.valid && first.length == text.size()) tables_[place].set(first.code_point, id);
  }
}

std::string BpeSpeller::spelled(std::string_view character, size_t place) const {
  std::string text;
  if ((place & kContinuing) != 0) text += options_.continuing_prefix;
  text += character;
  if ((place & kLast) != 0) text += options_.end_of_word_suffix;
  return text;
}

void BpeSpeller::spell(std::string_view piece, TokenIds& tokens) const {
  std::optional<TokenId> unknown;  // not appended yet: more characters may be fused with it
  for (size_t pos = 0; pos < piece.size();) {
    Utf8Char next{byte_to_code_point(static_cast<uint8_t>(piece[pos])), 1, true, false};
    if (options_.alphabet == Alphabet::characters) next = decode_utf8(piece, pos);
    const size_t end = pos + next.length;
    const size_t place = (pos > 0 ? kContinuing : 0U) | (end == piece.size() ? kLast : 0U);
    const TokenId token = tables_[place].find(next.code_point);
    if (token != CharTokens::kNone) {
      if (unknown) tokens.push_back(*unknown);
      unknown.reset();
      tokens.push_back(token);
    } else {
      std::string character;
      append_utf8(character, next.code_point);
      append_unknown(spelled(character, place), tokens, unknown);
    }
    pos = end;
  }
  if (unknown) tokens.push_back(*unknown);
}

// Appends the byte tokens of a character, or notes it as unknown. As in the `tokenizers` library, byte tokens
// do not end a run of unknown characters: the unknown token comes after them.
void BpeSpeller::append_unknown(std::string_view character, TokenIds& tokens,
                                std::optional<TokenId>& unknown) const {
  if (options_.byte_fallback && fallback_.append(character, tokens)) return;
  if (options_.unknown.empty()) return;
  if (!unknown_) {
    throw Error(ErrorCode::unsupported,
                "{}: the text has a character without a token, and \"{}\" is not in the vocabulary", where_,
                printable(options_.unknown));
  }
  if (unknown && !options_.fuse_unknown) tokens.push_back(*unknown);
  unknown = unknown_;
}

}  // namespace quire
