#include "tests/fuzz/constraint_walk.h"

#include <cstdlib>
#include <memory>
#include <random>
#include <string>

#include "core/base/checksum.h"
#include "tests/core/constrained/constraint_fixture.h"

namespace quire::fuzz {
namespace {

constexpr int kNumTokens = 8;

// Small limits, so that a run gets through many inputs.
constexpr ConstraintLimits kLimits = {.max_items = size_t{1} << 15,
                                      .max_states = size_t{1} << 13,
                                      .max_ways = 500,
                                      .max_mask_steps = 200'000,
                                      .max_bytes = size_t{64} << 20};

void require(bool holds) {
  if (!holds) std::abort();
}

bool has(const TokenBits& mask, TokenId token) {
  return (mask[static_cast<size_t>(token) / 32] >> (token % 32) & 1) != 0;
}

// Returns an allowed token; -1 if there is none.
TokenId draw(const TokenBits& mask, size_t num_tokens, std::minstd_rand& random) {
  const size_t first = random() % num_tokens;
  for (size_t i = 0; i < num_tokens; ++i) {
    const auto token = static_cast<TokenId>((first + i) % num_tokens);
    if (has(mask, token)) return token;
  }
  return -1;
}

void walk(const std::shared_ptr<const Constraint>& constraint, uint32_t seed) {
  const TokenVocabulary& vocabulary = constraint->vocabulary();
  Matcher matcher(constraint);
  TokenBits mask(vocabulary.num_words());
  std::minstd_rand random(seed);
  for (int i = 0; i < kNumTokens && !matcher.has_ended(); ++i) {
    matcher.mask(mask);
    const auto other = static_cast<TokenId>(random() % vocabulary.size());
    const size_t num_steps = matcher.num_steps();
    const bool taken = matcher.accept(other);
    require(taken == has(mask, other));
    if (taken) matcher.rollback(1);
    require(matcher.num_steps() == num_steps);
    const TokenId next = draw(mask, vocabulary.size(), random);
    if (next < 0) return;
    require(matcher.accept(next));
  }
  matcher.forced(64);
}

}  // namespace

void check_refusal(const Error& error) {
  const std::string_view message = error.what();
  require(!message.empty() && message.find('\n') == std::string_view::npos);
}

void walk_constraint(ConstraintKind kind, std::string_view source) noexcept {
  static const auto* const vocabulary = new std::shared_ptr<const TokenVocabulary>(small_vocabulary());
  const auto* const bytes = reinterpret_cast<const std::byte*>(source.data());
  const auto seed = static_cast<uint32_t>(checksum(0, {bytes, source.size()}));
  try {
    walk(Constraint::compile(kind, source, *vocabulary, kLimits), seed);
  } catch (const Error& error) {
    check_refusal(error);
  }
}

}  // namespace quire::fuzz
