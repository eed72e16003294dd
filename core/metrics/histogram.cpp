#include "core/metrics/histogram.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace quire {

double Histogram::bound(size_t bucket_idx) const {
  return std::ldexp(first_bound_, static_cast<int>(bucket_idx));
}

void Histogram::observe(double value) noexcept {
  size_t bucket_idx = 0;
  while (bucket_idx + 1 < kNumBuckets && !(value <= bound(bucket_idx))) ++bucket_idx;
  ++counts_[bucket_idx];
  if (std::isfinite(value)) sum_ += value;
}

uint64_t Histogram::count() const {
  return std::accumulate(counts_.begin(), counts_.end(), uint64_t{0});
}

double Histogram::quantile(double q) const {
  const auto wanted = static_cast<uint64_t>(std::ceil(q * static_cast<double>(count())));
  if (count() == 0) return 0.0;
  uint64_t seen = 0;
  for (size_t i = 0; i < kNumBuckets; ++i) {
    seen += counts_[i];
    if (seen >= wanted) return bound(std::min(i, kNumBuckets - 2));
  }
  return bound(kNumBuckets - 2);
}

}  // namespace quire
