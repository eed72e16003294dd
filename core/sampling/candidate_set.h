// The tokens that may still be drawn, and the stages that shape them. For draws that the plain cuts of the
// sampler do not cover: every stage of the settings, in any order.
#pragma once

#include <vector>

#include <gsl/gsl>

#include "core/sampling/selection.h"
#include "core/sampling/settings.h"

namespace quire {

// What a draw brings to its stages beside the settings.
struct StageInputs {
  double mirostat_mu = 0.0;
  uint64_t xtc_bits = 0;  // uniform
};

// By ascending id, with logits relative to the largest. Never empty once filled: every stage leaves one. Owns
// its scratch, so that a draw takes no memory. One thread at a time.
class CandidateSet {
 public:
  explicit CandidateSet(int32_t vocab_size);

  // Every token whose logit is finite; max_logit is the largest, and finite.
  void fill(gsl::span<const float> logits, float max_logit);
  void apply(SamplerStage stage, const SamplingSettings& settings, const StageInputs& inputs);
  gsl::span<const Candidate> items() const { return items_; }
  // The same by the order of Cutoff: likelier first.
  gsl::span<const Candidate> sorted();
  Weight total() const;

 private:
  void temper(const SamplingSettings& settings);
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
  // Drops what weighs less than `least`, but never the heaviest.
  void keep_weights_from(double least);
  void keep_until(const Cutoff& cutoff);

  std::vector<Candidate> items_;
  std::vector<Candidate> order_;   // scratch
  std::vector<double> distances_;  // scratch of typical and tail-free sampling
};

}  // namespace quire
