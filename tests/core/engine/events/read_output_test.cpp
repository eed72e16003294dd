// Responses parsed while they are generated: with held text, partial reads, rewinds and forks, the events
// equal those of parsing the whole response at once.
#include <random>

#include <gtest/gtest.h>

#include "core/engine/events/text_output.h"
#include "core/response/dialect_table.h"

namespace quire::testing {
namespace {

// Each token is one byte.
class ByteStream final : public TextStream {
 public:
  void push(TokenId token, std::string& text) override { text.push_back(static_cast<char>(token)); }
  void finish(std::string&) override {}
  std::unique_ptr<TextStream> clone() const override { return std::make_unique<ByteStream>(); }
};

struct Part {
  ResponseEvent event;  // with its raw bytes
  size_t begin = 0;     // in the raw text
};

// State that a client builds from the events, as described in event.h.
class Reader {
 public:
  void see(const Event& event) {
    tokens_.insert(tokens_.end(), event.token_ids.begin(), event.token_ids.end());
    if (!event.part) {
      EXPECT_EQ(event.text, "");
      return;
    }
    Part part{*event.part, raw_.size()};
    part.event.raw = event.text;
    raw_ += event.text;
    parts_.push_back(part);
  }
  void rewind(size_t kept_tokens, size_t kept_bytes) {
    tokens_.resize(kept_tokens);
    raw_.resize(kept_bytes);
    while (!parts_.empty()) {
      Part& last = parts_.back();
      if (last.begin + last.event.raw.size() <= kept_bytes) return;
      if (last.begin < kept_bytes) {
        ASSERT_FALSE(last.event.is_of_call()) << "a call is cut";
        last.event.raw.resize(kept_bytes - last.begin);
        if (last.event.kind != ResponseEvent::Kind::markup) last.event.text = last.event.raw;
        return;
      }
      parts_.pop_back();
    }
  }
  // Returns a line for each event, with adjacent pieces of one kind joined.
  std::string text() const {
    std::string lines;
    for (size_t i = 0; i < parts_.size(); ++i) {
      const ResponseEvent& event = parts_[i].event;
      const ResponseEvent* before = i > 0 ? &parts_[i - 1].event : nullptr;
      const bool joins =
          before != nullptr && before->kind == event.kind && before->call_idx == event.call_idx;
      if (!joins) lines += "\n" + std::to_string(static_cast<int>(event.kind)) + " ";
      if (event.is_of_call() && !joins) lines += std::to_string(event.call_idx) + " ";
      lines += event.text + event.name + event.id;
    }
    return lines;
  }
  const std::string& raw() const { return raw_; }
  const TokenIds& tokens() const { return tokens_; }

 private:
  std::vector<Part> parts_;
  std::string raw_;
  TokenIds tokens_;
};

struct Answer {
  const char* dialect;
  std::string text;
};

const std::vector<Answer>& answers() {
  static const auto& all = *new std::vector<Answer>{
      {"hermes",
       "<think>\nlet me <see>\n</think>\n\nWell.\n<tool_call>\n{\"name\": \"go\", \"arguments\": {\"a\": [1, "
       "\"x\"]}}\n</tool_call>\n<tool_call>\n{\"arguments\": {}, \"name\": \"stop\"}\n</tool_call>"},
      {"pythonic", "[go(a=1, b='it\\'s', c=[True, None]), stop(x={'k': (1, 2)})]"},
      {"qwen3_coder",
       "Fine, <tool_call>\n<function=go>\n<parameter=a>\n12\n</parameter>\n<parameter=b>\n{\"c\": "
       "1}\n</parameter>\n</function>\n</tool_call> and more"},
      {"gemma4", "<|tool_call>call:go{a:<|\"|>b \"c\"<|\"|>,n:[1,2]}<tool_call|> done"},
      {"llama3_json", "Look: {\"name\": \"go\", \"parameters\": {\"a\": 1}} and {\"no\": 1}"},
  };
  return all;
}

class ReadOutputTest : public ::testing::TestWithParam<size_t> {
 protected:
  const Answer& answer() const { return answers()[GetParam()]; }
  ResponseParser parser() const {
    return ResponseParser(find_dialect(answer().dialect), ToolSet(), ReasoningStart::closed);
  }
  TextOutput open(const std::vector<std::string>& banned = {}) const {
    TextOutput output(std::make_unique<ByteStream>(), {}, banned);
    output.read_as(parser());
    return output;
  }
  TokenIds tokens() const { return {answer().text.begin(), answer().text.end()}; }
  static void push(TextOutput& output, TokenId token) {
    SampledToken sampled;
    sampled.token = token;
    output.push(sampled, false);
  }
  static void take(TextOutput& output, Reader& reader) {
    while (output.has_text()) reader.see(output.take());
  }
  static void finish(TextOutput& output, Reader& reader) {
    output.finish(AnswerEnd::complete);
    while (output.has_anything()) reader.see(output.take());
  }
  // Returns the events of parsing all bytes at once.
  std::string expected() const {
    ResponseParser whole = parser();
    whole.feed(answer().text);
    whole.finish();
    Reader reader;
    for (ResponseEvent& part : whole.take()) {
      Event event;
      event.text = part.raw;
      event.part = part;
      reader.see(event);
    }
    return reader.text();
  }
};

TEST_P(ReadOutputTest, TokenByTokenTheEventsEqualThoseOfTheWholeResponse) {
  TextOutput output = open();
  Reader reader;
  for (const TokenId token : tokens()) {
    push(output, token);
    take(output, reader);
  }
  finish(output, reader);
  EXPECT_EQ(reader.text(), expected());
  EXPECT_EQ(reader.raw(), answer().text);
  EXPECT_EQ(reader.tokens(), tokens());
}

TEST_P(ReadOutputTest, HeldTextIsOutputLaterAndNothingIsLost) {
  TextOutput output = open({"oolbox", "aramour", "go(]", "</z", "1}}}", "and less"});
  Reader reader;
  const TokenIds all = tokens();
  for (const TokenId token : all) {
    SampledToken sampled;
    sampled.token = token;
    ASSERT_EQ(output.push(sampled, false).num_banned_tokens, 0);
    take(output, reader);
  }
  finish(output, reader);
  EXPECT_EQ(reader.text(), expected());
  EXPECT_EQ(reader.tokens(), all);
}

// Rewinds the job to a random point, lets it generate other text, and rewinds it again.
TEST_P(ReadOutputTest, RewindsKeepEarlierEvents) {
  const TokenIds all = tokens();
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](size_t limit) { return static_cast<size_t>(random() % limit); };
    TextOutput output = open();
    Reader reader;
    TokenIds said;
    const auto say = [&](TokenId token) {
      said.push_back(token);
      push(output, token);
      if (below(3) > 0) take(output, reader);
    };
    const auto go_back = [&](size_t num_tokens) {
      said.resize(num_tokens);
      TextOutput rewound = output.rewound(said);
      if (rewound.num_taken_tokens() < output.num_taken_tokens())
        reader.rewind(static_cast<size_t>(rewound.num_taken_tokens()),
                      static_cast<size_t>(rewound.num_taken_bytes()));
      output = std::move(rewound);
    };
    for (int round = 0; round < 4; ++round) {
      const size_t end = below(all.size());
      while (said.size() < end) say(all[said.size()]);
      const size_t good = said.size();
      for (size_t i = below(20); i > 0; --i) say(all[below(all.size())]);
      go_back(below(good + 1));
    }
    while (said.size() < all.size()) say(all[said.size()]);
    take(output, reader);
    finish(output, reader);
    ASSERT_EQ(reader.text(), expected()) << "seed " << seed;
    ASSERT_EQ(reader.raw(), answer().text);
    ASSERT_EQ(reader.tokens(), all);
  }
}

// Parent and child both receive the held text; text that the parent has output belongs to the child too.
TEST_P(ReadOutputTest, AForkContinuesWhereItsParentIs) {
  const TokenIds all = tokens();
  for (size_t at = 0; at < all.size(); ++at) {
    TextOutput parent = open();
    Reader reader;
    for (size_t i = 0; i < at; ++i) push(parent, all[i]);
    take(parent, reader);
    TextOutput child = parent.clone();
    Reader childs = reader;
    for (TextOutput* output : {&child, &parent}) {
      Reader& own = output == &child ? childs : reader;
      for (size_t i = at; i < all.size(); ++i) push(*output, all[i]);
      finish(*output, own);
      ASSERT_EQ(own.text(), expected()) << "fork at " << at;
      ASSERT_EQ(own.raw(), answer().text);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dialects, ReadOutputTest, ::testing::Range(size_t{0}, size_t{5}),
                         [](const auto& test) { return std::string(answers()[test.param].dialect); });

}  // namespace
}  // namespace quire::testing
