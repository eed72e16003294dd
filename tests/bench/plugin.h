// What the benchmarks of a backend's kernels have in common: they open its plug-in, end at the first failure,
// and measure host times.
#pragma once

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <string>

#include "kernels/interface/kernel_table.h"

namespace quire::bench {

// Ends the program with a message.
[[noreturn]] inline void stop(const std::string& words) {
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, words.c_str());
  std::exit(1);
}

inline void check(const kernels::Status& status, const char* doing) {
  if (status != kernels::Status::ok) stop(std::string(doing) + ": " + status.words);
}

// Returns the time since any fixed moment.
inline double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Opens a plug-in that has a device.
inline const kernels::Backend& open_plugin(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) stop(dlerror());
  const auto entry = reinterpret_cast<kernels::BackendEntry>(dlsym(library, "quire_backend_entry"));
  if (entry == nullptr) stop("the plug-in has no quire_backend_entry");
  const kernels::Backend* backend = entry(kernels::kBackendAbi);
  char why[512] = {};
  if (backend == nullptr || backend->num_devices(why, sizeof(why)) == 0) stop(why);
  return *backend;
}

}  // namespace quire::bench
