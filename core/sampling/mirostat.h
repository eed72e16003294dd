// The target of mirostat 2 as it moves from token to token, and back when tokens are taken back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace quire {

struct SamplingSettings;

// One thread at a time; a copy is independent. Keeps nothing where the settings do not use it.
class Mirostat {
 public:
  explicit Mirostat(const SamplingSettings& settings);

  void reserve(size_t num_tokens);
  // The largest surprise in bits that the next token may have.
  double mu() const { return moves_.empty() ? start_ : moves_.back().mu; }
  // The token at `position` was drawn with this probability.
  void observe(uint64_t position, float probability);
  // Forgets what was observed at `position` and later.
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
