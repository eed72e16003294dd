// So that a comparison of statuses that fails prints the words too.
#pragma once

#include <ostream>

#include "kernels/interface/status.h"

namespace quire::kernels {

inline void PrintTo(const Status& status, std::ostream* out) {
  *out << "status " << static_cast<int32_t>(status.code) << " (" << status.words << ")";
}

}  // namespace quire::kernels
