// Lane: one sequence of a job.
#pragma once

#include <cstdint>
#include <optional>

#include <gsl/gsl>

#include "core/base/ids.h"

namespace quire {

struct JobRecord;  // defined by the engine; opaque to lower layers

// State of one sequence during a step, from plan to commit. A job has one or two lanes. Each lane has its own
// prompt and pages; the tokens after the prompt are the same in both.
struct Lane {
  Lane() = default;
  explicit Lane(JobRecord* of) : job(of) {}

  JobRecord* job = nullptr;
  TokenIds tokens;  // prompt, generated tokens and, during a step, draft tokens
  int32_t num_prompt_tokens = 0;
  // Draft tokens at the end of `tokens`, to be verified. With recurrent states fewer than kStateLine: more
  // that are rejected would overwrite the state from which the sequence continues.
  int32_t num_candidates = 0;
  // Tokens at the end that were forced after the last draw, without a draw of their own.
  int32_t num_forced = 0;
  std::optional<SequenceId> sequence;  // set while it holds pages
  int32_t place = -1;                  // index in the plan of the last step that it took part in
  uint64_t adapter_generation = 0;     // see PrefixDomain
  int32_t num_followed = 0;            // first tokens whose rows the draft network has computed

  // Returns all tokens except draft tokens.
  gsl::span<const TokenId> known() const {
    return gsl::span<const TokenId>(tokens).first(tokens.size() - static_cast<size_t>(num_candidates));
  }
  gsl::span<const TokenId> drafts() const { return gsl::span<const TokenId>(tokens).subspan(known().size()); }
  // Returns whether the lane has exactly num_tokens tokens.
  bool ends_at(int32_t num_tokens) const { return num_tokens == static_cast<int32_t>(tokens.size()); }
};

}  // namespace quire
