// Constrained decoding on the fake device: drawn tokens, and forced tokens that are computed in one step.
#include <functional>

#include <gtest/gtest.h>

#include "tests/support/engine_fakes.h"

namespace quire::testing {
namespace {

// Allows the tokens of one text in order, and the end after it.
class FixedText final : public TokenConstraint {
 public:
  explicit FixedText(TokenIds text, bool forces = false) : text_(std::move(text)), forces_(forces) {}
  std::unique_ptr<TokenMatcher> start() const override { return std::make_unique<Place>(text_, forces_); }

 private:
  class Place final : public TokenMatcher {
   public:
    Place(TokenIds text, bool forces) : text_(std::move(text)), forces_(forces) {}
    void mask(gsl::span<uint32_t> words) override {
      std::fill(words.begin(), words.end(), 0U);
      if (may_end()) return;
      const auto token = static_cast<uint32_t>(text_[done_]);
      words[token / 32] |= 1U << (token % 32);
    }
    bool accept(TokenId token) override {
      if (may_end() || text_[done_] != token) return false;
      ++done_;
      return true;
    }
    void rollback(int32_t num_tokens) override { done_ -= static_cast<size_t>(num_tokens); }
    bool forces() const override { return true; }
    void force(int32_t max_tokens, TokenIds& out) const override {
      if (!forces_) return;
      for (size_t i = done_; i < text_.size() && max_tokens > 0; ++i, --max_tokens) out.push_back(text_[i]);
    }
    bool may_end() const override { return done_ == text_.size(); }
    std::unique_ptr<TokenMatcher> clone() const override { return std::make_unique<Place>(*this); }

   private:
    TokenIds text_;
    bool forces_;
    size_t done_ = 0;
  };
  TokenIds text_;
  bool forces_;
};

// Allows one token, and then none because of a limit.
class Narrow final : public TokenConstraint {
 public:
  std::unique_ptr<TokenMatcher> start() const override { return std::make_unique<Place>(); }

 private:
  class Place final : public TokenMatcher {
   public:
    void mask(gsl::span<uint32_t> words) override {
      std::fill(words.begin(), words.end(), 0U);
      if (num_tokens_ == 0) words[0] = 1U << 9;
    }
    bool accept(TokenId token) override {
      if (num_tokens_ > 0 || token != 9) return false;
      ++num_tokens_;
      return true;
    }
    void rollback(int32_t num_tokens) override { num_tokens_ -= num_tokens; }
    std::string exceeded_limit() const override { return num_tokens_ == 0 ? "" : "max_width = 1: say less"; }
    bool may_end() const override { return false; }
    std::unique_ptr<TokenMatcher> clone() const override { return std::make_unique<Place>(*this); }

   private:
    int32_t num_tokens_ = 0;
  };
};

// Returns options for a test that steps by hand, with an end token, drawing on the host or on the device.
FakeEngineOptions drawn(bool on_device) {
  FakeEngineOptions options;
  options.end_tokens = {3};
  options.cache.start_thread = false;
  if (on_device) make_drawing(options.limits);
  return options;
}

// Draws on the host, and on a device in steps that are issued ahead: the mask is computed while a pass runs.
TEST(ConstrainedGeneration, AConstraintDeterminesTheDrawnTokens) {
  const TokenIds text{9, 8, 40, 7, 33, 2};
  for (const bool on_device : {false, true}) {
    const FakeEngineOptions options = drawn(on_device);
    FakeEngine engine{options};
    JobRequest request = greedy({1, 2}, 20);
    request.constraint = std::make_shared<FixedText>(text);
    const auto job = engine.cache->submit(request);
    request.ignore_end_tokens = true;
    const auto endless = engine.cache->submit(request);
    const auto free = engine.cache->submit(greedy({5, 6}, 12));
    engine.run_to_idle();
    TokenIds with_end = text;
    with_end.push_back(3);
    EXPECT_EQ(read_all(*job).tokens, with_end);
    EXPECT_EQ(job->result().reason, FinishReason::stop_token);
    EXPECT_EQ(read_all(*endless).tokens, text);
    EXPECT_EQ(endless->result().reason, FinishReason::completed)
        << "no token is allowed, and the text may end";
    EXPECT_EQ(read_all(*free).tokens, fake_greedy({5, 6}, 12, options.limits.vocab_size));
    if (!on_device) continue;
    EXPECT_GE(engine.executor->num_rows_masked(), 13);
    EXPECT_GE(engine.executor->num_followed(), engine.executor->num_steps() - 2);
  }
}

TEST(ConstrainedGeneration, ADeadEndAtALimitNamesTheLimit) {
  for (const bool on_device : {false, true}) {
    for (const bool bans : {false, true}) {
      const FakeEngineOptions options = drawn(on_device);
      FakeEngine engine{options};
      JobRequest request = greedy({1, 2}, 20);
      request.constraint = std::make_shared<Narrow>();
      if (bans) request.banned_strings = {"zzzz"};
      const auto job = engine.cache->submit(request);
      engine.run_to_idle();
      EXPECT_EQ(job->result().error, ErrorCode::capacity);
      EXPECT_EQ(job->result().message,
                "constraint: the text cannot continue at new token 1: max_width = 1: say less");
      request.sampling.banned_tokens = {9};
      const auto barred = engine.cache->submit(request);
      engine.run_to_idle();
      EXPECT_EQ(barred->result().error, ErrorCode::invalid_argument) << "not because of a limit";
    }
  }
}

struct ForcedRun {
  TokenIds tokens;
  JobResult result;
  int64_t num_steps = 0;
};

ForcedRun run_forced(
    const TokenIds& text, bool forces, bool on_device,
    const std::function<void(JobRequest&)>& change = [](JobRequest&) {}) {
  const FakeEngineOptions options = drawn(on_device);
  FakeEngine engine{options};
  JobRequest request = greedy({1, 2}, 40);
  request.constraint = std::make_shared<FixedText>(text, forces);
  change(request);
  const auto job = engine.cache->submit(request);
  engine.run_to_idle();
  return {read_all(*job).tokens, job->result(), engine.executor->num_steps()};
}

TEST(ConstrainedGeneration, ForcedTokensAreComputedInOneStepAndNotDrawn) {
  const TokenIds text{9, 8, 40, 7, 33, 2, 11, 12, 13, 14};
  for (const bool on_device : {false, true}) {
    const ForcedRun drawn = run_forced(text, false, on_device);
    const ForcedRun forced = run_forced(text, true, on_device);
    EXPECT_EQ(forced.tokens, drawn.tokens);
    EXPECT_EQ(forced.result.new_tokens, drawn.result.new_tokens);
    EXPECT_EQ(forced.result.cached_tokens, 0);
    EXPECT_GE(drawn.num_steps, 11);
    EXPECT_LE(forced.num_steps, on_device ? 4 : 2) << "a step issued ahead has one token only";
  }
}

TEST(ConstrainedGeneration, ForcedTokensObeyTheLimits) {
  const TokenIds text{9, 8, 40, 7, 33, 2, 11, 12, 13, 14};
  const ForcedRun cut =
      run_forced(text, true, false, [](JobRequest& request) { request.max_new_tokens = 4; });
  EXPECT_EQ(cut.tokens, TokenIds({9, 8, 40, 7}));
  EXPECT_EQ(cut.result.reason, FinishReason::max_new_tokens);
  const ForcedRun long_text =
      run_forced(TokenIds(60, 5), true, false, [](JobRequest& request) { request.max_new_tokens = 60; });
  EXPECT_EQ(long_text.tokens.size(), 60U);
}

TEST(ConstrainedGeneration, TokensAreDrawnIfOtherSettingsMatterToo) {
  const TokenIds text{9, 8, 40, 7, 33, 2, 11, 12, 13, 14};
  const ForcedRun scored =
      run_forced(text, true, false, [](JobRequest& request) { request.want_log_probs = true; });
  EXPECT_GE(scored.num_steps, 11);
  const ForcedRun barred =
      run_forced(text, true, false, [](JobRequest& request) { request.sampling.banned_tokens = {13}; });
  EXPECT_EQ(barred.result.error, ErrorCode::invalid_argument);
  const ForcedRun unlikely = run_forced(text, true, false, [](JobRequest& request) {
    request.sampling.logit_bias = {{40, -5.0F}};
  });
  EXPECT_GE(unlikely.num_steps, 11);
}

TEST(ConstrainedGeneration, ForksAndRewindsMayCutForcedTokens) {
  const TokenIds text{9, 8, 40, 7, 33, 2, 11, 12, 13, 14};
  FakeEngineOptions options;
  options.end_tokens = {3};
  options.cache.start_thread = false;
  FakeEngine engine{options};
  JobRequest request = greedy({1, 2}, 40);
  request.constraint = std::make_shared<FixedText>(text, true);
  const auto job = engine.cache->submit(request);
  engine.run_to_idle(1);
  const auto child = job->fork({});
  job->rewind(4);
  engine.run_to_idle();
  TokenIds with_end = text;
  with_end.push_back(3);
  EXPECT_EQ(job->result().new_tokens, 11);
  EXPECT_EQ(job->result().reason, FinishReason::stop_token);
  EXPECT_EQ(child->result().new_tokens, 1) << "only the end was left";
  EXPECT_EQ(child->result().reason, FinishReason::stop_token);
}

}  // namespace
}  // namespace quire::testing
