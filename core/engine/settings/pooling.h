// Pooling of hidden states into an embedding.
#pragma once

#include <cstdint>

namespace quire {

// The computation of an embedding from hidden states. `model`: as the model declares it.
enum class Pooling : int32_t { model = -1, mean = 0, last = 1 };

}  // namespace quire
