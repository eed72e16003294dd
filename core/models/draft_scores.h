// Logits of a draft network for a text whose tokens are all known, to compare networks with other programs.
#pragma once

#include <memory>
#include <vector>

#include <gsl/gsl>

#include "core/base/ids.h"
#include "core/models/transformer.h"

namespace quire {

// Row i has the logits of the token after the one whose id the network's row i reads: of token i + 2 if it
// reads states, and of token i + 1 if it does not.
struct DraftScores {
  int32_t num_rows = 0;       // one less than tokens if the network reads states
  int32_t columns = 0;        // of the network's own vocabulary
  std::vector<float> logits;  // [num_rows, columns]
};

// Computes the target and its draft network over `tokens`, at least two, in a cache of their own. Throws
// ErrorCode::unsupported if the transformer has no draft network, and the errors of an executor.
DraftScores score_drafter(const std::shared_ptr<const Transformer>& transformer,
                          gsl::span<const TokenId> tokens);

}  // namespace quire
