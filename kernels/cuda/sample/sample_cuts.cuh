// The filters top-k and top-p with integer weights, and the draw.
//
// A filter finds its cut: the last token that stays, in the order of (logit, id). Counts and weights are
// first added to bins along the logit; then the tokens of the bin that contains the cut are gathered and
// ranked. Bins with too many tokens, such as thousands of equal logits, are cut by radix selection over
// (logit, id).
#pragma once

#include "kernels/cuda/sample/sample_team.cuh"
#include "kernels/interface/token_noise.h"

namespace quire::kernels {

constexpr uint64_t kWeightOne = uint64_t{1} << 40;
constexpr float kWeightless = 28.0f;  // exp(-28) is less than 2^-40

// Returns exp(x) for x <= 0: the polynomial of core/sampling/selection.cpp, with the same operations.
__device__ __forceinline__ float exp_share(float x) {
  x = x > -80.0f ? x : -80.0f;
  const float shifted = __fadd_rn(__fmul_rn(x, 1.44269504f), 12582912.0f);
  const float n = __fsub_rn(shifted, 12582912.0f);
  const float r = __fsub_rn(__fsub_rn(x, __fmul_rn(n, 0.693359375f)), __fmul_rn(n, -2.12194440e-4f));
  const float terms[7] = {1.0f / 720.0f, 1.0f / 120.0f, 1.0f / 24.0f, 1.0f / 6.0f, 0.5f, 1.0f, 1.0f};
  float p = 1.0f / 5040.0f;
#pragma unroll
  for (float term : terms) p = __fadd_rn(__fmul_rn(p, r), term);
  return __uint_as_float(__float_as_uint(p) + (__float_as_uint(shifted) << 23));
}

__device__ __forceinline__ uint64_t weight_of(float logit, float largest, float inverse_temperature) {
  const float share = exp_share(__fmul_rn(__fsub_rn(logit, largest), inverse_temperature));
  return static_cast<uint64_t>(static_cast<int64_t>(__fmul_rn(share, 1099511627776.0f)));
}

// Returns a key that is larger for tokens that come first: larger logit, then lower id.
__device__ __forceinline__ uint64_t order_key(float logit, int id) {
  const uint32_t bits = __float_as_uint(logit + 0.0f);
  const uint32_t rising = bits & 0x80000000U ? ~bits : bits | 0x80000000U;
  return static_cast<uint64_t>(rising) << 32 | ~static_cast<uint32_t>(id);
}

__device__ __forceinline__ float logit_of(uint64_t key) {
  const auto rising = static_cast<uint32_t>(key >> 32);
  return __uint_as_float(rising & 0x80000000U ? rising & 0x7fffffffU : ~rising);
}

// Logits that a draw reads.
struct LogitRow {
  const float* logits;
  int size;
  __device__ __forceinline__ float operator[](int id) const { return logits[id]; }
};

// Describes the smallest key such that the keys at or above it have a total measure of at least `target`.
// Keys below `floor_key` are ignored.
struct Cut {
  uint64_t floor_key;
  uint64_t target;
};

// Radix selection; each block does it alone.
template <typename Measure>
__device__ uint64_t select_key(LogitRow row, Cut cut, SampleShared& shared, Measure measure) {
  uint64_t prefix = 0;
  uint64_t rest = cut.target;
  for (int shift = 56; shift >= 0; shift -= 8) {
    for (int i = threadIdx.x; i < 256; i += kSampleThreads) shared.histogram[i] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < row.size; i += kSampleThreads) {
      const uint64_t key = order_key(row[i], i);
      if (key < cut.floor_key || (shift < 56 && (key >> (shift + 8)) != (prefix >> (shift + 8)))) continue;
      const uint64_t amount = measure(row[i]);
      if (amount != 0)
        atomicAdd(&shared.histogram[(key >> shift) & 255], static_cast<unsigned long long>(amount));
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      int digit = 255;
      uint64_t left = rest;
      while (digit > 0 && shared.histogram[digit] < left) left -= shared.histogram[digit--];
      shared.chosen = static_cast<uint64_t>(digit);
      shared.rest = left;
    }
    __syncthreads();
    prefix |= shared.chosen << shift;
    rest = shared.rest;
    __syncthreads();
  }
  return prefix;
}

// Mapping of a row to the bins.
struct Bins {
  float largest;
  float inverse_temperature;
  float scale;

  __device__ __forceinline__ int of(float logit) const {
    const float distance = __fmul_rn(__fsub_rn(largest, logit), inverse_temperature);
    return distance < kWeightless ? min(kBins - 2, static_cast<int>(distance * scale)) : kBins - 1;
  }
  __device__ __forceinline__ uint64_t weight(float logit) const {
    return weight_of(logit, largest, inverse_temperature);
  }
};

// Fills the bins with this block's part of the row. Logits beyond kWeightless are left out.
__device__ Bins fill_bins(SampleTeam& team, LogitRow row, float largest, float inverse) {
  SampleShared& shared = team.shared;
  float farthest = 0.0f;
  team.for_each_logit(row.logits, row.size, [&](float v, int) {
    const float distance = __fmul_rn(__fsub_rn(largest, v), inverse);
    if (distance < kWeightless) farthest = fmaxf(farthest, distance);
  });
  for (int i = threadIdx.x; i < kBins; i += kSampleThreads) {
    shared.weights[i] = 0;
    shared.counts[i] = 0;
  }
  // Scale the bins to the row, so that flat rows use all bins as well as steep ones.
  farthest = fmaxf(team.largest(farthest), 1e-6f);
  const Bins bins{largest, inverse, static_cast<float>(kBins - 2) / farthest};
  team.for_each_logit(row.logits, row.size, [&](float v, int) {
    const int bin = bins.of(v);
    if (bin == kBins - 1) return;
    atomicAdd(&shared.counts[bin], 1U);
    atomicAdd(&shared.weights[bin], static_cast<unsigned long long>(bins.weight(v)));
  });
  __syncthreads();
  return bins;
}

// Position of a cut: the bin, and the amount of it that stays.
struct CutPlace {
  int bin;
  uint64_t rest;
};

template <typename Amount>
__device__ CutPlace place_cut(SampleTeam& team, Amount* amounts, uint64_t target) {
  SampleShared& shared = team.shared;
  uint64_t first = 0, second = 0, total;
  for (int block = 0; block < team.size; ++block) {
    const Amount* theirs = team.of(amounts + 2 * threadIdx.x, block);
    first += theirs[0];
    second += theirs[1];
  }
  const uint64_t before = block_exclusive(first + second, shared, total);
  if (before < target && target <= before + first + second) {
    const bool in_second = target > before + first;
    shared.found = static_cast<int>(2 * threadIdx.x) + in_second;
    shared.rest = target - before - (in_second ? first : 0);
  }
  __syncthreads();
  return {shared.found, shared.rest};
}

// Returns the largest gathered key such that the keys at or above it have a total measure of at least `rest`.
// Done by one block.
template <typename Measure>
__device__ uint64_t rank_gathered(SampleShared& shared, int count, uint64_t rest, Measure measure) {
  if (threadIdx.x == 0) shared.chosen = 0;
  __syncthreads();
  if (static_cast<int>(threadIdx.x) < count) {
    const uint64_t mine = shared.gathered[threadIdx.x];
    uint64_t reached = 0;
    for (int i = 0; i < count; ++i)
      if (shared.gathered[i] >= mine) reached += measure(logit_of(shared.gathered[i]));
    if (reached >= rest)
      atomicMax(reinterpret_cast<unsigned long long*>(&shared.chosen), static_cast<unsigned long long>(mine));
  }
  __syncthreads();
  return shared.chosen;
}

// Finds the cut at which the bins in `amounts` reach `target`.
template <typename Amount, typename Measure>
__device__ uint64_t find_cut(SampleTeam& team, LogitRow row, const Bins& bins, Amount* amounts, Cut cut,
                             Measure measure) {
  SampleShared& shared = team.shared;
  if (threadIdx.x == 0) shared.num_gathered = 0;
  team.sync();
  const CutPlace place = place_cut(team, amounts, cut.target);
  int* num_gathered = team.of(&shared.num_gathered, 0);
  uint64_t* gathered = team.of(shared.gathered, 0);
  team.for_each_logit(row.logits, row.size, [&](float v, int id) {
    if (bins.of(v) != place.bin || order_key(v, id) < cut.floor_key) return;
    const int at = atomicAdd(num_gathered, 1);
    if (at < kMaxGathered) gathered[at] = order_key(v, id);
  });
  team.sync();
  const int count = *num_gathered;
  if (count <= kMaxGathered && team.rank == 0) rank_gathered(shared, count, place.rest, measure);
  team.sync();
  if (count > kMaxGathered) return select_key(row, cut, shared, measure);
  return *team.of(&shared.chosen, 0);
}

// Reduces the weights in the bins to those of tokens at or above the key.
__device__ void trim_bins(SampleTeam& team, LogitRow row, const Bins& bins, uint64_t floor_key) {
  SampleShared& shared = team.shared;
  const int bin = bins.of(logit_of(floor_key));
  __syncthreads();
  for (int i = bin + static_cast<int>(threadIdx.x); i < kBins; i += kSampleThreads) shared.weights[i] = 0;
  __syncthreads();
  team.for_each_logit(row.logits, row.size, [&](float v, int id) {
    if (bins.of(v) == bin && order_key(v, id) >= floor_key)
      atomicAdd(&shared.weights[bin], static_cast<unsigned long long>(bins.weight(v)));
  });
  __syncthreads();
}

// Returns the smallest key that remains after top_k and top_p.
__device__ uint64_t cut_row(SampleTeam& team, const SampleRow& s, LogitRow row, float largest,
                            float inverse) {
  SampleShared& shared = team.shared;
  const Bins bins = fill_bins(team, row, largest, inverse);
  const int at = 2 * static_cast<int>(threadIdx.x);
  uint64_t floor_key = 0;
  const uint64_t kept = team.sum(uint64_t{shared.counts[at]} + shared.counts[at + 1]);
  // Tokens beyond the bins have weight 0 and need not be cut.
  if (s.top_k > 0 && static_cast<uint64_t>(s.top_k) < kept) {
    floor_key = find_cut(team, row, bins, shared.counts, {0, static_cast<uint64_t>(s.top_k)},
                         [](float) { return uint64_t{1}; });
    if (s.top_p < 1.0f) trim_bins(team, row, bins, floor_key);
  }
  if (s.top_p >= 1.0f) return floor_key;
  const uint64_t total = team.sum(shared.weights[at] + shared.weights[at + 1]);
  const auto wanted = static_cast<uint64_t>(ceil(static_cast<double>(total) * static_cast<double>(s.top_p)));
  return find_cut(team, row, bins, shared.weights, {floor_key, max(uint64_t{1}, min(wanted, total))},
                  [&](float logit) { return bins.weight(logit); });
}

// Returns the token that arrives first among those that remain after the filters (token_noise.h).
__device__ int draw(SampleTeam& team, const SampleRow& s, LogitRow row, float largest) {
  const float inverse = __fdiv_rn(1.0f, s.temperature);
  const bool cuts = (s.top_k > 0 && s.top_k < row.size) || s.top_p < 1.0f;
  const uint64_t floor_key = cuts ? cut_row(team, s, row, largest, inverse) : 0;
  const auto least =
      static_cast<uint64_t>(ceil(static_cast<double>(s.min_p) * static_cast<double>(kWeightOne)));
  uint64_t first = kNoArrival;
  float bound = INFINITY;
  const auto enter = [&](float logit, int id) {
    const uint64_t exact = weight_of(logit, largest, inverse);
    if (exact == 0 || exact < least || (floor_key != 0 && order_key(logit, id) < floor_key)) return;
    const float weight = static_cast<float>(exact);
    if (static_cast<float>(noise_prefix(s.random_bits, id) >> 8) > weight * bound) return;
    const float time = arrival_time(s.random_bits, id, weight);
    first = min(first, arrival_key(time, id));
    bound = fminf(bound, arrival_bound(time));
  };
  // One token of each thread: their earliest time spares nearly all other tokens the logarithm.
  const int sample = team.begin(row.size) + static_cast<int>(threadIdx.x);
  if (sample < team.end(row.size)) enter(row[sample], sample);
  bound = team.reduce(
      bound, [](float a, float b) { return fminf(a, b); }, INFINITY);
  team.for_each_logit(row.logits, row.size, enter);
  first = team.reduce(
      first, [](uint64_t a, uint64_t b) { return min(a, b); }, kNoArrival);
  return static_cast<int>(static_cast<uint32_t>(first));
}

}  // namespace quire::kernels
