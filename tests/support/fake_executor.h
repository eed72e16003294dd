// Fake device with a tiny exact model. It stores each token and its position in its own page memory, and the
// logits of a row are a hash of the sequence as read back through the page table. So a wrong page, a stale
// page, a wrong copy or a wrong position results in a wrong token. For groups with a window it also reads the
// window of every computed token through the tables of the group; if the content is wrong, another token is
// stored. With state slots it keeps a hash of each sequence there, as layers with a recurrent state do, and
// compares it with the tokens in the pages. It may have several shards, each with its own pages: they write
// one after another, and a token is read from the shard chosen by its position.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <gsl/gsl>

#include "core/step/executor.h"
#include "tests/support/fake_draft_network.h"
#include "tests/support/state_memory.h"

namespace quire::testing {

// Computes the hidden state after `tokens`: the oracle of embeddings.
void fake_hidden(gsl::span<const TokenId> tokens, gsl::span<float> state);
TokenId fake_next_token(gsl::span<const TokenId> tokens, int32_t num_tokens);
// Returns the tokens that a greedy job generates.
TokenIds fake_greedy(TokenIds prompt, int32_t num_new_tokens, int32_t num_tokens);
// Returns tokens below 64, the same for the same seed.
TokenIds random_tokens(uint64_t seed, int32_t count);

class FakeExecutor final : public Executor {
 public:
  explicit FakeExecutor(const ExecutorLimits& limits, int32_t num_shards = 1);

  const ExecutorLimits& limits() const override { return limits_; }
  // A page that loses its memory loses its content, and a batch may name no page without memory. May throw
  // out_of_memory.
  void set_num_pages(int32_t num_pages) override;
  std::function<void()> before_growth;
  // A step has as many breaks as the limits allow, before it writes anything.
  void set_breaks(StepBreaks* breaks) override { breaks_ = breaks; }
  // Throws std::logic_error for a batch that violates the rules of Batch or the limits. A pass issued ahead
  // is computed as late as possible: with its draw, or right before the pass that replaces it.
  Ticket forward(const Batch& batch) override;
  void draw(Ticket ticket, const DeviceDraws& draws) override;
  Drawn wait(Ticket ticket) override;
  void read_hidden(int32_t first_row, gsl::span<float> out) override;
  // Page content of all shards. A page of table 0 has its mark too.
  uint64_t page_bytes(int32_t table) const override;
  void read_page(int32_t table, PageId page, gsl::span<std::byte> out) override;
  void write_page(int32_t table, PageId page, gsl::span<const std::byte> bytes) override;
  uint64_t state_bytes() const override;
  void read_state(int32_t slot, int32_t bank, gsl::span<std::byte> out) override;
  void write_state(int32_t slot, int32_t bank, gsl::span<const std::byte> bytes) override;
  // Mark of a page for use by tests, which is copied with the content of the page; -1 at first.
  int8_t& mark(PageId page) { return marks_[static_cast<size_t>(page.value)]; }

  // Set before the engine is created; null: none.
  std::unique_ptr<FakeDraftNetwork> network;
  DraftNetwork* draft_network() override { return network.get(); }

  // Called before each step; may throw the errors of a device. A step issued ahead may have sequences that
  // the engine no longer needs.
  std::function<void(const Batch&)> before_step;
  // Called before each shard except the first writes its part of a step; may throw.
  std::function<void(const Batch&)> before_shard;
  // Called before each break of a step, to simulate a slow device.
  std::function<void()> before_break;
  // Called with the rows of each step after they are computed.
  std::function<void(const Batch&, gsl::span<float>)> change_logits;
  // Called when a step is waited for; may throw.
  std::function<void()> before_wait;
  // A sequence with this token has NaN in every later row. -1: none.
  TokenId nan_token = -1;
  // If true, rows are a hash of the last token instead of the whole sequence: for benchmarks.
  bool shallow = false;

  // Returns whether a page begins with these tokens; slot_holds checks a slot of a window group.
  bool holds(PageId page, gsl::span<const TokenId> tokens) const { return holds(slots_, page.value, tokens); }
  bool slot_holds(size_t group, int32_t slot, gsl::span<const TokenId> tokens) const {
    return holds(window_slots_[group], slot, tokens);
  }
  // Returns whether the pages contain exactly these tokens at these positions.
  bool holds_sequence(gsl::span<const PageId> pages, gsl::span<const TokenId> tokens) const;
  // Destroys the content of a page.
  void poison(PageId page) { poison(slots_, page.value); }
  void poison_slot(size_t group, int32_t slot) { poison(window_slots_[group], slot); }
  void poison_state(int32_t slot) { states_.poison(slot); }

  // Returns the number of reads that found another position than requested. In a step issued ahead only rows
  // that are drawn from count, because other sequences may have ended since.
  int64_t num_bad_reads() const { return num_bad_reads_; }
  int64_t num_steps() const { return num_steps_; }
  int64_t num_breaks_taken() const { return num_breaks_taken_; }
  // Numbers of steps that were issued ahead and used, and of those that were discarded.
  bool runs_ahead() const { return runs_ahead_; }  // valid in before_step: this step was issued ahead
  int64_t num_followed() const { return num_followed_; }
  int64_t num_discarded() const { return num_in_vain_; }
  // Numbers of rows that were drawn from, and of those in passes that were issued ahead.
  int64_t num_rows_drawn() const { return num_rows_drawn_; }
  int64_t num_rows_followed() const { return num_rows_followed_; }
  int64_t num_rows_masked() const { return num_rows_masked_; }
  int64_t num_tokens_computed() const { return num_tokens_computed_; }

 private:
  struct Slot {
    TokenId token = -1;
    int32_t position = -1;
  };

  using Slots = std::vector<std::vector<Slot>>;  // of each shard: [num_pages, page_tokens]

  Slots make_slots(int32_t num_pages, int32_t num_shards) const;
  bool holds(const Slots& slots, int32_t page, gsl::span<const TokenId> tokens) const;
  void poison(Slots& slots, int32_t page);
  void check(const Batch& batch) const;
  void check_tables(const Batch& batch) const;
  void check_states(const Batch& batch) const;
  void check_memory(const Batch& batch) const;
  Slots& slots_of(int32_t table) {
    return table == 0 ? slots_ : window_slots_[static_cast<size_t>(table - 1)];
  }
  size_t place(const Batch& batch, int32_t sequence, int32_t position, int32_t table = 0);
  Slot& slot(const Batch& batch, int32_t sequence, int32_t position, int32_t table = 0);
  bool sees_windows(const Batch& batch, size_t token);
  void read_windows(const Batch& batch);
  void run_states(const Batch& batch);
  void read_states(const Batch& batch);
  void read_back(const Batch& batch, size_t token);
  void compute_row(const Batch& batch, int32_t row_idx, gsl::span<float> out);
  void compute_hidden(const Batch& batch);
  void compute(const Batch& batch);
  void copy_pages(const Batch& batch);
  void write(const Batch& batch, size_t shard);
  void write_ahead();
  void check_page(int32_t table, PageId page, size_t num_bytes);

  ExecutorLimits limits_;
  StepBreaks* breaks_ = nullptr;
  int32_t num_pages_;  // that have memory
  Slots slots_;
  std::vector<Slots> window_slots_;  // of each group
  StateMemory states_;
  std::vector<uint64_t> token_states_;  // after each token of the last pass
  std::vector<int8_t> marks_;           // of each page
  std::vector<float> logits_;
  std::vector<int64_t> wrong_reads_;  // by row: reads that found another position
  int64_t num_wrong_reads_ = 0;
  std::vector<kernels::SampleOutcome> outcomes_;
  std::vector<float> hidden_;  // of all rows of the last batch that requested them
  std::vector<TokenId> read_back_;
  int32_t num_rows_ = 0;
  enum class State { idle, computed, drawn, ahead };
  State state_ = State::idle;  // of the last pass
  Ticket last_;
  bool runs_ahead_ = false;
  Batch ahead_;                    // the pass issued ahead, with the drawn tokens
  bool is_ahead_written_ = false;  // because a page was accessed after it
  int64_t num_rows_drawn_ = 0;
  int64_t num_rows_followed_ = 0;
  int64_t num_rows_masked_ = 0;
  int64_t num_followed_ = 0;
  int64_t num_in_vain_ = 0;
  int64_t num_bad_reads_ = 0;
  int64_t num_steps_ = 0;
  int64_t num_breaks_taken_ = 0;
  int64_t num_tokens_computed_ = 0;
};

}  // namespace quire::testing
