#include "core/sampling/mirostat.h"

#include <algorithm>
#include <cmath>

#include "core/sampling/settings.h"

namespace quire {

Mirostat::Mirostat(const SamplingSettings& settings)
    : tau_(settings.mirostat_tau), eta_(settings.mirostat_eta), start_(2.0 * tau_) {}

void Mirostat::reserve(size_t num_tokens) {
  if (tau_ > 0.0) moves_.reserve(num_tokens);
}

void Mirostat::observe(uint64_t position, float probability) {
  if (tau_ == 0.0 || !(probability > 0.0F)) return;
  const double surprise = -std::log2(static_cast<double>(probability));
  moves_.push_back({position, mu() - eta_ * (surprise - tau_)});
}

void Mirostat::rewind(uint64_t position) {
  while (!moves_.empty() && moves_.back().position >= position) moves_.pop_back();
}

}  // namespace quire
