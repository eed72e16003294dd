// The models and decoders of a tokenizer.json as their definitions say, slowly: what tests compare with.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/support/json_text.h"

namespace quire::testing {

// The ids of one piece by a "model"; nothing where the model cannot spell it.
std::optional<std::vector<int>> encode_plainly(const Json& model, const std::string& piece);

// The text of a list of tokens by a "decoder", all at once. Of byte tokens, only broken bytes are U+FFFD.
std::string decode_plainly(const Json& decoder, std::vector<std::string> tokens);

}  // namespace quire::testing
