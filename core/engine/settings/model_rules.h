// Rules of a model's files for its jobs, besides the end tokens.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/ids.h"

namespace quire {

// The computation of an embedding from hidden states. `model`: as the model declares it.
enum class Pooling : int32_t { model = -1, mean = 0, last = 1 };

struct ModelRules {
  TokenIds banned_tokens;           // never sampled by any job
  TokenIds first_banned_tokens;     // never sampled as the first new token
  Pooling pooling = Pooling::mean;  // of embedding jobs that do not set one; never Pooling::model
  std::string unsupported_pooling;  // description of one that the model declares; such jobs must set one
  bool has_head = true;             // false: the model can run embedding and warm-up jobs only
};

}  // namespace quire
