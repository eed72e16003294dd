// Tokenizers for tests: those of tests/golden, and small ones made in memory.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/tokenizer/tokenizer.h"
#include "tests/support/json_text.h"

namespace quire {

using testing::Json;

inline constexpr EncodeOptions kBare{.parse_special = true, .add_special_tokens = false};

// Reads a file below tests/golden/tokenizers.
std::string read_golden(const std::string& name);
std::shared_ptr<const Tokenizer> load_golden(const std::string& kind);

// Kinds whose tokens spell bytes, and all kinds.
inline const std::vector<std::string>& byte_level_kinds() {
  static const auto* kinds =
      new std::vector<std::string>{"gpt2", "llama3", "qwen2", "o200k", "deepseek", "digits"};
  return *kinds;
}
inline const std::vector<std::string>& golden_kinds() {
  static const auto* kinds = [] {
    auto* all = new std::vector<std::string>(byte_level_kinds());
    all->insert(all->end(), {"gemma", "llama2", "mistral_metaspace", "unigram", "wordpiece"});
    return all;
  }();
  return *kinds;
}

// Returns the JSON of a byte-level BPE: ids 0 to 255 are the byte values, followed by the results of `merges`
// (pairs of spellings) in order. There is no pre-tokenizer.
Json tiny_tokenizer(const std::vector<std::pair<std::string, std::string>>& merges = {});
Json added_token(int id, const std::string& content, bool special);

std::shared_ptr<const Tokenizer> load_json(const Json& json);

// Converts code points to UTF-8.
std::string utf8(std::u32string_view code_points);

}  // namespace quire
