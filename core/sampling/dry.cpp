#include "core/sampling/dry.h"

#include <algorithm>
#include <cmath>

namespace quire {
namespace {

bool is_breaker(const SamplingSettings& settings, TokenId token) {
  return settings.dry_breakers != nullptr &&
         std::binary_search(settings.dry_breakers->begin(), settings.dry_breakers->end(), token);
}

// Returns how many of the newest tokens a repetition may include: those after the last breaker.
size_t longest_tail(gsl::span<const TokenId> tokens, const SamplingSettings& settings) {
  const size_t limit = std::min(tokens.size(), static_cast<size_t>(settings.dry_max_length));
  size_t length = 0;
  while (length < limit && !is_breaker(settings, tokens[tokens.size() - 1 - length])) ++length;
  return length;
}

// Returns how many tokens before `end` match the newest tokens.
size_t match_length(gsl::span<const TokenId> tokens, size_t end, size_t limit) {
  const size_t bound = std::min(limit, end);
  size_t length = 0;
  while (length < bound && tokens[end - 1 - length] == tokens[tokens.size() - 1 - length]) ++length;
  return length;
}

}  // namespace

void find_continuations(gsl::span<const TokenId> tokens, const SamplingSettings& settings,
                        gsl::span<int32_t> lengths, std::vector<Continuation>& found) {
  found.clear();
  const size_t range = settings.dry_range < 0 ? tokens.size() : static_cast<size_t>(settings.dry_range);
  const gsl::span<const TokenId> recent = tokens.last(std::min(range, tokens.size()));
  const size_t limit = longest_tail(recent, settings);
  const auto least = static_cast<size_t>(settings.dry_allowed_length);
  if (limit < least) return;
  for (size_t place = least; place < recent.size(); ++place) {
    const size_t length = match_length(recent, place, limit);
    if (length < least) continue;
    int32_t& longest = lengths[static_cast<size_t>(recent[place])];
    if (longest == 0) found.push_back({recent[place], 0});
    longest = std::max(longest, static_cast<int32_t>(length));
  }
  for (Continuation& continuation : found) {
    int32_t& longest = lengths[static_cast<size_t>(continuation.token)];
    continuation.length = longest;
    longest = 0;
  }
}

double dry_penalty(const SamplingSettings& settings, int32_t length) {
  return static_cast<double>(settings.dry_multiplier) *
         std::pow(static_cast<double>(settings.dry_base), length - settings.dry_allowed_length);
}

}  // namespace quire
