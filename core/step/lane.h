// One sequence of a job.
#pragma once

#include <cstdint>
#include <optional>

#include <gsl/gsl>

#include "core/base/ids.h"

namespace quire {

struct JobRecord;  // the engine's; nothing below the engine looks inside

// What a step works on from plan to commit. A job has one lane or two; each has a prompt and pages of its
// own, and all that comes after the prompt is the same in both.
struct Lane {
  Lane() = default;
  explicit Lane(JobRecord* of) : job(of) {}

  JobRecord* job = nullptr;
  TokenIds tokens;  // prompt, generated, and during a step candidates
  int32_t num_prompt_tokens = 0;
  int32_t num_candidates = 0;          // drafts at the end of tokens, to be verified
  int32_t num_forced = 0;              // tokens at the end that followed the last draw without one
  std::optional<SequenceId> sequence;  // while it holds pages
  int32_t place = -1;                  // in the plan of the last step that it took part in
  uint64_t adapter_generation = 0;     // of PrefixDomain

  // All but candidates.
  gsl::span<const TokenId> known() const {
    return gsl::span<const TokenId>(tokens).first(tokens.size() - static_cast<size_t>(num_candidates));
  }
  // Whether nothing that is known of the lane comes after the first num_tokens tokens.
  bool ends_at(int32_t num_tokens) const { return num_tokens == static_cast<int32_t>(tokens.size()); }
};

}  // namespace quire
