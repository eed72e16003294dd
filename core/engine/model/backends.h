// Finds the backends: the embedded CPU backend, and plug-in libraries beside libquire. The only file that
// names them.
#pragma once

#include <string>
#include <vector>

#include "kernels/interface/kernel_table.h"

namespace quire {

// Result of looking for one backend.
struct BackendReport {
  std::string name;                           // "cpu", "cuda"
  const kernels::Backend* backend = nullptr;  // null if it cannot be used
  int32_t num_devices = 0;
  std::string why;  // one line if it has no device; otherwise empty
};

// Looks for every backend that this build supports. Opens plug-in libraries, which stay loaded until the
// process ends; opens no device. The environment variable `QUIRE_BACKEND_DIR` names a directory to search
// first.
std::vector<BackendReport> find_backends();

}  // namespace quire
