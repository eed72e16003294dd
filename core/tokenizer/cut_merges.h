// BPE merges for vocabularies without a merge list (SentencePiece, tiktoken): two tokens merge if their texts
// together are a token.
#pragma once

#include <cstddef>

#include <gsl/gsl>

#include "core/base/ids.h"
#include "core/tokenizer/merge_table.h"
#include "core/tokenizer/vocabulary.h"

namespace quire {

// Bytes of the longest token that such a vocabulary may have, because finding its merges tries every cut.
inline constexpr size_t kMaxCutBytes = 512;

struct RankedToken {
  TokenId id = 0;
  uint32_t rank = 0;  // of the merges that produce it
};

// Returns all merges among `tokens`, which belong to the vocabulary.
MergeTable find_all_merges(const Vocabulary& vocabulary, gsl::span<const RankedToken> tokens);

}  // namespace quire
