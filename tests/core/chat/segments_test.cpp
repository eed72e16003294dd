// Content of a conversation never becomes a special token, however it is cut, joined or changed.
#include "core/chat/segments.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/file_system.h"
#include "tests/core/chat/chat_fixture.h"
#include "tests/support/case_stride.h"
#include "tests/support/golden_folders.h"

namespace quire::chat {
namespace {

// Texts of special tokens and control markers of various models.
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

// Returns the texts of a template source that look like special tokens: <...> and [...] without white space.
std::set<std::string> marks_in(const std::string& source) {
  constexpr size_t kMaxBytes = 40;
  std::set<std::string> marks;
  for (size_t begin = source.find_first_of("<["); begin != std::string::npos;
       begin = source.find_first_of("<[", begin + 1)) {
    const size_t end = source.find(source[begin] == '<' ? '>' : ']', begin);
    if (end == std::string::npos || end - begin < 2 || end - begin > kMaxBytes) continue;
    const std::string mark = source.substr(begin, end + 1 - begin);
    if (mark.find_first_of(" \n\t'\"\\{}()%,:=+") == std::string::npos) marks.insert(mark);
  }
  return marks;
}

// Makes a byte-level tokenizer in which each of these texts is a token. Like in Qwen, the tokens about tool
// calls and thinking are not special.
std::shared_ptr<const Tokenizer> tokenizer_of(const std::set<std::string>& texts) {
  Json json = Json::parse(read_golden(std::string(QUIRE_TEST_DATA) + "/tokenizers/qwen2/tokenizer.json"));
  int id = 0;
  for (const auto& entry : json["model"]["vocab"].items()) id = std::max(id, entry.value().get<int>() + 1);
  for (const Json& token : json["added_tokens"]) id = std::max(id, token["id"].get<int>() + 1);
  const auto has = [&](const std::string& text) {
    const Json& tokens = json["added_tokens"];
    return std::any_of(tokens.begin(), tokens.end(),
                       [&](const Json& token) { return token["content"] == text; });
  };
  for (const std::string& text : texts) {
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

// The token texts for the test of one template.
struct Specials {
  explicit Specials(const std::string& source) : texts(marks_in(source)) {
    texts.insert(special_texts().begin(), special_texts().end());
    tokenizer = tokenizer_of(texts);
  }
  size_t count_in(const TokenIds& ids) const {
    size_t count = 0;
    for (const TokenId id : ids) {
      if (tokenizer->is_special(id) || texts.count(std::string(tokenizer->token_text(id))) > 0) ++count;
    }
    return count;
  }
  std::set<std::string> texts;
  std::shared_ptr<const Tokenizer> tokenizer;
};

// Returns the longest prefix of whole characters with at most `num_bytes` bytes.
std::string prefix_of(const std::string& text, size_t num_bytes) {
  while (num_bytes > 0 && (static_cast<unsigned char>(text[num_bytes]) & 0xc0) == 0x80) --num_bytes;
  return text.substr(0, num_bytes);
}

// Returns messages that contain the special text in various contexts.
std::vector<std::string> contexts_of(const std::string& special) {
  return {special,
          special + " and more",
          "before " + special,
          "a" + special + "b",
          special + special,
          prefix_of(special, special.size() / 2) + special,
          special + prefix_of(special, 2),
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

// A conversation whose messages consist of two text parts, which templates write one after the other.
Json conversation_in_parts(const std::string& front, const std::string& back) {
  const Json parts = {{{"type", "text"}, {"text", front}}, {{"type", "text"}, {"text", back}}};
  return {{"messages",
           {{{"role", "user"}, {"content", parts}},
            {{"role", "assistant"}, {"content", parts}},
            {{"role", "user"}, {"content", parts}}}},
          {"add_generation_prompt", true}};
}

// Returns the rendering with all content replaced by the letter x.
RenderedChat without_content(RenderedChat rendered) {
  size_t begin = 0;
  for (const OriginRun& run : rendered.runs) {
    const auto first = rendered.text.begin() + static_cast<ptrdiff_t>(begin);
    if (!run.from_template) std::fill(first, rendered.text.begin() + static_cast<ptrdiff_t>(run.end), 'x');
    begin = run.end;
  }
  return rendered;
}

// Checks that all special tokens of a rendered conversation come from its template; the template may look at
// the content. Returns false if the template refuses the conversation.
bool expect_no_promotion(const Specials& specials, const ChatTemplate& chat, const Json& input) {
  TemplateContext context;
  context.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  RenderedChat rendered;
  try {
    rendered = chat.render(parse_json(input.dump(), "input"), context);
  } catch (const TemplateError&) {
    return false;
  }
  const auto count = [&](const RenderedChat& of) {
    return specials.count_in(encode_rendered(*specials.tokenizer, of));
  };
  EXPECT_EQ(count(rendered), count(without_content(rendered))) << input.dump();
  return true;
}

size_t check_template(const std::string& path) {
  SCOPED_TRACE(path);
  const std::string source = read_golden(path);
  const auto chat = ChatTemplate::compile(source);
  const Specials specials(source);
  size_t num_checked = 0;
  for (const std::string& special : specials.texts) {
    for (const std::string& text : contexts_of(special))
      num_checked += expect_no_promotion(specials, *chat, conversation(text)) ? 1 : 0;
    const std::string front = prefix_of(special, special.size() / 2);
    const Json parts = conversation_in_parts(front, special.substr(front.size()));
    num_checked += expect_no_promotion(specials, *chat, parts) ? 1 : 0;
  }
  return num_checked;
}

size_t check_folder(const std::string& folder) {
  size_t num_checked = 0;
  for (const std::string& name : testing::thin_if_sanitized(posix_file_system().list(folder), 4)) {
    if (name.size() < 6 || name.substr(name.size() - 6) != ".jinja") continue;
    num_checked += check_template(folder + "/" + name);
  }
  return num_checked;
}

TEST(Segments, ContentNeverBecomesASpecialToken) {
  EXPECT_GT(check_folder(std::string(QUIRE_TEST_DATA) + "/templates"), testing::kIsSanitized ? 100U : 1000U);
}

TEST(Segments, ContentNeverBecomesASpecialTokenInAnyTemplate) {
  if (std::getenv("QUIRE_LONG_TESTS") == nullptr) GTEST_SKIP() << "QUIRE_LONG_TESTS is not set";
  const std::vector<std::string> folders = testing::golden_folders("templates");
  EXPECT_GT(check_folder(folders.back()), folders.size() > 1 ? 30000U : 1000U);
}

// --- Origin of the text

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

TEST(Segments, RecordTheOriginOfTheirBytes) {
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
