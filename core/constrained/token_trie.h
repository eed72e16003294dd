// The tokens of a vocabulary by their bytes, laid out for walks that try all of them.
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

// One bit a token, 32 to a word, the lowest bit first.
using TokenBits = std::vector<uint32_t>;

struct TrieNode {
  uint32_t end = 0;    // the node after the last one below this
  TokenId token = -1;  // the first token that ends here
  uint8_t byte = 0;
  uint8_t num_more = 0;   // whether others have the same bytes: they are in `twins`
  uint16_t depth = 0;     // bytes from the root, this one counted
  ByteClasses below = 0;  // of the nodes below this
};

// Nodes in the order of a walk: those below a node follow it.
struct TokenTrie {
  std::vector<TrieNode> nodes;
};

// Tokens that a walk finds, each once.
struct FoundTokens {
  // None; there is room for so many.
  void begin(size_t most);
  gsl::span<const TokenId> tokens() const { return gsl::span<const TokenId>(ids).first(count); }

  TokenIds ids;  // those after `count` are not found yet
  size_t count = 0;
};

// Immutable; any thread.
class TokenVocabulary {
 public:
  // `bytes` by id, empty for ids that are no text; `names` for those that are not: special tokens by their
  // text.
  TokenVocabulary(std::vector<std::string> bytes, std::unordered_map<std::string, TokenId> names,
                  TokenIds ends);
  // Of a tokenizer: its special tokens are names, never text. `more_ends` end a text beside its own token.
  static std::shared_ptr<const TokenVocabulary> of(std::shared_ptr<const Tokenizer> tokenizer,
                                                   const TokenIds& more_ends = {});

  size_t size() const { return bytes_.size(); }
  size_t num_words() const { return (bytes_.size() + 31) / 32; }
  std::string_view bytes(TokenId id) const { return bytes_[static_cast<size_t>(id)]; }
  bool is_text(TokenId id) const { return id >= 0 && static_cast<size_t>(id) < size() && !bytes(id).empty(); }
  TokenId find_special(std::string_view name) const;
  // Tokens that end a text: allowed where a constraint may end.
  const TokenIds& ends() const { return ends_; }
  // Null for a vocabulary that was made of its bytes.
  const Tokenizer* tokenizer() const { return tokenizer_.get(); }
  uint32_t max_bytes() const { return max_bytes_; }
  uint64_t fingerprint() const { return fingerprint_; }

  // The tokens of plain text, and the others.
  const TokenTrie& plain() const { return plain_; }
  const TokenTrie& other() const { return other_; }
  const TokenBits& plain_up_to(uint32_t num_chars) const;
  void mark(const TrieNode& node, gsl::span<uint32_t> mask) const;
  // Those that end at the node, if any do.
  void note(const TrieNode& node, FoundTokens& found) const {
    found.ids[found.count] = node.token;
    found.count += node.token >= 0 ? 1 : 0;
    if (node.num_more != 0) note_twins(node.token, found);
  }
  // The longest token that `text` begins with, -1 where there is none; is_open: text that begins with `text`
  // may begin with a longer one.
  struct Longest {
    TokenId token = -1;
    size_t num_bytes = 0;
    bool is_open = false;
  };
  Longest longest(std::string_view text) const;

 private:
  void build();
  void note_twins(TokenId token, FoundTokens& found) const;

  std::vector<std::string> bytes_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unordered_map<std::string, TokenId> names_;
  TokenIds ends_;
  uint32_t max_bytes_ = 0;
  uint64_t fingerprint_ = 0;
  TokenTrie plain_;
  TokenTrie other_;
  std::vector<TokenBits> plain_masks_;  // by number of characters
  std::unordered_map<TokenId, TokenIds> twins_;
};

}  // namespace quire
