// The cases of ../shared/golden/tool_calls, each as an answer and what it has to be read as.
#pragma once

#include <string>
#include <vector>

#include "tests/core/response/response_fixture.h"

namespace quire {

struct GoldenCase {
  std::string family;
  std::string name;
  Answer answer;
  Json expect;
  Json expect_too;             // what the engine gives in its other mode; either will do
  bool reads_calls = true;     // of a test of reasoning alone: calls are content
  bool keeps_content = true;   // the engine drops text around calls
  bool wants_started = false;  // calls that were cut off are expected too
  std::string content_before;  // that the prompt has
  std::string reasoning_before;
};

// One of llama_cpp.json, vllm.json, reasoning_vllm.json and roundtrip.json in a folder.
std::vector<GoldenCase> load_golden_cases(const std::string& folder, const std::string& file);
// What differs; empty: nothing.
std::string golden_difference(const GoldenCase& golden);

}  // namespace quire
