// Shared prefix pages: pages at the beginning of several sequences of a step, whose keys are read once for
// all of them. They are found in the step's page tables. Independent of CUDA.
#pragma once

#include <cstdint>

#include "kernels/interface/op_params.h"

namespace quire::kernels {

constexpr int32_t kChunkTokens = 128;  // keys that are processed together; chunks begin at multiples of it
constexpr int32_t kMaxSharedPages = 1 << 12;  // limit per step; pages beyond it are read by each sequence

// A page, and the sequences that read it together: a range of SharedPages::members.
struct SharedPage {
  int32_t index;  // index in the page tables of these sequences
  int32_t first_member;
  int32_t num_members;  // 0: unused entry, nothing to read
};

// Result of find_shared_pages; arrays for as many sequences as the step has.
struct SharedPages {
  int32_t* members;      // [sequences], ordered so that sequences that share pages are adjacent
  int32_t* page_counts;  // [sequences] number of each sequence's leading pages that are shared
  SharedPage* pages;     // [kMaxSharedPages]
};

// Finds shared pages among the first `num_sequences` of a step, which have one token each. Returns how many
// entries of `pages` are written. That number is one of a few, so that few steps are recorded; the last
// entries may have no members. Returns 0 if too few reads would be saved. Each page is read in whole chunks
// before the sequences' own tokens; a sequence's shared pages come before all of its others.
int32_t find_shared_pages(const BatchView& host, int32_t num_sequences, const SharedPages& out);

}  // namespace quire::kernels
