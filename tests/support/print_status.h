// Prints the message of a status if a comparison fails.
#pragma once

#include <ostream>

#include "kernels/interface/status.h"

namespace quire::kernels {

inline void PrintTo(const Status& status, std::ostream* out) {
  *out << "status " << static_cast<int32_t>(status.code) << " (" << status.words << ")";
}

}  // namespace quire::kernels
