// Sampling settings of a job. Every default is neutral: with defaults only, the draw is from the plain
// softmax.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "core/base/ids.h"

namespace quire {

// Added to the logit of one token before temperature.
struct LogitBias {
  TokenId token = 0;
  float bias = 0.0F;  // finite
};

// Stages that filter or reweight the candidates of a draw, after penalties, bias, bans and masks.
enum class SamplerStage : uint8_t {
  temperature,  // with smoothing_factor, or replaced by the dynamic temperature
  top_n_sigma,
  top_k,
  top_p,
  top_a,
  min_p,
  tail_free,
  typical,
  mirostat,
  xtc,
};
inline constexpr int32_t kNumSamplerStages = 10;

// Returns the name of the setting that switches the stage on: "temperature", "top_k", ...
std::string_view sampler_stage_name(SamplerStage stage);
// Parses a list of stages such as "top_k, temperature, xtc"; an empty text gives an empty list. Throws
// ErrorCode::invalid_argument naming the first unknown stage.
std::vector<SamplerStage> parse_sampler_order(std::string_view text);

// Plain data; validate() checks it. Stages that depend on mass or probability use the candidates left by the
// stages before them. Draws with plain settings (is_plain) are the same on every machine. The other stages
// use the logarithm and power of the C library, whose last bit may differ between libraries.
// Wide type: each sampling stage has its own settings.
struct SamplingSettings {
  // Divides the logits. 0 to 100; below kGreedyTemperature the largest logit is chosen and all stages are
  // skipped.
  float temperature = 1.0F;
  // Above 0: a logit at a distance d below the largest is moved to a distance of d * d * factor, before
  // temperature (quadratic sampling). 0 to 100; 0 is off.
  float smoothing_factor = 0.0F;
  // If max_temperature is above min_temperature, the temperature follows the entropy H of the candidates: min
  // + (max - min) * (H / Hmax) ^ exponent, where Hmax is the entropy of the same number of equally likely
  // candidates. `temperature` then only decides whether the draw is greedy. 0.01 to 100; equal values are
  // off.
  float min_temperature = 0.01F;
  float max_temperature = 0.01F;
  float temperature_exponent = 1.0F;  // 0.01 to 100
  // Keeps logits at most n standard deviations of all logits below the largest (Tang and others,
  // "Top-n-sigma", 2024). 0 to 1000; 0 is off.
  float top_n_sigma = 0.0F;
  // Keeps the k largest logits, the lower id first among equals. 0 is off.
  int32_t top_k = 0;
  // Nucleus sampling: keeps the fewest tokens, largest first, whose mass reaches p, including the token that
  // crosses the limit. The mass is relative to the tokens kept by top_k. In (0, 1]; 1 is off.
  float top_p = 1.0F;
  // Keeps tokens whose probability is at least a times the square of the largest one. 0 to 1; 0 is off.
  float top_a = 0.0F;
  // Keeps tokens at least min_p times as likely as the most likely one. 0 to 1; 0 is off.
  float min_p = 0.0F;
  // Tail-free sampling: keeps the likeliest tokens up to the one at which the curvature of the sorted
  // probabilities, summed and normalized, exceeds z. 0 to 1; 1 is off.
  float tail_free = 1.0F;
  // Locally typical sampling (Meister and others, 2022): keeps the tokens whose information is closest to the
  // entropy, the fewest whose mass reaches this value. Above 0 to 1; 1 is off.
  float typical = 1.0F;
  // Mirostat 2 (Basu and others, 2021): keeps tokens whose surprise in bits is at most mu, and always the
  // likeliest. mu starts at 2 tau and changes by eta * (tau - surprise of the drawn token) with each token.
  // tau 0 to 100, 0 is off; eta 0 to 1.
  float mirostat_tau = 0.0F;
  float mirostat_eta = 0.1F;
  // Exclude top choices (XTC): with this probability, drawn for each token, removes all tokens at least as
  // likely as the threshold, except the least likely of them. Both 0 to 1; probability 0 is off.
  float xtc_probability = 0.0F;
  float xtc_threshold = 0.1F;
  std::vector<TokenId> xtc_ignored{};  // never removed, and not counted among the top choices
  // Draws the candidate at u ^ exp(-skew) of the sum of weights, in order of probability, for a uniform u of
  // the position, instead of the first to arrive: values above 0 favour less likely tokens. -5 to 5; 0 is
  // off.
  float skew = 0.0F;
  // Order of stages, each at most once; must include every stage that is switched on. Empty: the order of
  // SamplerStage.
  std::vector<SamplerStage> order{};

  // Applied once per distinct token in range: divides a positive logit, multiplies any other. 0.01 to 100.
  float repetition_penalty = 1.0F;
  // Subtracted once per occurrence in range. -100 to 100.
  float frequency_penalty = 0.0F;
  // Subtracted once per distinct token in range. -100 to 100.
  float presence_penalty = 0.0F;
  // Range of the three penalties: the last N tokens, including the prompt. -1 is all of them.
  int32_t penalty_range = -1;
  // Penalties fade over the N tokens before the range: an occurrence j tokens beyond the range gets 1 - j/N
  // of each penalty. The newest occurrence of a token decides its repetition and presence penalty.
  int32_t penalty_decay = 0;

  // DRY ("don't repeat yourself"): penalizes a token that followed an earlier occurrence of the newest L
  // tokens, with L the longest such length. If L is at least allowed_length, subtracts multiplier * base ^ (L
  // - allowed_length) from its logit. Compares at most dry_max_length tokens. multiplier 0 to 100, 0 is off;
  // base 1 to 8.
  float dry_multiplier = 0.0F;
  float dry_base = 1.75F;
  int32_t dry_allowed_length = 2;  // 1 or more
  int32_t dry_max_length = 64;     // allowed_length to 1024
  int32_t dry_range = -1;          // searches the last N tokens, including the prompt; -1 is all of them
  // Tokens that no repetition may include, ascending. May be shared by jobs; may be nullptr.
  std::shared_ptr<const TokenIds> dry_breakers{};

  std::vector<LogitBias> logit_bias{};   // at most one entry per token
  std::vector<TokenId> banned_tokens{};  // never drawn

  // The same seed, logits and settings give the same tokens on any machine.
  uint64_t seed = 0;

  static constexpr float kGreedyTemperature = 0.01F;

  bool is_greedy() const { return temperature < kGreedyTemperature; }
  bool has_dynamic_temperature() const { return max_temperature > min_temperature; }
  bool uses_mirostat() const { return mirostat_tau > 0.0F; }
  bool has_dry() const { return dry_multiplier > 0.0F; }
  bool is_on(SamplerStage stage) const;
  // Returns whether the candidates are filtered only by temperature, top_k, top_p and min_p, in this order.
  bool is_plain() const;
  bool has_penalties() const {
    return repetition_penalty != 1.0F || frequency_penalty != 0.0F || presence_penalty != 0.0F;
  }

  // Throws ErrorCode::invalid_argument naming the field and its range if a value is out of range or NaN, or
  // if a token id is not in [0, vocab_size).
  void validate(int32_t vocab_size) const;
};

}  // namespace quire
