// Byte-pair encoding over bytes: a piece starts as one token per byte, and the merge of least rank, the
// leftmost of equals, is applied until none is left.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "core/tokenizer/id_table.h"
#include "core/tokenizer/merge_table.h"
#include "core/tokenizer/subword_model.h"
#include "core/tokenizer/vocabulary.h"

namespace quire {

// Working memory of one encoding thread.
struct BpeScratch {
  struct Symbol {
    TokenId id = -1;  // -1 once merged into the symbol before
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

  TokenIds tokens;
  std::vector<Symbol> symbols;
  std::vector<Candidate> queue;  // a heap
  uint64_t num_steps = 0;        // queue operations and merges so far: the work, for tests and metrics
};

class ByteLevelBpe final : public SubwordModel {
 public:
  struct Parts {
    MergeTable merges;
    bool ignore_merges = false;  // a piece that is in the vocabulary is taken whole
    // What a byte becomes for which the vocabulary has no token; without it such a byte is dropped.
    std::optional<TokenId> unknown;
    bool fuse_unknown = false;  // neighbouring ones become one
  };

  // `vocabulary` must outlive the model.
  ByteLevelBpe(const Vocabulary& vocabulary, Parts parts);

  void encode(std::string_view piece, bool allow_special, EncodeScratch& scratch,
              TokenIds& ids) const override;

 private:
  void fill_byte_tokens();
  void fill_words(bool ignore_merges);
  Merge find_merge(TokenId left, TokenId right, bool allow_special) const;
  void merge(std::string_view piece, bool allow_special, BpeScratch& scratch, TokenIds& ids) const;
  void merge_short(std::string_view piece, bool allow_special, BpeScratch& scratch, TokenIds& ids) const;
  void merge_long(std::string_view piece, bool allow_special, BpeScratch& scratch, TokenIds& ids) const;
  void push_candidate(int32_t left_idx, bool allow_special, BpeScratch& scratch) const;

  const Vocabulary& vocabulary_;
  size_t spell(std::string_view piece, TokenId* tokens) const;

  MergeTable merges_;
  std::optional<TokenId> unknown_;
  bool fuse_unknown_;
  std::array<TokenId, 256> byte_tokens_{};
  IdTable words_;  // by bytes: pieces whose encoding is one token
};

}  // namespace quire
