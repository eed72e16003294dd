// The one place that names concrete backends: the embedded CPU backend, and plug-in libraries found beside
// libquire.
#pragma once

#include <string>
#include <vector>

#include "kernels/interface/kernel_table.h"

namespace quire {

// What was found when looking for one backend.
struct BackendReport {
  std::string name;                           // "cpu", "cuda"
  const kernels::Backend* backend = nullptr;  // nullptr where it cannot be used
  int32_t num_devices = 0;
  std::string why;  // one line where it has no device; empty otherwise
};

// Looks for every backend this build knows. Opens plug-in libraries, which then stay loaded for the life of
// the process; opens no device. `QUIRE_BACKEND_DIR` in the environment names a directory to look in first.
std::vector<BackendReport> find_backends();

}  // namespace quire
