// Random draws of every kind that a device supports: rows, settings, histories and seeds.
#pragma once

#include <random>
#include <vector>

#include "core/sampling/sampler.h"

namespace quire::testing {

struct RandomDraw {
  std::vector<float> logits;
  SamplerState state;
  TokenIds banned;
  bool want_log_prob = false;

  int32_t vocab_size() const { return static_cast<int32_t>(logits.size()); }
  SampleRequest request() const {
    return {.logits = logits, .state = &state, .banned = banned, .want_log_prob = want_log_prob};
  }
};

RandomDraw random_draw(std::mt19937_64& random, int32_t vocab_size);

}  // namespace quire::testing
