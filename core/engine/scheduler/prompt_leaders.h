// Prompts of one step whose pages other prompts wait for instead of computing the same tokens.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <gsl/gsl>

#include "core/base/ids.h"
#include "core/engine/scheduler/job_lanes.h"
#include "core/kv/page_demand.h"

namespace quire {

class PromptLeaders {
 public:
  explicit PromptLeaders(int32_t page_tokens) : page_tokens_(page_tokens) {}

  // Adds the prompts of a job that computes a piece of them in this step.
  void add(const Lanes& lanes, const Piece& piece) {
    add(lanes.lane->tokens, lanes.lane->demand, piece.lane);
    if (lanes.guide != nullptr) add(lanes.guide->tokens, lanes.guide->demand, piece.guide);
  }

  // Returns whether another prompt in this step computes tokens that this one can reuse in the next step.
  bool are_awaited_by(const Lanes& lanes) const {
    return are_awaited_by(lanes.lane->tokens, lanes.lane->demand) ||
           (lanes.guide != nullptr && are_awaited_by(lanes.guide->tokens, lanes.guide->demand));
  }

 private:
  // A prompt waits for a page that another prompt computes if it can reuse at least this many tokens of it.
  static constexpr int32_t kMinSharedTokens = 8;

  struct Leader {
    ContentId tail;
    gsl::span<const TokenId> tokens;
    int32_t page_start;
    int32_t end;  // of the tokens computed in this step
  };

  void add(gsl::span<const TokenId> tokens, const PageDemand& demand, int32_t num_tokens) {
    if (!demand.publishes || demand.tail.value == 0 || num_tokens <= 1) return;
    const int32_t page_start = demand.start() / page_tokens_ * page_tokens_;
    leaders_.push_back({demand.tail, tokens, page_start, demand.start() + num_tokens});
  }

  bool are_awaited_by(gsl::span<const TokenId> tokens, const PageDemand& demand) const {
    if (demand.tail.value == 0 || demand.length % page_tokens_ != 0) return false;
    for (const Leader& leader : leaders_) {
      const int32_t page_start = demand.start() / page_tokens_ * page_tokens_;
      if (leader.tail != demand.tail || leader.page_start != page_start) continue;
      const int32_t own_end = static_cast<int32_t>(tokens.size()) - 1;
      const int32_t end = std::min({leader.end, page_start + page_tokens_, own_end});
      int32_t common = demand.start();
      while (common < end &&
             leader.tokens[static_cast<size_t>(common)] == tokens[static_cast<size_t>(common)]) {
        ++common;
      }
      const int32_t gain = common - demand.start();
      if (gain >= kMinSharedTokens || (gain > 0 && common == std::min(own_end, page_start + page_tokens_)))
        return true;
    }
    return false;
  }

  const int32_t page_tokens_;
  std::vector<Leader> leaders_;
};

}  // namespace quire
