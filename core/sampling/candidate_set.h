// Candidate tokens of a draw, and the sampler stages that filter them (logits processors). Used for draws
// that the fast path of the sampler does not cover: all stages of the settings, in any order.
#pragma once

#include <vector>

#include <gsl/gsl>

#include "core/sampling/selection.h"
#include "core/sampling/settings.h"

namespace quire {

// Input of the stages besides the settings.
struct StageInputs {
  double mirostat_mu = 0.0;
  uint64_t xtc_bits = 0;  // uniform
};

// Candidates by ascending id, with logits relative to the largest. Never empty once filled: every stage keeps
// at least one. Owns its scratch memory, so that a draw allocates nothing. For one thread at a time.
class CandidateSet {
 public:
  explicit CandidateSet(int32_t vocab_size);

  // Adds every token whose logit is finite; max_logit is the largest, and finite.
  void fill(gsl::span<const float> logits, float max_logit);
  void apply(SamplerStage stage, const SamplingSettings& settings, const StageInputs& inputs);
  gsl::span<const Candidate> items() const { return items_; }
  // Returns the candidates in the order of Cutoff: likelier first.
  gsl::span<const Candidate> sorted();
  Weight total() const;

 private:
  void apply_temperature(const SamplingSettings& settings);
  void keep_top_n_sigma(float n);
  void keep_top_k(int32_t k);
  void keep_top_p(float top_p);
  void keep_top_a(float a);
  void keep_min_p(float min_p);
  void keep_tail_free(float z);
  void keep_typical(float mass);
  void keep_unsurprising(double mu);
  void exclude_top_choices(const SamplingSettings& settings);

  void weigh();
  float dynamic_temperature(const SamplingSettings& settings) const;
  double entropy() const;  // in nats
  Weight max_weight() const;
  // Drops candidates with a weight below `least`, but never the heaviest.
  void keep_weights_from(double least);
  void keep_until(const Cutoff& cutoff);

  std::vector<Candidate> items_;
  std::vector<Candidate> order_;   // scratch
  std::vector<double> distances_;  // scratch of typical and tail-free sampling
};

}  // namespace quire
