// Rules of generation_config.json about tokens, besides its sampling settings (core/sampling/presets.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/base/json.h"

namespace quire {

struct GenerationRules {
  TokenIds banned_ids;        // never sampled: suppress_tokens, and bad_words_ids of one token
  TokenIds first_banned_ids;  // not sampled as the first new token: begin_suppress_tokens
  // Descriptions of fields that change what transformers generates and that the engine does not follow, such
  // as "num_beams 4".
  std::vector<std::string> unused;
};

// Reads the fields of generation_config.json. Ids outside the vocabulary and -1 are left out: they cannot be
// sampled. Throws ErrorCode::format naming the field.
GenerationRules read_generation_rules(const JsonView& generation, int32_t vocab_size);

}  // namespace quire
