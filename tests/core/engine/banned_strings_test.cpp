// Banned strings and stop strings, compared with an oracle that examines the whole text after each token and
// keeps no state.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "tests/support/case_stride.h"
#include "tests/support/engine_fakes.h"

namespace quire::testing {
namespace {

constexpr int32_t kNumTokens = 16;
constexpr TokenId kEnd = 15;
// Texts that overlap in many ways, a token without text, and the two halves of a UTF-8 character.
const std::vector<std::string> kTexts = {"a",  "b",   "c", "ab",   "ba",   "aa",    "bb",  "abc",
                                         "ca", "cab", "",  "\xC3", "\xA9", "a\xC3", "bca", "<end>"};

class PieceCodec final : public TextCodec {
 public:
  std::unique_ptr<TextStream> open(bool) const override { return std::make_unique<Stream>(); }

 private:
  class Stream final : public TextStream {
   public:
    void push(TokenId token, std::string& text) override {
      for (const char byte : kTexts[static_cast<size_t>(token)]) {
        if (half_ && byte == '\xA9') {
          text += "\xC3\xA9";
          half_ = false;
          continue;
        }
        if (half_) text += "\xEF\xBF\xBD";
        half_ = byte == '\xC3';
        if (!half_) text += byte == '\xA9' ? "\xEF\xBF\xBD" : std::string(1, byte);
      }
    }
    void finish(std::string& text) override {
      if (half_) text += "\xEF\xBF\xBD";
      half_ = false;
    }
    std::unique_ptr<TextStream> clone() const override { return std::make_unique<Stream>(*this); }

   private:
    bool half_ = false;
  };
};

std::string text_of(const TokenIds& tokens, bool is_over = false) {
  const auto stream = PieceCodec().open(false);
  std::string text;
  for (const TokenId token : tokens) stream->push(token, text);
  if (is_over) stream->finish(text);
  return text;
}

// Allows a token unless the sum of all tokens including it is a multiple of five.
class Sums final : public TokenConstraint {
 public:
  static bool allows(int32_t sum, TokenId token) { return (sum + token) % 5 != 0; }
  std::unique_ptr<TokenMatcher> start() const override { return std::make_unique<Place>(); }

 private:
  class Place final : public TokenMatcher {
   public:
    void mask(gsl::span<uint32_t> words) override {
      words[0] = 0;
      for (TokenId token = 0; token < kNumTokens; ++token)
        words[0] |= (allows(sums_.back(), token) ? 1U : 0U) << static_cast<uint32_t>(token);
    }
    bool accept(TokenId token) override {
      if (!allows(sums_.back(), token)) return false;
      sums_.push_back(sums_.back() + token);
      return true;
    }
    void rollback(int32_t num_tokens) override {
      sums_.resize(sums_.size() - static_cast<size_t>(num_tokens));
    }
    bool may_end() const override { return sums_.back() % 2 == 0; }
    std::unique_ptr<TokenMatcher> clone() const override { return std::make_unique<Place>(*this); }

   private:
    std::vector<int32_t> sums_ = {0};
  };
};

struct Case {
  JobRequest request;
  bool is_constrained = false;
  int32_t rewind_after = -1;  // draws
  int32_t rewind_to = 0;
};

struct Said {
  TokenIds tokens;
  std::string text;
  FinishReason reason = FinishReason::unfinished;
};

class Oracle {
 public:
  explicit Oracle(const Case& of) : case_(of), request_(of.request) {}

  Said run() {
    for (int32_t num_draws = 0; pushed_tokens_.reason == FinishReason::unfinished; ++num_draws) {
      if (num_draws == case_.rewind_after && case_.rewind_to < static_cast<int32_t>(tokens_.size())) {
        cut(static_cast<size_t>(case_.rewind_to));
        excluded_.erase(excluded_.lower_bound(tokens_.size()), excluded_.end());
      }
      draw();
    }
    return pushed_tokens_;
  }

 private:
  struct Match {
    size_t begin = 0, end = std::string::npos;
    bool is_banned = false;
  };

  void cut(size_t num_tokens) {
    tokens_.resize(num_tokens);
    probabilities_.resize(num_tokens);
  }

  void finish(FinishReason reason, std::string text) { pushed_tokens_ = {tokens_, std::move(text), reason}; }

  SampledToken sample() {
    SamplerState state(request_.sampling, kNumTokens);
    state.append(request_.prompt);
    for (size_t i = 0; i < tokens_.size(); ++i) state.accept(tokens_[i], probabilities_[i]);
    TokenIds all = request_.prompt;
    all.insert(all.end(), tokens_.begin(), tokens_.end());
    std::vector<float> logits(kNumTokens);
    fake_logits(all, logits);
    const std::set<TokenId>& excluded = excluded_[tokens_.size()];
    const TokenIds banned(excluded.begin(), excluded.end());
    uint32_t mask = 0;
    int32_t sum = 0;
    for (const TokenId token : tokens_) sum += token;
    for (TokenId token = 0; token < kNumTokens; ++token)
      mask |= (Sums::allows(sum, token) ? 1U : 0U) << static_cast<uint32_t>(token);
    if (sum % 2 == 0) mask |= 1U << static_cast<uint32_t>(kEnd);
    SampleRequest request{logits, &state};
    if (case_.is_constrained) request.mask = {gsl::span<const uint32_t>(&mask, 1)};
    request.banned = banned;
    ends_ = case_.is_constrained && sum % 2 == 0;
    return sampler_.sample(request);
  }

  Match find(const std::string& text, size_t begin_of_new) const {
    Match best;
    const auto look_for = [&](const std::string& what, bool is_banned) {
      for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
        const size_t end = at + what.size();
        if (end <= begin_of_new) continue;
        if (end < best.end || (end == best.end && at < best.begin)) best = {at, end, is_banned};
      }
    };
    for (const std::string& stop : request_.stop_strings) look_for(stop, false);
    for (const std::string& banned : request_.banned_strings) look_for(banned, true);
    return best;
  }

  void draw() {
    const SampledToken drawn = sample();
    if (drawn.fault == SampleFault::nothing_allowed)
      return finish(ends_ ? FinishReason::completed : FinishReason::failed, text_of(tokens_, true));
    if (drawn.token == kEnd) {
      const std::string text = text_of(tokens_, true);
      tokens_.push_back(kEnd);
      return finish(FinishReason::stop_token, text);
    }
    const size_t num_known = text_of(tokens_).size();
    tokens_.push_back(drawn.token);
    probabilities_.push_back(drawn.probability);
    const std::string text = text_of(tokens_);
    const Match match = find(text, num_known);
    if (match.end == std::string::npos) {
      if (static_cast<int32_t>(tokens_.size()) == request_.max_new_tokens)
        finish(FinishReason::max_new_tokens, text_of(tokens_, true));
      return;
    }
    if (!match.is_banned) return finish(FinishReason::stop_string, text.substr(0, match.begin));
    size_t first = 0;
    while (text_of({tokens_.begin(), tokens_.begin() + static_cast<ptrdiff_t>(first) + 1}).size() <=
           match.begin)
      ++first;
    excluded_.erase(excluded_.upper_bound(first), excluded_.end());
    excluded_[first].insert(tokens_[first]);
    cut(first);
  }

  const Case& case_;
  const JobRequest& request_;
  Sampler sampler_{kNumTokens};
  TokenIds tokens_;
  std::vector<float> probabilities_;
  std::map<size_t, std::set<TokenId>> excluded_;
  bool ends_ = false;
  Said pushed_tokens_;
};

class BannedStrings : public ::testing::Test {
 protected:
  std::shared_ptr<Engine> make_cache(bool on_device, bool is_audited) {
    ExecutorLimits limits{64, 4, 64, 32, 64, 4, kNumTokens};
    if (on_device) make_drawing(limits);
    EngineParts parts;
    parts.executor = std::make_unique<FakeExecutor>(limits);
    parts.codec = std::make_shared<PieceCodec>();
    parts.end_tokens = {kEnd};
    parts.num_tokens = kNumTokens;
    parts.max_seq_len = 100;
    EngineOptions options;
    options.check_invariants = is_audited;
    options.start_thread = false;
    return Engine::create(Runtime::create({}), std::move(parts), options);
  }

  std::string random_text(size_t most) {
    static const char* const kPieces[] = {"a", "b", "c", "\xC3\xA9"};
    std::string text;
    for (size_t length = 1 + random_() % most; text.size() < length;)
      text += kPieces[random_() % (random_() % 9 == 0 ? 4 : 3)];
    return text;
  }

  void shape(SamplingSettings& sampling) {
    sampling.temperature = random_() % 3 == 0 ? 0.0F : 1.0F;
    sampling.seed = random_();
    if (random_() % 4 == 0) sampling.repetition_penalty = 1.3F;
    if (random_() % 4 == 0) sampling.frequency_penalty = 0.4F;
    if (random_() % 8 == 0) sampling.mirostat_tau = 1.0F;
    if (random_() % 8 == 0) sampling.dry_multiplier = 2.0F;
  }

  Case random_case() {
    Case made;
    JobRequest& request = made.request;
    for (size_t i = 0, count = 1 + random_() % 6; i < count; ++i)
      request.prompt.push_back(static_cast<TokenId>(random_() % kNumTokens));
    request.max_new_tokens = 1 + static_cast<int32_t>(random_() % 14);
    shape(request.sampling);
    for (size_t i = 0, count = random_() % 3; i < count; ++i) request.stop_strings.push_back(random_text(4));
    for (size_t i = 0, count = random_() % 4; i < count; ++i) {
      const std::string banned = random_text(5);
      const auto& stops = request.stop_strings;
      if (std::find(stops.begin(), stops.end(), banned) == stops.end())
        request.banned_strings.push_back(banned);
    }
    request.want_log_probs = random_() % 2 == 0;
    made.is_constrained = random_() % 4 == 0;
    if (made.is_constrained) request.constraint = std::make_shared<Sums>();
    return made;
  }

  void judge(const Case& of, Job& job, const Said& expected, const std::string& name) {
    Transcript transcript;
    int32_t num_rewinds = 0;
    while (auto event = job.poll(Duration{0})) {
      if (event->kind == EventKind::rewind) {
        ++num_rewinds;
        transcript.text.resize(static_cast<size_t>(event->kept_bytes));
        transcript.tokens.resize(static_cast<size_t>(event->kept_tokens));
        if (of.request.want_log_probs) transcript.log_probs.resize(transcript.tokens.size());
      }
      if (of.request.want_log_probs) {
        EXPECT_EQ(event->log_probs.size(), event->token_ids.size()) << name;
      }
      add_event(transcript, std::move(*event));
    }
    ASSERT_EQ(job.result().reason, expected.reason) << name << ": " << job.result().message;
    if (expected.reason == FinishReason::failed) return;
    ASSERT_EQ(transcript.tokens, expected.tokens) << name;
    ASSERT_EQ(transcript.text, expected.text) << name;
    if (of.rewind_after < 0) {
      ASSERT_EQ(num_rewinds, 0) << name;
    }
    for (const std::string& banned : of.request.banned_strings)
      ASSERT_EQ(transcript.text.find(banned), std::string::npos) << name << ": " << banned;
  }

  std::mt19937_64 random_{20261122};
};

// More in a long run started by hand.
int num_cases() {
  const char* const cases = std::getenv("QUIRE_STOP_CASES");
  return cases == nullptr ? 100000 / stride_if_sanitized(20) : std::atoi(cases);
}

TEST_F(BannedStrings, MatchTheOracleOfTheWholeText) {
  const std::shared_ptr<Engine> caches[] = {make_cache(false, false), make_cache(true, false),
                                            make_cache(true, true)};
  int32_t num_taken_back = 0;
  const int count = num_cases();
  for (int idx = 0; idx < count; ++idx) {
    const Case made = random_case();
    const std::string name = "case " + std::to_string(idx);
    Engine& cache = *caches[idx % 20 == 0 ? 2 : idx % 2];
    const auto job = cache.submit(made.request);
    int32_t num_steps = 0;
    while (cache.thread().run_once() == StepOutcome::advanced) ++num_steps;
    const Said expected = Oracle(made).run();
    judge(made, *job, expected, name);
    if (HasFatalFailure()) return;
    if (num_steps > static_cast<int32_t>(expected.tokens.size()) + 1) ++num_taken_back;
  }
  EXPECT_GT(num_taken_back, count / 10);
}

TEST_F(BannedStrings, MatchTheOracleAfterARewind) {
  const std::shared_ptr<Engine> cache = make_cache(false, true);
  for (int idx = 0; idx < 10000 / stride_if_sanitized(10); ++idx) {
    Case made = random_case();
    made.rewind_after = 1 + static_cast<int32_t>(random_() % 10);
    made.rewind_to = static_cast<int32_t>(random_() % 8);
    const auto job = cache->submit(made.request);
    for (int32_t i = 0; i < made.rewind_after; ++i) cache->thread().run_once();
    job->rewind(made.rewind_to);
    while (cache->thread().run_once() == StepOutcome::advanced) {
    }
    judge(made, *job, Oracle(made).run(), "case " + std::to_string(idx));
    if (HasFatalFailure()) return;
  }
}

// The fork outputs the rest of the held text, and never the banned string.
TEST_F(BannedStrings, AForkInsideABannedStringAvoidsIt) {
  const std::shared_ptr<Engine> cache = make_cache(false, true);
  for (int idx = 0; idx < 2000; ++idx) {
    Case made = random_case();
    made.request.max_new_tokens = 12;
    made.request.constraint = nullptr;
    made.request.stop_strings.clear();
    const auto parent = cache->submit(made.request);
    for (size_t i = 0, count = 1 + random_() % 6; i < count; ++i) cache->thread().run_once();
    const Transcript before = read_all(*parent);
    ForkOptions options;
    options.seed = random_();
    const auto child = parent->fork(options);
    cache->thread().run_once();
    while (cache->thread().run_once() == StepOutcome::advanced) {
    }
    if (child->result().reason == FinishReason::failed) continue;  // the parent had finished
    const Transcript whole = read_all(*parent);
    const Transcript rest = read_all(*child);
    for (const std::string& banned : made.request.banned_strings) {
      EXPECT_EQ((before.text + whole.text).find(banned), std::string::npos) << idx;
      EXPECT_EQ((before.text + rest.text).find(banned), std::string::npos) << idx;
    }
  }
}

TEST_F(BannedStrings, AJobFailsIfEveryTokenCompletesOne) {
  const std::shared_ptr<Engine> cache = make_cache(false, true);
  JobRequest request = greedy({1, 2}, 8);
  request.ignore_end_tokens = true;
  request.banned_strings = {"a", "b", "c", "\xC3\xA9", "<end>"};
  request.sampling.banned_tokens = {10, 11, 12};  // the tokens that never complete a banned string
  const auto job = cache->submit(request);
  while (cache->thread().run_once() == StepOutcome::advanced) {
  }
  EXPECT_EQ(job->result().error, ErrorCode::invalid_argument);
  EXPECT_NE(job->result().message.find("banned_texts"), std::string::npos) << job->result().message;
}

TEST_F(BannedStrings, AreCheckedAtSubmit) {
  const std::shared_ptr<Engine> cache = make_cache(false, true);
  const auto refusal = [&](const std::vector<std::string>& banned) {
    JobRequest request = greedy({1}, 2);
    request.stop_strings = {"stop"};
    request.banned_strings = banned;
    try {
      cache->submit(request);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(refusal({""}).find("banned_texts"), std::string::npos);
  EXPECT_NE(refusal({"stop"}).find("stop_texts"), std::string::npos);
  EXPECT_NE(refusal({"\xEF\xBF\xBD"}).find("U+FFFD"), std::string::npos);
  EXPECT_NE(refusal({"\xC3"}).find("banned_texts"), std::string::npos);
  EXPECT_EQ(refusal({"stops"}), "");
}

}  // namespace
}  // namespace quire::testing
