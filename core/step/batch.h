// Batch: input and output of one forward pass, in host memory. Plain data. The engine fills it and the
// executor reads it; neither depends on the other.
#pragma once

#include <cstdint>
#include <vector>

#include <gsl/gsl>

#include "core/base/ids.h"
#include "kernels/interface/op_params.h"

namespace quire {

// Copies keys and values of the first num_tokens tokens of one page to another, in every layer that uses this
// page table, before the tokens of the step are processed. Used for partial-page reuse and for copy-on-write
// after a fork. Copies are made in order: the target of one may be the source of an earlier one.
struct PageCopy {
  PageId source;
  PageId target;
  int32_t num_tokens = 0;
  int32_t table = 0;  // index into Batch::page_table
};

// Copies all states of one slot to another, before the tokens of the step are processed. Copies are made in
// order, after those of pages.
struct StateCopy {
  int32_t source = 0;
  int32_t target = 0;
};

// Samples drawn on the device, so that the logits need not be copied to the host.
struct DeviceDraws {
  // logit_row is an index of a row of the pass; ascending, each at most once
  std::vector<kernels::SampleRow> rows;
  std::vector<kernels::LogitEdit> edits;
  int32_t vocab_size = 0;  // number of valid logits of a row

  void clear() {
    rows.clear();
    edits.clear();
  }
};

// Input of a pass for layers with a recurrent state; empty for other models.
struct BatchStates {
  std::vector<StateCopy> state_copies;
  // [S]: the slot of a sequence, and the bank in it that its first token reads (kernels::state_bank).
  std::vector<int32_t> state_slots;
  std::vector<int32_t> state_banks;
};

// T tokens of S sequences, flattened. The tokens of a sequence are adjacent and ordered by position, and are
// the last of its kv_lengths[s] tokens.
struct Batch : BatchStates {
  std::vector<PageCopy> copies;
  std::vector<TokenId> token_ids;  // [T]
  // [T], or empty if all tokens are known. Index of the draw of the previous pass (in DeviceDraws::rows) that
  // gives the token; -1: the token is in token_ids.
  std::vector<int32_t> drawn_rows;
  std::vector<int32_t> positions;          // [T]
  std::vector<int32_t> sequence_of_token;  // [T]
  std::vector<int32_t> sequence_starts;    // [S + 1]
  std::vector<int32_t> kv_lengths;         // [S] tokens in the cache after this step
  // [num_page_tables, S, page_table_stride]. Table 0 has the pages of layers with full attention, table g + 1
  // those of group g of ExecutorLimits::windows. An entry that no token of the step attends to may name any
  // page.
  std::vector<int32_t> page_table;
  int32_t page_table_stride = 0;
  int32_t num_page_tables = 1;
  std::vector<int32_t> logit_rows;  // [L] rows of T whose logits are needed, ascending
  bool wants_hidden = false;  // true if the hidden states of all T rows after the last norm are needed too

  // Removes all rows and copies. The page tables stay until they are written.
  void clear() {
    state_copies.clear();
    state_slots.clear();
    state_banks.clear();
    copies.clear();
    token_ids.clear();
    drawn_rows.clear();
    positions.clear();
    sequence_of_token.clear();
    sequence_starts.assign(1, 0);
    kv_lengths.clear();
    logit_rows.clear();
    wants_hidden = false;
  }
  int32_t num_tokens() const { return gsl::narrow_cast<int32_t>(token_ids.size()); }
  int32_t num_sequences() const { return gsl::narrow_cast<int32_t>(kv_lengths.size()); }
  int32_t num_logit_rows() const { return gsl::narrow_cast<int32_t>(logit_rows.size()); }
};

// Result of a pass, borrowed from the executor until its next draw. A row that was sampled on the device has
// no values.
struct Drawn {
  gsl::span<const float> values;  // [L, vocab_size]
  int32_t vocab_size = 0;
  gsl::span<const kernels::SampleOutcome> outcomes{};  // in the order of DeviceDraws::rows

  gsl::span<const float> row(int32_t index) const {
    return values.subspan(static_cast<size_t>(index) * static_cast<size_t>(vocab_size),
                          static_cast<size_t>(vocab_size));
  }
};

}  // namespace quire
