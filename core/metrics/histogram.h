// Counts of values by size.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <gsl/gsl>

namespace quire {

// The upper bounds of buckets, ascending; a last, open bucket holds what is larger.
using HistogramBounds = gsl::span<const double>;

// 100 microseconds to 7 minutes, doubling.
HistogramBounds long_time_bounds();
// 10 microseconds to 42 seconds, doubling.
HistogramBounds short_time_bounds();
// 1 to 65,536, doubling.
HistogramBounds count_bounds();
// 0, then 1 in tenths.
HistogramBounds share_bounds();

// Plain data of a fixed size; the owner sees to threads.
class Histogram {
 public:
  static constexpr size_t kMaxBuckets = 24;  // the open one included

  // `bounds` outlive the histogram.
  explicit Histogram(HistogramBounds bounds) : bounds_(bounds) { Expects(bounds.size() < kMaxBuckets); }

  // A value that is not a number is counted with the largest and adds nothing to the sum.
  void observe(double value) noexcept;

  HistogramBounds bounds() const { return bounds_; }
  uint64_t count_in(size_t bucket_idx) const { return counts_[bucket_idx]; }
  uint64_t count() const;
  double sum() const { return sum_; }
  // The upper bound of the bucket in which the q-th part of the values ends, the last bound for the open
  // bucket; 0 where there are no values.
  double quantile(double q) const;

 private:
  HistogramBounds bounds_;
  double sum_ = 0.0;
  std::array<uint64_t, kMaxBuckets> counts_{};
};

}  // namespace quire
