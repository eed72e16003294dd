// The parser is the inverse of the templates: calls that a published template renders as history are read
// back as they were.
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "core/base/file_system.h"
#include "core/chat/chat_template.h"
#include "core/chat/history.h"
#include "core/chat/template_error.h"
#include "tests/core/response/response_fixture.h"
#include "tests/support/case_stride.h"

namespace quire {
namespace {

constexpr uint64_t kMaxFileBytes = 16U << 20;
constexpr const char* kTools = R"([
  {"type": "function", "function": {"name": "note", "description": "Keeps a note.", "parameters": {
    "type": "object", "required": [], "properties": {
      "body": {"type": "string", "description": "text"}, "title": {"type": "string", "description": "text"},
      "day": {"type": "integer", "description": "number"}, "rate": {"type": "number", "description": "number"},
      "loud": {"type": "boolean", "description": "flag"},
      "list": {"type": "array", "items": {"type": "string"}, "description": "texts"},
      "map": {"type": "object", "description": "any", "properties": {"text": {"type": "string"},
              "number": {"type": "integer"}, "flags": {"type": "array", "items": {"type": "boolean"}}}}}}}},
  {"type": "function", "function": {"name": "refresh", "description": "Shows all again.",
    "parameters": {"type": "object", "properties": {}, "required": []}}}])";

// What a template cannot write so that it can be read back, and the reason.
struct Exception {
  std::string reason;
  bool skips = false;      // the template writes nothing that can be read
  bool has_odd = true;     // strings with marks, quotes, backslashes, line ends and spaces at their ends
  bool has_values = true;  // values other than strings
  bool several = true;     // several calls in an answer
};

const std::map<std::string, Exception>& exceptions() {
  static const auto* const kExceptions = new std::map<std::string, Exception>{
      {"trl_tiny_aya_chat_template", {"a line end is written after strings", true}},
      {"vllm_tool_chat_template_toolace", {"strings are written without quotes", true}},
      {"Kimi-K2-Thinking", {"the template appends to a list", true}},
      {"hfjs_CohereForAI_c4ai-command-r-v01", {"calls have a form of the template's own", true}},
      {"ik_MiroThinker", {"the template reads a variable that it does not set", true}},
      {"fireworks-ai-llama-3-firefunction-v2", {"the tools are the argument `functions`", true}},
      {"axolotl_command_a", {"calls are not written", true}},
      {"axolotl_falcon_h1", {"calls are not written", true}},
      {"hfjs_HuggingFaceTB_SmolLM3-3B", {"calls are not written", true}},
      {"ibm-granite-granite-3.3-2B-Instruct", {"calls are not written", true}},
      {"royallab_groq_tool_use", {"calls are not written", true}},
      {"vllm_tool_chat_template_glm4", {"calls are not written", true}},
      {"vllm_tool_chat_template_phi4_mini", {"the mark before calls is not written", true}},
      {"LFM2.5-8B-A1B", {"strings are written without escapes", false, false}},
      {"hfjs_LiquidAI_LFM2.5-VL-450M", {"strings are written without escapes", false, false}},
      {"vllm_tool_chat_template_llama4_pythonic",
       {"all values are written as strings, without escapes", false, false, false}},
      {"axolotl_llama3_2_vision", {"one call a message", false, true, true, false}},
      {"hfjs_meta-llama_Llama-3.2-11B-Vision-Instruct", {"one call a message", false, true, true, false}},
      {"meta-llama-Llama-3.2-3B-Instruct", {"one call a message", false, true, true, false}},
      {"vllm_tool_chat_template_llama3.1_json", {"one call a message", false, true, true, false}},
      {"vllm_tool_chat_template_llama3.2_json", {"one call a message", false, true, true, false}},
      {"openai-gpt-oss-120b", {"one call a message", false, true, true, false}},
      {"hfjs_NousResearch_Hermes-2-Pro-Llama-3-8B-JSON-Schema",
       {"the second call has no opening mark", false, true, true, false}}};
  return *kExceptions;
}

std::string templates_folder() {
  return std::string(QUIRE_SHARED_DIR) + "/golden/templates";
}

std::string read(const std::string& path) {
  return posix_file_system().read_text(path, kMaxFileBytes);
}

struct RealTemplate {
  std::string name;
  std::shared_ptr<const chat::ChatTemplate> chat;
  chat::TemplateContext context;
  const Dialect* dialect = nullptr;
};

// Returns the templates of dialects with calls.
std::vector<RealTemplate> real_templates(const std::string& folder) {
  std::vector<RealTemplate> templates;
  for (const std::string& file : posix_file_system().list(folder)) {
    if (file.size() < 6 || file.substr(file.size() - 6) != ".jinja") continue;
    RealTemplate real;
    real.name = file.substr(0, file.size() - 6);
    const std::string source = read(folder + "/" + file);
    real.dialect = &detect_dialect(source);
    if (real.dialect->forms.empty()) continue;
    real.chat = chat::ChatTemplate::compile(source);
    const Json settings = Json::parse(read(folder + "/" + real.name + ".json"));
    for (const auto& [name, text] : settings["context"].items()) {
      if (text.is_string()) real.context.special_tokens.emplace_back(name, text.get<std::string>());
    }
    templates.push_back(std::move(real));
  }
  return templates;
}

class RandomCalls {
 public:
  RandomCalls(const Dialect& dialect, const Exception& limits, uint32_t seed)
      : dialect_(dialect),
        limits_(limits),
        random_(seed),
        odd_({"\n",    "\"",   "'",    "\\",   "\\n",  " ",   "{",      "}",   "[",     "]",
              "(",     ")",    ",",    "null", "true", "42",  "</",     "<",   ">",     "\t",
              "C:\\d", "it's", "\n\n", "</x>", "`",    "```", "\": \"", "\"}", "\", \""}) {
    const auto add = [&](const Marks& marks) {
      for (const std::string_view mark : marks) marks_.emplace_back(mark);
    };
    for (const CallForm& form : dialect.forms) {
      add(form.opens);
      add(form.closes);
      add(form.tagged.ends);
      for (const std::string_view mark :
           {form.tagged.begin, form.tagged.parameter.begin, form.tagged.parameter.value_begin,
            form.tagged.parameter.value_end}) {
        const bool is_quote = form.arguments == ArgumentSyntax::loose && mark == form.tagged.parameter.begin;
        if (!mark.empty() && !is_quote && mark.find(kKeyPlaceholder) == std::string_view::npos)
          marks_.emplace_back(mark);
      }
    }
    add(dialect.reasoning.closes);
  }

  Json calls() {
    Json calls = Json::array();
    const size_t num_calls = limits_.several ? 1 + random_() % 2 : 1;
    for (size_t i = 0; i < num_calls; ++i) {
      const bool plain = random_() % 8 == 0;
      const std::string name = plain ? "refresh" : "note";
      calls.push_back({{"id", id_of(name, i)},
                       {"type", "function"},
                       {"function", {{"name", name}, {"arguments", plain ? Json::object() : arguments()}}}});
    }
    return calls;
  }

 private:
  // Returns an id as the parser hands it out.
  std::string id_of(const std::string& name, size_t idx) const {
    const TaggedSyntax& tagged = dialect_.forms[0].tagged;
    if (tagged.index_sign == '\0') return "call0000" + std::to_string(idx);
    return std::string(tagged.name_prefix) + name + tagged.index_sign + std::to_string(idx);
  }
  Json arguments() {
    Json made = Json::object();
    for (const char* const key : {"body", "day", "loud", "list", "title", "map", "rate"}) {
      if (random_() % 2 != 0) continue;
      const bool is_text = key == std::string("body") || key == std::string("title");
      if (is_text || limits_.has_values) made[key] = value(key);
    }
    return made;
  }
  Json value(const std::string& key) {
    if (key == "day") return static_cast<int64_t>(random_() % 2000) - 1000;
    if (key == "rate") return static_cast<double>(random_() % 1000) / 8;
    if (key == "loud") return random_() % 2 == 0;
    if (key == "list") {
      Json list = Json::array();
      for (size_t i = 0; i < random_() % 3; ++i) list.push_back(text());
      return list;
    }
    if (key != "map") return text();
    Json map = Json::object();
    if (random_() % 2 == 0) map["text"] = text();
    if (random_() % 2 == 0) map["number"] = random_() % 100;
    if (random_() % 2 == 0) map["flags"] = {true, false};
    return map;
  }
  // A mark has a word after it: marks that follow each other as in a call end a value.
  std::string text() {
    std::string text;
    const std::vector<std::string> words = {"go", " on", "Z\u00fcrich", "\u65e5\u672c", "\U0001F600", "x y"};
    bool after_mark = false;
    for (size_t i = 0; i < random_() % 5; ++i) {
      const bool is_odd = limits_.has_odd && !after_mark && random_() % 2 == 0;
      after_mark = is_odd && !marks_.empty() && random_() % 2 == 0;
      const std::vector<std::string>& pieces = after_mark ? marks_ : is_odd ? odd_ : words;
      text += pieces[random_() % pieces.size()];
    }
    return text;
  }

  const Dialect& dialect_;
  Exception limits_;
  std::mt19937 random_;
  std::vector<std::string> odd_;
  std::vector<std::string> marks_;
};

std::string render(const RealTemplate& real, const Json& calls) {
  Json messages = Json::array();
  messages.push_back({{"role", "user"}, {"content", "Go on."}});
  if (!calls.is_null()) {
    messages.push_back({{"role", "assistant"}, {"content", ""}, {"tool_calls", calls}});
    for (const Json& call : calls) {
      messages.push_back({{"role", "tool"},
                          {"tool_call_id", call["id"]},
                          {"name", call["function"]["name"]},
                          {"content", "END OF CALLS"}});
    }
  }
  const Json input{{"messages", messages}, {"tools", Json::parse(kTools)}, {"add_generation_prompt", false}};
  return chat::render_history(*real.chat, testing::parsed(input), real.context).text;
}

// Returns what the template writes for the calls; throws TemplateError if it cannot.
std::string answer_of(const RealTemplate& real, const Json& calls) {
  const std::string whole = render(real, calls);
  const std::string before = render(real, Json());
  size_t same = 0;
  while (same < before.size() && same < whole.size() && before[same] == whole[same]) ++same;
  return whole.substr(same, whole.find("END OF CALLS", same) - same);
}

// Returns how the calls that were read differ from those that were written; empty if they are the same.
std::string difference(const Json& calls, const ReadResponse& read) {
  if (read.calls.size() < calls.size()) return std::to_string(read.calls.size()) + " calls";
  for (size_t i = 0; i < calls.size(); ++i) {
    const Json& call = calls[i]["function"];
    if (read.calls[i].name != call["name"].get<std::string>()) return "name " + read.calls[i].name;
    if (!read.calls[i].ended) return "no end: " + read.calls[i].arguments;
    if (nlohmann::json::parse(read.calls[i].arguments, nullptr, false) != nlohmann::json(call["arguments"]))
      return "arguments " + read.calls[i].arguments;
  }
  return "";
}

struct Tally {
  size_t num_templates = 0;
  size_t num_calls = 0;
};

void expect_read_back(const RealTemplate& real, int num_rounds, Tally& tally) {
  const auto found = exceptions().find(real.name);
  const Exception limits = found == exceptions().end() ? Exception{} : found->second;
  if (limits.skips) return;
  ++tally.num_templates;
  RandomCalls random(*real.dialect, limits, static_cast<uint32_t>(real.name.size()));
  for (int round = 0; round < num_rounds; ++round) {
    const Json calls = random.calls();
    Answer answer{real.dialect, kTools, ReasoningStart::closed, "", ""};
    ASSERT_NO_THROW(answer.text = answer_of(real, calls)) << real.name;
    const ReadResponse read = read_events(events_of(answer));
    ASSERT_EQ(difference(calls, read), "") << real.name << " as " << real.dialect->name << "\n"
                                           << answer.text << "\n"
                                           << calls.dump() << "\n"
                                           << describe(events_of(answer));
    tally.num_calls += calls.size();
  }
}

TEST(InverseOfTemplates, CallsAreReadBackAsTheyWereWritten) {
  if (!posix_file_system().is_directory(templates_folder()))
    GTEST_SKIP() << templates_folder() << " is not on this machine";
  Tally tally;
  for (const RealTemplate& real : real_templates(templates_folder()))
    expect_read_back(real, 200 / testing::stride_if_sanitized(50), tally);
  EXPECT_GE(tally.num_templates, 60U);
  std::cout << tally.num_templates << " templates, " << tally.num_calls << " calls\n";
}

TEST(InverseOfTemplates, CallsOfTheCommittedSelectionAreReadBack) {
  Tally tally;
  for (const RealTemplate& real : real_templates(std::string(QUIRE_TEST_DATA) + "/templates"))
    expect_read_back(real, 100 / testing::stride_if_sanitized(20), tally);
  EXPECT_GE(tally.num_templates, 5U);  // the others write nothing that can be read
}

}  // namespace
}  // namespace quire
