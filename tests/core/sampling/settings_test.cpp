#include "core/sampling/settings.h"

#include <functional>
#include <gmock/gmock.h>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace quire {
namespace {

constexpr int32_t kVocabSize = 100;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kDenormal = std::numeric_limits<float>::denorm_min();

struct Case {
  const char* field;
  const char* value;
  std::function<void(SamplingSettings&)> set;
};

#define CASE(field, value)                                        \
  Case {                                                          \
#field, #value, [](SamplingSettings & s) { s.field = value; } \
  }

std::string name_of(const Case& c) {
  return std::string(c.field) + " = " + c.value;
}

TEST(SamplingSettings, DefaultsAreValidAndNeutral) {
  const SamplingSettings settings;
  EXPECT_NO_THROW(settings.validate(1));
  EXPECT_FALSE(settings.is_greedy());
  EXPECT_FALSE(settings.has_penalties());
}

TEST(SamplingSettings, AcceptsTheEdges) {
  const Case cases[] = {
      CASE(temperature, 0.0F),
      CASE(temperature, -0.0F),
      CASE(temperature, kDenormal),
      CASE(temperature, 100.0F),
      CASE(top_k, 0),
      CASE(top_k, 1),
      CASE(top_k, std::numeric_limits<int32_t>::max()),
      CASE(top_p, kDenormal),
      CASE(top_p, 1.0F),
      CASE(min_p, 0.0F),
      CASE(min_p, 1.0F),
      CASE(repetition_penalty, 0.01F),
      CASE(repetition_penalty, 100.0F),
      CASE(frequency_penalty, -100.0F),
      CASE(frequency_penalty, 100.0F),
      CASE(presence_penalty, -100.0F),
      CASE(presence_penalty, 100.0F),
      CASE(penalty_range, -1),
      CASE(penalty_range, 0),
      CASE(penalty_range, std::numeric_limits<int32_t>::max()),
      CASE(penalty_decay, 0),
      CASE(penalty_decay, std::numeric_limits<int32_t>::max()),
      CASE(banned_tokens, (TokenIds{0, 99, 0})),
      CASE(logit_bias, (std::vector<LogitBias>{{0, 1e30F}, {99, -1e30F}})),
      CASE(seed, std::numeric_limits<uint64_t>::max()),
  };
  for (const Case& c : cases) {
    SamplingSettings settings;
    c.set(settings);
    EXPECT_NO_THROW(settings.validate(kVocabSize)) << name_of(c);
  }
}

TEST(SamplingSettings, RefusesValuesOutOfRangeAndNamesTheField) {
  const Case cases[] = {
      CASE(temperature, -1.0F),
      CASE(temperature, -kDenormal),
      CASE(temperature, 100.1F),
      CASE(temperature, kNan),
      CASE(temperature, kInf),
      CASE(top_k, -1),
      CASE(top_p, 0.0F),
      CASE(top_p, -0.5F),
      CASE(top_p, 1.0001F),
      CASE(top_p, kNan),
      CASE(top_p, kInf),
      CASE(min_p, -0.001F),
      CASE(min_p, 1.001F),
      CASE(min_p, kNan),
      CASE(repetition_penalty, 0.0F),
      CASE(repetition_penalty, -1.0F),
      CASE(repetition_penalty, kNan),
      CASE(repetition_penalty, kInf),
      CASE(frequency_penalty, kInf),
      CASE(frequency_penalty, -kInf),
      CASE(frequency_penalty, kNan),
      CASE(presence_penalty, kInf),
      CASE(presence_penalty, 100.5F),
      CASE(presence_penalty, kNan),
      CASE(penalty_range, -2),
      CASE(penalty_decay, -1),
      CASE(banned_tokens, TokenIds{-1}),
      CASE(banned_tokens, TokenIds{kVocabSize}),
      CASE(logit_bias, (std::vector<LogitBias>{{kVocabSize, 1.0F}})),
      CASE(logit_bias, (std::vector<LogitBias>{{-1, 1.0F}})),
      CASE(logit_bias, (std::vector<LogitBias>{{3, kNan}})),
      CASE(logit_bias, (std::vector<LogitBias>{{3, -kInf}})),
      CASE(logit_bias, (std::vector<LogitBias>{{3, 1.0F}, {4, 1.0F}, {3, 1.0F}})),
  };
  for (const Case& c : cases) {
    SamplingSettings settings;
    c.set(settings);
    try {
      settings.validate(kVocabSize);
      ADD_FAILURE() << name_of(c) << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << name_of(c);
      EXPECT_THAT(error.what(), testing::HasSubstr(c.field));
      EXPECT_THAT(error.what(), testing::Not(testing::HasSubstr("\n")));
    }
  }
}

}  // namespace
}  // namespace quire
