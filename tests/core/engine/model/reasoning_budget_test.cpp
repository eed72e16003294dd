// Reasoning budget: reasoning is ended after a number of tokens. Tested with random walks over the allowed
// tokens.
#include "core/engine/model/reasoning_budget.h"

#include <new>
#include <optional>
#include <random>

#include <gtest/gtest.h>

#include "core/response/dialect_table.h"
#include "tests/core/tokenizer/tokenizer_fixture.h"
#include "tests/support/fault_loop.h"

namespace quire::testing {
namespace {

// Returns a tokenizer with one token per byte and per mark.
std::shared_ptr<const Tokenizer> tokenizer_with(const std::vector<std::string>& marks) {
  Json json = tiny_tokenizer({});
  int id = 256;
  for (const std::string& mark : marks) json["added_tokens"].push_back(added_token(id++, mark, true));
  return load_json(json);
}

TokenIds encode(const Tokenizer& tokenizer, const std::string& text) {
  return tokenizer.encode(text, {.parse_special = true, .add_special_tokens = false});
}

struct Family {
  const char* name;
  const char* dialect;
  std::vector<std::string> marks;    // marks that are tokens
  std::vector<std::string> phrases;  // texts that the model generates
  ReasoningStart start = ReasoningStart::closed;
};

const std::vector<Family>& families() {
  static const auto& all = *new std::vector<Family>{
      {"Tokens", "hermes", {"<think>", "</think>"}, {"<think>", "</think>", "hm", " ", "\xc3\xa9", "<"}},
      {"Spelled", "hermes", {}, {"<think>", "</think>", "so", "</thi", "\xe2\x82\xac", "\n"}},
      {"Open",
       "hermes",
       {"</think>"},
       {"ab", "<think>", "\xf0\x9f\x98\x80", "\xc3\xa9"},
       ReasoningStart::open},
      {"Messages",
       "gpt_oss",
       {"<|channel|>", "<|message|>", "<|start|>", "<|end|>"},
       {"<|channel|>analysis<|message|>", "<|channel|>final<|message|>", "<|end|><|start|>assistant", "hm",
        "\xc3\xa9"}}};
  return all;
}

class ReasoningBudgetTest : public ::testing::TestWithParam<size_t> {
 protected:
  const Family& family() const { return families()[GetParam()]; }
  std::shared_ptr<const ResponseParser> reader() const {
    return std::make_shared<ResponseParser>(find_dialect(family().dialect), ToolSet(), family().start);
  }
  ReasoningBudget budget_of(int32_t max_tokens,
                            std::shared_ptr<const TokenConstraint> other = nullptr) const {
    return ReasoningBudget({tokenizer_, reader(), std::move(other), end_, max_tokens});
  }
  std::string text_of(TokenId token) const {
    return token < 256 ? std::string(1, static_cast<char>(token))
                       : family().marks[static_cast<size_t>(token - 256)];
  }
  static std::vector<uint32_t> mask_of(TokenMatcher& matcher) {
    std::vector<uint32_t> words(9);
    matcher.mask(words);
    return words;
  }
  static std::optional<TokenId> forced_by(TokenMatcher& matcher) {
    if (matcher.allows_all()) return std::nullopt;
    const std::vector<uint32_t> words = mask_of(matcher);
    std::optional<TokenId> only;
    for (TokenId token = 0; token < 288; ++token) {
      if ((words[static_cast<size_t>(token) / 32] >> (token % 32) & 1U) == 0) continue;
      EXPECT_FALSE(only) << "two tokens are allowed";
      only = token;
    }
    EXPECT_TRUE(only);
    return only;
  }
  // Returns a random text that the model generates next, if allowed.
  TokenIds phrase(std::mt19937& random) const {
    return encode(*tokenizer_, family().phrases[random() % family().phrases.size()]);
  }
  // Feeds a text to the matcher; forced tokens replace the rest of it.
  void say(TokenMatcher& matcher, TokenIds& said, std::mt19937& random) const {
    for (const TokenId token : phrase(random)) {
      const std::optional<TokenId> forced = forced_by(matcher);
      ASSERT_TRUE(matcher.accept(forced.value_or(token)));
      said.push_back(forced.value_or(token));
      if (forced) return;
    }
  }

  const std::shared_ptr<const Tokenizer> tokenizer_ = tokenizer_with(family().marks);
  const TokenIds end_ = encode(*tokenizer_, end_of_reasoning(find_dialect(family().dialect)));
};

// Compares with the rule, applied to one parse of all bytes.
TEST_P(ReasoningBudgetTest, TheEndIsForcedAfterTheBudgetAndNotInsideACharacter) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto budget = static_cast<int32_t>(random() % 12);
    const auto matcher = budget_of(budget).start();
    ResponseParser plain = *reader();
    int32_t num_reasoning = 0;
    std::string text;
    TokenIds said;
    const auto note = [&](TokenId token) {
      const bool reasoned = plain.in_reasoning();
      plain.feed(text_of(token));
      plain.take();
      text += text_of(token);
      if (reasoned && plain.in_reasoning()) ++num_reasoning;
    };
    while (said.size() < 120) {
      const size_t cut = text.find_last_of("\xc3\xe2\xf0");
      const size_t size = cut == std::string::npos ? 0
                          : text[cut] == '\xc3'    ? 2
                          : text[cut] == '\xe2'    ? 3
                                                   : 4;
      const bool in_character =
          cut != std::string::npos && text.size() - cut < size &&
          text.find_first_not_of("\x82\xac\x9f\x98\x80\xa9", cut + 1) == std::string::npos;
      const bool is_due = plain.in_reasoning() && num_reasoning >= budget + (in_character ? 3 : 0);
      ASSERT_EQ(forced_by(*matcher).has_value(), is_due) << "seed " << seed << " after " << text;
      if (is_due) {
        for (const TokenId token : end_) {
          ASSERT_EQ(forced_by(*matcher), token) << text;
          ASSERT_FALSE(matcher->may_end());
          ASSERT_EQ(matcher->exceeded_limit(), "") << "a token is there";
          ASSERT_FALSE(matcher->accept(token == 'x' ? 'y' : 'x'));
          ASSERT_TRUE(matcher->accept(token));
          said.push_back(token);
          note(token);
        }
        ASSERT_FALSE(plain.in_reasoning()) << text;
      } else {
        const TokenId token = phrase(random).front();
        ASSERT_TRUE(matcher->may_end());
        ASSERT_TRUE(matcher->accept(token));
        said.push_back(token);
        note(token);
      }
    }
  }
}

TEST_P(ReasoningBudgetTest, RollbacksAndCopiesEqualAFreshMatcherOfTheSameTokens) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const ReasoningBudget budget = budget_of(static_cast<int32_t>(random() % 40));
    std::unique_ptr<TokenMatcher> matcher = budget.start();
    TokenIds said;
    for (int round = 0; round < 60; ++round) {
      for (size_t i = random() % 6; i > 0; --i) say(*matcher, said, random);
      const size_t num_back =
          random() % (random() % 8 == 0 ? said.size() + 1 : std::min<size_t>(said.size(), 4) + 1);
      said.resize(said.size() - num_back);
      matcher->rollback(static_cast<int32_t>(num_back));
      if (random() % 4 == 0) matcher = matcher->clone();
      const auto anew = budget.start();
      for (const TokenId token : said) ASSERT_TRUE(anew->accept(token)) << "seed " << seed;
      ASSERT_EQ(forced_by(*matcher), forced_by(*anew)) << "seed " << seed;
      ASSERT_EQ(matcher->may_end(), anew->may_end());
    }
  }
}

// Allows all tokens but one, and the end after an even number of tokens.
class Refusing final : public TokenConstraint {
 public:
  explicit Refusing(TokenId refused) : refused_(refused) {}
  std::unique_ptr<TokenMatcher> start() const override { return std::make_unique<Place>(refused_); }

 private:
  class Place final : public TokenMatcher {
   public:
    explicit Place(TokenId refused) : refused_(refused) {}
    void mask(gsl::span<uint32_t> words) override {
      std::fill(words.begin(), words.end(), ~0U);
      words[static_cast<size_t>(refused_) / 32] &= ~(1U << (refused_ % 32));
    }
    bool accept(TokenId token) override {
      if (token == refused_) return false;
      ++num_tokens_;
      return true;
    }
    void rollback(int32_t num_tokens) override { num_tokens_ -= num_tokens; }
    std::string exceeded_limit() const override { return "max_width"; }
    bool may_end() const override { return num_tokens_ % 2 == 0; }
    std::unique_ptr<TokenMatcher> clone() const override { return std::make_unique<Place>(*this); }

   private:
    TokenId refused_;
    int32_t num_tokens_ = 0;
  };
  TokenId refused_;
};

TEST_P(ReasoningBudgetTest, AnotherConstraintMayRefuseTheEnd) {
  for (const TokenId refused : {end_.front(), end_.back()}) {
    const auto other = std::make_shared<Refusing>(refused);
    const auto matcher = budget_of(0, other).start();
    const auto plain = other->start();
    std::mt19937 random(1);
    for (int i = 0; i < 300; ++i) {
      TokenId token = phrase(random).front();
      if (mask_of(*matcher) != mask_of(*plain)) {
        token = forced_by(*matcher).value();
        ASSERT_FALSE(matcher->may_end());
      } else {
        ASSERT_EQ(matcher->may_end(), plain->may_end());
        ASSERT_EQ(matcher->exceeded_limit(), plain->exceeded_limit());
      }
      ASSERT_EQ(matcher->accept(token), plain->accept(token));
    }
  }
}

// A token whose acceptance runs out of memory is not accepted, and is accepted when it comes again.
TEST_P(ReasoningBudgetTest, ATokenThatRanOutOfMemoryCanBeRepeated) {
  const ReasoningBudget budget = budget_of(3, std::make_shared<ReasoningBudget>(budget_of(1000)));
  std::mt19937 random(5);
  const auto plain = budget.start();
  TokenIds said;
  while (said.size() < 70) say(*plain, said, random);
  const auto expected = mask_of(*plain);
  for (size_t num_before = 0; num_before + 1 < said.size(); num_before += 7) {
    const auto before = budget.start();
    for (size_t i = 0; i < num_before; ++i) ASSERT_TRUE(before->accept(said[i]));
    for_each_fault([&](const FaultPoint& point) {
      const auto matcher = before->clone();
      bool failed = false;
      {
        const AllocationFault fault(point.nth, point.span);
        try {
          (void)matcher->accept(said[num_before]);
        } catch (const std::bad_alloc&) {
          failed = true;
        }
      }
      for (size_t i = num_before + (failed ? 0 : 1); i < said.size(); ++i) {
        EXPECT_TRUE(matcher->accept(said[i])) << point << " at token " << num_before;
      }
      EXPECT_EQ(mask_of(*matcher), expected) << point << " at token " << num_before;
      return failed && !::testing::Test::HasFailure();
    });
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ReasoningBudgetTest, ::testing::Range(size_t{0}, families().size()),
                         [](const auto& test) { return std::string(families()[test.param].name); });

TEST(ReasoningBudget, EveryDialectWithReasoningHasAWorkingEndText) {
  for (const Dialect* dialect : all_dialects()) {
    const std::string end = end_of_reasoning(*dialect);
    const bool reasons = !dialect->reasoning.closes.empty() || !dialect->messages.write_reasoning.empty();
    EXPECT_EQ(end.empty(), !reasons) << dialect->name;
    if (end.empty()) continue;
    ResponseParser parser(*dialect, ToolSet(), ReasoningStart::open);
    parser.feed("so");
    ASSERT_TRUE(parser.in_reasoning()) << dialect->name;
    parser.feed(end);
    EXPECT_FALSE(parser.in_reasoning()) << dialect->name;
    parser.feed("x");
    parser.finish();
    EXPECT_EQ(parser.take().back().kind, ResponseEvent::Kind::text) << dialect->name;
  }
}

}  // namespace
}  // namespace quire::testing
