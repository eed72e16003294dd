// Logits of a draft network for a text whose tokens are all known, to compare networks with other programs.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <gsl/gsl>

#include "core/base/ids.h"
#include "core/models/transformer.h"

namespace quire {

// Row i has the logits of the token after the one whose id the network's row i reads: of token i + 2 if it
// reads states, and of token i + 1 if it does not.
struct DraftScoresShape {
  int32_t num_rows = 0;  // one less than tokens if the network reads states
  int32_t columns = 0;   // of the network's own vocabulary
};

struct DraftScores : DraftScoresShape {
  std::vector<float> logits;  // [num_rows, columns]
};

// Returns the number of columns of the draft network. Throws ErrorCode::unsupported if the transformer has no
// draft network.
int32_t draft_columns(const Transformer& transformer);

// Returns the shape of the scores of `tokens` and computes nothing. Throws the errors of draft_columns, and
// ErrorCode::invalid_argument for fewer than two tokens, more than the network's positions, and an id that
// the model or its network lacks. The transformer may be an outline.
DraftScoresShape draft_scores_shape(const Transformer& transformer, gsl::span<const TokenId> tokens);

// Computes the target and its draft network over `tokens` in a cache of their own. Calls `before_piece`,
// which may throw to end the computation, before each 64 rows. Throws the errors of draft_scores_shape and of
// an executor.
DraftScores score_drafter(const std::shared_ptr<const Transformer>& transformer,
                          gsl::span<const TokenId> tokens, const std::function<void()>& before_piece = {});

}  // namespace quire
