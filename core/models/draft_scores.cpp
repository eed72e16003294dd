#include "core/models/draft_scores.h"

#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "core/models/drafting_executor.h"
#include "core/models/state_slots.h"
#include "core/models/window_groups.h"
#include "kernels/interface/state_specs.h"

namespace quire {
namespace {

constexpr int32_t kPageTokens = 64;
constexpr int32_t kPieceTokens = 64;

TransformerExecutorOptions options_for(const Transformer& transformer, int32_t num_tokens) {
  TransformerExecutorOptions options;
  options.max_tokens = options.max_sequences = options.max_logit_rows = kPieceTokens;
  options.kv.page_tokens = kPageTokens;
  options.kv.num_pages = options.max_pages_per_sequence = pages_for(num_tokens, kPageTokens);
  options.max_seq_len = num_tokens;
  options.kv.windows = window_groups(transformer.shape, options, 1);
  options.kv.num_state_slots = num_state_slots(transformer.shape, options, 1);
  return options;
}

// The only sequence of a cache, on pages 0, 1, ... of every table.
class ScoredText {
 public:
  ScoredText(const std::shared_ptr<const Transformer>& transformer, gsl::span<const TokenId> tokens)
      : tokens_(tokens),
        executor_(transformer, options_for(*transformer, gsl::narrow<int32_t>(tokens.size())), nullptr) {}

  DraftScores scores() {
    const bool reads_states = network().limits().reads_states;
    DraftScores scores;
    scores.num_rows = gsl::narrow<int32_t>(tokens_.size()) - (reads_states ? 1 : 0);
    scores.columns = network().limits().vocab_size;
    for (int32_t first = 0; first < scores.num_rows; first += kPieceTokens) {
      const int32_t count = std::min(kPieceTokens, scores.num_rows - first);
      if (reads_states) run_target(first, count);
      network().forward(rows_of_network(first, count),
                        {true, reads_states ? numbers(0, count) : std::vector<int32_t>()});
      const Drawn drawn = network().draw({});
      scores.logits.insert(scores.logits.end(), drawn.values.begin(), drawn.values.end());
    }
    return scores;
  }

 private:
  static std::vector<int32_t> numbers(int32_t first, int32_t count) {
    std::vector<int32_t> out(static_cast<size_t>(count));
    std::iota(out.begin(), out.end(), first);
    return out;
  }

  // Returns the rows of the positions [first, first + count), with the ids from token first_id on.
  Batch rows(int32_t first_id, int32_t first, int32_t count) const {
    const gsl::span<const TokenId> ids =
        tokens_.subspan(static_cast<size_t>(first_id), static_cast<size_t>(count));
    Batch batch;
    batch.token_ids.assign(ids.begin(), ids.end());
    batch.positions = numbers(first, count);
    batch.sequence_of_token.assign(ids.size(), 0);
    batch.sequence_starts = {0, count};
    batch.kv_lengths = {first + count};
    batch.page_table_stride = executor_.limits().max_pages_per_sequence;
    batch.page_table = numbers(0, batch.page_table_stride);
    return batch;
  }

  void run_target(int32_t first, int32_t count) {
    Batch batch = rows(first, first, count);
    batch.logit_rows = {count - 1};
    for (const WindowGroup& window : executor_.limits().windows) {
      ++batch.num_page_tables;
      for (int32_t i = 0; i < batch.page_table_stride; ++i) batch.page_table.push_back(i % window.num_slots);
    }
    if (executor_.limits().num_state_slots > 0) {
      batch.state_slots = {0};
      batch.state_banks = {kernels::state_bank(lines_, first)};
      lines_ = kernels::lines_after(lines_, first, count, batch.state_banks.front());
    }
    const Ticket ticket = executor_.forward(batch);
    executor_.draw(ticket, {});
    executor_.wait(ticket);
  }

  Batch rows_of_network(int32_t first, int32_t count) {
    Batch batch = rows(first + (network().limits().reads_states ? 1 : 0), first, count);
    batch.logit_rows = numbers(0, count);
    return batch;
  }

  DraftNetwork& network() { return *executor_.draft_network(); }

  gsl::span<const TokenId> tokens_;
  DraftingExecutor executor_;
  kernels::StateLines lines_;
};

}  // namespace

DraftScores score_drafter(const std::shared_ptr<const Transformer>& transformer,
                          gsl::span<const TokenId> tokens) {
  if (transformer->drafter == nullptr)
    throw Error(ErrorCode::unsupported,
                "the model was loaded without a draft network; load it with a drafter");
  if (tokens.size() < 2)
    throw Error(ErrorCode::invalid_argument, "tokens: {} are given; a draft network needs 2 or more",
                tokens.size());
  return ScoredText(transformer, tokens).scores();
}

}  // namespace quire
