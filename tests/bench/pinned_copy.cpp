#include "tests/bench/pinned_copy.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <dlfcn.h>
#include <initializer_list>

namespace quire::testing {
namespace {

// Functions of the driver, loaded at run time because the bench also runs without a driver.
struct Driver {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

  template <typename... Arguments>
  bool call(const char* name, Arguments... arguments) const {
    const auto function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name));
    return function != nullptr && function(arguments...) == 0;
  }
};

constexpr size_t kBytes = size_t{1} << 30;
constexpr int kNumCopies = 5;

// Frees the memory and releases the GPU on destruction.
struct Pieces {
  const Driver& driver;
  const int device;
  void* host = nullptr;
  unsigned long long card = 0;

  ~Pieces() {
    if (card != 0) driver.call("cuMemFree_v2", card);
    if (host != nullptr) driver.call("cuMemFreeHost", host);
    driver.call("cuDevicePrimaryCtxRelease_v2", device);
  }
};

double seconds_of_copy(const Pieces& pieces) {
  const auto start = std::chrono::steady_clock::now();
  void* const no_stream = nullptr;
  if (!pieces.driver.call("cuMemcpyHtoDAsync_v2", pieces.card, static_cast<const void*>(pieces.host), kBytes,
                          no_stream) ||
      !pieces.driver.call("cuCtxSynchronize"))
    return 0.0;
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

std::optional<double> measure_link(int32_t ordinal) {
  const Driver driver;
  if (driver.library == nullptr) return std::nullopt;
  int device = 0;
  void* context = nullptr;
  if (!driver.call("cuInit", 0U) || !driver.call("cuDeviceGet", &device, static_cast<int>(ordinal)) ||
      !driver.call("cuDevicePrimaryCtxRetain", &context, device))
    return std::nullopt;
  Pieces pieces{driver, device};
  if (!driver.call("cuCtxSetCurrent", context) || !driver.call("cuMemHostAlloc", &pieces.host, kBytes, 0U) ||
      !driver.call("cuMemAlloc_v2", &pieces.card, kBytes))
    return std::nullopt;
  double best = 0.0;
  for (int i = 0; i < kNumCopies; ++i) {
    const double seconds = seconds_of_copy(pieces);
    if (seconds == 0.0) return std::nullopt;
    best = std::max(best, static_cast<double>(kBytes) / seconds);
  }
  return best;
}

}  // namespace quire::testing
