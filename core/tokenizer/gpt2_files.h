// Loads byte-level BPE from vocab.json and merges.txt (GPT-2), as in model directories from before 2020.
#pragma once

#include <string>
#include <string_view>

namespace quire {

// Returns the equivalent tokenizer.json. Throws ErrorCode::format naming the file if it is malformed.
std::string tokenizer_json_of_gpt2_files(std::string_view vocab_json, std::string_view merges_txt);

}  // namespace quire
