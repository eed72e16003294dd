// Reads the tokens of a job to its end.
#pragma once

#include <chrono>

#include "core/engine/job.h"

namespace quire::testing {

// Timeout after which a test fails.
constexpr Duration kPatience = std::chrono::minutes(5);

inline TokenIds tokens_of(Job& job) {
  TokenIds tokens;
  while (const auto event = job.poll(kPatience)) {
    tokens.insert(tokens.end(), event->token_ids.begin(), event->token_ids.end());
    if (event->terminal()) break;
  }
  return tokens;
}

}  // namespace quire::testing
