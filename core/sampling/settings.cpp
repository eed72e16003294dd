#include "core/sampling/settings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, kNumSamplerStages> kStageNames = {
    "temperature", "top_n_sigma", "top_k",   "top_p",    "top_a",
    "min_p",       "tail_free",   "typical", "mirostat", "xtc"};

// Written so that NaN fails.
void require_in(float value, float min, float max, std::string_view field) {
  if (!(value >= min && value <= max)) {
    throw Error(ErrorCode::invalid_argument, "{} must be from {} to {}, not {}", field, min, max, value)
        .at(field);
  }
}

void require_at_least(int32_t value, int32_t min, std::string_view field, std::string_view meaning) {
  if (value < min) {
    throw Error(ErrorCode::invalid_argument, "{} must be {} or more ({}), not {}", field, min, meaning, value)
        .at(field);
  }
}

void require_token(TokenId token, int32_t vocab_size, std::string_view field, std::string_view parameter) {
  if (token < 0 || token >= vocab_size) {
    throw Error(ErrorCode::invalid_argument, "{}: token id {} is not in the vocabulary of {}", field, token,
                vocab_size)
        .at(parameter);
  }
}

void require_token(TokenId token, int32_t vocab_size, std::string_view field) {
  require_token(token, vocab_size, field, field);
}

void validate_bias(const std::vector<LogitBias>& entries, int32_t vocab_size) {
  TokenIds ids;
  ids.reserve(entries.size());
  for (const LogitBias& entry : entries) {
    require_token(entry.token, vocab_size, "logit_bias", "logit_biases");
    if (!std::isfinite(entry.bias)) {
      throw Error(ErrorCode::invalid_argument,
                  "logit_bias of token {} must be finite, not {}; use banned_tokens to forbid a token",
                  entry.token, entry.bias)
          .at("logit_biases");
    }
    ids.push_back(entry.token);
  }
  std::sort(ids.begin(), ids.end());
  const auto twice = std::adjacent_find(ids.begin(), ids.end());
  if (twice != ids.end()) {
    throw Error(ErrorCode::invalid_argument, "logit_bias names token {} more than once", *twice)
        .at("logit_biases");
  }
}

void require_above(float value, float min, float max, std::string_view field) {
  if (!(value > min && value <= max)) {
    throw Error(ErrorCode::invalid_argument, "{} must be above {} and at most {} ({} is off), not {}", field,
                min, max, max, value)
        .at(field);
  }
}

std::string_view trim(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

SamplerStage parse_stage(std::string_view name) {
  const auto found = std::find(kStageNames.begin(), kStageNames.end(), name);
  if (found == kStageNames.end()) {
    std::string names;
    for (const std::string_view stage : kStageNames) {
      if (!names.empty()) names += ", ";
      names += stage;
    }
    throw Error(ErrorCode::invalid_argument,
                "the sampler order names \"{}\", which is not a stage; the stages are {}", name, names)
        .at("sampler_order");
  }
  return static_cast<SamplerStage>(found - kStageNames.begin());
}

void validate_order(const SamplingSettings& settings) {
  const std::vector<SamplerStage>& order = settings.order;
  if (order.empty()) return;
  for (int32_t idx = 0; idx < kNumSamplerStages; ++idx) {
    const auto stage = static_cast<SamplerStage>(idx);
    const auto count = std::count(order.begin(), order.end(), stage);
    if (count > 1) {
      throw Error(ErrorCode::invalid_argument, "the sampler order names {} more than once",
                  sampler_stage_name(stage))
          .at("sampler_order");
    }
    if (count == 0 && settings.is_on(stage)) {
      throw Error(ErrorCode::invalid_argument, "{} is set, but the sampler order does not name it",
                  sampler_stage_name(stage))
          .at("sampler_order");
    }
  }
}

void validate_temperature(const SamplingSettings& s) {
  require_in(s.temperature, 0.0F, 100.0F, "temperature");
  require_in(s.smoothing_factor, 0.0F, 100.0F, "smoothing_factor");
  require_in(s.min_temperature, SamplingSettings::kGreedyTemperature, 100.0F, "min_temperature");
  require_in(s.max_temperature, SamplingSettings::kGreedyTemperature, 100.0F, "max_temperature");
  require_in(s.temperature_exponent, 0.01F, 100.0F, "temperature_exponent");
  if (s.max_temperature < s.min_temperature) {
    throw Error(ErrorCode::invalid_argument, "max_temperature must be min_temperature ({}) or more, not {}",
                s.min_temperature, s.max_temperature)
        .at("max_temperature");
  }
}

void validate_penalties(const SamplingSettings& s) {
  require_in(s.repetition_penalty, 0.01F, 100.0F, "repetition_penalty");
  require_in(s.frequency_penalty, -100.0F, 100.0F, "frequency_penalty");
  require_in(s.presence_penalty, -100.0F, 100.0F, "presence_penalty");
  require_at_least(s.penalty_range, -1, "penalty_range", "-1 is all tokens");
  require_at_least(s.penalty_decay, 0, "penalty_decay", "0 is off");
}

void validate_dry(const SamplingSettings& s, int32_t vocab_size) {
  constexpr int32_t kMaxLength = 1024;
  require_in(s.dry_multiplier, 0.0F, 100.0F, "dry_multiplier");
  require_in(s.dry_base, 1.0F, 8.0F, "dry_base");
  if (s.dry_allowed_length < 1 || s.dry_allowed_length > kMaxLength) {
    throw Error(ErrorCode::invalid_argument, "dry_allowed_length must be from 1 to {}, not {}", kMaxLength,
                s.dry_allowed_length)
        .at("dry_allowed_length");
  }
  if (s.dry_max_length < s.dry_allowed_length || s.dry_max_length > kMaxLength) {
    throw Error(ErrorCode::invalid_argument,
                "dry_max_length must be from dry_allowed_length ({}) to {}, not {}", s.dry_allowed_length,
                kMaxLength, s.dry_max_length)
        .at("dry_max_length");
  }
  require_at_least(s.dry_range, -1, "dry_range", "-1 is all tokens");
  if (s.dry_breakers == nullptr) return;
  for (const TokenId token : *s.dry_breakers) require_token(token, vocab_size, "dry_breakers");
}

void validate_stages(const SamplingSettings& s, int32_t vocab_size) {
  require_in(s.top_n_sigma, 0.0F, 1000.0F, "top_n_sigma");
  require_at_least(s.top_k, 0, "top_k", "0 is off");
  require_above(s.top_p, 0.0F, 1.0F, "top_p");
  require_in(s.top_a, 0.0F, 1.0F, "top_a");
  require_in(s.min_p, 0.0F, 1.0F, "min_p");
  require_in(s.tail_free, 0.0F, 1.0F, "tail_free");
  require_above(s.typical, 0.0F, 1.0F, "typical");
  require_in(s.mirostat_tau, 0.0F, 100.0F, "mirostat_tau");
  require_in(s.mirostat_eta, 0.0F, 1.0F, "mirostat_eta");
  require_in(s.xtc_probability, 0.0F, 1.0F, "xtc_probability");
  require_in(s.xtc_threshold, 0.0F, 1.0F, "xtc_threshold");
  for (const TokenId token : s.xtc_ignored) require_token(token, vocab_size, "xtc_ignored");
  require_in(s.skew, -5.0F, 5.0F, "skew");
}

}  // namespace

std::string_view sampler_stage_name(SamplerStage stage) {
  return kStageNames[static_cast<size_t>(stage)];
}

std::vector<SamplerStage> parse_sampler_order(std::string_view text) {
  std::vector<SamplerStage> order;
  if (trim(text).empty()) return order;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    order.push_back(parse_stage(trim(text.substr(begin, end - begin))));
    if (order.size() > kStageNames.size()) {
      throw Error(ErrorCode::invalid_argument,
                  "the sampler order has more than {} stages; name each stage once at most",
                  kStageNames.size())
          .at("sampler_order");
    }
    begin = end + 1;
  }
  return order;
}

bool SamplingSettings::is_on(SamplerStage stage) const {
  switch (stage) {
    case SamplerStage::temperature:
      return temperature != 1.0F || smoothing_factor > 0.0F || has_dynamic_temperature();
    case SamplerStage::top_n_sigma:
      return top_n_sigma > 0.0F;
    case SamplerStage::top_k:
      return top_k > 0;
    case SamplerStage::top_p:
      return top_p < 1.0F;
    case SamplerStage::top_a:
      return top_a > 0.0F;
    case SamplerStage::min_p:
      return min_p > 0.0F;
    case SamplerStage::tail_free:
      return tail_free < 1.0F;
    case SamplerStage::typical:
      return typical < 1.0F;
    case SamplerStage::mirostat:
      return uses_mirostat();
    case SamplerStage::xtc:
      return xtc_probability > 0.0F;
  }
  return false;
}

bool SamplingSettings::is_plain() const {
  constexpr std::array kOthers = {SamplerStage::top_n_sigma, SamplerStage::top_a,    SamplerStage::tail_free,
                                  SamplerStage::typical,     SamplerStage::mirostat, SamplerStage::xtc};
  const auto is_off = [this](SamplerStage stage) { return !is_on(stage); };
  return std::all_of(kOthers.begin(), kOthers.end(), is_off) && smoothing_factor == 0.0F && skew == 0.0F &&
         !has_dynamic_temperature() && std::is_sorted(order.begin(), order.end());
}

void SamplingSettings::validate(int32_t vocab_size) const {
  validate_temperature(*this);
  validate_stages(*this, vocab_size);
  validate_order(*this);
  validate_penalties(*this);
  validate_dry(*this, vocab_size);
  validate_bias(logit_bias, vocab_size);
  for (const TokenId token : banned_tokens) require_token(token, vocab_size, "banned_tokens");
}

}  // namespace quire
