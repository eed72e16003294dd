// Byte-pair encoding (BPE). A piece starts as one token per character. The merge with the lowest rank, the
// leftmost of equals, is applied until no merge is possible.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tokenizer/bpe_speller.h"
#include "core/tokenizer/id_table.h"
#include "core/tokenizer/merge_table.h"
#include "core/tokenizer/seam_table.h"
#include "core/tokenizer/subword_model.h"
#include "core/tokenizer/vocabulary.h"

namespace quire {

// Working memory of one encode call.
struct BpeScratch {
  struct Symbol {
    TokenId id = -1;  // -1 after it was merged into the previous symbol
    int32_t previous = -1;
    int32_t next = -1;
  };
  // A merge that was possible when it was queued.
  struct Candidate {
    Merge merge;
    uint32_t position = 0;  // of the left symbol
    TokenId left = 0;
    TokenId right = 0;
  };

  TokenIds tokens;  // tokens of a piece before merging
  std::vector<Symbol> symbols;
  std::vector<Candidate> queue;  // a heap
  uint64_t num_steps = 0;        // queue operations and merges so far; for tests and metrics
};

class Bpe final : public SubwordModel {
 public:
  struct Parts {
    MergeTable merges;
    BpeSpeller speller;
    bool ignore_merges = false;  // a piece in the vocabulary becomes one token without merging
  };

  // `vocabulary` must outlive the model.
  Bpe(const Vocabulary& vocabulary, Parts parts);

  void encode(std::string_view piece, bool allow_special, EncodeScratch& scratch,
              TokenIds& ids) const override;

 private:
  std::string_view key(TokenId id) const;
  bool is_candidate(TokenId id) const;
  void fill_words();
  void fill_adjacent_pairs();
  void encode_part(std::string_view part, bool allow_special, BpeScratch& scratch, TokenIds& ids) const;
  Merge find_merge(TokenId left, TokenId right, bool allow_special) const;
  void merge(bool allow_special, BpeScratch& scratch, TokenIds& ids) const;
  void merge_short(bool allow_special, BpeScratch& scratch, TokenIds& ids) const;
  void merge_long(bool allow_special, BpeScratch& scratch, TokenIds& ids) const;
  void push_candidate(int32_t left_idx, bool allow_special, BpeScratch& scratch) const;

  const Vocabulary& vocabulary_;
  MergeTable merges_;
  BpeSpeller speller_;
  bool ignore_merges_;
  IdTable words_;                 // texts that are encoded as one token
  AdjacentPairs adjacent_pairs_;  // where a text can be split without changing its tokens
};

}  // namespace quire
