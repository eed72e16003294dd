// Drafter of measurements: proposes the known answers of jobs, with mistakes of a given share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/drafting/drafter.h"
#include "core/sampling/random.h"

namespace quire::bench {

// Prompts of jobs, and the answers that they had without drafts. No two prompts begin alike.
struct Recording {
  std::vector<TokenIds> prompts;
  std::vector<TokenIds> answers;  // by the index of the prompt
};

// Proposes at each position the recorded token with the probability `share_right`, and another token
// otherwise. The choice depends on the seed, the job and the position alone, so it repeats in each run.
class RecordedDrafter final : public Drafter {
 public:
  struct Mistakes {
    double share_right = 1.0;
    TokenId num_tokens = 0;  // valid token ids
    // With this seed the first job is right as often as is expected of many: at 0.8 and with 4 drafts, 256
    // and 512 tokens take 3.36 a step.
    uint64_t seed = 5;
  };

  RecordedDrafter(std::shared_ptr<const Recording> recording, const Mistakes& mistakes)
      : recording_(std::move(recording)), mistakes_(mistakes) {}

  void draft(gsl::span<const DraftRequest> requests) override {
    for (const DraftRequest& request : requests) {
      if (*request.state == nullptr) *request.state = std::make_unique<Known>(job_of(request.history));
      const size_t job = static_cast<const Known&>(**request.state).job;
      if (job == recording_->prompts.size()) continue;
      const size_t first = request.history.size() - recording_->prompts[job].size();
      const size_t end =
          std::min(first + static_cast<size_t>(request.max_drafts), recording_->answers[job].size());
      for (size_t i = first; i < end; ++i) request.drafts->push_back(draft_at(job, i));
    }
  }
  uint64_t memory_bytes() const override { return 0; }

 private:
  struct Known final : DraftState {
    explicit Known(size_t of) : job(of) {}
    size_t job;  // number of prompts if the job is unknown
  };

  size_t job_of(gsl::span<const TokenId> history) const {
    const auto& prompts = recording_->prompts;
    const auto begins = [&](const TokenIds& prompt) {
      return prompt.size() <= history.size() && std::equal(prompt.begin(), prompt.end(), history.begin());
    };
    return static_cast<size_t>(std::find_if(prompts.begin(), prompts.end(), begins) - prompts.begin());
  }

  TokenId draft_at(size_t job, size_t position) const {
    const TokenId right = recording_->answers[job][position];
    const uint64_t bits = random_bits(mistakes_.seed, uint64_t{job} << 32 | position);
    if (static_cast<double>(bits >> 11) * 0x1p-53 < mistakes_.share_right) return right;
    const auto num_tokens = static_cast<uint64_t>(mistakes_.num_tokens);
    const uint64_t distance = 1 + (bits & 0x7ffU) % (num_tokens - 1);
    return static_cast<TokenId>((static_cast<uint64_t>(right) + distance) % num_tokens);
  }

  std::shared_ptr<const Recording> recording_;
  Mistakes mistakes_;
};

}  // namespace quire::bench
