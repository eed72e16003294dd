// Pages that several sequences of a step begin with: their keys are read once for all of them. What is shared
// is found in the step's page tables. Knows no CUDA.
#pragma once

#include <cstdint>

#include "kernels/interface/op_params.h"

namespace quire::kernels {

constexpr int32_t kChunkTokens = 128;  // keys that are attended to as one; they lie at multiples of it
constexpr int32_t kMostSharedPages = 1 << 12;  // of a step; those after them are read by each sequence

// A page, and the sequences that read it together: a run of SharedPages::members.
struct SharedPage {
  int32_t index;  // in the tables of these sequences
  int32_t first_member;
  int32_t num_members;  // 0: nothing is to be read
};

// Where the pages are told; arrays for as many sequences as the step has.
struct SharedPages {
  int32_t* members;      // [sequences] in an order in which those that share pages lie together
  int32_t* page_counts;  // [sequences] how many of each one's first pages are shared
  SharedPage* pages;     // [kMostSharedPages]
};

// Finds them among the first `num_sequences` of a step, which have one token each. Returns how many of
// `pages` are written: some number of a few, so that recorded steps are few, the last ones perhaps of no
// members; 0 where too little would be saved. Every page is read by whole chunks before the sequences' own
// tokens; a sequence's shared pages come before all others that it has.
int32_t find_shared_pages(const BatchView& host, int32_t num_sequences, const SharedPages& out);

}  // namespace quire::kernels
