#include "tests/simulation/oracle.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/sampling/guidance.h"
#include "tests/support/engine_fakes.h"

namespace quire::testing {

namespace {

bool holds(const TokenIds& tokens, TokenId token) {
  return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
}

// Returns the position of the stop string that ends first in `text`, the longest of several, or npos.
size_t find_stop(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      const bool ends_here = stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0;
      if (ends_here) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return end - longest;
  }
  return std::string::npos;
}

// Returns the matcher of a job's constraint after the last num_said tokens of its prompt; null if it has
// none.
std::unique_ptr<TokenMatcher> matcher_after(const JobRequest& request, int32_t num_said) {
  if (request.constraint == nullptr) return nullptr;
  std::unique_ptr<TokenMatcher> matcher = request.constraint->start();
  for (auto token = request.prompt.end() - num_said; token != request.prompt.end(); ++token)
    matcher->accept(*token);
  return matcher;
}

TokenMask mask_of(TokenMatcher& matcher, const TokenIds& stops, std::vector<uint32_t>& words) {
  matcher.mask(words);
  for (const TokenId stop : stops) {
    if (matcher.may_end()) words[static_cast<size_t>(stop) / 32] |= 1U << (static_cast<uint32_t>(stop) % 32);
  }
  return {words};
}

}  // namespace

bool Expectation::may_fail_with(ErrorCode code) const {
  return std::find(errors.begin(), errors.end(), code) != errors.end();
}

Oracle::Oracle(int32_t vocab_size, int32_t max_seq_len, TokenIds end_tokens, SpecialTokens special)
    : vocab_size_(vocab_size),
      max_seq_len_(max_seq_len),
      end_tokens_(std::move(end_tokens)),
      special_(special),
      sampler_(vocab_size) {}

Expectation Oracle::expect(const JobRequest& request, std::string held_text, int32_t num_said) {
  Expectation expected;
  expected.text = std::move(held_text);
  std::vector<ErrorCode> errors;
  const auto names = [&](TokenId token) {
    return holds(request.prompt, token) || holds(request.negative_prompt, token);
  };
  if (names(special_.poison)) errors.push_back(ErrorCode::numeric);
  if (names(special_.faulty_token)) errors.push_back(special_.faulty_token_code);
  if (!errors.empty()) {
    fail(expected, errors);
  } else if (request.kind == JobKind::generate) {
    generate(request, num_said, expected);
  } else {
    expected.reason = FinishReason::completed;
  }
  return expected;
}

void Oracle::fail(Expectation& expected, std::vector<ErrorCode> codes) const {
  expected.reason = FinishReason::failed;
  expected.errors = std::move(codes);
}

void Oracle::compute_logits(const TokenIds& tokens, const TokenIds& guide, float scale,
                            std::vector<float>& logits) const {
  fake_logits(tokens, logits);
  if (guide.empty()) return;
  std::vector<float> of_guide(logits.size());
  fake_logits(guide, of_guide);
  mix_guided(std::vector<float>(logits), of_guide, scale, logits);
}

void Oracle::generate(const JobRequest& request, int32_t num_said, Expectation& expected) {
  TokenIds tokens = request.prompt;
  TokenIds guide = request.negative_prompt;
  SamplerState state(request.sampling, vocab_size_);
  state.append(tokens);
  TokenIds stops = request.stop_tokens;
  if (!request.ignore_end_tokens) stops.insert(stops.end(), end_tokens_.begin(), end_tokens_.end());
  const std::unique_ptr<TokenMatcher> matcher = matcher_after(request, num_said);
  std::vector<float> logits(static_cast<size_t>(vocab_size_));
  std::vector<uint32_t> mask((static_cast<size_t>(vocab_size_) + 31) / 32);
  for (;;) {
    compute_logits(tokens, guide, request.guidance_scale, logits);
    SampleRequest draw{logits, &state};
    if (matcher != nullptr) draw.mask = mask_of(*matcher, stops, mask);
    if (static_cast<int32_t>(expected.tokens.size()) < request.min_new_tokens) draw.banned = stops;
    draw.want_log_prob = request.want_log_probs;
    const SampledToken sampled = sampler_.sample(draw);
    if (matcher != nullptr && sampled.fault == SampleFault::nothing_allowed) {
      if (!matcher->may_end()) return fail(expected, {ErrorCode::invalid_argument});
      expected.reason = FinishReason::completed;
      return;
    }
    if (sampled.fault != SampleFault::none) return fail(expected, {ErrorCode::numeric});
    tokens.push_back(sampled.token);
    if (!guide.empty()) guide.push_back(sampled.token);
    state.append(sampled.token);
    if (take(request, stops, sampled, expected)) return;
    if (matcher != nullptr) matcher->accept(sampled.token);
    // The next step computes this token, together with the tokens forced after it.
    if (sampled.token == special_.poison || sampled.token == special_.faulty_token) {
      const ErrorCode code =
          sampled.token == special_.poison ? ErrorCode::numeric : special_.faulty_token_code;
      if (ends_by_force(request, stops, matcher.get(), expected))
        expected.errors.push_back(code);
      else
        fail(expected, {code});
      return;
    }
  }
}

// Appends the forced tokens after a draw, and returns whether they end the job.
bool Oracle::ends_by_force(const JobRequest& request, const TokenIds& stops, TokenMatcher* matcher,
                           Expectation& expected) const {
  if (matcher == nullptr || request.want_log_probs || !request.sampling.banned_tokens.empty()) return false;
  std::vector<uint32_t> mask((static_cast<size_t>(vocab_size_) + 31) / 32);
  for (int32_t n = 0; n < kMaxForcedTokens; ++n) {
    if (matcher->may_end()) return false;
    matcher->mask(mask);
    SampledToken only;
    for (TokenId token = 0; token < vocab_size_; ++token) {
      if ((mask[static_cast<size_t>(token) / 32] >> (static_cast<uint32_t>(token) % 32) & 1U) == 0) continue;
      if (only.token >= 0) return false;
      only.token = token;
    }
    if (only.token < 0 || holds(stops, only.token)) return false;
    if (take(request, stops, only, expected)) return true;
    matcher->accept(only.token);
  }
  return false;
}

// Returns true if the job ends with this token.
bool Oracle::take(const JobRequest& request, const TokenIds& stops, const SampledToken& sampled,
                  Expectation& expected) const {
  const bool stops_here = holds(stops, sampled.token);
  if (sampled.token == special_.broken && !stops_here) {
    fail(expected, {ErrorCode::internal});
    return true;
  }
  expected.tokens.push_back(sampled.token);
  if (request.want_log_probs) expected.log_probs.push_back(sampled.log_prob);
  if (stops_here) {
    expected.reason = FinishReason::stop_token;
    return true;
  }
  expected.text += fake_text({sampled.token});
  const size_t cut = find_stop(expected.text, request.stop_strings);
  const size_t length =
      std::max(request.prompt.size(), request.negative_prompt.size()) + expected.tokens.size();
  if (cut != std::string::npos) {
    expected.text.resize(cut);
    expected.reason = FinishReason::stop_string;
  } else if (static_cast<int32_t>(expected.tokens.size()) >= request.max_new_tokens) {
    expected.reason = FinishReason::max_new_tokens;
  } else if (static_cast<int32_t>(length) >= max_seq_len_) {
    expected.reason = FinishReason::max_seq_len;
  }
  return expected.reason != FinishReason::unfinished;
}

std::string Oracle::deferred(const std::string& text, const std::vector<std::string>& stops) {
  size_t longest = 0;
  for (const std::string& stop : stops) {
    for (size_t size = std::min(stop.size() - 1, text.size()); size > longest; --size) {
      if (text.compare(text.size() - size, size, stop, 0, size) == 0) longest = size;
    }
  }
  return text.substr(text.size() - longest);
}

std::vector<float> Oracle::scores(const TokenIds& prompt) const {
  std::vector<float> scores;
  std::vector<float> logits(static_cast<size_t>(vocab_size_));
  for (size_t i = 0; i + 1 < prompt.size(); ++i) {
    fake_logits(gsl::span<const TokenId>(prompt).first(i + 1), logits);
    double sum = 0.0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
    scores.push_back(static_cast<float>(logits[static_cast<size_t>(prompt[i + 1])] - std::log(sum)));
  }
  return scores;
}

}  // namespace quire::testing
