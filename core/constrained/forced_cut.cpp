#include "core/constrained/forced_cut.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/utf8.h"

namespace quire {
namespace {

// Tokenizes a text and returns the tokens from byte `place` on; none if no token begins there.
TokenIds tokens_from(const Tokenizer& tokenizer, std::string_view text, size_t place) {
  TokenIds tokens;
  size_t at = 0;
  bool is_first = true;
  for (const TokenId token : tokenizer.encode(text, {.parse_special = false, .add_special_tokens = false})) {
    std::string_view bytes = tokenizer.token_bytes(token);
    // Some tokenizers put a space before every text.
    const bool has_blank = is_first && !bytes.empty() && bytes[0] == ' ' && text[0] != ' ';
    if (has_blank) bytes.remove_prefix(1);
    is_first = false;
    if (text.substr(at, bytes.size()) != bytes) return {};
    if (at < place && at + bytes.size() > place) return {};
    if (at >= place && !bytes.empty()) {
      if (has_blank) return {};
      tokens.push_back(token);
    }
    at += bytes.size();
  }
  return at == text.size() ? tokens : TokenIds{};
}

}  // namespace

TokenIds split_as_tokenizer(const Tokenizer& tokenizer, std::string_view before, std::string_view forced,
                            const std::vector<std::string>& next) {
  const std::string text = fmt::format("{}{}", before, forced);
  const std::string_view whole = std::string_view(text).substr(0, find_invalid_utf8(text));
  if (whole.size() <= before.size()) return {};
  TokenIds tokens = tokens_from(tokenizer, whole, before.size());
  for (const std::string& character : next) {
    if (tokens.empty()) return tokens;
    const TokenIds others = tokens_from(tokenizer, fmt::format("{}{}", whole, character), before.size());
    const size_t num_compared = std::min(tokens.size(), others.size());
    const auto end = tokens.begin() + static_cast<ptrdiff_t>(num_compared);
    tokens.erase(std::mismatch(tokens.begin(), end, others.begin()).first, tokens.end());
  }
  return tokens;
}

}  // namespace quire
