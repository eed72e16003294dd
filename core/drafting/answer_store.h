// Answers of ended jobs, by namespace: what agents and forms repeat from job to job.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gsl/gsl>

#include "core/base/ids.h"

namespace quire {

// Tokens of the newest answers of one namespace in a ring, and the places of all runs of kMinMatch tokens in
// it: a chain for each bucket of their hash, the newest place first. A token costs O(1) to add. A place is
// the number of tokens added before it, so places of tokens that were overwritten are known by their age.
class AnswerRing {
 public:
  static constexpr int32_t kMinMatch = 6;   // fewer tokens of other answers in common say little
  static constexpr int32_t kMaxMatch = 32;  // tokens that are compared at most
  static constexpr int32_t kMaxPlaces = 16;

  // `capacity`: tokens that it holds, a power of two.
  explicit AnswerRing(size_t capacity);

  void add(gsl::span<const TokenId> answer);

  // A place after tokens that equal the last `length` ones of a history; length 0: none.
  struct Match {
    uint64_t next = 0;
    int32_t length = 0;
  };
  // Returns the longest match, the newest among equal ones, of the first kMaxPlaces that are tried.
  Match find(gsl::span<const TokenId> history) const;
  // Appends the tokens from a place on, at most `count`, up to the end of their answer.
  void read(uint64_t next, int32_t count, TokenIds& out) const;

  static uint64_t bytes_of(size_t capacity);

 private:
  static constexpr TokenId kEnd = -1;  // after each answer

  void push(TokenId token);
  bool is_held(uint64_t place) const { return place < num_added_ && num_added_ - place <= tokens_.size(); }
  TokenId at(uint64_t place) const { return tokens_[place & (tokens_.size() - 1)]; }
  int32_t match_length(gsl::span<const TokenId> history, uint64_t end) const;

  std::vector<TokenId> tokens_;
  std::vector<uint64_t>
      previous_;  // by place of the last token of a run: 1 + the older one of its bucket; 0: none
  std::vector<uint64_t> newest_;  // of each bucket: 1 + place; 0: none
  uint64_t num_added_ = 0;
  int32_t num_in_answer_ = 0;
};

// Rings of the namespaces that were used last. For one thread at a time.
class AnswerStore {
 public:
  static constexpr size_t kRingTokens = size_t{1} << 15;

  // Holds as many rings as fit into max_bytes.
  explicit AnswerStore(uint64_t max_bytes);

  // Adds an answer. The oldest ring makes room for that of a new namespace.
  void add(std::string_view name_space, gsl::span<const TokenId> answer);
  // Returns the ring of a namespace; nullptr if it has none.
  const AnswerRing* find(std::string_view name_space);
  uint64_t memory_bytes() const { return rings_.size() * AnswerRing::bytes_of(kRingTokens); }

 private:
  struct Named {
    std::string name_space;
    AnswerRing ring;
  };

  size_t max_rings_;
  std::list<Named> rings_;  // the one that was used last is the first
};

}  // namespace quire
