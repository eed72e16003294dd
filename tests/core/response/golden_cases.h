// The cases of ../shared/golden/tool_calls: each is an answer and the expected result of parsing it.
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
  Json expect_too;               // result of the engine's other mode, accepted as well
  bool reads_calls = true;       // false in tests of reasoning alone: calls are content
  bool keeps_content = true;     // false if the engine drops text around calls
  bool expects_started = false;  // calls that were cut off are expected as well
  std::string content_before;    // content that is already in the prompt
  std::string reasoning_before;
};

// Loads one of llama_cpp.json, vllm.json, reasoning_vllm.json and roundtrip.json in a folder.
std::vector<GoldenCase> load_golden_cases(const std::string& folder, const std::string& file);
// Returns the difference from the expected result; empty if there is none.
std::string golden_difference(const GoldenCase& golden);

}  // namespace quire
