// Logits of the draft network of a loaded model, whose weights may be away.
#pragma once

#include <gsl/gsl>

#include "core/base/wait.h"
#include "core/engine/model/resident_model.h"
#include "core/models/draft_scores.h"

namespace quire {

// Returns the shape of the logits of `tokens` and computes nothing. Throws the errors of draft_scores_shape
// of a transformer, ErrorCode::invalid_argument for more tokens than the model's context, and
// ErrorCode::unsupported if the scope has no weights.
DraftScoresShape draft_scores_shape(const Model& model, gsl::span<const TokenId> tokens);

// Computes the logits. Loads the weights if they are away, and keeps them until it returns. Throws the errors
// of draft_scores_shape, of a load and of an executor, and ErrorCode::timeout or ErrorCode::cancelled.
DraftScores score_drafter(const Runtime& runtime, const ResidentModel& of, gsl::span<const TokenId> tokens,
                          const Wait& wait);

}  // namespace quire
