// Unigram model: splits a piece into tokens with the highest total score.
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

// Working memory of one encode call.
struct UnigramScratch {
  // The best split of the text before a position in the piece.
  struct Node {
    double score = 0.0;
    uint32_t begin = 0;  // of the last token
    TokenId id = -1;     // the last token, or kNowhere
  };

  std::vector<Node> nodes;  // by byte of the piece
  TokenIds reversed;
  std::vector<uint32_t> begins;  // start of each token in `reversed`
  uint64_t num_steps = 0;        // bytes read so far; for tests and metrics
};

class Unigram final : public SubwordModel {
 public:
  // Longer tokens would make encoding slow for every text.
  static constexpr size_t kMaxTokenBytes = 512;

  struct Parts {
    std::vector<double> scores;     // by id; minus infinity for tokens that text is never encoded as
    bool single_precision = false;  // rounds sums to float, as SentencePiece does
    std::optional<TokenId> unknown;
    bool byte_fallback = false;
    std::string where;  // names the model in messages
  };

  // `vocabulary` must outlive the model. Throws ErrorCode::unsupported for a token above kMaxTokenBytes.
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
