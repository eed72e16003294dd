// What one forward pass works on, in host memory, and what it gives back. Plain data; the engine fills it,
// the executor reads it, neither knows the other.
#pragma once

#include <cstdint>
#include <vector>

#include <gsl/gsl>

#include "core/base/ids.h"
#include "kernels/interface/op_params.h"

namespace quire {

// Copies the first num_tokens tokens' keys and values of one page to another, in every layer that has the
// pages of a table, before the tokens of the step are processed. Used for partial-page reuse and for
// copy-on-write after a fork. Copies take place in order: the target of one may have been the source of an
// earlier one.
struct PageCopy {
  PageId source;
  PageId target;
  int32_t num_tokens = 0;
  int32_t table = 0;  // of Batch::page_table
};

// What is drawn where the logits lie, so that they need not be copied.
struct DeviceDraws {
  std::vector<kernels::SampleRow> rows;  // logit_row counts the rows of the pass; ascending, each once
  std::vector<kernels::LogitEdit> edits;
  int32_t vocab_size = 0;  // logits of a row that count

  void clear() {
    rows.clear();
    edits.clear();
  }
};

// T tokens of S sequences, flat. Tokens of a sequence are adjacent, in order of position, and are the last
// tokens of its kv_lengths[s] tokens.
struct Batch {
  std::vector<PageCopy> copies;
  std::vector<TokenId> token_ids;  // [T]
  // [T] or empty, where all tokens are known: the draw of the pass before that gives a token, by its place in
  // DeviceDraws::rows; -1: token_ids has it.
  std::vector<int32_t> drawn_rows;
  std::vector<int32_t> positions;          // [T]
  std::vector<int32_t> sequence_of_token;  // [T]
  std::vector<int32_t> sequence_starts;    // [S + 1]
  std::vector<int32_t> kv_lengths;         // [S] tokens in the cache once this step is done
  // [num_page_tables, S, page_table_stride]. Table 0 tells the pages of layers that see all tokens, table g +
  // 1 those of group g of ExecutorLimits::windows: of entries that no token of the step sees any page.
  std::vector<int32_t> page_table;
  int32_t page_table_stride = 0;
  int32_t num_page_tables = 1;
  std::vector<int32_t> logit_rows;  // [L] rows of T whose logits are wanted, ascending
  bool wants_hidden = false;        // the states of all T rows after the last norm are wanted too

  int32_t num_tokens() const { return gsl::narrow_cast<int32_t>(token_ids.size()); }
  int32_t num_sequences() const { return gsl::narrow_cast<int32_t>(kv_lengths.size()); }
  int32_t num_logit_rows() const { return gsl::narrow_cast<int32_t>(logit_rows.size()); }
};

// What came of a pass, borrowed from the executor until its next draw. A row that was drawn from has no
// values.
struct Drawn {
  gsl::span<const float> values;  // [L, vocab_size]
  int32_t vocab_size = 0;
  gsl::span<const kernels::SampleOutcome> outcomes{};  // as DeviceDraws::rows

  gsl::span<const float> row(int32_t index) const {
    return values.subspan(static_cast<size_t>(index) * static_cast<size_t>(vocab_size),
                          static_cast<size_t>(vocab_size));
  }
};

}  // namespace quire
