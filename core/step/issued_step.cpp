#include "core/step/issued_step.h"

#include <algorithm>

namespace quire {

namespace {

struct Stretch {
  size_t begin;
  size_t size;
};

Stretch tokens_of(const Batch& batch, size_t sequence) {
  const auto begin = static_cast<size_t>(batch.sequence_starts[sequence]);
  return {begin, static_cast<size_t>(batch.sequence_starts[sequence + 1]) - begin};
}

gsl::span<const int32_t> pages_of(const Batch& batch, size_t table, size_t sequence, int32_t page_tokens) {
  const auto stride = static_cast<size_t>(batch.page_table_stride);
  const auto used = static_cast<size_t>((batch.kv_lengths[sequence] + page_tokens - 1) / page_tokens);
  const size_t row = table * batch.kv_lengths.size() + sequence;
  return gsl::span<const int32_t>(batch.page_table).subspan(row * stride, used);
}

// Returns the number of logit rows of tokens before `token`.
int32_t rows_before(const Batch& batch, size_t token) {
  const auto first =
      std::lower_bound(batch.logit_rows.begin(), batch.logit_rows.end(), static_cast<int32_t>(token));
  return static_cast<int32_t>(first - batch.logit_rows.begin());
}

bool has_same_state(const Batch& batch, size_t sequence, const Batch& issued, size_t held) {
  if (batch.state_slots.empty()) return true;
  return batch.state_slots[sequence] == issued.state_slots[held] &&
         batch.state_banks[sequence] == issued.state_banks[held];
}

bool is_plain(const Batch& batch) {
  return batch.copies.empty() && batch.state_copies.empty() && !batch.wants_hidden;
}

}  // namespace

void IssuedStep::settle(gsl::span<const kernels::SampleOutcome> drawn) {
  if (!is_held()) return;
  is_settled_ = true;
  for (size_t t = 0; t < batch_.drawn_rows.size(); ++t) {
    if (batch_.drawn_rows[t] < 0) continue;
    batch_.token_ids[t] = drawn[static_cast<size_t>(batch_.drawn_rows[t])].token;
  }
}

bool IssuedStep::covers(const Batch& batch) {
  rows_.clear();
  if (!is_held() || !is_settled_ || !is_plain(batch) || batch.num_page_tables != batch_.num_page_tables)
    return false;
  size_t held = 0;
  for (size_t sequence = 0; sequence < batch.kv_lengths.size(); ++sequence, ++held) {
    while (held < batch_.kv_lengths.size() && !is_same(batch, sequence, held)) ++held;
    if (held == batch_.kv_lengths.size()) return false;
    rows_.push_back(rows_before(batch_, tokens_of(batch_, held).begin));
  }
  return true;
}

bool IssuedStep::is_same(const Batch& batch, size_t sequence, size_t held) const {
  const Stretch asked = tokens_of(batch, sequence), has = tokens_of(batch_, held);
  if (asked.size != has.size || batch.kv_lengths[sequence] != batch_.kv_lengths[held]) return false;
  if (!has_same_state(batch, sequence, batch_, held)) return false;
  const auto same = [&](const auto& a, const auto& b) {
    return std::equal(a.begin() + static_cast<ptrdiff_t>(asked.begin),
                      a.begin() + static_cast<ptrdiff_t>(asked.begin + asked.size),
                      b.begin() + static_cast<ptrdiff_t>(has.begin));
  };
  if (!same(batch.token_ids, batch_.token_ids) || !same(batch.positions, batch_.positions)) return false;
  const int32_t num_rows = rows_before(batch, asked.begin + asked.size) - rows_before(batch, asked.begin);
  if (num_rows != rows_before(batch_, has.begin + has.size) - rows_before(batch_, has.begin)) return false;
  for (size_t table = 0; table < static_cast<size_t>(batch.num_page_tables); ++table) {
    const auto pages = pages_of(batch, table, sequence, page_tokens_),
               pages_held = pages_of(batch_, table, held, page_tokens_);
    if (!std::equal(pages.begin(), pages.end(), pages_held.begin(), pages_held.end())) return false;
  }
  return true;
}

}  // namespace quire
