// Drafter without a network: continues a job as its own text, or an earlier answer of its namespace, went on
// after the longest suffix that occurred before (n-gram, prompt or suffix lookup). Prompts that are quoted or
// edited, lists and loops repeat themselves; agents and forms repeat earlier answers.
#pragma once

#include <memory>

#include "core/drafting/answer_store.h"
#include "core/drafting/drafter.h"

namespace quire {

// Finds the places of the last kMinMatch tokens by a hash, compares them from the newest on, and takes the
// one that has most tokens before it in common, the newest among equal ones. A token costs O(1) to remember
// and a proposal at most kMaxPlaces comparisons. A proposal that reaches the end of the text goes on with its
// own first token, as a loop would.
class NgramDrafter final : public Drafter {
 public:
  static constexpr int32_t kMinMatch = 3;   // tokens that a place has in common with the suffix at least
  static constexpr int32_t kMaxMatch = 32;  // tokens that are compared at most
  static constexpr int32_t kMaxPlaces = 64;
  static constexpr uint64_t kMaxBytes = uint64_t{64} << 20;
  static constexpr uint64_t kMaxAnswerBytes = uint64_t{16} << 20;  // 24 namespaces

  // A job whose text does not fit into max_bytes, over all jobs, gets no drafts.
  explicit NgramDrafter(uint64_t max_bytes = kMaxBytes, uint64_t max_answer_bytes = kMaxAnswerBytes);

  void draft(gsl::span<const DraftRequest> requests) override;
  void remember(std::string_view name_space, gsl::span<const TokenId> answer) override {
    answers_.add(name_space, answer);
  }
  uint64_t memory_bytes() const override;

  // Bytes of all states. Each state holds a reference, so states may outlive the drafter.
  struct Memory {
    uint64_t used_bytes = 0;
    uint64_t max_bytes = 0;
  };

 private:
  std::shared_ptr<Memory> memory_;
  AnswerStore answers_;
};

}  // namespace quire
