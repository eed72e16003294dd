// Names of kernels::Mechanism, for error messages.
#pragma once

#include <cstdint>
#include <string>

namespace quire {

// Returns the names of a set of mechanisms: "attention sinks, experts".
std::string mechanism_names(uint64_t mechanisms);

}  // namespace quire
