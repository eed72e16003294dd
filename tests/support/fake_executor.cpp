#include "tests/support/fake_executor.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>
#include <stdexcept>

#include "core/kv/page_index.h"
#include "kernels/interface/draw_limits.h"
#include "tests/support/slow_draw.h"

namespace quire::testing {

namespace {

void require(bool condition, const char* what) {
  if (!condition) throw std::logic_error(what);
}

size_t page_entry(const Batch& batch, int32_t sequence, int32_t page_idx, int32_t table = 0) {
  return static_cast<size_t>(table * batch.num_sequences() + sequence) *
             static_cast<size_t>(batch.page_table_stride) +
         static_cast<size_t>(page_idx);
}

}  // namespace

void fake_logits(gsl::span<const TokenId> tokens, gsl::span<float> logits) {
  uint64_t state = hash_tokens(0x5eed, tokens);
  for (float& logit : logits) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    logit = static_cast<float>(state >> 40) * 0x1p-21F;  // 0 to 8
  }
}

void fake_hidden(gsl::span<const TokenId> tokens, gsl::span<float> state) {
  fake_logits(tokens, state);
  for (float& value : state) value -= 4.0F;  // -4 to 4
}

TokenId fake_next_token(gsl::span<const TokenId> tokens, int32_t num_tokens) {
  std::vector<float> logits(static_cast<size_t>(num_tokens));
  fake_logits(tokens, logits);
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

TokenIds fake_greedy(TokenIds prompt, int32_t num_new_tokens, int32_t num_tokens) {
  const size_t num_prompt = prompt.size();
  for (int32_t i = 0; i < num_new_tokens; ++i) prompt.push_back(fake_next_token(prompt, num_tokens));
  return {prompt.begin() + static_cast<ptrdiff_t>(num_prompt), prompt.end()};
}

TokenIds random_tokens(uint64_t seed, int32_t count) {
  TokenIds tokens;
  for (int32_t i = 0; i < count; ++i) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    tokens.push_back(static_cast<TokenId>(seed >> 58));
  }
  return tokens;
}

FakeExecutor::FakeExecutor(const ExecutorLimits& limits, int32_t num_shards)
    : limits_(limits),
      num_pages_(limits.guaranteed_pages()),
      slots_(make_slots(limits.num_pages, num_shards)),
      states_(limits.num_state_slots),
      marks_(static_cast<size_t>(limits.num_pages), int8_t{-1}),
      logits_(static_cast<size_t>(limits.max_logit_rows) * static_cast<size_t>(limits.vocab_size)),
      wrong_reads_(static_cast<size_t>(limits.max_logit_rows)) {
  for (const WindowGroup& group : limits.windows)
    window_slots_.push_back(make_slots(group.num_slots, num_shards));
}

FakeExecutor::Slots FakeExecutor::make_slots(int32_t num_pages, int32_t num_shards) const {
  const size_t size = static_cast<size_t>(num_pages) * static_cast<size_t>(limits_.page_tokens);
  return Slots(static_cast<size_t>(num_shards), std::vector<Slot>(size));
}

// Returns the index of a token in the pages of any shard.
size_t FakeExecutor::place(const Batch& batch, int32_t sequence, int32_t position, int32_t table) {
  const size_t size = slots_of(table).front().size();
  const int32_t page_idx = position / limits_.page_tokens;
  require(page_idx < batch.page_table_stride, "a position beyond the page table");
  const int32_t page = batch.page_table[page_entry(batch, sequence, page_idx, table)];
  require(page >= 0 && static_cast<size_t>(page * limits_.page_tokens) < size, "a page that does not exist");
  return static_cast<size_t>(page) * static_cast<size_t>(limits_.page_tokens) +
         static_cast<size_t>(position % limits_.page_tokens);
}

FakeExecutor::Slot& FakeExecutor::slot(const Batch& batch, int32_t sequence, int32_t position,
                                       int32_t table) {
  Slots& slots = slots_of(table);
  return slots[static_cast<size_t>(position) % slots.size()][place(batch, sequence, position, table)];
}

void FakeExecutor::check(const Batch& batch) const {
  const int32_t num_tokens = batch.num_tokens();
  const int32_t num_sequences = batch.num_sequences();
  require(num_tokens >= 1 && num_tokens <= limits_.max_tokens, "tokens of the step");
  require(num_sequences <= limits_.max_sequences, "sequences of the step");
  require(batch.num_logit_rows() >= 1 && batch.num_logit_rows() <= limits_.max_logit_rows,
          "logit rows of the step");
  require(batch.positions.size() == batch.token_ids.size(), "positions");
  require(batch.sequence_of_token.size() == batch.token_ids.size(), "sequence_of_token");
  require(batch.sequence_starts.size() == batch.kv_lengths.size() + 1, "sequence_starts");
  require(batch.sequence_starts.front() == 0 && batch.sequence_starts.back() == num_tokens,
          "sequence_starts");
  require(std::is_sorted(batch.logit_rows.begin(), batch.logit_rows.end()), "logit_rows");
  check_tables(batch);
  check_states(batch);
  std::set<std::pair<int32_t, int32_t>> written;
  for (int32_t s = 0; s < num_sequences; ++s) {
    const int32_t begin = batch.sequence_starts[static_cast<size_t>(s)];
    const int32_t end = batch.sequence_starts[static_cast<size_t>(s) + 1];
    require(begin < end, "an empty sequence");
    int32_t last_page = -1;
    for (int32_t t = begin; t < end; ++t) {
      const int32_t position = batch.positions[static_cast<size_t>(t)];
      require(batch.sequence_of_token[static_cast<size_t>(t)] == s, "sequence_of_token");
      require(position == batch.kv_lengths[static_cast<size_t>(s)] - (end - t), "a position out of place");
      const int32_t page_idx = position / limits_.page_tokens;
      if (page_idx == last_page) continue;
      last_page = page_idx;
      for (int32_t table = 0; table < batch.num_page_tables; ++table) {
        require(written.insert({table, batch.page_table[page_entry(batch, s, page_idx, table)]}).second,
                "two sequences write on one page");
      }
    }
  }
}

void FakeExecutor::check_states(const Batch& batch) const {
  const size_t num_states = limits_.num_state_slots > 0 ? batch.kv_lengths.size() : 0;
  require(batch.state_slots.size() == num_states && batch.state_banks.size() == num_states, "state slots");
  require(std::set<int32_t>(batch.state_slots.begin(), batch.state_slots.end()).size() == num_states,
          "two sequences write to one state slot");
  require(std::all_of(batch.state_slots.begin(), batch.state_slots.end(),
                      [this](int32_t slot) { return slot >= 0 && slot < limits_.num_state_slots; }),
          "a state slot that does not exist");
}

void FakeExecutor::check_tables(const Batch& batch) const {
  require(batch.num_page_tables == 1 + static_cast<int32_t>(limits_.windows.size()), "page tables");
  require(batch.page_table.size() == page_entry(batch, 0, 0, batch.num_page_tables), "page tables");
  require(
      std::all_of(batch.page_table.begin(), batch.page_table.end(), [](int32_t page) { return page >= 0; }),
      "an entry that is no page");
}

// Checks the pages when the pass is issued. If it was issued ahead, jobs may have ended and their pages may
// be released by the time it is drawn from.
void FakeExecutor::check_memory(const Batch& batch) const {
  const auto end = batch.page_table.begin() + static_cast<ptrdiff_t>(page_entry(batch, 0, 0, 1));
  require(std::all_of(batch.page_table.begin(), end, [this](int32_t page) { return page < num_pages_; }),
          "a page without memory");
  const int32_t num_slots = limits_.state_slots().slots_at(num_pages_);
  const auto has_memory = [=](int32_t slot) { return slot < num_slots; };
  require(std::all_of(batch.state_slots.begin(), batch.state_slots.end(), has_memory) &&
              std::all_of(
                  batch.state_copies.begin(), batch.state_copies.end(),
                  [&](const StateCopy& copy) { return has_memory(copy.source) && has_memory(copy.target); }),
          "a state slot without memory");
}

void FakeExecutor::set_num_pages(int32_t num_pages) {
  require(num_pages >= limits_.least_pages && num_pages <= limits_.num_pages,
          "a number of pages out of range");
  if (num_pages > num_pages_ && before_growth) before_growth();
  write_ahead();
  for (int32_t page = std::min(num_pages, num_pages_); page < std::max(num_pages, num_pages_); ++page) {
    poison(PageId{page});
    mark(PageId{page}) = -1;
  }
  const int32_t slots[] = {limits_.state_slots().slots_at(num_pages),
                           limits_.state_slots().slots_at(num_pages_)};
  for (int32_t slot = std::min(slots[0], slots[1]); slot < std::max(slots[0], slots[1]); ++slot)
    states_.poison(slot);
  num_pages_ = num_pages;
}

// Accepts a pass issued before the draws of the previous one were waited for.
Ticket FakeExecutor::forward(const Batch& batch) {
  check_memory(batch);
  if (state_ == State::ahead) {
    write_ahead();
    ++num_in_vain_;
  }
  if (state_ == State::drawn) {
    require(limits_.follows, "a step issued ahead, which this executor does not support");
    check(batch);
    require(batch.copies.empty() && batch.state_copies.empty() && !batch.wants_hidden,
            "a step that cannot be issued ahead");
    ahead_ = batch;
    for (size_t i = 0; i < batch.drawn_rows.size(); ++i) {
      const int32_t row = batch.drawn_rows[i];
      require(row < static_cast<int32_t>(outcomes_.size()), "a token of a row that was not drawn from");
      if (row >= 0) ahead_.token_ids[i] = outcomes_[static_cast<size_t>(row)].token;
    }
    state_ = State::ahead;
    is_ahead_written_ = false;
  } else {
    require(batch.drawn_rows.empty(), "a token that was never drawn");
    state_ = State::idle;
    runs_ahead_ = false;  // true from here until its draws
    compute(batch);
    state_ = State::computed;
  }
  return last_ = Ticket{last_.value + 1};
}

// Copies and computes the states.
void FakeExecutor::run_states(const Batch& batch) {
  for (const StateCopy& copy : batch.state_copies) {
    require(copy.source != copy.target, "a copy of a state");
    states_.copy(copy.source, copy.target);
  }
  token_states_.clear();
  for (size_t s = 0; s < batch.state_slots.size(); ++s) {
    const auto begin = static_cast<size_t>(batch.sequence_starts[s]);
    const auto count = static_cast<size_t>(batch.sequence_starts[s + 1]) - begin;
    states_.run(batch.state_slots[s], batch.state_banks[s], batch.positions[begin],
                gsl::span<const TokenId>(batch.token_ids).subspan(begin, count), token_states_);
  }
}

// Changes the tokens whose states are not those of the tokens in the pages.
void FakeExecutor::read_states(const Batch& batch) {
  std::vector<Slot*> wrong;
  for (size_t s = 0; s < batch.state_slots.size(); ++s) {
    uint64_t state = state_of({});
    for (int32_t position = 0; position < batch.kv_lengths[s]; ++position) {
      Slot& held = slot(batch, static_cast<int32_t>(s), position);
      state = next_state(state, held.token);
      const int32_t token = batch.sequence_starts[s + 1] - (batch.kv_lengths[s] - position);
      if (token >= batch.sequence_starts[s] && token_states_[static_cast<size_t>(token)] != state)
        wrong.push_back(&held);
    }
  }
  for (Slot* token : wrong) *token = {token->token ^ 0x10000000, -1};
}

void FakeExecutor::write(const Batch& batch, size_t shard) {
  if (shard == 0) run_states(batch);
  for (int32_t t = 0; t < batch.num_tokens(); ++t) {
    const auto i = static_cast<size_t>(t);
    for (int32_t table = 0; table < batch.num_page_tables; ++table) {
      slots_of(table)[shard][place(batch, batch.sequence_of_token[i], batch.positions[i], table)] = {
          batch.token_ids[i], batch.positions[i]};
    }
  }
}

// Returns whether the window of a token has the sequence's own tokens.
bool FakeExecutor::sees_windows(const Batch& batch, size_t token) {
  const int32_t sequence = batch.sequence_of_token[token];
  for (size_t g = 0; g < limits_.windows.size(); ++g) {
    const int32_t first = std::max(0, batch.positions[token] - limits_.windows[g].window + 1);
    for (int32_t position = first; position <= batch.positions[token]; ++position) {
      const Slot& seen = slot(batch, sequence, position, static_cast<int32_t>(g) + 1);
      const Slot& held = slot(batch, sequence, position);
      if (seen.position != position || seen.token != held.token) return false;
    }
  }
  return true;
}

void FakeExecutor::read_windows(const Batch& batch) {
  std::vector<Slot*> blind;
  for (size_t i = 0; i < batch.token_ids.size(); ++i) {
    if (!sees_windows(batch, i))
      blind.push_back(&slot(batch, batch.sequence_of_token[i], batch.positions[i]));
  }
  for (Slot* token : blind) *token = {token->token ^ 0x20000000, -1};
}

void FakeExecutor::copy_pages(const Batch& batch) {
  const auto page_tokens = static_cast<size_t>(limits_.page_tokens);
  for (const PageCopy& copy : batch.copies) {
    require(copy.source != copy.target && copy.num_tokens >= 1 && copy.num_tokens <= limits_.page_tokens,
            "a copy");
    for (std::vector<Slot>& slots : slots_of(copy.table)) {
      const auto source =
          slots.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(copy.source.value) * page_tokens);
      const auto target =
          slots.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(copy.target.value) * page_tokens);
      std::copy_n(source, copy.num_tokens, target);
    }
  }
}

void FakeExecutor::compute(const Batch& batch) {
  if (network != nullptr) network->see(batch);
  if (before_step) before_step(batch);
  for (int32_t i = 0; i < limits_.num_breaks; ++i) {
    if (before_break) before_break();
    if (!breaks_->is_due(!limits_.follows)) continue;
    ++num_breaks_taken_;
    breaks_->pause_or_cancel();
  }
  check(batch);
  copy_pages(batch);
  // Pages of jobs that have ended since may have other content after a pass that was completed before.
  const bool is_written = runs_ahead_ && is_ahead_written_;
  for (size_t shard = 0; shard < slots_.size(); ++shard) {
    if (shard > 0 && before_shard) before_shard(batch);
    if (!is_written) write(batch, shard);
  }
  if (!shallow && !is_written) read_windows(batch);
  if (!shallow && !is_written) read_states(batch);
  num_rows_ = batch.num_logit_rows();
  const auto vocab_size = static_cast<size_t>(limits_.vocab_size);
  for (int32_t row = 0; row < num_rows_; ++row) {
    compute_row(batch, row,
                gsl::span<float>(logits_).subspan(static_cast<size_t>(row) * vocab_size, vocab_size));
  }
  hidden_.clear();
  if (batch.wants_hidden) compute_hidden(batch);
  if (change_logits) {
    change_logits(batch, gsl::span<float>(logits_).first(static_cast<size_t>(num_rows_) * vocab_size));
  }
  ++num_steps_;
  num_tokens_computed_ += batch.num_tokens();
}

// Rows that were drawn from can no longer be read.
void FakeExecutor::draw(Ticket ticket, const DeviceDraws& draws) {
  require(ticket == last_ && (state_ == State::computed || state_ == State::ahead), "draws out of turn");
  require(draws.rows.empty() || limits_.makes_draws, "draws, which this executor does not support");
  require(draws.edits.size() <= static_cast<size_t>(limits_.max_draw_edits), "edits of the step");
  runs_ahead_ = state_ == State::ahead;
  if (runs_ahead_) {
    state_ = State::idle;
    ++num_followed_;
    num_rows_followed_ += static_cast<int64_t>(draws.rows.size());
    compute(ahead_);
  }
  num_rows_drawn_ += static_cast<int64_t>(draws.rows.size());
  require(std::count_if(draws.rows.begin(), draws.rows.end(),
                        [](const kernels::SampleRow& row) { return row.mask != nullptr; }) <=
              kernels::max_draw_masks(limits_.max_logit_rows, limits_.max_sequences),
          "masks of the step");
  outcomes_.clear();
  int32_t last_row = -1;
  for (const kernels::SampleRow& drawn : draws.rows) {
    require(drawn.logit_row > last_row && drawn.logit_row < num_rows_, "rows to draw from");
    last_row = drawn.logit_row;
    if (runs_ahead_) num_bad_reads_ += wrong_reads_[static_cast<size_t>(last_row)];
    num_rows_masked_ += drawn.mask != nullptr ? 1 : 0;
    const auto row = gsl::span<float>(logits_).subspan(
        static_cast<size_t>(last_row) * static_cast<size_t>(limits_.vocab_size),
        static_cast<size_t>(draws.vocab_size));
    outcomes_.push_back(slow_draw(row, drawn, draws.edits));
    std::fill(row.begin(), row.end(), std::numeric_limits<float>::quiet_NaN());
  }
  state_ = State::drawn;
}

// Reads the sequence up to a token of the batch from the pages.
void FakeExecutor::read_back(const Batch& batch, size_t token) {
  const int32_t end = batch.positions[token] + 1;
  const int32_t sequence = batch.sequence_of_token[token];
  read_back_.clear();
  for (int32_t position = shallow ? end - 1 : 0; position < end; ++position) {
    const Slot& held = slot(batch, sequence, position);
    if (held.position != position) ++num_wrong_reads_;
    read_back_.push_back(held.token ^ (held.position == position ? 0 : 0x40000000));
  }
}

void FakeExecutor::compute_hidden(const Batch& batch) {
  const auto columns = static_cast<size_t>(limits_.hidden_size);
  hidden_.resize(batch.token_ids.size() * columns);
  for (size_t token = 0; token < batch.token_ids.size(); ++token) {
    read_back(batch, token);
    fake_hidden(read_back_, gsl::span<float>(hidden_).subspan(token * columns, columns));
  }
}

void FakeExecutor::read_hidden(int32_t first_row, gsl::span<float> out) {
  const size_t start = static_cast<size_t>(first_row) * static_cast<size_t>(limits_.hidden_size);
  require(start + out.size() <= hidden_.size(), "rows that the batch did not have");
  std::copy_n(hidden_.begin() + static_cast<ptrdiff_t>(start), out.size(), out.begin());
}

uint64_t FakeExecutor::page_bytes(int32_t table) const {
  return slots_.size() * static_cast<uint64_t>(limits_.page_tokens) * sizeof(Slot) + (table == 0 ? 1 : 0);
}

// Completes a pass that was issued before.
void FakeExecutor::write_ahead() {
  if (state_ != State::ahead || is_ahead_written_) return;
  for (size_t shard = 0; shard < slots_.size(); ++shard) write(ahead_, shard);
  is_ahead_written_ = true;
}

namespace {

// Returns whether released memory is overwritten. That leaves a pass issued ahead as late as it may be.
bool is_poison(gsl::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0xff}; });
}

}  // namespace

void FakeExecutor::check_page(int32_t table, PageId page, size_t num_bytes) {
  require(table >= 0 && static_cast<size_t>(table) <= window_slots_.size(), "a page table");
  const size_t num_slots = slots_of(table).front().size();
  require(page.value >= 0 && static_cast<size_t>(page.value * limits_.page_tokens) < num_slots,
          "a page to read or write");
  require(num_bytes == page_bytes(table), "bytes of a page");
}

void FakeExecutor::read_page(int32_t table, PageId page, gsl::span<std::byte> out) {
  check_page(table, page, out.size());
  write_ahead();
  const size_t first = static_cast<size_t>(page.value * limits_.page_tokens);
  const size_t bytes = static_cast<size_t>(limits_.page_tokens) * sizeof(Slot);
  std::byte* to = out.data();
  for (const std::vector<Slot>& slots : slots_of(table)) {
    std::memcpy(to, &slots[first], bytes);
    to += bytes;
  }
  if (table == 0) out.back() = static_cast<std::byte>(mark(page));
}

void FakeExecutor::write_page(int32_t table, PageId page, gsl::span<const std::byte> bytes) {
  check_page(table, page, bytes.size());
  if (!is_poison(bytes)) write_ahead();
  const size_t first = static_cast<size_t>(page.value * limits_.page_tokens);
  const size_t of_shard = static_cast<size_t>(limits_.page_tokens) * sizeof(Slot);
  const std::byte* from = bytes.data();
  for (std::vector<Slot>& slots : slots_of(table)) {
    std::memcpy(&slots[first], from, of_shard);
    from += of_shard;
  }
  if (table == 0) mark(page) = static_cast<int8_t>(bytes.back());
}

uint64_t FakeExecutor::state_bytes() const {
  return limits_.num_state_slots > 0 ? StateMemory::bank_bytes() : 0;
}

void FakeExecutor::read_state(int32_t slot, int32_t bank, gsl::span<std::byte> out) {
  require(slot >= 0 && slot < limits_.num_state_slots && out.size() == state_bytes(), "a state to read");
  write_ahead();
  states_.read(slot, bank, out);
}

void FakeExecutor::write_state(int32_t slot, int32_t bank, gsl::span<const std::byte> bytes) {
  require(slot >= 0 && slot < limits_.num_state_slots && bytes.size() == state_bytes(), "a state to write");
  if (!is_poison(bytes)) write_ahead();
  states_.write(slot, bank, bytes);
}

void FakeExecutor::compute_row(const Batch& batch, int32_t row_idx, gsl::span<float> out) {
  num_wrong_reads_ = 0;
  read_back(batch, static_cast<size_t>(batch.logit_rows[static_cast<size_t>(row_idx)]));
  wrong_reads_[static_cast<size_t>(row_idx)] = num_wrong_reads_;
  if (!runs_ahead_) num_bad_reads_ += num_wrong_reads_;
  fake_logits(read_back_, out);
  if (std::find(read_back_.begin(), read_back_.end(), nan_token) != read_back_.end() && nan_token >= 0) {
    std::fill(out.begin(), out.end(), std::numeric_limits<float>::quiet_NaN());
  }
}

Drawn FakeExecutor::wait(Ticket ticket) {
  const bool is_followed = state_ == State::ahead && ticket.value + 1 == last_.value;
  require(is_followed || (state_ == State::drawn && ticket == last_), "a wait out of turn");
  if (!is_followed) state_ = State::idle;
  if (before_wait) before_wait();
  const auto size = static_cast<size_t>(num_rows_) * static_cast<size_t>(limits_.vocab_size);
  return {gsl::span<const float>(logits_).first(size), limits_.vocab_size, outcomes_};
}

bool FakeExecutor::holds(const Slots& slots, int32_t page, gsl::span<const TokenId> tokens) const {
  const auto base = static_cast<size_t>(page) * static_cast<size_t>(limits_.page_tokens);
  return std::all_of(slots.begin(), slots.end(), [&](const std::vector<Slot>& shard) {
    return std::equal(tokens.begin(), tokens.end(), shard.begin() + static_cast<ptrdiff_t>(base),
                      [](TokenId token, const Slot& held) { return held.token == token; });
  });
}

bool FakeExecutor::holds_sequence(gsl::span<const PageId> pages, gsl::span<const TokenId> tokens) const {
  const auto page_tokens = static_cast<size_t>(limits_.page_tokens);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const size_t at = static_cast<size_t>(pages[i / page_tokens].value) * page_tokens + i % page_tokens;
    for (const std::vector<Slot>& shard : slots_)
      if (shard[at].token != tokens[i] || shard[at].position != static_cast<int32_t>(i)) return false;
  }
  return true;
}

void FakeExecutor::poison(Slots& slots, int32_t page) {
  const auto page_tokens = static_cast<size_t>(limits_.page_tokens);
  for (std::vector<Slot>& shard : slots) {
    const auto first = shard.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(page) * page_tokens);
    std::fill_n(first, page_tokens, Slot{});
  }
}

}  // namespace quire::testing
