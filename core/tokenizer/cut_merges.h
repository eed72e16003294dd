// Merges of vocabularies that have no list of them: any two tokens whose texts together are a token merge.
#pragma once

#include <gsl/gsl>

#include "core/base/ids.h"
#include "core/tokenizer/merge_table.h"
#include "core/tokenizer/vocabulary.h"

namespace quire {

struct RankedToken {
  TokenId id = 0;
  uint32_t rank = 0;  // of the merges that yield it
};

// The merges among `tokens`, which are of the vocabulary.
MergeTable merge_all_cuts(const Vocabulary& vocabulary, gsl::span<const RankedToken> tokens);

}  // namespace quire
