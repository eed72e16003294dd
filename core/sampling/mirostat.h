// State of Mirostat 2 sampling: its target after each token, which can be rewound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace quire {

struct SamplingSettings;

// For one thread at a time; a copy is independent. Stores nothing if the settings do not use it.
class Mirostat {
 public:
  explicit Mirostat(const SamplingSettings& settings);

  void reserve(size_t num_tokens);
  // Returns the largest surprise in bits that the next token may have.
  double mu() const { return moves_.empty() ? start_ : moves_.back().mu; }
  // Records that the token at `position` was drawn with this probability.
  void observe(uint64_t position, float probability);
  // Drops the observations at `position` and later.
  void rewind(uint64_t position);

 private:
  struct Move {
    uint64_t position;
    double mu;
  };

  double tau_;
  double eta_;
  double start_;
  std::vector<Move> moves_;  // by ascending position
};

}  // namespace quire
