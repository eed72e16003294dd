// Interface of a draft network, which proposes tokens on the pages of its target's cache: its layers keep
// their keys and values under the page numbers of the target, so a page table serves both.
#pragma once

#include <cstdint>
#include <vector>

#include <gsl/gsl>

#include "core/base/ids.h"
#include "core/step/batch.h"

namespace quire {

struct DraftNetworkLimits {
  // True: the row at position p reads the target's states of token p and the id of token p + 1. False: it
  // reads the id of token p. Either way the row's logits are of the token after the one whose id it reads.
  bool reads_states = false;
  int32_t max_tokens = 0;      // of one pass
  int32_t max_sequences = 0;   // of one pass; also its maximum number of logit rows
  int32_t max_positions = 0;   // of a sequence
  int32_t vocab_size = 0;      // columns of the logits
  int32_t max_draw_edits = 0;  // of all draws of a pass; 0: the device makes no draws
  // Token of each column of the logits; empty: the column itself. Tokens without a column are never proposed.
  gsl::span<const TokenId> token_of;
};

// States that the rows of a pass read; empty if the network reads none.
struct DraftStates {
  bool of_target = true;      // of the target's last pass; false: of the network's own last pass
  std::vector<int32_t> rows;  // [T]: rows of the target's batch, or logit rows of the network's last pass
};

// For the thread of its executor.
class DraftNetwork {
 public:
  virtual ~DraftNetwork() = default;
  virtual const DraftNetworkLimits& limits() const = 0;
  // Enqueues a pass. The batch has page table 0 only, and no recurrent states. The target's pass whose states
  // it reads must be complete, and no later one issued.
  virtual void forward(const Batch& batch, const DraftStates& states) = 0;
  // Draws from logit rows of the last pass and waits for it. The result is valid until the next pass.
  virtual Drawn draw(const DeviceDraws& draws) = 0;
};

}  // namespace quire
