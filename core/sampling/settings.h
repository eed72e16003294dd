// What a job may ask of the sampler. Every default is neutral: an untouched value draws from the plain
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

// What shapes the candidates of a draw, once penalties, bias, bans and masks are applied.
enum class SamplerStage : uint8_t {
  temperature,  // with smoothing_factor, or the dynamic temperature in its place
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

// "temperature", "top_k", ...: the name of the setting that switches the stage on.
std::string_view sampler_stage_name(SamplerStage stage);
// "top_k, temperature, xtc" as stages; empty text: none. Throws ErrorCode::invalid_argument naming what is no
// stage.
std::vector<SamplerStage> parse_sampler_order(std::string_view text);

// Plain data; validate() says whether it can be used. Stages that mass or probability decides go by that of
// the candidates which the stages before them left. All that a draw of the plain settings (is_plain) takes is
// the same on every machine; the other stages use the machine's logarithm and power, whose last bit may
// differ between libraries.
struct SamplingSettings {
  // Divides the logits. 0 to 100; below kGreedyTemperature the largest logit wins and all stages are skipped.
  float temperature = 1.0F;
  // Above 0: a logit that lies d below the largest comes to lie d * d * factor below it, before temperature
  // (quadratic sampling). 0 to 100; 0 is off.
  float smoothing_factor = 0.0F;
  // With max_temperature above min_temperature the temperature follows the entropy H of the candidates:
  // min + (max - min) * (H / Hmax) ^ exponent, Hmax that of as many equal ones; `temperature` then only says
  // whether the draw is greedy. 0.01 to 100; equal values are off.
  float min_temperature = 0.01F;
  float max_temperature = 0.01F;
  float temperature_exponent = 1.0F;  // 0.01 to 100
  // Keeps logits at most n standard deviations of all logits below the largest (Tang and others,
  // "Top-n-sigma", 2024). 0 to 1000; 0 is off.
  float top_n_sigma = 0.0F;
  // Keeps the k largest logits, the lower id first among equals. 0 is off.
  int32_t top_k = 0;
  // Standard nucleus: keeps the fewest tokens, largest first, whose mass reaches p, the token that crosses
  // the line included. The mass is that of what top_k left. In (0, 1]; 1 is off.
  float top_p = 1.0F;
  // Keeps tokens of at least a times the square of the largest probability. 0 to 1; 0 is off.
  float top_a = 0.0F;
  // Keeps tokens at least min_p times as likely as the most likely one. 0 to 1; 0 is off.
  float min_p = 0.0F;
  // Tail-free sampling: keeps the likeliest tokens up to the one at which the curvature of the sorted
  // probabilities, summed and normalised, passes z. 0 to 1; 1 is off.
  float tail_free = 1.0F;
  // Locally typical sampling (Meister and others, 2022): keeps the tokens whose information lies closest to
  // the entropy, the fewest whose mass reaches this. Above 0 to 1; 1 is off.
  float typical = 1.0F;
  // Mirostat 2 (Basu and others, 2021): keeps tokens whose surprise in bits is at most mu, the likeliest
  // always; mu starts at 2 tau and moves by eta * (tau - surprise of the drawn token) with each token. tau 0
  // to 100, 0 is off; eta 0 to 1.
  float mirostat_tau = 0.0F;
  float mirostat_eta = 0.1F;
  // Exclude top choices: with this probability, drawn for each token, all tokens as likely as the threshold
  // or likelier go but the least likely of them. Both 0 to 1; probability 0 is off.
  float xtc_probability = 0.0F;
  float xtc_threshold = 0.1F;
  std::vector<TokenId> xtc_ignored{};  // never go, and are not counted among them
  // Draws from the candidates in order of probability with u ^ exp(-skew) in place of the uniform u: above 0
  // the less likely ones gain. -5 to 5; 0 is off.
  float skew = 0.0F;
  // The order of stages, each at most once; a stage that is switched on must be among them. Empty: as
  // SamplerStage lists them.
  std::vector<SamplerStage> order{};

  // Once per distinct token within reach: a positive logit is divided, any other multiplied. 0.01 to 100.
  float repetition_penalty = 1.0F;
  // Subtracted once per occurrence within reach. -100 to 100.
  float frequency_penalty = 0.0F;
  // Subtracted once per distinct token within reach. -100 to 100.
  float presence_penalty = 0.0F;
  // The reach of the three: the last N tokens, prompt included. -1 is all of them.
  int32_t penalty_range = -1;
  // The N tokens older than that fade: an occurrence j tokens beyond the range has the share 1 - j/N of each
  // penalty. The newest occurrence of a token decides its repetition and presence penalty.
  int32_t penalty_decay = 0;

  // DRY, "don't repeat yourself": a token that has followed an earlier occurrence of the newest L tokens has
  // multiplier * base ^ (L - allowed_length) taken off its logit, L the longest such length, where that is
  // allowed_length or more; at most dry_max_length tokens are compared. multiplier 0 to 100, 0 is off; base 1
  // to 8.
  float dry_multiplier = 0.0F;
  float dry_base = 1.75F;
  int32_t dry_allowed_length = 2;  // 1 or more
  int32_t dry_max_length = 64;     // allowed_length to 1024
  int32_t dry_range = -1;          // looks back over the last N tokens, prompt included; -1 is all of them
  // No repetition reaches over these, ascending. May be shared by jobs; may be nullptr.
  std::shared_ptr<const TokenIds> dry_breakers{};

  std::vector<LogitBias> logit_bias{};   // one entry per token at most
  std::vector<TokenId> banned_tokens{};  // never drawn

  // Same seed, same logits, same settings: same tokens, on any machine.
  uint64_t seed = 0;

  static constexpr float kGreedyTemperature = 0.01F;

  bool is_greedy() const { return temperature < kGreedyTemperature; }
  bool has_dynamic_temperature() const { return max_temperature > min_temperature; }
  bool uses_mirostat() const { return mirostat_tau > 0.0F; }
  bool has_dry() const { return dry_multiplier > 0.0F; }
  bool is_on(SamplerStage stage) const;
  // Whether temperature, top_k, top_p and min_p, in this order, are all that shapes the candidates.
  bool is_plain() const;
  bool has_penalties() const {
    return repetition_penalty != 1.0F || frequency_penalty != 0.0F || presence_penalty != 0.0F;
  }

  // Throws ErrorCode::invalid_argument naming the field and its range where a value is outside it or not a
  // number, or where a token id is not in [0, vocab_size).
  void validate(int32_t vocab_size) const;
};

}  // namespace quire
