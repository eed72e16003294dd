// All cases from other engines and from the templates themselves: whole, in pieces and cut off.
#include <map>
#include <utility>

#include <gtest/gtest.h>

#include "core/base/file_system.h"
#include "tests/core/response/golden_cases.h"
#include "tests/support/case_stride.h"
#include "tests/support/golden_folders.h"

namespace quire {
namespace {

constexpr const char* kFiles[] = {"llama_cpp.json", "vllm.json", "reasoning_vllm.json", "roundtrip.json"};

// Cases with a different result than the golden file, and the reason.
const std::map<std::string, std::string>& exceptions() {
  static const auto* const kExceptions = new std::map<std::string, std::string>{
      {"llama_cpp.json MiniMax-M3 test-chat.cpp:5793",
       "elements where the schema allows a string or an object: an object here, a string there"},
      {"llama_cpp.json Qwen3.5-4B test-chat.cpp:2377",
       "the prompt has opened reasoning and the model opens it again: a mark here (as vLLM has it), "
       "reasoning there"},
      {"llama_cpp.json deepseek-ai-DeepSeek-R1-Distill-Qwen-32B test-chat.cpp:6066",
       "the generation prompt of the case closes the reasoning that its output goes on with"},
      {"llama_cpp.json meta-llama-Llama-3.1-8B-Instruct test-chat.cpp:6302",
       "a fence around JSON is taken away there because a response format was asked for"},
      {"vllm.json deepseek_v3 common_tests empty_arguments",
       "the expected name is not the one of the output"},
      {"vllm.json hermes invalid_json",
       "the arguments are complete, and only the bracket after them is missing: a call here, text there"},
      {"reasoning_vllm.json step3p5 test_reasoning[multi_turn_prompt_content]",
       "the text is a prompt of several turns, not an answer"},
      {"roundtrip.json MiniMax-M2 text_then_call",
       "the template writes an answer without reasoning without the mark that its generation prompt has "
       "opened"},
      {"roundtrip.json MiniMax-M2 content_only", "the same as text_then_call"},
      {"roundtrip.json openai-gpt-oss-120b text_then_call",
       "the template writes content beside a call as analysis, which is reasoning"}};
  return *kExceptions;
}

std::vector<GoldenCase> all_cases(const std::string& folder) {
  std::vector<GoldenCase> cases;
  for (const char* file : kFiles) {
    for (GoldenCase& golden : load_golden_cases(folder, file)) {
      golden.name = std::string(file) + " " + golden.family + " " + golden.name;
      if (exceptions().count(golden.name) == 0) cases.push_back(std::move(golden));
    }
  }
  return cases;
}

std::vector<std::string> folders() {
  return testing::golden_folders("responses", "tool_calls");
}

void expect_as_golden(const std::vector<GoldenCase>& cases) {
  for (const GoldenCase& golden : cases) {
    EXPECT_EQ(golden_difference(golden), "")
        << golden.name << " as " << golden.answer.dialect->name << "\n"
        << golden.answer.text << "\nexpected " << golden.expect.dump() << "\n"
        << describe(events_of(golden.answer));
  }
}

// Returns the cases that are tested at all positions.
std::vector<GoldenCase> cases_to_cut(const std::string& folder) {
  return testing::thin_if_sanitized(all_cases(folder), 60);
}

// Compares the events for every split in two and byte by byte with those of the whole text.
void expect_same_in_pieces(const GoldenCase& golden) {
  const Answer& answer = golden.answer;
  const std::string whole = describe(events_of(answer));
  for (size_t size = 1; size < answer.text.size(); ++size) {
    ASSERT_EQ(describe(events_in_pieces(answer, {size})), whole) << golden.name << ", split at " << size;
  }
  ASSERT_EQ(describe(events_in_pieces(answer, std::vector<size_t>(answer.text.size(), 1))), whole)
      << golden.name;
}

void expect_whole_when_cut(const GoldenCase& golden) {
  Answer cut = golden.answer;
  for (size_t size = 0; size < golden.answer.text.size(); ++size) {
    cut.text = golden.answer.text.substr(0, size);
    ASSERT_EQ(read_events(events_of(cut)).raw, cut.text) << golden.name << ", cut at " << size;
  }
}

TEST(GoldenResponses, AreReadAsExpected) {
  for (const std::string& folder : folders()) {
    const auto cases = all_cases(folder);
    EXPECT_GE(cases.size(), folder == folders().front() ? 250U : 970U);
    expect_as_golden(cases);
  }
}

TEST(GoldenResponses, AreReadTheSameInAnyPieces) {
  for (const std::string& folder : folders())
    for (const GoldenCase& golden : cases_to_cut(folder)) expect_same_in_pieces(golden);
}

TEST(GoldenResponses, LoseNoByteIfCutOff) {
  for (const std::string& folder : folders())
    for (const GoldenCase& golden : cases_to_cut(folder)) expect_whole_when_cut(golden);
}

// The dialect of a family is found in its template, or in its answers if the data has no template. So a
// selection of the answers must lead to the same dialect as all of them.
TEST(GoldenResponses, OfAFamilyHaveOneDialect) {
  std::map<std::string, std::string> dialects;
  for (const std::string& folder : folders()) {
    for (const GoldenCase& golden : all_cases(folder)) {
      const auto [first, is_new] = dialects.emplace(golden.family, golden.answer.dialect->name);
      EXPECT_EQ(first->second, golden.answer.dialect->name) << golden.name;
    }
  }
}

}  // namespace
}  // namespace quire
