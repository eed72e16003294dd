#include "core/constrained/token_trie.h"

#include <algorithm>

#include "core/base/utf8.h"

namespace quire {
namespace {

struct Word {
  std::string_view bytes;
  TokenId id;
};

// Returns the number of characters of a plain text; 0 if it is not plain.
uint32_t plain_chars(std::string_view bytes) {
  uint32_t count = 0;
  for (size_t pos = 0; pos < bytes.size(); ++count) {
    const Utf8Char next = decode_utf8(bytes, pos);
    const bool plain =
        next.valid && next.code_point >= 0x20 && next.code_point != '"' && next.code_point != '\\';
    if (!plain || count == kMaxPlainChars) return 0;
    pos += next.length;
  }
  return count;
}

TokenTrie make_trie(std::vector<Word> words, std::unordered_map<TokenId, TokenIds>& twins) {
  std::sort(words.begin(), words.end(), [](const Word& a, const Word& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.id < b.id;
  });
  TokenTrie trie;
  std::vector<uint32_t> path;  // nodes of the last word
  std::string_view last;
  for (const Word& word : words) {
    size_t common = 0;
    while (common < std::min(last.size(), word.bytes.size()) && last[common] == word.bytes[common]) ++common;
    while (path.size() > common) {
      trie.nodes[path.back()].end = static_cast<uint32_t>(trie.nodes.size());
      path.pop_back();
    }
    for (size_t i = common; i < word.bytes.size(); ++i) {
      for (const uint32_t above : path)
        trie.nodes[above].below |= kByteClasses[static_cast<uint8_t>(word.bytes[i])];
      path.push_back(static_cast<uint32_t>(trie.nodes.size()));
      TrieNode node;
      node.byte = static_cast<uint8_t>(word.bytes[i]);
      node.depth = static_cast<uint16_t>(i + 1);
      trie.nodes.push_back(node);
    }
    TrieNode& leaf = trie.nodes[path.back()];
    if (leaf.token < 0) {
      leaf.token = word.id;
    } else {
      leaf.num_more = 1;
      twins[leaf.token].push_back(word.id);
    }
    last = word.bytes;
  }
  for (const uint32_t node : path) trie.nodes[node].end = static_cast<uint32_t>(trie.nodes.size());
  return trie;
}

void set_bit(gsl::span<uint32_t> mask, TokenId id) {
  mask[static_cast<size_t>(id) / 32] |= 1U << (static_cast<uint32_t>(id) % 32);
}

}  // namespace

TokenVocabulary::TokenVocabulary(std::vector<std::string> bytes,
                                 std::unordered_map<std::string, TokenId> names, TokenIds ends)
    : bytes_(std::move(bytes)), names_(std::move(names)), ends_(std::move(ends)) {
  build();
}

std::shared_ptr<const TokenVocabulary> TokenVocabulary::of(std::shared_ptr<const Tokenizer> shared,
                                                           const TokenIds& more_ends) {
  const Tokenizer& tokenizer = *shared;
  std::vector<std::string> bytes(tokenizer.vocab_size());
  std::unordered_map<std::string, TokenId> names;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (!tokenizer.contains(id)) continue;
    if (tokenizer.is_special(id)) {
      names.emplace(tokenizer.token_text(id), id);
    } else {
      bytes[i] = tokenizer.token_bytes(id);
      if (bytes[i].size() > UINT16_MAX) bytes[i].clear();
    }
  }
  TokenIds ends;
  for (const TokenId end : more_ends) {
    if (tokenizer.contains(end)) ends.push_back(end);
  }
  const auto eos = tokenizer.eos_id();
  if (eos && std::find(ends.begin(), ends.end(), *eos) == ends.end()) ends.push_back(*eos);
  auto made = std::make_shared<TokenVocabulary>(std::move(bytes), std::move(names), std::move(ends));
  made->tokenizer_ = std::move(shared);
  return made;
}

void TokenVocabulary::build() {
  std::vector<Word> plain;
  std::vector<Word> other;
  plain_masks_.assign(kMaxPlainChars + 1, TokenBits(num_words()));
  uint64_t hash = 1469598103934665603U;
  for (size_t i = 0; i < bytes_.size(); ++i) {
    const Word word{bytes_[i], static_cast<TokenId>(i)};
    hash = (hash ^ std::hash<std::string_view>{}(word.bytes)) * 1099511628211U;
    if (word.bytes.empty()) continue;
    max_bytes_ = std::max(max_bytes_, static_cast<uint32_t>(word.bytes.size()));
    const uint32_t num_chars = plain_chars(word.bytes);
    if (num_chars == 0) {
      other.push_back(word);
      continue;
    }
    plain.push_back(word);
    for (uint32_t count = num_chars; count <= kMaxPlainChars; ++count) set_bit(plain_masks_[count], word.id);
  }
  for (const TokenId end : ends_) hash = (hash ^ static_cast<uint64_t>(end)) * 1099511628211U;
  fingerprint_ = hash;
  plain_ = make_trie(std::move(plain), same_bytes_);
  other_ = make_trie(std::move(other), same_bytes_);
}

TokenId TokenVocabulary::find_special(std::string_view name) const {
  const auto it = names_.find(std::string(name));
  return it == names_.end() ? -1 : it->second;
}

const TokenBits& TokenVocabulary::plain_up_to(uint32_t num_chars) const {
  return plain_masks_[std::min(num_chars, kMaxPlainChars)];
}

// Reserves one more than `most`: recording without a branch may write an entry that does not count.
void FoundTokens::begin(size_t most) {
  if (ids.size() <= most) ids.resize(most + 1);
  count = 0;
}

void TokenVocabulary::record_same_bytes(TokenId token, FoundTokens& found) const {
  for (const TokenId twin : same_bytes_.at(token)) found.ids[found.count++] = twin;
}

void TokenVocabulary::mark(const TrieNode& node, gsl::span<uint32_t> mask) const {
  set_bit(mask, node.token);
  if (node.num_more == 0) return;
  for (const TokenId twin : same_bytes_.at(node.token)) set_bit(mask, twin);
}

namespace {

// Descends along `text` as far as tokens match.
void descend(const TokenTrie& trie, std::string_view text, TokenVocabulary::Longest& longest) {
  uint32_t node = 0;
  auto end = static_cast<uint32_t>(trie.nodes.size());
  for (size_t depth = 0; depth < text.size(); ++depth) {
    while (node < end && trie.nodes[node].byte != static_cast<uint8_t>(text[depth]))
      node = trie.nodes[node].end;
    if (node >= end) return;
    if (trie.nodes[node].token >= 0 && depth + 1 > longest.num_bytes) {
      longest.token = trie.nodes[node].token;
      longest.num_bytes = depth + 1;
    }
    end = trie.nodes[node].end;
    ++node;
  }
  if (node < end) longest.is_open = true;
}

}  // namespace

TokenVocabulary::Longest TokenVocabulary::longest(std::string_view text) const {
  Longest longest;
  descend(plain_, text, longest);
  descend(other_, text, longest);
  return longest;
}

}  // namespace quire
