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

void name_tokens(const NamedTexts& texts, TokenizerParts& parts) {
  const auto name = [&](std::optional<TokenId>& token, std::string_view text) {
    if (!token) token = parts.vocabulary.find(text);
  };
  name(parts.named.bos, texts.bos);
  name(parts.named.eos, texts.eos);
  name(parts.named.pad, texts.pad);
  name(parts.named.unk, texts.unk);
}

PostProcessor around_text(const TokenizerJson& json, const AroundText& usual,
                          const TokenizerParts::NamedTokens& named) {
  const bool adds_bos = json.config ? json.config->bool_or("add_bos_token", usual.adds_bos) : usual.adds_bos;
  const bool adds_eos = json.config ? json.config->bool_or("add_eos_token", usual.adds_eos) : usual.adds_eos;
  std::vector<PostProcessor::Piece> pieces;
  if (adds_bos && named.bos) pieces.push_back({false, {*named.bos}});
  pieces.push_back({true, {}});
  if (adds_eos && named.eos) pieces.push_back({false, {*named.eos}});
  return PostProcessor(std::move(pieces));
}

}  // namespace quire
