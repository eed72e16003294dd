#include "tests/core/response/golden_cases.h"

#include <map>

#include "core/base/file_system.h"

namespace quire {
namespace {

constexpr uint64_t kMaxFileBytes = 16U << 20;

// Dialects of families and templates that have no template file in the shared directory.
const std::map<std::string, std::string>& known_dialects() {
  static const auto* const kDialects =
      new std::map<std::string, std::string>{{"ByteDance-Seed-OSS", "seed_oss"},
                                             {"CohereForAI-c4ai-command-r-plus-tool_use", "command_r"},
                                             {"GLM-4.6", "glm"},
                                             {"GLM-4.7-Flash", "glm"},
                                             {"GigaChat3-10B-A1.8B", "gigachat"},
                                             {"GigaChat3.1-10B-A1.8B", "gigachat"},
                                             {"Kimi-K2-Instruct", "kimi_k2"},
                                             {"LFM2-8B-A1B", "lfm2"},
                                             {"NVIDIA-Nemotron-Nano-v2", "nemotron_v2"},
                                             {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "hermes"},
                                             {"Qwen-QwQ-32B", "hermes"},
                                             {"Qwen-Qwen2.5-7B-Instruct", "hermes"},
                                             {"Qwen3-Coder", "qwen3_coder"},
                                             {"Spark2.5", "glm"},
                                             {"StepFun3.5-Flash", "qwen3_coder"},
                                             {"google-gemma-2-2b-it", "plain"},
                                             {"inclusionai-ling-3.0-flash", "glm"},
                                             {"llama-cpp-deepseek-r1", "deepseek_v3"},
                                             {"meta-llama-Llama-3.1-8B-Instruct", "llama3_json"},
                                             {"meta-llama-Llama-3.3-70B-Instruct", "llama3_json"},
                                             {"mistralai-Ministral-3-14B-Reasoning-2512", "mistral_v11"},
                                             {"moonshotai-Kimi-K2", "kimi_k2"},
                                             {"ernie45_moe", "hermes"},
                                             {"ernie45", "hermes"},
                                             {"gigachat3", "gigachat"},
                                             {"glm4_moe", "glm"},
                                             {"granite-20b-fc", "granite_20b_fc"},
                                             {"hunyuan_a13b", "hunyuan"},
                                             {"internlm", "internlm2"},
                                             {"llama4_pythonic", "pythonic"},
                                             {"minimax", "minimax_m1"},
                                             {"phi4_mini_json", "functools"},
                                             {"qwen3coder", "qwen3_coder"},
                                             {"step3p5", "qwen3_coder"},
                                             {"deepseekr1", "deepseek_v3"},
                                             {"gptoss", "gpt_oss"},
                                             {"granite_thinking", "granite"},
                                             {"holo2", "hermes"},
                                             {"hy_v3", "hunyuan"},
                                             {"minimax_m2_append", "minimax_m2"},
                                             {"nemotron_v3", "qwen3_coder"},
                                             {"qwen3", "qwen3_coder"},
                                             {"seedoss", "seed_oss"}};
  return *kDialects;
}

// Returns whether the family's parser treats the beginning of an answer as reasoning.
bool begins_with_reasoning(const Json& item) {
  const std::string family = item["family"];
  const std::string name = item["name"];
  if (family == "hy_v3") return name.find("without_think") == std::string::npos;
  for (const char* each : {"deepseekr1", "ernie45", "glm4_moe", "holo2", "minimax_m2", "nemotron_v3", "qwen3",
                           "step3p5", "granite_thinking", "olmo3"}) {
    if (family == each) return name.find("thinking_disabled") == std::string::npos;
  }
  return false;
}

std::string read(const std::string& path) {
  return posix_file_system().read_text(path, kMaxFileBytes);
}

const Dialect* dialect_of(const std::string& folder, const Json& item, const std::string& name) {
  if (item.contains("dialect")) return &find_dialect(item["dialect"].get<std::string>());
  const auto known = known_dialects().find(name);
  if (known != known_dialects().end()) return &find_dialect(known->second);
  const std::string path = folder + "/../templates/" + name + ".jinja";
  if (posix_file_system().is_file(path)) return &detect_dialect(read(path));
  return &find_dialect(name);
}

std::string text_or(const Json& object, const char* key, const char* fallback = "") {
  return object.contains(key) && object[key].is_string() ? object[key].get<std::string>() : fallback;
}

// Adds the part of a continued message that is already in the prompt.
void add_begun_message(GoldenCase& golden, const Json& item, const std::string& where) {
  const Json& message = item["messages"].back();
  golden.content_before = text_or(message, "content");
  if (item["expect"]["reasoning_content"] == "") return;
  golden.reasoning_before = text_or(message, "reasoning_content");
  const Dialect& dialect = *golden.answer.dialect;
  if (where != "reasoning") return;
  if (dialect.reasoning.opens.empty()) {
    golden.answer.prompt = "<|start|>assistant<|channel|>analysis<|message|>" + golden.reasoning_before;
  } else {
    golden.answer.prompt = std::string(dialect.reasoning.opens[0]) + golden.reasoning_before;
  }
}

GoldenCase llama_case(const std::string& folder, const Json& item) {
  GoldenCase golden;
  const std::string prompt = text_or(item, "generation_prompt");
  const Json& options = item["options"];
  golden.answer.dialect = dialect_of(folder, item, item["template"]);
  const bool off = options["reasoning_format"] == "none";
  if (off) golden.answer.start = ReasoningStart::off;
  const std::string expected = text_or(item["expect"], "content");
  const size_t open = prompt.rfind("<think>");
  if (off && open != std::string::npos && expected.substr(0, 7) == "<think>") {
    golden.content_before = prompt.substr(open);
  }
  if (!off) golden.answer.prompt = prompt;
  if (options.contains("continue_final_message")) {
    add_begun_message(golden, item, options["continue_final_message"]);
  }
  const size_t steps = prompt.rfind("Here are my reasoning steps:\n");
  if (steps != std::string::npos) golden.reasoning_before = prompt.substr(steps);
  golden.expects_started = options.value("is_partial", false);
  return golden;
}

GoldenCase reasoning_case(const std::string& folder, const Json& item) {
  GoldenCase golden;
  golden.answer.dialect = dialect_of(folder, item, item["family"]);
  golden.reads_calls = false;
  if (begins_with_reasoning(item)) golden.answer.start = ReasoningStart::open;
  const bool off = item.contains("chat_template_kwargs") || item["family"] == "minimax_m2_append";
  if (off) golden.answer.start = ReasoningStart::off;
  if (item["family"] == "minimax_m2_append") golden.content_before = "<think>";
  return golden;
}

GoldenCase case_of(const std::string& folder, const std::string& file, const Json& item) {
  GoldenCase golden;
  if (file == "llama_cpp.json") {
    golden = llama_case(folder, item);
  } else if (file == "reasoning_vllm.json") {
    golden = reasoning_case(folder, item);
  } else {
    golden.answer.dialect = dialect_of(folder, item, item["family"]);
    golden.answer.start = ReasoningStart::off;
    golden.keeps_content = !item.contains("note");
  }
  golden.name = item["name"];
  golden.family = file == "llama_cpp.json" ? item["template"] : item["family"];
  golden.answer.text = item["output"];
  if (item.contains("tools")) golden.answer.tools = item["tools"].dump();
  golden.expect = item["expect"];
  if (item.contains("expect_other_mode")) golden.expect_too = item["expect_other_mode"];
  return golden;
}

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \n\t\r");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \n\t\r") - begin + 1);
}

std::string without_space(std::string text) {
  text.erase(std::remove_if(text.begin(), text.end(), [](char byte) { return byte == ' ' || byte == '\n'; }),
             text.end());
  return text;
}

bool same_arguments(const Json& expected, const std::string& found) {
  if (!expected.is_string()) {
    return nlohmann::json::parse(found, nullptr, false) == nlohmann::json::parse(expected.dump());
  }
  const std::string text = expected;
  const Json value = Json::parse(text, nullptr, false);
  if (value.is_discarded()) return without_space(text) == without_space(found);
  return nlohmann::json::parse(found, nullptr, false) == nlohmann::json::parse(text, nullptr, false);
}

std::string call_difference(const GoldenCase& golden, const ReadResponse& response) {
  const Json& expect = golden.expect;
  const bool is_cut = expect.contains("complete_tool_calls");
  if (!is_cut && !expect.contains("tool_calls")) return "";
  const Json& expected = is_cut ? expect["complete_tool_calls"] : expect["tool_calls"];
  std::vector<ReadCall> calls;
  std::string started;
  for (const ReadCall& call : response.calls) {
    if (!call.ended) started = call.name;
    const bool partial = calls.size() < expected.size() && expected[calls.size()]["arguments"].is_string() &&
                         !Json::accept(expected[calls.size()]["arguments"].get<std::string>());
    if (call.ended || golden.expects_started || partial) calls.push_back(call);
  }
  if (is_cut && started != text_or(expect, "started")) return "started: " + started;
  if (calls.size() != expected.size()) return std::to_string(calls.size()) + " calls";
  for (size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].name != expected[i]["name"].get<std::string>()) return "name: " + calls[i].name;
    if (!same_arguments(expected[i]["arguments"], calls[i].arguments))
      return "arguments: " + calls[i].arguments;
    if (expected[i].contains("id") && calls[i].id != expected[i]["id"].get<std::string>())
      return "id: " + calls[i].id;
  }
  return "";
}

std::string difference_from(const GoldenCase& golden, const Json& expect) {
  const ReadResponse response = read_events(events_of(golden.answer));
  if (response.raw != golden.answer.text) return "bytes are lost: " + response.raw;
  if (expect.contains("must_not_crash")) return "";
  if (expect.contains("reasoning_content")) {
    const std::string reasoning = golden.reasoning_before + response.reasoning;
    if (trimmed(reasoning) != trimmed(text_or(expect, "reasoning_content"))) return "reasoning: " + reasoning;
  }
  const bool has_content = expect.contains("content") && expect["content"].is_string();
  std::string content = golden.content_before + response.content;
  if (!golden.reads_calls && content.find("<tool_call") == std::string::npos &&
      text_or(expect, "content").find("tool_call") != std::string::npos) {
    content = response.raw_after_reasoning;
  }
  if (golden.keeps_content && has_content && trimmed(content) != trimmed(expect["content"])) {
    return "content: " + content;
  }
  return golden.reads_calls ? call_difference(golden, response) : "";
}

}  // namespace

std::vector<GoldenCase> load_golden_cases(const std::string& folder, const std::string& file) {
  const Json all = Json::parse(read(folder + "/" + file));
  std::vector<GoldenCase> cases;
  if (file != "roundtrip.json") {
    for (const Json& item : all["cases"]) cases.push_back(case_of(folder, file, item));
    return cases;
  }
  for (const Json& set : all["sets"]) {
    for (const Json& item : set["cases"]) {
      GoldenCase golden;
      golden.family = set["template"];
      golden.name = item["name"];
      golden.answer.dialect = dialect_of(folder, set, set["template"]);
      golden.answer.prompt = set["generation_prompt"];
      golden.answer.tools = all["tools"].dump();
      golden.answer.text = item["output"];
      golden.expect = item["expect"];
      cases.push_back(std::move(golden));
    }
  }
  return cases;
}

std::string golden_difference(const GoldenCase& golden) {
  const std::string difference = difference_from(golden, golden.expect);
  if (difference.empty() || golden.expect_too.is_null()) return difference;
  return difference_from(golden, golden.expect_too);
}

}  // namespace quire
