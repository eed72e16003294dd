// Directories of before 2020: a byte-level BPE as vocab.json and merges.txt.
#pragma once

#include <string>
#include <string_view>

namespace quire {

// The tokenizer.json that says the same. ErrorCode::format where a file is malformed, naming it.
std::string tokenizer_json_of_gpt2_files(std::string_view vocab_json, std::string_view merges_txt);

}  // namespace quire
