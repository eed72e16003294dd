// Speculative decoding: the drafter of an engine, the limit of drafts, and why a job has none.
#pragma once

#include <array>
#include <cstdint>

namespace quire {

// Maximum number of draft tokens of a job in one step.
inline constexpr int32_t kMaxDrafts = 15;

// Component that proposes draft tokens. No drafter changes the output of a job.
enum class DrafterKind : int32_t {
  automatic = 0,  // the draft network of the model if it was loaded with one, otherwise ngram
  none = 1,
  ngram = 2,    // continues the longest suffix of prompt and answer that occurred before in them
  network = 3,  // the draft network that was loaded with the model
};

struct DraftingOptions {
  DrafterKind drafter = DrafterKind::automatic;
  // Maximum number of draft tokens of a job in one step, 1 to kMaxDrafts. Measured times and acceptance
  // decide how many of them are used, zero included.
  int32_t max_drafts = 4;
};

// Number of accepted draft tokens by their position among those of a step; entry 0 is the first position.
using AcceptedByPosition = std::array<int32_t, static_cast<size_t>(kMaxDrafts)>;

// Draft tokens of a job.
struct DraftUsage {
  int32_t draft_tokens = 0;           // proposed by speculative decoding
  int32_t accepted_draft_tokens = 0;  // accepted ones among them
  AcceptedByPosition accepted_by_position{};
};

// Reason why the last step of a job had no draft tokens.
enum class DraftReason : int32_t {
  not_generating = 0,  // the job has not begun to generate, or its kind generates no tokens
  drafting = 1,        // it had some
  off_in_engine = 2,
  off_in_request = 3,
  no_match = 4,    // the drafter had no proposal, or none that the constraint and the bans allow
  costs_more = 5,  // verification is expected to take more time than accepted tokens save
  prompts = 6,     // the step computed prompts
  no_room = 7,     // the job is about to end, or the step has no room for its drafts
  behind = 8,      // the draft network has not read the text of the job yet
};

}  // namespace quire
