// From one row of logits to one token. The order of operations is fixed:
//   penalties, DRY, bias, bans and mask, then the stages (temperature, cuts) in the settings' order, draw.
// Everything that decides is exact or in a fixed order and independent of other rows, so a job's tokens do
// not depend on its company in a batch.
// These operations are the logits processors of the engine.
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

// What one job brings to each of its draws: settings, the tokens so far, and the place in its random
// sequence. Copyable: a fork starts from a copy. One thread at a time.
class SamplerState {
 public:
  // Throws ErrorCode::invalid_argument where the settings do not suit a vocabulary of vocab_size.
  SamplerState(SamplingSettings settings, int32_t vocab_size);

  const SamplingSettings& settings() const { return settings_; }
  const TokenHistory& history() const { return history_; }
  // Tokens appended and not taken back, prompt included. The draw of the next token uses the random bits of
  // this position, so a text sent again as the prompt of a new job is continued by the same draws.
  uint64_t num_tokens() const { return num_tokens_; }
  uint64_t next_bits() const { return random_bits(settings_.seed, num_tokens_); }
  // The bits by which the exclusion of top choices is decided for the next token.
  uint64_t next_exclude_bits() const {
    return random_bits(settings_.seed, num_tokens_, RandomPurpose::exclude);
  }
  double mirostat_mu() const { return mirostat_.mu(); }

  // Takes the memory for a history of so many tokens; within that, append and rewind cannot fail. A copy has
  // to be told again.
  void reserve(size_t num_tokens);
  // Tokens of the prompt. Every id must be in the vocabulary.
  void append(TokenId token);
  void append(gsl::span<const TokenId> tokens);
  // A token that was drawn, with SampledToken::probability.
  void accept(TokenId token, float probability);
  // Takes the newest count tokens back; count <= num_tokens().
  void rewind(uint64_t count);
  // Gives a fork draws of its own.
  void reseed(uint64_t seed) { settings_.seed = seed; }

 private:
  SamplingSettings settings_;
  TokenHistory history_;
  Mirostat mirostat_;
  uint64_t num_tokens_ = 0;
};

// Which tokens a constraint allows: bit (id % 32) of word (id / 32). No words allow every token.
struct TokenMask {
  gsl::span<const uint32_t> words;

  bool allows_all() const { return words.empty(); }
  bool allows(TokenId token) const {
    return (words[static_cast<size_t>(token) / 32] >> (static_cast<uint32_t>(token) % 32) & 1U) != 0;
  }
};

enum class SampleFault : int32_t {
  none = 0,
  non_finite,       // the row holds NaN or +infinity
  nothing_allowed,  // every token is masked, banned or at -infinity
};

// A token with its log-probability under the softmax of the unchanged row.
struct TokenLogProb {
  TokenId token = 0;
  float log_prob = 0.0F;
};

struct SampleRequest {
  gsl::span<const float> logits;  // [vocab_size], never changed
  gsl::not_null<const SamplerState*> state;
  TokenMask mask{};                   // of at least ceil(vocab_size / 32) words, or none
  gsl::span<const TokenId> banned{};  // for this step only; ids in the vocabulary
  bool want_log_prob = false;         // costs one more pass over the row
  int32_t num_top_log_probs = 0;      // the most likely tokens of the unchanged row; implies the above
};

struct SampledToken {
  SampleFault fault = SampleFault::none;
  TokenId token = -1;                         // valid where fault is none
  float log_prob = 0.0F;                      // under the softmax of the unchanged row; 0 where not asked for
  float probability = 0.0F;                   // with which it was drawn, after all cuts; 1 where greedy
  std::vector<TokenLogProb> top_log_probs{};  // descending, the lower id first among equals
};

// Owns the scratch of sampling, so that a step takes no memory (but for top_log_probs). One thread at a time;
// rows of any number of jobs go through one sampler.
class Sampler {
 public:
  // Throws ErrorCode::unsupported where vocab_size is not in [1, kMaxVocabSize].
  explicit Sampler(int32_t vocab_size);

  // request.logits.size() is the vocab_size of this sampler and of the state.
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
  std::vector<float> adjusted_;        // the row after penalties, bias, bans and mask
  std::vector<float> shares_;          // of every token
  std::vector<bool> seen_;             // scratch of TokenHistory
  std::vector<Candidate> candidates_;  // what the cuts left, by ascending id
  std::vector<Candidate> order_;       // scratch of the cuts
  CandidateSet set_;                   // of draws that are not plain
  std::vector<int32_t> lengths_;       // scratch of find_continuations
  std::vector<Continuation> continuations_;
};

}  // namespace quire
