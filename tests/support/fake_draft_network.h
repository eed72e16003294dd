// Draft network of the fake device. It stores the token of each of its rows in its own page memory and reads
// them back through the page table, so a row that is missing or stale makes a wrong proposal. Its logits are
// those of FakeExecutor, except that a share of the rows has others.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/step/executor.h"

namespace quire::testing {

// Computes the logits after `tokens`, as FakeExecutor does.
void fake_logits(gsl::span<const TokenId> tokens, gsl::span<float> logits);

struct FakeNetworkOptions {
  bool reads_states = false;
  double chance = 1.0;  // with which a row has the target's logits
  std::vector<TokenId> token_of = {};
  int32_t max_positions = 1 << 20;
  int32_t vocab_size = 0;  // 0: that of the target, or as many as token_of
};

class FakeDraftNetwork final : public DraftNetwork {
 public:
  FakeDraftNetwork(const ExecutorLimits& target, FakeNetworkOptions options)
      : target_(target),
        options_(std::move(options)),
        slots_(static_cast<size_t>(target.num_pages) * static_cast<size_t>(target.page_tokens)) {
    limits_.reads_states = options_.reads_states;
    limits_.max_tokens = target.max_tokens + target.max_sequences;
    limits_.max_sequences = target.max_sequences;
    limits_.max_positions = options_.max_positions;
    limits_.vocab_size =
        options_.token_of.empty() ? target.vocab_size : static_cast<int32_t>(options_.token_of.size());
    if (options_.vocab_size > 0) limits_.vocab_size = options_.vocab_size;
    limits_.token_of = options_.token_of;
  }

  const DraftNetworkLimits& limits() const override { return limits_; }

  // Called by the executor with each batch that it computes.
  void see(const Batch& batch) {
    states_ = batch.token_ids;
    state_positions_ = batch.positions;
  }

  void forward(const Batch& batch, const DraftStates& states) override {
    require(batch.num_tokens() > 0 && batch.num_tokens() <= limits_.max_tokens,
            "tokens of the network's pass");
    require(batch.num_sequences() <= limits_.max_sequences, "sequences of the network's pass");
    require(batch.num_logit_rows() <= limits_.max_sequences, "logit rows of the network's pass");
    require(states.rows.size() == (options_.reads_states ? batch.token_ids.size() : 0U),
            "states of the pass");
    copy_pages(batch);
    std::vector<TokenId> own;
    for (int32_t t = 0; t < batch.num_tokens(); ++t) write(batch, states, t);
    for (const int32_t row : batch.logit_rows) {
      own.push_back(batch.token_ids[static_cast<size_t>(row)]);
      compute(batch, row);
    }
    last_ids_ = own;
    num_rows_ = batch.num_logit_rows();
    ++num_passes_;
  }

  Drawn draw(const DeviceDraws& draws) override {
    require(draws.rows.empty(), "draws of a network whose rows the host draws");
    return {gsl::span<const float>(logits_).first(static_cast<size_t>(num_rows_) *
                                                  static_cast<size_t>(limits_.vocab_size)),
            limits_.vocab_size};
  }

  int64_t num_passes() const { return num_passes_; }
  // Returns the rule that a pass has broken; empty if none has. An engine goes on without drafts.
  const std::string& violation() const { return violation_; }
  // Returns the number of logit rows before which a row was missing.
  int64_t num_missing() const { return num_missing_; }

 private:
  struct Slot {
    TokenId state = -1;  // token whose state the row read
    TokenId id = -1;
    int32_t position = -1;
  };

  void require(bool condition, const char* what) {
    if (condition) return;
    violation_ = what;
    throw std::logic_error(what);
  }

  Slot& slot(const Batch& batch, int32_t sequence, int32_t position) {
    const int32_t page_idx = position / target_.page_tokens;
    require(page_idx < batch.page_table_stride, "a position beyond the network's page table");
    const size_t row = static_cast<size_t>(sequence) * static_cast<size_t>(batch.page_table_stride);
    return slot_of(batch.page_table[row + static_cast<size_t>(page_idx)], position % target_.page_tokens);
  }

  Slot& slot_of(int32_t page, int32_t index) {
    return slots_[static_cast<size_t>(page) * static_cast<size_t>(target_.page_tokens) +
                  static_cast<size_t>(index)];
  }

  void copy_pages(const Batch& batch) {
    for (const PageCopy& copy : batch.copies) {
      require(copy.table == 0, "a copy of another table");
      for (int32_t i = 0; i < copy.num_tokens; ++i)
        slot_of(copy.target.value, i) = slot_of(copy.source.value, i);
    }
  }

  void write(const Batch& batch, const DraftStates& states, int32_t token) {
    const auto i = static_cast<size_t>(token);
    require(!options_.token_of.empty() || batch.token_ids[i] < limits_.vocab_size,
            "an id that the network lacks");
    Slot written = {-1, batch.token_ids[i], batch.positions[i]};
    if (options_.reads_states) {
      const auto row = static_cast<size_t>(states.rows[i]);
      const std::vector<TokenId>& source = states.of_target ? states_ : last_ids_;
      require(row < source.size(), "a state that does not exist");
      require(!states.of_target || state_positions_[row] == batch.positions[i],
              "the state of another position");
      written.state = source[row];
    }
    slot(batch, batch.sequence_of_token[i], batch.positions[i]) = written;
  }

  // Returns the tokens whose ids and states the rows up to a position have read.
  std::vector<TokenId> read_back(const Batch& batch, int32_t sequence, int32_t end) {
    std::vector<TokenId> tokens;
    bool is_whole = true;
    for (int32_t position = 0; position <= end; ++position) {
      const Slot& seen = slot(batch, sequence, position);
      is_whole = is_whole && seen.position == position;
      if (options_.reads_states && position == 0) tokens.push_back(seen.state);
      if (options_.reads_states) is_whole = is_whole && seen.state == tokens.back();
      tokens.push_back(seen.id);
    }
    if (!is_whole) ++num_missing_;
    return tokens;
  }

  void compute(const Batch& batch, int32_t row) {
    const auto index = static_cast<size_t>(row);
    const auto width = static_cast<size_t>(limits_.vocab_size);
    std::vector<TokenId> tokens = read_back(batch, batch.sequence_of_token[index], batch.positions[index]);
    if (std::uniform_real_distribution<double>(0.0, 1.0)(random_) >= options_.chance) tokens.push_back(-7);
    std::vector<float> all(static_cast<size_t>(target_.vocab_size));
    fake_logits(tokens, all);
    const auto first = static_cast<size_t>(std::find(batch.logit_rows.begin(), batch.logit_rows.end(), row) -
                                           batch.logit_rows.begin()) *
                       width;
    logits_.resize(std::max(logits_.size(), first + width));
    for (size_t column = 0; column < width; ++column)
      logits_[first + column] =
          all[options_.token_of.empty() ? column : static_cast<size_t>(options_.token_of[column])];
  }

  ExecutorLimits target_;
  FakeNetworkOptions options_;
  DraftNetworkLimits limits_;
  std::vector<Slot> slots_;  // [num_pages, page_tokens]
  std::vector<TokenId> states_;
  std::vector<int32_t> state_positions_;
  std::vector<TokenId> last_ids_;  // of the logit rows of the last pass
  std::vector<float> logits_;
  int32_t num_rows_ = 0;
  int64_t num_passes_ = 0;
  int64_t num_missing_ = 0;
  std::string violation_;
  std::mt19937_64 random_{7};
};

}  // namespace quire::testing
