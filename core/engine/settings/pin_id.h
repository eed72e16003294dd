// Identifier of a pinned prefix.
#pragma once

#include <cstdint>

#include "core/base/ids.h"

namespace quire {

// 0: no pin.
using PinId = StrongId<struct PinTag, uint64_t>;

}  // namespace quire
