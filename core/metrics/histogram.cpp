#include "core/metrics/histogram.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace quire {

namespace {

template <size_t N>
constexpr std::array<double, N> doubling(double first) {
  std::array<double, N> bounds{};
  for (double& bound : bounds) {
    bound = first;
    first *= 2.0;
  }
  return bounds;
}

constexpr std::array<double, 23> kLongTimes = doubling<23>(1e-4);
constexpr std::array<double, 23> kShortTimes = doubling<23>(1e-5);
constexpr std::array<double, 17> kCounts = doubling<17>(1.0);
constexpr std::array<double, 11> kShares = {0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0};

}  // namespace

HistogramBounds long_time_bounds() {
  return kLongTimes;
}
HistogramBounds short_time_bounds() {
  return kShortTimes;
}
HistogramBounds count_bounds() {
  return kCounts;
}
HistogramBounds share_bounds() {
  return kShares;
}

void Histogram::observe(double value) noexcept {
  const auto bound =
      std::isnan(value) ? bounds_.end() : std::lower_bound(bounds_.begin(), bounds_.end(), value);
  ++counts_[static_cast<size_t>(bound - bounds_.begin())];
  if (std::isfinite(value)) sum_ += value;
}

uint64_t Histogram::count() const {
  return std::accumulate(counts_.begin(), counts_.end(), uint64_t{0});
}

double Histogram::quantile(double q) const {
  const uint64_t total = count();
  if (total == 0) return 0.0;
  const auto wanted = static_cast<uint64_t>(std::ceil(q * static_cast<double>(total)));
  uint64_t seen = 0;
  for (size_t i = 0; i < bounds_.size(); ++i) {
    seen += counts_[i];
    if (seen > 0 && seen >= wanted) return bounds_[i];
  }
  return bounds_.back();
}

}  // namespace quire
