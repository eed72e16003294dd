#include "core/tokenizer/tokenizer_assembly.h"

#include <algorithm>

#include "core/tokenizer/encode_scratch.h"

namespace quire {
namespace {

// Adds the tokens to match in a text. If two tokens have the same normalized text, the first one wins.
void add_matchers(const std::vector<AddedToken>& added, TokenizerParts& parts) {
  for (const AddedToken& token : added) {
    if (token.text.empty()) continue;
    if (!token.normalized) {
      parts.raw_tokens.add(token, token.text);
    } else if (!parts.normalizer) {
      parts.normalized_tokens.add(token, token.text);
    } else {
      EncodeScratch scratch(token.text.size());
      const std::string normalized = parts.normalizer->normalize(token.text, scratch);
      parts.normalized_tokens.add(token, normalized);
      parts.vocabulary.set_decoded_text(token.id, normalized);
    }
  }
}

std::optional<TokenId> find_named(const TokenizerJson& json, std::string_view name,
                                  const Vocabulary& vocabulary) {
  const auto text = named_token(json, name);
  return text ? vocabulary.find(*text) : std::nullopt;
}

}  // namespace

Vocabulary make_vocabulary(std::vector<Vocabulary::Entry> entries, const std::vector<AddedToken>& added,
                           const std::string& where) {
  const size_t num_model_tokens = entries.size();
  std::vector<std::string_view> known;
  known.reserve(num_model_tokens);
  for (const auto& entry : entries) known.push_back(entry.text);
  std::sort(known.begin(), known.end());
  std::vector<Vocabulary::Entry> more;
  for (const AddedToken& token : added) {
    if (!std::binary_search(known.begin(), known.end(), std::string_view(token.text))) {
      more.push_back({token.id, token.text, false});
    }
  }
  known.clear();
  entries.insert(entries.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  Vocabulary vocabulary(entries, where);
  for (const AddedToken& token : added) {
    if (token.special) vocabulary.mark_special(token.id);
  }
  return vocabulary;
}

void finish_parts(const TokenizerJson& json, const std::vector<AddedToken>& added, TokenizerParts& parts) {
  add_matchers(added, parts);
  for (size_t idx = 0; idx < parts.vocabulary.size(); ++idx) {
    const auto id = static_cast<TokenId>(idx);
    if (parts.vocabulary.contains(id) && parts.vocabulary.is_special(id)) parts.special_ids.push_back(id);
  }
  parts.named.bos = find_named(json, "bos_token", parts.vocabulary);
  parts.named.eos = find_named(json, "eos_token", parts.vocabulary);
  parts.named.pad = find_named(json, "pad_token", parts.vocabulary);
  parts.named.unk = find_named(json, "unk_token", parts.vocabulary);
}

}  // namespace quire
