// Interface of drafters, which propose the next tokens of jobs (speculative decoding).
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include <gsl/gsl>

#include "core/base/ids.h"

namespace quire {

// What a drafter remembers of one job. The job owns it, so it ends with the job.
class DraftState {
 public:
  virtual ~DraftState() = default;
};

// Request for the draft tokens of one job.
struct DraftRequest {
  gsl::span<const TokenId> history;  // prompt and answer
  // Number of first tokens of `history` that are those of the job's previous request; 0 for its first one. A
  // rewind makes it smaller than the previous history.
  int32_t num_unchanged = 0;
  int32_t max_drafts = 0;              // 1 or more
  std::unique_ptr<DraftState>* state;  // of the job; null before its first request
  std::string_view name_space;         // of the job
  TokenIds* drafts;                    // receives the proposal; empty before the call
};

// For one thread at a time. Proposals may be wrong: they decide the time of a job and never its output.
class Drafter {
 public:
  virtual ~Drafter() = default;
  // Fills in the drafts of each request, at most max_drafts; none is a valid proposal. After an exception
  // (std::bad_alloc) the states of the jobs remain usable.
  virtual void draft(gsl::span<const DraftRequest> requests) = 0;
  // Takes note of the answer of a job that has ended and shares its prefixes. Proposals for jobs of other
  // namespaces never depend on it: their time would tell of it.
  virtual void remember(std::string_view /*name_space*/, gsl::span<const TokenId> /*answer*/) {}
  // Returns the bytes of all states that this drafter made, and of what it remembers.
  virtual uint64_t memory_bytes() const = 0;
};

}  // namespace quire
