// Content never becomes a special token, however it is cut, joined and dressed up.
#include "core/chat/segments.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/file_system.h"
#include "tests/core/chat/chat_fixture.h"

namespace quire::chat {
namespace {

std::string read(const std::string& path) {
  return posix_file_system().read_text(path, uint64_t{64} << 20);
}

// Texts that speak to some model and are no text.
const std::vector<std::string>& special_texts() {
  static const auto* texts =
      new std::vector<std::string>{"<|im_start|>",
                                   "<|im_end|>",
                                   "<|endoftext|>",
                                   "<|begin_of_text|>",
                                   "<|end_of_text|>",
                                   "<|start_header_id|>",
                                   "<|end_header_id|>",
                                   "<|eot_id|>",
                                   "<|eom_id|>",
                                   "<|python_tag|>",
                                   "<s>",
                                   "</s>",
                                   "[INST]",
                                   "[/INST]",
                                   "[TOOL_CALLS]",
                                   "[AVAILABLE_TOOLS]",
                                   "[TOOL_RESULTS]",
                                   "<start_of_turn>",
                                   "<end_of_turn>",
                                   "<bos>",
                                   "<eos>",
                                   "<|user|>",
                                   "<|assistant|>",
                                   "<|system|>",
                                   "<|end|>",
                                   "<|tool|>",
                                   "<|observation|>",
                                   "<\xef\xbd\x9c"
                                   "begin\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>",
                                   "<\xef\xbd\x9cUser\xef\xbd\x9c>",
                                   "<\xef\xbd\x9c"
                                   "Assistant\xef\xbd\x9c>",
                                   "<tool_call>",
                                   "</tool_call>",
                                   "<think>",
                                   "</think>",
                                   "<|channel|>",
                                   "<|message|>",
                                   "<|start|>",
                                   "<|return|>",
                                   "<|call|>",
                                   "<|START_OF_TURN_TOKEN|>",
                                   "<|END_OF_TURN_TOKEN|>",
                                   "<|USER_TOKEN|>",
                                   "<|CHATBOT_TOKEN|>",
                                   "]~b]",
                                   "[e~[",
                                   "<unk>",
                                   "<pad>"};
  return *texts;
}

// A byte-level tokenizer in which each of these texts is a token, the marker-like ones of Qwen ordinary ones.
std::shared_ptr<const Tokenizer> tokenizer_of_specials() {
  Json json = Json::parse(read(std::string(QUIRE_TEST_DATA) + "/tokenizers/qwen2/tokenizer.json"));
  int id = 0;
  for (const auto& entry : json["model"]["vocab"].items()) id = std::max(id, entry.value().get<int>() + 1);
  for (const Json& token : json["added_tokens"]) id = std::max(id, token["id"].get<int>() + 1);
  const auto has = [&](const std::string& text) {
    const Json& tokens = json["added_tokens"];
    return std::any_of(tokens.begin(), tokens.end(),
                       [&](const Json& token) { return token["content"] == text; });
  };
  for (const std::string& text : special_texts()) {
    if (has(text)) continue;
    const bool ordinary =
        text.find("tool_call") != std::string::npos || text.find("think") != std::string::npos;
    json["added_tokens"].push_back({{"id", id++},
                                    {"content", text},
                                    {"special", !ordinary},
                                    {"normalized", false},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false}});
  }
  const std::string text = json.dump();
  return Tokenizer::load({text, {}, {}, {}});
}

size_t count_promoted(const Tokenizer& tokenizer, const TokenIds& ids) {
  size_t count = 0;
  for (const TokenId id : ids) {
    const std::string_view text = tokenizer.token_text(id);
    const auto& all = special_texts();
    if (tokenizer.is_special(id) || std::find(all.begin(), all.end(), text) != all.end()) ++count;
  }
  return count;
}

// Whole characters of at most `num_bytes` bytes.
std::string front_of(const std::string& text, size_t num_bytes) {
  while (num_bytes > 0 && (static_cast<unsigned char>(text[num_bytes]) & 0xc0) == 0x80) --num_bytes;
  return text.substr(0, num_bytes);
}

// The special text as a message would carry it.
std::vector<std::string> dressed(const std::string& special) {
  return {special,
          special + " and more",
          "before " + special,
          "a" + special + "b",
          special + special,
          front_of(special, special.size() / 2) + special,
          special + front_of(special, 2),
          "\n" + special + "\n"};
}

Json conversation(const std::string& text) {
  const Json call = {{"id", "call00001"},
                     {"type", "function"},
                     {"function", {{"name", text}, {"arguments", {{text, text}}}}}};
  const Json tool = {
      {"type", "function"},
      {"function",
       {{"name", text},
        {"description", text},
        {"parameters",
         {{"type", "object"}, {"properties", {{text, {{"type", "string"}, {"description", text}}}}}}}}}};
  return {{"messages",
           {{{"role", "system"}, {"content", text}},
            {{"role", "user"}, {"content", text}},
            {{"role", "assistant"}, {"content", text}, {"reasoning_content", text}},
            {{"role", "user"}, {"content", text}},
            {{"role", "assistant"}, {"content", text}, {"tool_calls", {call}}},
            {{"role", "tool"}, {"name", text}, {"tool_call_id", "call00001"}, {"content", text}},
            {{"role", "user"}, {"content", text}}}},
          {"tools", {tool}},
          {"system_prompt", text},
          {"add_generation_prompt", true}};
}

// How many special tokens a conversation has; -1 where the template refuses it.
int64_t promoted(const Tokenizer& tokenizer, const ChatTemplate& chat, const std::string& text) {
  TemplateContext context;
  context.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  try {
    const RenderedChat rendered = chat.render(parse_json(conversation(text).dump(), "input"), context);
    return static_cast<int64_t>(count_promoted(tokenizer, encode_rendered(tokenizer, rendered)));
  } catch (const TemplateError&) {
    return -1;
  }
}

// The special tokens of a rendering are those of the same rendering with plain words in place of the special
// texts.
void expect_no_promotion(const Tokenizer& tokenizer, const std::string& path, size_t& num_checked) {
  const auto chat = ChatTemplate::compile(read(path));
  const int64_t plain = promoted(tokenizer, *chat, "plain");
  if (plain < 0) return;
  for (const std::string& special : special_texts()) {
    for (const std::string& text : dressed(special)) {
      const int64_t count = promoted(tokenizer, *chat, text);
      if (count < 0) continue;
      ++num_checked;
      EXPECT_LE(count, plain) << path << " with " << text;
    }
  }
}

size_t check_folder(const std::string& folder) {
  const auto tokenizer = tokenizer_of_specials();
  size_t num_checked = 0;
  for (const std::string& name : posix_file_system().list(folder)) {
    if (name.size() < 6 || name.substr(name.size() - 6) != ".jinja") continue;
    expect_no_promotion(*tokenizer, folder + "/" + name, num_checked);
  }
  return num_checked;
}

TEST(Segments, ContentNeverBecomesASpecialToken) {
  EXPECT_GT(check_folder(std::string(QUIRE_TEST_DATA) + "/templates"), 1000U);
}

TEST(Segments, ContentNeverBecomesASpecialTokenInAnyTemplate) {
  const std::string folder = std::string(QUIRE_SHARED_DIR) + "/golden/templates";
  if (std::getenv("QUIRE_LONG_TESTS") == nullptr) GTEST_SKIP() << "QUIRE_LONG_TESTS is not set";
  if (!posix_file_system().is_directory(folder)) GTEST_SKIP() << folder << " is not on this machine";
  EXPECT_GT(check_folder(folder), 30000U);
}

// --- What a template writes

struct Part {
  std::string text;
  bool from_template;
  bool operator==(const Part& other) const {
    return text == other.text && from_template == other.from_template;
  }
};

std::vector<Part> parts_of(const std::string& source, const Json& variables) {
  const RenderedChat rendered = render(source, variables);
  std::vector<Part> parts;
  size_t begin = 0;
  for (const OriginRun& run : rendered.runs) {
    parts.push_back({rendered.text.substr(begin, run.end - begin), run.from_template});
    begin = run.end;
  }
  return parts;
}

void expect_parts(const std::string& source, const std::vector<Part>& expected) {
  const Json variables = {{"x", "abc"}, {"n", 12}, {"l", {"p", "q"}}};
  EXPECT_EQ(parts_of(source, variables), expected) << source;
}

TEST(Segments, KnowWhereTheirBytesComeFrom) {
  expect_parts("<a>{{ x }}</a>", {{"<a>", true}, {"abc", false}, {"</a>", true}});
  expect_parts("{{ ('<' + x + '>')[1:-1] }}", {{"abc", false}});
  expect_parts("{{ ('<' + x + '>')[::-1] }}", {{">", true}, {"cba", false}, {"<", true}});
  expect_parts("{{ '<b>'.replace('b', x) }}", {{"<", true}, {"abc", false}, {">", true}});
  expect_parts("{{ x.replace('b', '|') }}", {{"a", false}, {"|", true}, {"c", false}});
  expect_parts("{{ ('<' ~ x ~ '>').upper() }}", {{"<", true}, {"ABC", false}, {">", true}});
  expect_parts("{{ ('<' ~ x ~ '>') | title | trim('<') }}", {{"Abc", false}, {">", true}});
  expect_parts("{{ l | join('|') }}", {{"p", false}, {"|", true}, {"q", false}});
  expect_parts("{{ '<' ~ n ~ '>' }}", {{"<", true}, {"12", false}, {">", true}});
  expect_parts("{{ '<' ~ (n + 1) ~ '>' }}", {{"<", true}, {"13", false}, {">", true}});
  expect_parts("{% for m in l %}<|{{ loop.index }}|>{% endfor %}", {{"<|1|><|2|>", true}});
  expect_parts("{{ '<%s>' % x }}", {{"<", true}, {"abc", false}, {">", true}});
  expect_parts("{{ '<{}>'.format(x) }}", {{"<", true}, {"abc", false}, {">", true}});
  expect_parts("{{ {'k': x} | tojson }}", {{"{\"k\": ", true}, {"\"abc\"", false}, {"}", true}});
  expect_parts("{{ l | tojson }}", {{"[\"p\", \"q\"]", false}});
  expect_parts("{{ l }}", {{"['p', 'q']", false}});
  expect_parts("{% set y %}<{{ x }}>{% endset %}{{ y }}", {{"<", true}, {"abc", false}, {">", true}});
  expect_parts("{% macro m(v) %}<{{ v }}>{% endmacro %}{{ m(x) }}",
               {{"<", true}, {"abc", false}, {">", true}});
  expect_parts("{{ (x ~ '<') | list | join }}", {{"abc", false}, {"<", true}});
  expect_parts("{{ (x ~ ' <z>').split() | last }}", {{"<z>", true}});
}

}  // namespace
}  // namespace quire::chat
