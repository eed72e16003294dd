#include "core/tokenizer/word_models.h"

#include <algorithm>

#include "core/base/error.h"

namespace quire {
namespace {

size_t count_chars(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace

UnknownWord::UnknownWord(const Vocabulary& vocabulary, std::string text, std::string where)
    : text_(std::move(text)), where_(std::move(where)) {
  if (const auto id = vocabulary.find(text_); id && vocabulary.in_model(*id)) id_ = id;
}

TokenId UnknownWord::id() const {
  if (id_) return *id_;
  throw Error(ErrorCode::unsupported, "{}: the text has an unknown word, and \"{}\" is not in the vocabulary",
              where_, printable(text_));
}

void WordLevel::encode(std::string_view piece, bool allow_special, EncodeScratch&, TokenIds& ids) const {
  const auto id = vocabulary_.find(piece);
  const bool known = id && vocabulary_.in_model(*id) && (allow_special || !vocabulary_.is_special(*id));
  ids.push_back(known ? *id : unknown_.id());
}

WordPiece::WordPiece(const Vocabulary& vocabulary, Parts parts, UnknownWord unknown, const std::string& where)
    : vocabulary_(vocabulary), unknown_(std::move(unknown)), max_word_chars_(parts.max_word_chars) {
  for (size_t idx = 0; idx < vocabulary.size(); ++idx) {
    const auto id = static_cast<TokenId>(idx);
    if (!vocabulary.contains(id) || !vocabulary.in_model(id)) continue;
    std::string_view text = vocabulary.text(id);
    if (text.size() > kMaxTokenBytes) {
      throw Error(ErrorCode::unsupported, "{}: a token of {} bytes, more than {}", where, text.size(),
                  kMaxTokenBytes);
    }
    beginnings_.insert(text, id);
    if (!text.starts_with(parts.continuing_prefix)) continue;
    text.remove_prefix(parts.continuing_prefix.size());
    continuations_.insert(text, id);
  }
}

WordPiece::Match WordPiece::longest(const ByteTrie& trie, std::string_view text, bool allow_special) const {
  Match match;
  int32_t node = 0;
  for (size_t pos = 0; pos < text.size();) {
    node = trie.child(node, static_cast<unsigned char>(text[pos++]));
    if (node == ByteTrie::kNone) break;
    const TokenId id = trie.value(node);
    if (id != ByteTrie::kNone && (allow_special || !vocabulary_.is_special(id))) match = {id, pos};
  }
  return match;
}

void WordPiece::encode(std::string_view piece, bool allow_special, EncodeScratch&, TokenIds& ids) const {
  const size_t num_before = ids.size();
  bool known = count_chars(piece) <= max_word_chars_;
  for (size_t pos = 0; known && pos < piece.size();) {
    const Match match = longest(pos == 0 ? beginnings_ : continuations_, piece.substr(pos), allow_special);
    known = match.num_bytes > 0;
    pos += match.num_bytes;
    ids.push_back(match.id);
  }
  if (known) return;
  ids.resize(num_before);
  ids.push_back(unknown_.id());
}

}  // namespace quire
