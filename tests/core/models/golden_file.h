// Reference outputs computed by other programs.
#pragma once

#include <string>
#include <vector>

#include "core/base/ids.h"

namespace quire::testing {

// Read one tensor of a safetensors file, as floats or as ids.
std::vector<float> read_floats(const std::string& path, const std::string& tensor);
TokenIds read_ids(const std::string& path, const std::string& tensor);
std::vector<float> read_floats_or_empty(const std::string& path, const std::string& tensor);

// Prompt of a model's golden.json with its greedy continuation.
struct GoldenPrompt {
  std::string prompt;
  TokenIds ids;
  TokenIds greedy;         // 64 ids
  std::vector<float> gap;  // between the first and the second logit before each token
};
// Reads the prompts of the JSON object in `path`, or of its member `under`. The names of the tokens and the
// gaps begin with `engine`, if a file has those of several.
std::vector<GoldenPrompt> read_golden_prompts(const std::string& path, const std::string& under = "",
                                              const std::string& engine = "");

TokenIds read_json_ids(const std::string& path);

// Text with its perplexity computed by another program.
struct GoldenPerplexity {
  TokenIds ids;
  double value;
};
GoldenPerplexity read_golden_perplexity(const std::string& path);

// Returns the directory of SmolLM2-135M-Instruct, made by tools/real_model.sh of the shared folder:
// QUIRE_SMOLLM2_DIR, or models/smollm2 of the shared folder. Empty if there is none.
std::string smollm2_directory();

bool exists(const std::string& path);

// Returns sqrt(sum (a - b)^2 / sum b^2).
double relative_rms(const std::vector<float>& values, const std::vector<float>& reference);

// Returns the relative_rms of the logits of all `input_ids` at the `positions` of a golden file, compared
// with its `logits`.
double golden_error(const std::vector<float>& logits, const std::string& path);

}  // namespace quire::testing
