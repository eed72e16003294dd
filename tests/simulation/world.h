// Sizes common to all simulations.
#pragma once

#include <cstdint>

#include "core/base/ids.h"

namespace quire::testing {

inline constexpr int32_t kWorldVocab = 32;
inline constexpr TokenId kFirstSpecial = kWorldVocab - 3;  // tokens from here on may cause faults
inline constexpr int32_t kMaxSeqLen = 72;
inline constexpr const char* kOtherSpace = "b";  // the namespace besides the unnamed one

// Namespace that wrote a page.
inline constexpr int8_t kNoSpace = -1;
inline constexpr int8_t kFirstSpace = 0;
inline constexpr int8_t kSecondSpace = 1;

}  // namespace quire::testing
