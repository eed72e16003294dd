// Generates random answers through the token masks of a response grammar; the parser must read them as the
// requested calls.
#include "core/response/response_grammar.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/white_space.h"
#include "core/constrained/constraint.h"
#include "tests/core/response/response_fixture.h"
#include "tests/support/case_stride.h"

namespace quire {
namespace {

constexpr const char* kTools = R"([
  {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {
     "city": {"type": "string"}, "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
     "days": {"type": "integer"}, "exact": {"type": "boolean"},
     "list": {"type": "array", "items": {"type": "string"}},
     "inner": {"type": "object", "properties": {"a": {"type": "number"}}, "additionalProperties": false}},
     "required": ["city"], "additionalProperties": false}}},
  {"type": "function", "function": {"name": "refresh",
     "parameters": {"type": "object", "properties": {}, "additionalProperties": false}}}])";

enum class Marks_ { as_bytes, as_tokens };

// Makes a vocabulary of single bytes, the given special tokens and <eos>.
std::shared_ptr<const TokenVocabulary> vocabulary_of(const std::vector<std::string>& special) {
  std::vector<std::string> bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.emplace_back(1, static_cast<char>(byte));
  std::unordered_map<std::string, TokenId> names;
  for (const std::string& name : special) {
    if (names.emplace(name, static_cast<TokenId>(bytes.size())).second) bytes.emplace_back();
  }
  const auto eos = static_cast<TokenId>(bytes.size());
  names.emplace("<eos>", eos);
  bytes.emplace_back();
  return std::make_shared<const TokenVocabulary>(std::move(bytes), std::move(names), TokenIds{eos});
}

std::vector<std::string> marks_of(const Dialect& dialect) {
  std::vector<std::string> marks;
  const auto add = [&](std::string_view mark) {
    if (!mark.empty() && mark.find(kKeyPlaceholder) == std::string_view::npos) marks.emplace_back(mark);
  };
  const auto add_all = [&](const Marks& all) {
    for (const std::string_view mark : all) add(mark);
  };
  add_all(dialect.reasoning.opens);
  add_all(dialect.reasoning.closes);
  add_all(dialect.messages.body_ends);
  add_all(dialect.messages.header_begins);
  for (const std::string_view mark : {dialect.messages.header_end, dialect.messages.write_next,
                                      dialect.messages.write_text, dialect.messages.write_reasoning}) {
    add(mark);
  }
  for (const CallForm& form : dialect.forms) {
    add_all(form.opens);
    add_all(form.closes);
    add_all(form.tagged.body_begins);
    add_all(form.tagged.ends);
    add(form.tagged.begin);
    add(form.tagged.parameter.begin);
    for (const char* key : {"city", "unit", "days", "exact", "list", "inner"}) {
      std::string end(form.tagged.parameter.value_end);
      if (const size_t pos = end.find(kKeyPlaceholder); pos != std::string::npos)
        marks.push_back(end.replace(pos, 1, key));
    }
    add(form.tagged.parameter.value_end);
    add("\n" + std::string(form.tagged.parameter.value_end));
  }
  return marks;
}

bool looks_special(const std::string& mark) {
  const bool plain = mark.find_first_of(" \n\"{") == std::string::npos;
  return plain && mark.size() > 3 && (mark[0] == '<' || mark[0] == '[') &&
         (mark.back() == '>' || mark.back() == ']');
}

class Walk {
 public:
  Walk(const Dialect& dialect, const ResponseRules& rules, Marks_ kind, uint32_t seed)
      : random_(seed), pieces_(marks_of(dialect)) {
    std::vector<std::string> special;
    for (const std::string& mark : pieces_) {
      if (kind == Marks_::as_tokens && looks_special(mark)) special.push_back(mark);
    }
    vocabulary_ = vocabulary_of(special);
    SpecialTokens tokens;
    for (const std::string& mark : special) tokens.emplace(mark, vocabulary_->find_special(mark));
    const std::string source = response_grammar(rules, tokens);
    matcher_.emplace(Constraint::compile(ConstraintKind::lark, source, vocabulary_));
  }

  // Returns false if the text does not end.
  bool run(int num_steps) {
    for (int step = 0; step < num_steps; ++step) {
      if (matcher_->may_end() && random_() % 8 == 0) return true;
      if (random_() % 16 == 0) check_mask();
      if (take_forced()) continue;
      if (random_() % 2 == 0 && take_piece()) continue;
      take_any();
    }
    for (int step = 0; step < 4000 && !matcher_->may_end(); ++step) {
      if (!take_forced() && !take_closing()) take_any();
    }
    return matcher_->may_end();
  }
  const std::string& text() const { return text_; }

 private:
  bool take(std::string_view piece) {
    const TokenId token = vocabulary_->find_special(piece);
    if (token >= 0 ? !matcher_->accept(token) : !matcher_->accept_text(piece)) return false;
    text_ += piece;
    return true;
  }
  bool take_forced() {
    const std::string forced = matcher_->forced(256);
    return !forced.empty() && take(forced);
  }
  bool take_piece() { return !pieces_.empty() && take(pieces_[random_() % pieces_.size()]); }
  bool take_closing() {
    for (int attempt = 0; attempt < 6; ++attempt) {
      constexpr std::string_view kClosers = "\"}])0\n ";
      const size_t idx = random_() % (kClosers.size() + pieces_.size());
      if (take(idx < kClosers.size() ? kClosers.substr(idx, 1)
                                     : std::string_view(pieces_[idx - kClosers.size()])))
        return true;
    }
    return false;
  }
  std::vector<TokenId> allowed() {
    TokenBits mask(vocabulary_->num_words());
    matcher_->mask(mask);
    std::vector<TokenId> tokens;
    for (size_t id = 0; id + 1 < vocabulary_->size(); ++id) {
      if ((mask[id / 32] >> (id % 32) & 1) != 0) tokens.push_back(static_cast<TokenId>(id));
    }
    return tokens;
  }
  void take_any() {
    const std::vector<TokenId> tokens = allowed();
    if (tokens.empty()) return;
    TokenId token = tokens[random_() % tokens.size()];
    if (token >= 0x80 && token < 0x100 && random_() % 4 != 0) token = tokens[random_() % tokens.size()];
    ASSERT_TRUE(matcher_->accept(token));
    const std::string_view bytes = vocabulary_->bytes(token);
    if (!bytes.empty()) text_ += bytes;
    for (const std::string& piece : pieces_) {
      if (bytes.empty() && vocabulary_->find_special(piece) == token) {
        text_ += piece;
        break;
      }
    }
  }
  void check_mask() {
    const std::vector<TokenId> tokens = allowed();
    for (TokenId id = 0; id < 256; ++id) {
      const bool accepted = matcher_->accept(id);
      if (accepted) matcher_->rollback(1);
      ASSERT_EQ(accepted, std::binary_search(tokens.begin(), tokens.end(), id)) << text_ << " then " << id;
    }
  }

  std::mt19937 random_;
  std::vector<std::string> pieces_;
  std::shared_ptr<const TokenVocabulary> vocabulary_;
  std::optional<Matcher> matcher_;
  std::string text_;
};

bool meets_schema(const std::string& name, const std::string& arguments) {
  static const auto* const vocabulary = new std::shared_ptr<const TokenVocabulary>(vocabulary_of({}));
  for (const Json& tool : Json::parse(kTools)) {
    if (tool["function"]["name"] != name) continue;
    Matcher matcher(
        Constraint::compile(ConstraintKind::json_schema, tool["function"]["parameters"].dump(), *vocabulary));
    return matcher.accept_text(arguments) && matcher.may_end();
  }
  return false;
}

// An answer in two parts, found by searching for the marks.
struct Split {
  std::string reasoning;
  std::string rest;
};

bool take_front(std::string_view& text, std::string_view mark) {
  if (mark.empty() || text.substr(0, mark.size()) != mark) return false;
  text.remove_prefix(mark.size());
  return true;
}

Split split_of(const Dialect& dialect, ReasoningStart start, std::string_view text) {
  const bool has_messages = !dialect.messages.header_begins.empty();
  const Marks& opens = dialect.reasoning.opens;
  const std::string_view open = has_messages    ? dialect.messages.write_reasoning
                                : opens.empty() ? std::string_view()
                                                : opens[0];
  if (start == ReasoningStart::off || open.empty()) return {"", std::string(text)};
  if (start == ReasoningStart::closed && !take_front(text, open)) return {"", std::string(text)};
  size_t end = text.size(), after = text.size();
  for (const std::string_view close : has_messages ? dialect.messages.body_ends : dialect.reasoning.closes) {
    const size_t pos = text.find(close);
    if (pos >= end) continue;
    end = pos;
    after = pos + (has_messages ? dialect.messages.write_next.size() : close.size());
  }
  std::string_view reasoning = trimmed(text.substr(0, end));
  // A model may open reasoning that is open.
  for (const std::string_view mark : opens) {
    while (take_front(reasoning, mark)) reasoning = trimmed(reasoning);
  }
  return {std::string(reasoning), std::string(text.substr(after))};
}

// Returns text without the marks that have no meaning.
std::string without_noise(const Dialect& dialect, std::string_view text) {
  std::string kept;
  while (!text.empty()) {
    size_t size = 0;
    for (const std::string_view mark : dialect.noise) {
      if (text.substr(0, mark.size()) == mark) size = std::max(size, mark.size());
    }
    if (size == 0) kept += text.front();
    text.remove_prefix(std::max<size_t>(size, 1));
  }
  return std::string(trimmed(kept));
}

// The reasoning and the text that the constraint generated are those that the parser reads.
void expect_same_text(const Dialect& dialect, const ResponseRules& rules, const std::string& text,
                      const ReadResponse& response) {
  const Split split = split_of(dialect, *rules.reasoning, text);
  EXPECT_EQ(trimmed(response.reasoning), split.reasoning) << dialect.name << "\n" << text;
  std::string_view rest = split.rest;
  take_front(rest, dialect.messages.write_text);
  const std::string written = without_noise(dialect, rest);
  const std::string_view content = trimmed(response.content);
  if (response.calls.empty()) {
    EXPECT_EQ(content, written) << dialect.name << "\n" << text;
  } else if (rules.choice == ToolChoice::required) {
    EXPECT_EQ(content, "") << dialect.name << "\n" << text;
  } else {
    EXPECT_EQ(content, written.substr(0, content.size())) << dialect.name << "\n" << text;
  }
}

void expect_read_back(const Dialect& dialect, const ResponseRules& rules, const std::string& text) {
  const Answer answer{&dialect, kTools, *rules.reasoning, "", text};
  const ReadResponse response = read_events(events_of(answer));
  EXPECT_EQ(response.raw, text);
  expect_same_text(dialect, rules, text, response);
  for (const ReadCall& call : response.calls) {
    EXPECT_NE(rules.tools.find(call.name), nullptr) << dialect.name << "\n" << text;
    EXPECT_TRUE(call.ended) << dialect.name << "\n" << text;
    EXPECT_TRUE(meets_schema(call.name, call.arguments)) << dialect.name << "\n"
                                                         << text << "\n"
                                                         << call.arguments;
  }
  const size_t fewest = rules.choice == ToolChoice::required ? 1 : 0;
  const size_t most = rules.choice == ToolChoice::none ? 0 : rules.parallel ? text.size() : 1;
  EXPECT_GE(response.calls.size(), fewest) << dialect.name << "\n" << text;
  EXPECT_LE(response.calls.size(), most) << dialect.name << "\n" << text;
}

// Returns the tools of a request that names one.
ToolSet only_tool(const std::string& name) {
  for (const Json& tool : Json::parse(kTools)) {
    if (tool["function"]["name"] == name) return ToolSet::parse(Json::array({tool}).dump());
  }
  return {};
}

void walk_dialect(const Dialect& dialect, int num_walks) {
  for (int i = 0; i < num_walks; ++i) {
    ResponseRules rules;
    rules.dialect = &dialect;
    rules.tools = ToolSet::parse(kTools);
    rules.choice = static_cast<ToolChoice>(i % 3);
    rules.parallel = i % 4 != 0;
    rules.reasoning = static_cast<ReasoningStart>(i / 3 % 3);
    if (i % 5 == 4) {
      rules.tools = only_tool(i % 2 == 0 ? "get_weather" : "refresh");
      rules.choice = ToolChoice::required;
      rules.parallel = false;
    }
    Walk walk(dialect, rules, i % 2 == 0 ? Marks_::as_bytes : Marks_::as_tokens, static_cast<uint32_t>(i));
    ASSERT_TRUE(walk.run(40 + i % 100)) << dialect.name << " " << i << "\n" << walk.text().substr(0, 400);
    expect_read_back(dialect, rules, walk.text());
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(ResponseGrammar, ARefusalIsOneLineWhateverTheRequestHas) {
  const auto refusal = [](const std::string& request) {
    try {
      response_grammar(parse_response_rules(request, find_dialect("hermes")), {});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string tool = R"({"type": "function", "function": {"name": "a\nb", "parameters": {}}})";
  for (
      const std::string& request : {
          std::string(R"({"dialect": "auto", "response_format": {"type": "x\ny"}})"),
          std::string(R"({"dialect": "auto", "reasoning": "x\ny"})"),
          R"({"dialect": "auto", "tool_choice": "x\ny", "tools": [)" + tool + "]}",
          R"({"dialect": "auto", "tools": [)" + tool + ", " + tool + "]}",
          R"({"dialect": "auto", "tool_choice": "required", "tools": [)" + tool + "]}",
          R"({"dialect": "auto", "tool_choice": {"type": "function", "function": {"name": "x\ny"}}, "tools": [)" +
              tool + "]}",
      }) {
    const std::string message = refusal(request);
    EXPECT_NE(message, "") << request;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(ResponseGrammar, RandomMaskedAnswersAreReadAsValidCalls) {
  for (const Dialect* dialect : all_dialects()) {
    if (!dialect->forms.empty()) walk_dialect(*dialect, 45 / testing::stride_if_sanitized(9));
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace quire
