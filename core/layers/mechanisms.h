// Names of kernels::Mechanism, for messages.
#pragma once

#include <cstdint>
#include <string>

namespace quire {

// Returns the names of some mechanisms: "attention sinks, experts".
std::string mechanism_names(uint64_t mechanisms);

}  // namespace quire
