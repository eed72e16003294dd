// Histories for real chat templates: the adaptations that each needs, and what reaches the prompt. All
// templates if the shared directory exists, otherwise the committed selection.
#include <algorithm>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/file_system.h"
#include "core/chat/history.h"
#include "tests/core/chat/chat_fixture.h"

namespace quire::chat {
namespace {

using quire::testing::parsed;

constexpr const char* kTools = R"([{"type": "function", "function": {"name": "tool_of_no_call",
  "description": "A tool", "parameters": {"type": "object", "properties": {"size": {"type": "string",
  "description": "A size"}}, "required": ["size"]}}}])";

struct NamedChat {
  std::string name;
  Json file;
  std::shared_ptr<const ChatTemplate> chat;
};

std::string golden_folder() {
  const std::string shared = std::string(QUIRE_SHARED_DIR) + "/golden/templates";
  return posix_file_system().is_directory(shared) ? shared : std::string(QUIRE_TEST_DATA) + "/templates";
}

std::vector<NamedChat> load_templates() {
  std::vector<NamedChat> templates;
  const std::string folder = golden_folder();
  for (const std::string& name : posix_file_system().list(folder)) {
    const bool is_case = name.size() > 5 && name.substr(name.size() - 5) == ".json";
    if (!is_case || name == "features.json" || name == "jinja_units.json") continue;
    const Json file = Json::parse(read_golden(folder + "/" + name));
    const std::string source = read_golden(folder + "/" + file["template_file"].get<std::string>());
    templates.push_back({name.substr(0, name.size() - 5), file, ChatTemplate::compile(source)});
  }
  return templates;
}

std::string names_of(Adaptations adaptations) {
  std::string text;
  for (const std::string_view name : adaptation_names(adaptations)) text.append(" ").append(name);
  return text.empty() ? " -" : text;
}

// Returns the rendering of an input, or an empty text if it fails.
std::string prompt_of(const NamedChat& named, const Json& input) {
  TemplateContext context;
  for (const auto& [name, text] : named.file["context"].items()) {
    if (text.is_string()) context.special_tokens.emplace_back(name, text.get<std::string>());
  }
  try {
    return render_history(*named.chat, parsed(input), context).text;
  } catch (const Error&) {
    return {};
  }
}

// The templates are loaded once, since finding out what each needs takes a while.
class GoldenHistory : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { templates = std::make_unique<std::vector<NamedChat>>(load_templates()); }
  static void TearDownTestSuite() { templates.reset(); }

  // Returns the names of the templates for which `holds` is false.
  static std::string failing(const std::function<bool(const NamedChat&)>& holds) {
    std::string names;
    for (const NamedChat& named : *templates) {
      if (!holds(named)) names += named.name + " ";
    }
    return names;
  }

  static std::unique_ptr<std::vector<NamedChat>> templates;
};

std::unique_ptr<std::vector<NamedChat>> GoldenHistory::templates;

// Each line of the file is the name of a template and its adaptations.
std::map<std::string, std::string> read_table() {
  std::map<std::string, std::string> table;
  std::istringstream lines(read_golden(std::string(QUIRE_TEST_DATA) + "/templates/adaptations.txt"));
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (colon != std::string::npos && line[0] != '#') table[line.substr(0, colon)] = line.substr(colon + 1);
  }
  return table;
}

TEST_F(GoldenHistory, EachTemplateNeedsTheseAdaptations) {
  std::map<std::string, std::string> table = read_table();
  for (const NamedChat& named : *templates)
    EXPECT_EQ(names_of(named.chat->adaptations()), table[named.name]) << named.name;
}

TEST_F(GoldenHistory, ConversationsThatAreNotChangedAreRenderedAsBefore) {
  size_t num_same = 0;
  for (const NamedChat& named : *templates) {
    for (const Json& item : named.file["cases"]) {
      const AdaptedInput adapted = adapt_input(parsed(item["input"]), named.chat->adaptations());
      if (!adapted.changes.empty()) continue;
      ++num_same;
      EXPECT_EQ(golden_adapted_difference(*named.chat, named.file, item), "")
          << named.name << ", " << item["name"];
    }
  }
  EXPECT_GE(num_same, 200U);
}

Json message(const char* role, const Json& content) {
  return {{"role", role}, {"content", content}};
}

Json with_call(const Json& content, const Json& arguments) {
  Json answer = message("assistant", content);
  const Json call = {{"id", "call_0a1b2c3d4e5f"},
                     {"type", "function"},
                     {"function", {{"name", "clockwork"}, {"arguments", arguments}}}};
  answer["tool_calls"] = Json::array({call});
  Json result = message("tool", "halfpastnine");
  result["tool_call_id"] = "call_0a1b2c3d4e5f";
  return {{"messages", {message("user", "question"), answer, result}},
          {"tools", Json::parse(kTools)},
          {"add_generation_prompt", true}};
}

bool has_all(const std::string& prompt, std::initializer_list<const char*> words) {
  return std::all_of(words.begin(), words.end(),
                     [&](const char* word) { return prompt.find(word) != std::string::npos; });
}

// Templates that need variables of their own, or write no text of messages.
constexpr const char* kRenderNothing[] = {
    "fireworks-ai-llama-3-firefunction-v2", "hfjs_CohereForAI_c4ai-command-r-v01",
    "hfjs_fireworks-ai_firefunction-v1", "ik_MiroThinker", "vllm_template_kimi_audio"};

bool renders_nothing(const NamedChat& named) {
  return std::any_of(std::begin(kRenderNothing), std::end(kRenderNothing),
                     [&](const char* name) { return named.name == name; });
}

TEST_F(GoldenHistory, ACallOfTheSecondTurnIsTheSameAsTextAndAsObject) {
  const Json object = {{"zone", "utc"}, {"hours", Json::array({7, true})}};
  const std::string text = R"({"zone": "utc", "hours": [7, true]})";
  EXPECT_EQ(failing([&](const NamedChat& named) {
              const std::string prompt = prompt_of(named, with_call("", object));
              return renders_nothing(named) || (has_all(prompt, {"clockwork", "utc", "halfpastnine"}) &&
                                                prompt_of(named, with_call("", text)) == prompt);
            }),
            "");
}

TEST_F(GoldenHistory, ACallWithoutContentReachesThePrompt) {
  EXPECT_EQ(failing([&](const NamedChat& named) {
              return renders_nothing(named) ||
                     has_all(prompt_of(named, with_call(nullptr, R"({"zone": "utc"})")),
                             {"question", "clockwork", "utc", "halfpastnine"});
            }),
            "");
}

TEST_F(GoldenHistory, ACallInOpenAisFirstFormOrWithoutIdsReachesThePrompt) {
  Json first = with_call(nullptr, Json::object());
  first["messages"][1].erase("tool_calls");
  first["messages"][1]["function_call"] = {{"name", "clockwork"}, {"arguments", R"({"zone": "utc"})"}};
  first["messages"][2] = message("function", "halfpastnine");
  first["messages"][2]["name"] = "clockwork";
  Json bare = with_call("", R"({"zone": "utc"})");
  bare["messages"][1]["tool_calls"][0].erase("id");
  bare["messages"][2].erase("tool_call_id");
  for (const Json& input : {first, bare}) {
    EXPECT_EQ(failing([&](const NamedChat& named) {
                return renders_nothing(named) ||
                       has_all(prompt_of(named, input), {"question", "clockwork", "utc", "halfpastnine"});
              }),
              "");
  }
}

TEST_F(GoldenHistory, AnInstructionOfTheDeveloperReachesThePrompt) {
  const Json at_the_beginning = {message("developer", "instruction"), message("user", "question")};
  const Json late = {message("system", "firstly"), message("user", "question"), message("assistant", "reply"),
                     message("developer", "instruction"), message("user", "another")};
  for (const Json& messages : {at_the_beginning, late}) {
    const Json input = {
        {"messages", messages}, {"tools", Json::parse(kTools)}, {"add_generation_prompt", true}};
    EXPECT_EQ(failing([&](const NamedChat& named) {
                const std::string prompt = prompt_of(named, input);
                return renders_nothing(named) ||
                       std::all_of(messages.begin(), messages.end(), [&](const Json& each) {
                         return prompt.find(each["content"].get<std::string>()) != std::string::npos;
                       });
              }),
              "");
  }
}

}  // namespace
}  // namespace quire::chat
