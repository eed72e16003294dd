// Tries of a vocabulary's tokens by their bytes, laid out for walks over all tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <gsl/gsl>

#include "core/base/ids.h"
#include "core/constrained/plain_text.h"
#include "core/tokenizer/tokenizer.h"

namespace quire {

// Token mask: one bit per token, 32 per word, lowest bit first.
using TokenBits = std::vector<uint32_t>;

struct TrieNode {
  uint32_t end = 0;    // index after the last node below this one
  TokenId token = -1;  // the first token that ends here; -1: none
  uint8_t byte = 0;
  uint8_t num_more = 0;   // non-zero if other tokens have the same bytes; they are in `same_bytes_`
  uint16_t depth = 0;     // bytes from the root, including this one
  ByteClasses below = 0;  // classes of the bytes in the nodes below
};

// Nodes in depth-first order: the nodes below a node follow it.
struct TokenTrie {
  std::vector<TrieNode> nodes;
};

// The tokens that a walk has found, each once.
struct FoundTokens {
  // Clears the list and reserves space for `most` tokens.
  void begin(size_t most);
  gsl::span<const TokenId> tokens() const { return gsl::span<const TokenId>(ids).first(count); }

  TokenIds ids;  // only the first `count` are valid
  size_t count = 0;
};

// The tokens of a vocabulary by their bytes. Immutable; safe to use from any thread.
class TokenVocabulary {
 public:
  // `bytes` by id, empty for ids that are not text; `names` has the ids of special tokens by their text.
  TokenVocabulary(std::vector<std::string> bytes, std::unordered_map<std::string, TokenId> names,
                  TokenIds ends);
  // Makes the vocabulary of a tokenizer. Its special tokens have names and are never text. `more_ends` end a
  // text in addition to the tokenizer's own end token.
  static std::shared_ptr<const TokenVocabulary> of(std::shared_ptr<const Tokenizer> tokenizer,
                                                   const TokenIds& more_ends = {});

  size_t size() const { return bytes_.size(); }
  size_t num_words() const { return (bytes_.size() + 31) / 32; }
  std::string_view bytes(TokenId id) const { return bytes_[static_cast<size_t>(id)]; }
  bool is_text(TokenId id) const { return id >= 0 && static_cast<size_t>(id) < size() && !bytes(id).empty(); }
  TokenId find_special(std::string_view name) const;
  // Returns the tokens that end a text; allowed when a constraint may end.
  const TokenIds& ends() const { return ends_; }
  // Null for a vocabulary that was made from bytes.
  const Tokenizer* tokenizer() const { return tokenizer_.get(); }
  uint32_t max_bytes() const { return max_bytes_; }
  uint64_t fingerprint() const { return fingerprint_; }

  // Tries of the tokens that are plain text, and of the others.
  const TokenTrie& plain() const { return plain_; }
  const TokenTrie& other() const { return other_; }
  const TokenBits& plain_up_to(uint32_t num_chars) const;
  void mark(const TrieNode& node, gsl::span<uint32_t> mask) const;
  // Records the tokens that end at the node, if any.
  void note(const TrieNode& node, FoundTokens& found) const {
    found.ids[found.count] = node.token;
    found.count += node.token >= 0 ? 1 : 0;
    if (node.num_more != 0) record_same_bytes(node.token, found);
  }
  // The longest token that `text` begins with; -1 if there is none. is_open: a longer token may match if more
  // text follows.
  struct Longest {
    TokenId token = -1;
    size_t num_bytes = 0;
    bool is_open = false;
  };
  Longest longest(std::string_view text) const;

 private:
  void build();
  void record_same_bytes(TokenId token, FoundTokens& found) const;

  std::vector<std::string> bytes_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unordered_map<std::string, TokenId> names_;
  TokenIds ends_;
  uint32_t max_bytes_ = 0;
  uint64_t fingerprint_ = 0;
  TokenTrie plain_;
  TokenTrie other_;
  std::vector<TokenBits> plain_masks_;  // by number of characters
  std::unordered_map<TokenId, TokenIds> same_bytes_;
};

}  // namespace quire
