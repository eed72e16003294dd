// Reference outputs made by other people's programs.
#pragma once

#include <string>
#include <vector>

#include "core/base/ids.h"

namespace quire::testing {

// One tensor of a safetensors file, as floats or as ids.
std::vector<float> read_floats(const std::string& path, const std::string& tensor);
TokenIds read_ids(const std::string& path, const std::string& tensor);
std::vector<float> read_floats_or_empty(const std::string& path, const std::string& tensor);

// A prompt of a model's golden.json with its greedy continuation.
struct GoldenPrompt {
  std::string prompt;
  TokenIds ids;
  TokenIds greedy;         // 64 ids
  std::vector<float> gap;  // between the first and the second logit before each
};
std::vector<GoldenPrompt> read_golden_prompts(const std::string& path);

TokenIds read_json_ids(const std::string& path);

bool exists(const std::string& path);

// sqrt(sum (a - b)^2 / sum b^2).
double relative_rms(const std::vector<float>& values, const std::vector<float>& reference);

}  // namespace quire::testing
