#include "core/sampling/settings.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "core/base/error.h"

namespace quire {
namespace {

// Written so that NaN fails.
void require_in(float value, float min, float max, std::string_view field) {
  if (!(value >= min && value <= max)) {
    throw Error(ErrorCode::invalid_argument, "{} must be from {} to {}, not {}", field, min, max, value);
  }
}

void require_at_least(int32_t value, int32_t min, std::string_view field, std::string_view meaning) {
  if (value < min) {
    throw Error(ErrorCode::invalid_argument, "{} must be {} or more ({}), not {}", field, min, meaning,
                value);
  }
}

void require_token(TokenId token, int32_t vocab_size, std::string_view field) {
  if (token < 0 || token >= vocab_size) {
    throw Error(ErrorCode::invalid_argument, "{}: token id {} is not in the vocabulary of {}", field, token,
                vocab_size);
  }
}

void validate_bias(const std::vector<LogitBias>& entries, int32_t vocab_size) {
  TokenIds ids;
  ids.reserve(entries.size());
  for (const LogitBias& entry : entries) {
    require_token(entry.token, vocab_size, "logit_bias");
    if (!std::isfinite(entry.bias)) {
      throw Error(ErrorCode::invalid_argument,
                  "logit_bias of token {} must be finite, not {}; use banned_tokens to forbid a token",
                  entry.token, entry.bias);
    }
    ids.push_back(entry.token);
  }
  std::sort(ids.begin(), ids.end());
  const auto twice = std::adjacent_find(ids.begin(), ids.end());
  if (twice != ids.end()) {
    throw Error(ErrorCode::invalid_argument, "logit_bias names token {} more than once", *twice);
  }
}

}  // namespace

void SamplingSettings::validate(int32_t vocab_size) const {
  require_in(temperature, 0.0F, 100.0F, "temperature");
  require_at_least(top_k, 0, "top_k", "0 is off");
  if (!(top_p > 0.0F && top_p <= 1.0F)) {
    throw Error(ErrorCode::invalid_argument, "top_p must be above 0 and at most 1 (1 is off), not {}", top_p);
  }
  require_in(min_p, 0.0F, 1.0F, "min_p");
  require_in(repetition_penalty, 0.01F, 100.0F, "repetition_penalty");
  require_in(frequency_penalty, -100.0F, 100.0F, "frequency_penalty");
  require_in(presence_penalty, -100.0F, 100.0F, "presence_penalty");
  require_at_least(penalty_range, -1, "penalty_range", "-1 is all tokens");
  require_at_least(penalty_decay, 0, "penalty_decay", "0 is off");
  validate_bias(logit_bias, vocab_size);
  for (const TokenId token : banned_tokens) require_token(token, vocab_size, "banned_tokens");
}

}  // namespace quire
