// Simple, slow versions of the models and decoders of a tokenizer.json, by their definitions, for comparison
// in tests.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/support/json_text.h"

namespace quire::testing {

// Returns the ids of one piece encoded by a "model"; nothing if the model cannot encode it.
std::optional<std::vector<int>> encode_plainly(const Json& model, const std::string& piece);

// Returns the text of a list of tokens decoded by a "decoder", all at once. Of byte tokens, only invalid
// bytes become U+FFFD.
std::string decode_plainly(const Json& decoder, std::vector<std::string> tokens);

}  // namespace quire::testing
