#include "kernels/cpu/cpu_features.h"

#include <cstdio>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace quire::kernels {
namespace {

#if defined(__x86_64__)

struct Features {
  bool avx2 = false;
  bool avx512 = false;
};

struct Registers {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers cpuid(uint32_t leaf, uint32_t subleaf) {
  Registers r;
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}

// Returns the register files that the operating system saves on a context switch.
uint64_t saved_state() {
  uint32_t low = 0;
  uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

bool has(uint32_t word, int bit) {
  return ((word >> bit) & 1U) != 0;
}

Features detect() {
  Features features;
  const Registers basic = cpuid(1, 0);
  const Registers extended = cpuid(7, 0);
  if (!has(basic.ecx, 27)) return features;  // OSXSAVE: xgetbv may be used
  constexpr uint64_t kAvxState = 0x6;        // XMM, YMM
  constexpr uint64_t kAvx512State = 0xe6;    // also mask registers, upper ZMM, ZMM16-31
  const uint64_t saved = saved_state();
  const bool fma = has(basic.ecx, 12);
  const bool avx = has(basic.ecx, 28);
  const bool f16c = has(basic.ecx, 29);
  features.avx2 = avx && fma && f16c && has(extended.ebx, 5) && (saved & kAvxState) == kAvxState;
  const bool f = has(extended.ebx, 16), dq = has(extended.ebx, 17), bw = has(extended.ebx, 30);
  const bool vl = has(extended.ebx, 31), vnni = has(extended.ecx, 11);
  features.avx512 = features.avx2 && f && dq && bw && vl && vnni && (saved & kAvx512State) == kAvx512State;
  return features;
}

#endif

}  // namespace

Status choose_kernels(const char* forced, const IsaKernels** chosen) {
  const IsaKernels* avx2 = nullptr;
  const IsaKernels* avx512 = nullptr;
#if defined(__x86_64__)
  const Features features = detect();
  if (features.avx2) avx2 = avx2_kernels();
  if (features.avx512) avx512 = avx512_kernels();
#endif
  if (forced == nullptr || *forced == '\0') {
    *chosen = avx512 != nullptr ? avx512 : avx2 != nullptr ? avx2 : &scalar_kernels();
    return Status::ok;
  }
  *chosen = &scalar_kernels();
  if (std::strcmp(forced, "scalar") == 0) return Status::ok;
  const bool wants_avx2 = std::strcmp(forced, "avx2") == 0;
  if (!wants_avx2 && std::strcmp(forced, "avx512") != 0) {
    return failed(Status::unsupported, "QUIRE_CPU_ISA is \"%.32s\"; it must be scalar, avx2 or avx512",
                  forced);
  }
  *chosen = wants_avx2 ? avx2 : avx512;
  if (*chosen != nullptr) return Status::ok;
  return failed(Status::unsupported, "QUIRE_CPU_ISA is %s, which this processor cannot run (%s needed)",
                forced, wants_avx2 ? "AVX2, FMA and F16C" : "AVX-512 F, BW, VL, DQ and VNNI");
}

void processor_name(char* text, size_t size) {
  std::snprintf(text, size, "CPU");
#if defined(__x86_64__)
  constexpr uint32_t kFirstLeaf = 0x80000002;
  const auto last_leaf = static_cast<uint32_t>(__get_cpuid_max(0x80000000, nullptr));
  if (last_leaf < kFirstLeaf + 2) return;
  char name[49] = {};
  for (uint32_t i = 0; i < 3; ++i) {
    const Registers r = cpuid(kFirstLeaf + i, 0);
    std::memcpy(name + size_t{16} * i, &r, 16);
  }
  const char* first = name;
  while (*first == ' ') ++first;
  if (*first != '\0') std::snprintf(text, size, "%s", first);
#endif
}

}  // namespace quire::kernels
