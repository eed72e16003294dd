// Counts of values by size.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace quire {

// Buckets by powers of two over a first bound, so that any range fits in a few: bound i is first_bound * 2^i,
// and the last bucket holds all that is larger. Plain data of a fixed size; the owner sees to threads.
class Histogram {
 public:
  static constexpr size_t kNumBuckets = 24;  // the open one included

  explicit Histogram(double first_bound) : first_bound_(first_bound) {}

  // A value that is not a number is counted with the largest.
  void observe(double value) noexcept;

  double bound(size_t bucket_idx) const;  // of all but the last
  uint64_t count_in(size_t bucket_idx) const { return counts_[bucket_idx]; }
  uint64_t count() const;
  double sum() const { return sum_; }
  // The upper bound of the bucket in which the q-th part of the values ends; 0 where there are none.
  double quantile(double q) const;

 private:
  double first_bound_;
  double sum_ = 0.0;
  std::array<uint64_t, kNumBuckets> counts_{};
};

}  // namespace quire
