// Choice between two versions of a loop over a vocabulary: for the baseline of the architecture, and for
// AVX2. Both give the same bits.
#pragma once

// Compiles a function for AVX2. The loop is in an inline function that it calls.
#if defined(__x86_64__)
#define QUIRE_FOR_AVX2 [[gnu::target("avx2")]]
#else
#define QUIRE_FOR_AVX2
#endif

namespace quire {

// Returns true if the processor runs functions that are compiled for AVX2.
inline bool has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") != 0;
#else
  return false;
#endif
}

}  // namespace quire
