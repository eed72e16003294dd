// What a job may ask of the sampler. Every default is neutral: an untouched value draws from the plain
// softmax.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/ids.h"

namespace quire {

// Added to the logit of one token before temperature.
struct LogitBias {
  TokenId token = 0;
  float bias = 0.0F;  // finite
};

// Plain data; validate() says whether it can be used.
struct SamplingSettings {
  // Divides the logits. 0 to 100; below kGreedyTemperature the largest logit wins and the cuts are skipped.
  float temperature = 1.0F;
  // Keeps the k largest logits, the lower id first among equals. 0 is off.
  int32_t top_k = 0;
  // Standard nucleus: keeps the fewest tokens, largest first, whose mass reaches p, the token that crosses
  // the line included. The mass is that of what top_k left. In (0, 1]; 1 is off.
  float top_p = 1.0F;
  // Keeps tokens at least min_p times as likely as the most likely one. 0 to 1; 0 is off.
  float min_p = 0.0F;

  // Once per distinct token within reach: a positive logit is divided, any other multiplied. 0.01 to 100.
  float repetition_penalty = 1.0F;
  // Subtracted once per occurrence within reach. -100 to 100.
  float frequency_penalty = 0.0F;
  // Subtracted once per distinct token within reach. -100 to 100.
  float presence_penalty = 0.0F;
  // The reach of the three: the last N tokens, prompt included. -1 is all of them.
  int32_t penalty_range = -1;
  // The N tokens older than that fade: an occurrence j tokens beyond the range has the share 1 - j/N of each
  // penalty. The newest occurrence of a token decides its repetition and presence penalty.
  int32_t penalty_decay = 0;

  std::vector<LogitBias> logit_bias{};   // one entry per token at most
  std::vector<TokenId> banned_tokens{};  // never drawn

  // Same seed, same logits, same settings: same tokens, on any machine.
  uint64_t seed = 0;

  static constexpr float kGreedyTemperature = 0.01F;

  bool is_greedy() const { return temperature < kGreedyTemperature; }
  bool has_penalties() const {
    return repetition_penalty != 1.0F || frequency_penalty != 0.0F || presence_penalty != 0.0F;
  }

  // Throws ErrorCode::invalid_argument naming the field and its range where a value is outside it or not a
  // number, or where a token id is not in [0, vocab_size).
  void validate(int32_t vocab_size) const;
};

}  // namespace quire
