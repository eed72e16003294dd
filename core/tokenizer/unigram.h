// Unigram: of all ways to cut a piece into tokens, the one whose scores add up to most.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tokenizer/byte_fallback.h"
#include "core/tokenizer/byte_trie.h"
#include "core/tokenizer/subword_model.h"
#include "core/tokenizer/vocabulary.h"

namespace quire {

// Working memory of one encoding thread.
struct UnigramScratch {
  // The best way to cut what comes before a place in the piece.
  struct Node {
    double score = 0.0;
    uint32_t begin = 0;  // of its last token
    TokenId id = -1;     // of that, or kNowhere
  };

  std::vector<Node> nodes;  // by byte of the piece
  TokenIds reversed;
  std::vector<uint32_t> begins;  // of each in `reversed`
  uint64_t num_steps = 0;        // bytes looked at so far: the work, for tests and metrics
};

class Unigram final : public SubwordModel {
 public:
  // A longer token would make encoding slow for every text.
  static constexpr size_t kMaxTokenBytes = 512;

  struct Parts {
    std::vector<double> scores;     // by id; minus infinity for tokens that no text is cut into
    bool single_precision = false;  // sums are rounded to float, as SentencePiece's are
    std::optional<TokenId> unknown;
    bool byte_fallback = false;
    std::string where;  // names the model in messages
  };

  // `vocabulary` must outlive the model. ErrorCode::unsupported for a token above kMaxTokenBytes.
  Unigram(const Vocabulary& vocabulary, Parts parts);

  void encode(std::string_view piece, bool allow_special, EncodeScratch& scratch,
              TokenIds& ids) const override;

 private:
  void find_best(std::string_view piece, bool allow_special, UnigramScratch& scratch) const;
  void append_unknown(std::string_view text, TokenIds& ids) const;
  [[noreturn]] void refuse_unknown() const;

  const Vocabulary& vocabulary_;
  ByteTrie trie_;
  std::vector<double> scores_;
  std::optional<TokenId> unknown_;
  std::optional<ByteFallback> fallback_;
  double unknown_score_ = 0.0;
  bool single_precision_;
  std::string where_;
};

}  // namespace quire
