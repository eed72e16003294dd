// Sampler: draws one token from one row of logits. The order of operations is fixed:
//
//    penalties, DRY, bias, bans and mask, then the stages (temperature, cuts) in the settings' order, draw.
//
// Every operation that affects the result is exact or in a fixed order, and independent of other rows. So the
// tokens of a job do not depend on the other jobs of the batch. These operations are the logits processors of
// the engine.
#pragma once

#include <cstdint>
#include <vector>

#include <gsl/gsl>

#include "core/base/ids.h"
#include "core/sampling/candidate_set.h"
#include "core/sampling/dry.h"
#include "core/sampling/history.h"
#include "core/sampling/mirostat.h"
#include "core/sampling/random.h"
#include "core/sampling/selection.h"
#include "core/sampling/settings.h"

namespace quire {

// Sampling state of a job: settings, tokens so far, and position in its random sequence. Copyable: a fork
// starts from a copy. For one thread at a time.
class SamplerState {
 public:
  // Throws ErrorCode::invalid_argument if the settings are invalid for a vocabulary of vocab_size.
  SamplerState(SamplingSettings settings, int32_t vocab_size);

  const SamplingSettings& settings() const { return settings_; }
  const TokenHistory& history() const { return history_; }
  // Returns the number of appended tokens, without those rewound, including the prompt. The draw of the next
  // token uses the random bits of this position. So if a text is sent again as the prompt of a new job, the
  // same draws continue it.
  uint64_t num_tokens() const { return num_tokens_; }
  uint64_t next_bits() const { return random_bits(settings_.seed, num_tokens_); }
  // Returns the random bits that decide whether top choices are excluded (XTC) for the next token.
  uint64_t next_exclude_bits() const {
    return random_bits(settings_.seed, num_tokens_, RandomPurpose::exclude);
  }
  double mirostat_mu() const { return mirostat_.mu(); }

  // Reserves memory for a history of so many tokens; up to that number, append and rewind cannot fail. A copy
  // does not keep the reservation.
  void reserve(size_t num_tokens);
  // Appends tokens of the prompt. Every id must be in the vocabulary.
  void append(TokenId token);
  void append(gsl::span<const TokenId> tokens);
  // Appends a drawn token, with SampledToken::probability.
  void accept(TokenId token, float probability);
  // Removes the newest `count` tokens; count <= num_tokens().
  void rewind(uint64_t count);
  // Gives a fork its own draws.
  void reseed(uint64_t seed) { settings_.seed = seed; }

 private:
  SamplingSettings settings_;
  TokenHistory history_;
  Mirostat mirostat_;
  uint64_t num_tokens_ = 0;
};

// Tokens that a constraint allows: bit (id % 32) of word (id / 32). Without words every token is allowed.
struct TokenMask {
  gsl::span<const uint32_t> words;

  bool allows_all() const { return words.empty(); }
  bool allows(TokenId token) const {
    return (words[static_cast<size_t>(token) / 32] >> (static_cast<uint32_t>(token) % 32) & 1U) != 0;
  }
};

enum class SampleFault : int32_t {
  none = 0,
  non_finite,       // the row has NaN or +infinity
  nothing_allowed,  // every token is masked, banned or at -infinity
};

// Token with its log-probability under the softmax of the unchanged row.
struct TokenLogProb {
  TokenId token = 0;
  float log_prob = 0.0F;
};

struct SampleRequest {
  gsl::span<const float> logits;  // [vocab_size], never changed
  gsl::not_null<const SamplerState*> state;
  TokenMask mask{};                   // at least ceil(vocab_size / 32) words, or none
  gsl::span<const TokenId> banned{};  // for this step only; ids in the vocabulary
  bool want_log_prob = false;         // costs one more pass over the row
  // Number of most likely tokens of the unchanged row to return; implies want_log_prob.
  int32_t num_top_log_probs = 0;
};

struct SampledToken {
  SampleFault fault = SampleFault::none;
  TokenId token = -1;                         // valid if fault is none
  float log_prob = 0.0F;                      // under the softmax of the unchanged row; 0 if not requested
  float probability = 0.0F;                   // with which it was drawn, after all cuts; 1 if greedy
  std::vector<TokenLogProb> top_log_probs{};  // descending, the lower id first among equals
};

// Owns its scratch memory, so that a step allocates nothing (except for top_log_probs). For one thread at a
// time; one sampler serves the rows of any number of jobs.
class Sampler {
 public:
  // Throws ErrorCode::unsupported if vocab_size is not in [1, kMaxVocabSize].
  explicit Sampler(int32_t vocab_size);

  // The size of request.logits must be the vocab_size of this sampler and of the state.
  SampledToken sample(const SampleRequest& request);

  static constexpr int32_t kMaxVocabSize = 1 << 23;  // sums of weights fit in 64 bits

 private:
  struct Drawn {
    TokenId token = -1;
    float probability = 1.0F;
  };

  gsl::span<const float> adjust(const SampleRequest& request);
  void subtract_dry(const SamplerState& state, gsl::span<float> logits);
  Drawn draw(gsl::span<const float> logits, float max_logit, const SamplerState& state);
  Weight collect_top_k(gsl::span<const float> logits, float max_logit, float inverse_temperature, int32_t k);
  Weight collect_likely(gsl::span<const float> logits, const SamplingSettings& settings);
  Drawn draw_by_stages(gsl::span<const float> logits, float max_logit, const SamplerState& state);
  Drawn draw_from_all(const SamplerState& state) const;
  void add_log_probs(const SampleRequest& request, float max_logit, SampledToken& result);

  int32_t vocab_size_;
  std::vector<float> adjusted_;        // the row after penalties, DRY, bias, bans and mask
  std::vector<float> shares_;          // of every token
  std::vector<bool> seen_;             // scratch of TokenHistory
  std::vector<Candidate> candidates_;  // tokens left by the cuts, by ascending id
  std::vector<Candidate> order_;       // scratch of the cuts
  CandidateSet set_;                   // for draws with settings that are not plain
  std::vector<int32_t> lengths_;       // scratch of find_continuations
  std::vector<Continuation> continuations_;
};

}  // namespace quire
