// Small fakes of the engine's dependencies: clock, text codec, and a cache built from fakes.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/engine/engine.h"
#include "core/engine/loop/engine_thread.h"
#include "tests/support/fake_executor.h"

namespace quire::testing {

// Time advances only on request; a wait that would block advances it to the deadline.
class SimulatedClock final : public Clock {
 public:
  TimePoint now() const override { return TimePoint(Duration(now_.load())); }
  bool wait_until(std::condition_variable&, std::unique_lock<std::mutex>&, TimePoint deadline,
                  const std::function<bool()>& ready) const override {
    if (!ready() && deadline != TimePoint::max())
      now_ = std::max(now_.load(), deadline.time_since_epoch().count());
    return ready();
  }
  void advance(Duration by) { now_ += by.count(); }

 private:
  mutable std::atomic<int64_t> now_{1'000'000'000};
};

// Token i is the letter 'a' + i % 26. Exceptions: 25 is the two-byte character U+00E9, and tokens 101 and 102
// are its two halves.
class FakeCodec final : public TextCodec {
 public:
  // A token that cannot be decoded: push throws.
  TokenId broken_token = -1;

  std::unique_ptr<TextStream> open(bool) const override { return std::make_unique<Stream>(broken_token); }

 private:
  class Stream final : public TextStream {
   public:
    explicit Stream(TokenId broken_token) : broken_token_(broken_token) {}
    void push(TokenId token, std::string& text) override {
      if (token == broken_token_) throw Error(ErrorCode::internal, "the codec is broken");
      text.push_back(static_cast<char>('a' + token % 26));
    }
    void finish(std::string&) override {}
    std::unique_ptr<TextStream> clone() const override { return std::make_unique<Stream>(*this); }

   private:
    TokenId broken_token_;
  };
};

// Returns the text that FakeCodec decodes tokens to.
inline std::string fake_text(const TokenIds& tokens) {
  std::string text;
  for (const TokenId token : tokens) text.push_back(static_cast<char>('a' + token % 26));
  return text;
}

inline EngineOptions audited_cache() {
  EngineOptions options;
  options.check_invariants = true;
  options.step_stretch = 0.0;  // the real time of steps does not matter here
  options.drafting.drafter = DrafterKind::none;
  return options;
}

inline constexpr int32_t kVocab = 64;  // vocabulary of a small device

inline ExecutorLimits small_device() {
  ExecutorLimits limits;
  limits.max_tokens = limits.max_logit_rows = 64;
  limits.max_sequences = 8;
  limits.max_pages_per_sequence = limits.num_pages = 64;
  limits.page_tokens = 4;
  limits.vocab_size = kVocab;
  return limits;
}

struct FakeEngineOptions {
  ExecutorLimits limits = small_device();
  int32_t num_shards = 1;
  std::optional<FakeNetworkOptions> network = {};  // draft network of the model
  EngineOptions cache = audited_cache();
  int32_t max_seq_len = 200;
  TokenIds end_tokens;
  std::function<void(EngineParts&)> change_parts;  // before the engine is created; may be empty
  const Clock* clock = &steady_clock();
  const ThreadFactory* threads = &system_threads();
  Log log;
  std::shared_ptr<Runtime> runtime;  // null: a runtime of its own, with the three above
  std::vector<std::string> devices;  // that it computes on
  std::shared_ptr<WeightResidency> residency;
  PageMemory page_memory;
};

inline JobRequest greedy(TokenIds prompt, int32_t max_new_tokens) {
  JobRequest request;
  request.prompt = std::move(prompt);
  request.max_new_tokens = max_new_tokens;
  request.sampling.temperature = 0.0F;
  return request;
}

// Makes the device draw tokens and accept steps issued ahead.
inline void make_drawing(ExecutorLimits& limits) {
  limits.makes_draws = limits.follows = true;
  limits.max_draw_edits = 64;
}

// A cache on a fake device, with access to the executor and the codec.
struct FakeEngine {
  explicit FakeEngine(const FakeEngineOptions& options) {
    EngineParts parts;
    parts.devices = options.devices;
    parts.residency = options.residency;
    parts.page_memory = options.page_memory;
    auto owned = std::make_unique<FakeExecutor>(options.limits, options.num_shards);
    auto shared_codec = std::make_shared<FakeCodec>();
    executor = owned.get();
    if (options.network)
      owned->network = std::make_unique<FakeDraftNetwork>(options.limits, *options.network);
    codec = shared_codec.get();
    parts.executor = std::move(owned);
    parts.codec = std::move(shared_codec);
    parts.end_tokens = options.end_tokens;
    parts.num_tokens = options.limits.vocab_size;
    parts.max_seq_len = options.max_seq_len;
    if (options.change_parts) options.change_parts(parts);
    cache = Engine::create(options.runtime != nullptr ? options.runtime : make_runtime(options),
                           std::move(parts), options.cache);
  }

  static std::shared_ptr<Runtime> make_runtime(const FakeEngineOptions& options) {
    RuntimeOptions runtime;
    runtime.clock = options.clock;
    runtime.threads = options.threads;
    runtime.log = options.log;
    return Runtime::create(std::move(runtime));
  }

  // Runs steps until no job can run; for a cache without a thread.
  int32_t run_to_idle(int32_t max_steps = 100000) {
    int32_t steps = 0;
    while (steps < max_steps && cache->thread().run_once() == StepOutcome::advanced) ++steps;
    return steps;
  }

  FakeExecutor* executor = nullptr;
  FakeCodec* codec = nullptr;
  std::shared_ptr<Engine> cache;
};

// Output of a job so far.
struct Transcript {
  std::string text;
  TokenIds tokens;
  std::vector<float> log_probs;
  int32_t num_started = 0;
  int32_t num_terminal = 0;
  int32_t num_after_terminal = 0;
  Event terminal;
};

inline void add_event(Transcript& transcript, Event event) {
  if (transcript.num_terminal > 0) ++transcript.num_after_terminal;
  if (event.kind == EventKind::started) ++transcript.num_started;
  transcript.text += event.text;
  transcript.tokens.insert(transcript.tokens.end(), event.token_ids.begin(), event.token_ids.end());
  transcript.log_probs.insert(transcript.log_probs.end(), event.log_probs.begin(), event.log_probs.end());
  if (event.terminal()) {
    ++transcript.num_terminal;
    transcript.terminal = std::move(event);
  }
}

inline Transcript read_all(Job& job, Duration timeout = Duration{0}) {
  Transcript transcript;
  while (auto event = job.poll(timeout)) add_event(transcript, std::move(*event));
  return transcript;
}

}  // namespace quire::testing
