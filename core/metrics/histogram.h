// Histogram for metrics: counts of values by size.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <gsl/gsl>

namespace quire {

// Upper bounds of the buckets, ascending. One more, open bucket counts larger values.
using HistogramBounds = gsl::span<const double>;

// Returns 100 microseconds to 7 minutes, doubling.
HistogramBounds long_time_bounds();
// Returns 10 microseconds to 42 seconds, doubling.
HistogramBounds short_time_bounds();
// Returns 1 to 65,536, doubling.
HistogramBounds count_bounds();
// Returns 0, then tenths up to 1.
HistogramBounds share_bounds();

// Plain data of a fixed size; not synchronized.
class Histogram {
 public:
  static constexpr size_t kMaxBuckets = 24;  // including the open one

  // `bounds` must outlive the histogram.
  explicit Histogram(HistogramBounds bounds) : bounds_(bounds) { Expects(bounds.size() < kMaxBuckets); }

  // Counts a value. NaN is counted in the open bucket and adds nothing to the sum.
  void observe(double value) noexcept;

  HistogramBounds bounds() const { return bounds_; }
  uint64_t count_in(size_t bucket_idx) const { return counts_[bucket_idx]; }
  uint64_t count() const;
  double sum() const { return sum_; }
  // Returns the upper bound of the bucket that contains the q-quantile, or the last bound for the open
  // bucket; 0 if there are no values.
  double quantile(double q) const;

 private:
  HistogramBounds bounds_;
  double sum_ = 0.0;
  std::array<uint64_t, kMaxBuckets> counts_{};
};

}  // namespace quire
