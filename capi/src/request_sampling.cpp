// Setters of a request for sampling.
#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <quire/request.h>

#include "capi/src/model_object.h"
#include "capi/src/request_setters.h"
#include "core/base/utf8.h"
#include "core/sampling/presets.h"

using namespace quire::capi;

namespace {

constexpr size_t kMaxLogitBiases = 4096;
constexpr double kMaxBias = 1e30;
constexpr size_t kMaxListedTokens = size_t{1} << 20;
constexpr double kLeastShare = std::numeric_limits<float>::denorm_min();

// Takes over all settings of a preset, except the seed and settings for single tokens.
void take_shape(RequestSettings& settings, quire::SamplingSettings preset) {
  quire::SamplingSettings& own = settings.job.sampling;
  preset.seed = own.seed;
  preset.logit_bias = std::move(own.logit_bias);
  preset.banned_tokens = std::move(own.banned_tokens);
  own = std::move(preset);
}

// Returns the settings that the authors of a model recommend. Throws ErrorCode::not_found without any.
quire::SamplingSettings recommended_sampling(const ModelShare& model) {
  const std::string& text = model.generation_config;
  std::optional<quire::SamplingSettings> settings;
  if (!text.empty()) settings = quire::sampling_from_generation_config(text, "generation_config.json");
  if (settings) return *std::move(settings);
  throw quire::Error(quire::ErrorCode::not_found,
                     "model: {} has no generation_config.json with do_sample, which would recommend settings",
                     quire::printable(model.model->path(), 4096));
}

}  // namespace

int32_t quire_job_request_set_repetition_penalty(quire_job_request* request, double penalty,
                                                 quire_error** error) {
  return set_sampling(request, {"repetition_penalty", Counts::generate}, error,
                      &quire::SamplingSettings::repetition_penalty,
                      [&] { return number_argument(penalty, 0.01, 100.0, "repetition_penalty"); });
}

int32_t quire_job_request_set_frequency_penalty(quire_job_request* request, double penalty,
                                                quire_error** error) {
  return set_sampling(request, {"frequency_penalty", Counts::generate}, error,
                      &quire::SamplingSettings::frequency_penalty,
                      [&] { return number_argument(penalty, -100.0, 100.0, "frequency_penalty"); });
}

int32_t quire_job_request_set_presence_penalty(quire_job_request* request, double penalty,
                                               quire_error** error) {
  return set_sampling(request, {"presence_penalty", Counts::generate}, error,
                      &quire::SamplingSettings::presence_penalty,
                      [&] { return number_argument(penalty, -100.0, 100.0, "presence_penalty"); });
}

int32_t quire_job_request_set_penalty_range(quire_job_request* request, int32_t range_tokens,
                                            quire_error** error) {
  return set_sampling(request, {"penalty_range", Counts::generate}, error,
                      &quire::SamplingSettings::penalty_range,
                      [&] { return range_argument(range_tokens, -1, INT32_MAX, "range_tokens"); });
}

int32_t quire_job_request_set_penalty_decay(quire_job_request* request, int32_t fade_tokens,
                                            quire_error** error) {
  return set_sampling(request, {"penalty_decay", Counts::generate}, error,
                      &quire::SamplingSettings::penalty_decay,
                      [&] { return range_argument(fade_tokens, 0, INT32_MAX, "fade_tokens"); });
}

int32_t quire_job_request_add_logit_bias(quire_job_request* request, int32_t token, double bias,
                                         quire_error** error) {
  return set(request, {"logit_biases", Counts::generate}, error, [&](RequestSettings& settings) {
    range_argument(token, 0, INT32_MAX, "token");
    const float value = number_argument(bias, -kMaxBias, kMaxBias, "bias");
    auto& biases = settings.job.sampling.logit_bias;
    const auto known = std::find_if(biases.begin(), biases.end(),
                                    [&](const quire::LogitBias& entry) { return entry.token == token; });
    if (known != biases.end()) {
      known->bias = value;
      return;
    }
    if (biases.size() >= kMaxLogitBiases) {
      throw quire::Error(quire::ErrorCode::invalid_argument, "token: at most {} tokens may have a bias",
                         kMaxLogitBiases)
          .at("token");
    }
    biases.push_back({token, value});
  });
}

int32_t quire_job_request_set_logit_biases(quire_job_request* request, const int32_t* tokens,
                                           size_t num_tokens, double bias, quire_error** error) {
  return set(request, {"logit_biases", Counts::generate}, error, [&](RequestSettings& settings) {
    const float value = number_argument(bias, -kMaxBias, kMaxBias, "bias");
    std::vector<quire::LogitBias> biases;
    for (const quire::TokenId token : tokens_argument(tokens, num_tokens, kMaxLogitBiases)) {
      biases.push_back({range_argument(token, 0, INT32_MAX, "tokens"), value});
    }
    settings.job.sampling.logit_bias = std::move(biases);
  });
}

int32_t quire_job_request_clear_logit_biases(quire_job_request* request, quire_error** error) {
  return set_option(request, "request", error,
                    [](RequestSettings& settings) { settings.job.sampling.logit_bias.clear(); });
}

int32_t quire_job_request_set_banned_tokens(quire_job_request* request, const int32_t* tokens,
                                            size_t num_tokens, quire_error** error) {
  return set_sampling(request, {"banned_tokens", Counts::generate}, error,
                      &quire::SamplingSettings::banned_tokens,
                      [&] { return tokens_argument(tokens, num_tokens, kMaxListedTokens); });
}

int32_t quire_job_request_set_temperature(quire_job_request* request, double temperature,
                                          quire_error** error) {
  return set_sampling(request, {"temperature", Counts::generate}, error,
                      &quire::SamplingSettings::temperature,
                      [&] { return number_argument(temperature, 0.0, 100.0, "temperature"); });
}

int32_t quire_job_request_set_top_k(quire_job_request* request, int32_t top_k, quire_error** error) {
  return set_sampling(request, {"top_k", Counts::generate}, error, &quire::SamplingSettings::top_k,
                      [&] { return range_argument(top_k, 0, INT32_MAX, "top_k"); });
}

int32_t quire_job_request_set_top_p(quire_job_request* request, double top_p, quire_error** error) {
  return set_sampling(request, {"top_p", Counts::generate}, error, &quire::SamplingSettings::top_p,
                      [&] { return number_argument(top_p, kLeastShare, 1.0, "top_p"); });
}

int32_t quire_job_request_set_min_p(quire_job_request* request, double min_p, quire_error** error) {
  return set_sampling(request, {"min_p", Counts::generate}, error, &quire::SamplingSettings::min_p,
                      [&] { return number_argument(min_p, 0.0, 1.0, "min_p"); });
}

int32_t quire_job_request_set_smoothing_factor(quire_job_request* request, double factor,
                                               quire_error** error) {
  return set_sampling(request, {"smoothing_factor", Counts::generate}, error,
                      &quire::SamplingSettings::smoothing_factor,
                      [&] { return number_argument(factor, 0.0, 100.0, "smoothing_factor"); });
}

int32_t quire_job_request_set_min_temperature(quire_job_request* request, double temperature,
                                              quire_error** error) {
  return set_sampling(request, {"min_temperature", Counts::generate}, error,
                      &quire::SamplingSettings::min_temperature,
                      [&] { return number_argument(temperature, 0.01, 100.0, "min_temperature"); });
}

int32_t quire_job_request_set_max_temperature(quire_job_request* request, double temperature,
                                              quire_error** error) {
  return set_sampling(request, {"max_temperature", Counts::generate}, error,
                      &quire::SamplingSettings::max_temperature,
                      [&] { return number_argument(temperature, 0.01, 100.0, "max_temperature"); });
}

int32_t quire_job_request_set_temperature_exponent(quire_job_request* request, double exponent,
                                                   quire_error** error) {
  return set_sampling(request, {"temperature_exponent", Counts::generate}, error,
                      &quire::SamplingSettings::temperature_exponent,
                      [&] { return number_argument(exponent, 0.01, 100.0, "temperature_exponent"); });
}

int32_t quire_job_request_set_top_n_sigma(quire_job_request* request, double num_sigma, quire_error** error) {
  return set_sampling(request, {"top_n_sigma", Counts::generate}, error,
                      &quire::SamplingSettings::top_n_sigma,
                      [&] { return number_argument(num_sigma, 0.0, 1000.0, "top_n_sigma"); });
}

int32_t quire_job_request_set_top_a(quire_job_request* request, double top_a, quire_error** error) {
  return set_sampling(request, {"top_a", Counts::generate}, error, &quire::SamplingSettings::top_a,
                      [&] { return number_argument(top_a, 0.0, 1.0, "top_a"); });
}

int32_t quire_job_request_set_tail_free(quire_job_request* request, double z, quire_error** error) {
  return set_sampling(request, {"tail_free", Counts::generate}, error, &quire::SamplingSettings::tail_free,
                      [&] { return number_argument(z, 0.0, 1.0, "tail_free"); });
}

int32_t quire_job_request_set_typical(quire_job_request* request, double mass, quire_error** error) {
  return set_sampling(request, {"typical", Counts::generate}, error, &quire::SamplingSettings::typical,
                      [&] { return number_argument(mass, kLeastShare, 1.0, "typical"); });
}

int32_t quire_job_request_set_mirostat_tau(quire_job_request* request, double tau, quire_error** error) {
  return set_sampling(request, {"mirostat_tau", Counts::generate}, error,
                      &quire::SamplingSettings::mirostat_tau,
                      [&] { return number_argument(tau, 0.0, 100.0, "mirostat_tau"); });
}

int32_t quire_job_request_set_mirostat_eta(quire_job_request* request, double eta, quire_error** error) {
  return set_sampling(request, {"mirostat_eta", Counts::generate}, error,
                      &quire::SamplingSettings::mirostat_eta,
                      [&] { return number_argument(eta, 0.0, 1.0, "mirostat_eta"); });
}

int32_t quire_job_request_set_xtc_probability(quire_job_request* request, double probability,
                                              quire_error** error) {
  return set_sampling(request, {"xtc_probability", Counts::generate}, error,
                      &quire::SamplingSettings::xtc_probability,
                      [&] { return number_argument(probability, 0.0, 1.0, "xtc_probability"); });
}

int32_t quire_job_request_set_xtc_threshold(quire_job_request* request, double threshold,
                                            quire_error** error) {
  return set_sampling(request, {"xtc_threshold", Counts::generate}, error,
                      &quire::SamplingSettings::xtc_threshold,
                      [&] { return number_argument(threshold, 0.0, 1.0, "xtc_threshold"); });
}

int32_t quire_job_request_set_xtc_ignored(quire_job_request* request, const int32_t* tokens,
                                          size_t num_tokens, quire_error** error) {
  return set_sampling(request, {"xtc_ignored", Counts::generate}, error,
                      &quire::SamplingSettings::xtc_ignored,
                      [&] { return tokens_argument(tokens, num_tokens, kMaxListedTokens); });
}

int32_t quire_job_request_set_skew(quire_job_request* request, double skew, quire_error** error) {
  return set_sampling(request, {"skew", Counts::generate}, error, &quire::SamplingSettings::skew,
                      [&] { return number_argument(skew, -5.0, 5.0, "skew"); });
}

int32_t quire_job_request_set_sampler_order(quire_job_request* request, const char* text, size_t text_len,
                                            quire_error** error) {
  return set_sampling(request, {"sampler_order", Counts::generate}, error, &quire::SamplingSettings::order,
                      [&] { return quire::parse_sampler_order(text_argument(text, text_len)); });
}

int32_t quire_job_request_set_dry_multiplier(quire_job_request* request, double multiplier,
                                             quire_error** error) {
  return set_sampling(request, {"dry_multiplier", Counts::generate}, error,
                      &quire::SamplingSettings::dry_multiplier,
                      [&] { return number_argument(multiplier, 0.0, 100.0, "dry_multiplier"); });
}

int32_t quire_job_request_set_dry_base(quire_job_request* request, double base, quire_error** error) {
  return set_sampling(request, {"dry_base", Counts::generate}, error, &quire::SamplingSettings::dry_base,
                      [&] { return number_argument(base, 1.0, 8.0, "dry_base"); });
}

int32_t quire_job_request_set_dry_allowed_length(quire_job_request* request, int32_t length_tokens,
                                                 quire_error** error) {
  return set_sampling(request, {"dry_allowed_length", Counts::generate}, error,
                      &quire::SamplingSettings::dry_allowed_length,
                      [&] { return range_argument(length_tokens, 1, 1024, "dry_allowed_length"); });
}

int32_t quire_job_request_set_dry_max_length(quire_job_request* request, int32_t length_tokens,
                                             quire_error** error) {
  return set_sampling(request, {"dry_max_length", Counts::generate}, error,
                      &quire::SamplingSettings::dry_max_length,
                      [&] { return range_argument(length_tokens, 1, 1024, "dry_max_length"); });
}

int32_t quire_job_request_set_dry_range(quire_job_request* request, int32_t range_tokens,
                                        quire_error** error) {
  return set_sampling(request, {"dry_range", Counts::generate}, error, &quire::SamplingSettings::dry_range,
                      [&] { return range_argument(range_tokens, -1, INT32_MAX, "dry_range"); });
}

int32_t quire_job_request_set_dry_breakers(quire_job_request* request, const int32_t* tokens,
                                           size_t num_tokens, quire_error** error) {
  return set_sampling(request, {"dry_breakers", Counts::generate}, error,
                      &quire::SamplingSettings::dry_breakers, [&] {
                        quire::TokenIds breakers = tokens_argument(tokens, num_tokens, kMaxListedTokens);
                        std::sort(breakers.begin(), breakers.end());
                        breakers.erase(std::unique(breakers.begin(), breakers.end()), breakers.end());
                        return std::make_shared<const quire::TokenIds>(std::move(breakers));
                      });
}

int32_t quire_job_request_set_loop_guard(quire_job_request* request, int32_t max_period, int32_t min_repeats,
                                         quire_error** error) {
  return set_field(request, {"loop_guard", Counts::generate}, error, &quire::JobRequest::loop_guard, [&] {
    const quire::RepetitionGuard wanted{max_period, min_repeats};
    wanted.validate();
    return wanted;
  });
}

int32_t quire_job_request_set_sampling_preset(quire_job_request* request, const char* text, size_t text_len,
                                              quire_error** error) {
  return set(request, {"sampling_preset", Counts::generate}, error, [&](RequestSettings& settings) {
    take_shape(settings, quire::sampling_preset(text_argument(text, text_len)));
  });
}

int32_t quire_job_request_set_sampling_of_model(quire_job_request* request, quire_model* model,
                                                quire_error** error) {
  return set(request, {"sampling_of_model", Counts::generate}, error, [&](RequestSettings& settings) {
    take_shape(settings, recommended_sampling(*Pinned(model, "model")->share));
  });
}
