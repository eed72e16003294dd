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

  DraftScores scores(const DraftScoresShape& shape, const std::function<void()>& before_piece) {
    const bool reads_states = network().limits().reads_states;
    DraftScores scores{shape, {}};
    for (int32_t first = 0; first < scores.num_rows; first += kPieceTokens) {
      if (before_piece != nullptr) before_piece();
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

const DraftTransformer& require_drafter(const Transformer& transformer) {
  if (transformer.drafter != nullptr) return *transformer.drafter;
  throw Error(ErrorCode::unsupported,
              "the model was loaded without a draft network; load it with drafter \"mtp\" or the path of a "
              "draft network");
}

void require_length(const DraftTransformer& drafter, size_t num_tokens) {
  if (num_tokens < 2)
    throw Error(ErrorCode::invalid_argument, "tokens: {} are given; a draft network needs 2 or more",
                num_tokens)
        .at("tokens");
  if (num_tokens > static_cast<size_t>(drafter.max_positions))
    throw Error(ErrorCode::invalid_argument,
                "tokens: {} are given, but the draft network has {} positions; give fewer", num_tokens,
                drafter.max_positions)
        .at("tokens");
}

// A network that reads states has the embedding of its target or one of the same rows.
void require_ids(const Transformer& transformer, gsl::span<const TokenId> tokens) {
  int32_t num_ids = transformer.shape.vocab_size;
  const DraftTransformer& drafter = *transformer.drafter;
  if (!drafter.reads_states()) num_ids = std::min(num_ids, drafter.network.shape.vocab_size);
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < num_ids) continue;
    throw Error(ErrorCode::invalid_argument, "tokens[{}]: {} is not in 0 to {}", i, tokens[i], num_ids - 1)
        .at("tokens");
  }
}

}  // namespace

int32_t draft_columns(const Transformer& transformer) {
  return require_drafter(transformer).network.shape.vocab_size;
}

DraftScoresShape draft_scores_shape(const Transformer& transformer, gsl::span<const TokenId> tokens) {
  const DraftTransformer& drafter = require_drafter(transformer);
  require_length(drafter, tokens.size());
  require_ids(transformer, tokens);
  return {gsl::narrow<int32_t>(tokens.size()) - (drafter.reads_states() ? 1 : 0), draft_columns(transformer)};
}

DraftScores score_drafter(const std::shared_ptr<const Transformer>& transformer,
                          gsl::span<const TokenId> tokens, const std::function<void()>& before_piece) {
  const DraftScoresShape shape = draft_scores_shape(*transformer, tokens);
  return ScoredText(transformer, tokens).scores(shape, before_piece);
}

}  // namespace quire
