#include "core/sampling/presets.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace quire {
namespace {

TEST(SamplingPresets, AreFoundByNameAndValid) {
  for (const char* const name : {"neutral", "greedy", "precise", "balanced", "creative"}) {
    EXPECT_NO_THROW(sampling_preset(name).validate(1000)) << name;
  }
  EXPECT_TRUE(sampling_preset("greedy").is_greedy());
  EXPECT_TRUE(sampling_preset("neutral").is_plain());
  EXPECT_THROW(sampling_preset("Greedy"), Error);
}

TEST(GenerationConfig, GivesTheRecommendedSettings) {
  const auto read = sampling_from_generation_config(
      R"({"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "min_p": 0, "repetition_penalty": 1.05,
          "typical_p": 0.9, "eos_token_id": [1, 2], "transformers_version": "4.51.0"})",
      "generation_config.json");
  ASSERT_TRUE(read.has_value());
  const SamplingSettings& settings = *read;
  EXPECT_FLOAT_EQ(settings.temperature, 0.6F);
  EXPECT_EQ(settings.top_k, 20);
  EXPECT_FLOAT_EQ(settings.top_p, 0.95F);
  EXPECT_FLOAT_EQ(settings.repetition_penalty, 1.05F);
  EXPECT_FLOAT_EQ(settings.typical, 0.9F);
  EXPECT_NO_THROW(settings.validate(1000));
}

TEST(GenerationConfig, WithoutSamplingIsGreedyWithAnyOtherSettings) {
  const auto settings =
      sampling_from_generation_config(R"({"do_sample": false, "temperature": 0.6, "top_p": 0.5})", "g");
  ASSERT_TRUE(settings.has_value());
  EXPECT_TRUE(settings->is_greedy());
  EXPECT_FLOAT_EQ(settings->top_p, 1.0F);
}

TEST(GenerationConfig, WithoutDoSampleRecommendsNothing) {
  for (const char* const text :
       {R"({"eos_token_id": 7})", R"({"temperature": 0.6})", R"({"do_sample": null})", "{}"}) {
    EXPECT_FALSE(sampling_from_generation_config(text, "g").has_value()) << text;
  }
}

TEST(GenerationConfig, AMassOfZeroIsOff) {
  const auto settings = sampling_from_generation_config(R"({"do_sample": true, "top_p": 0.0})", "g");
  ASSERT_TRUE(settings.has_value());
  EXPECT_FLOAT_EQ(settings->top_p, 1.0F);
}

TEST(GenerationConfig, RefusesInvalidValuesNamingTheField) {
  for (const char* const text :
       {R"({"do_sample": true, "temperature": "hot"})", R"({"do_sample": true, "top_p": 2})",
        R"({"do_sample": 1})", R"({"do_sample": false, "repetition_penalty": -1})", "[]", "{"}) {
    EXPECT_THROW(sampling_from_generation_config(text, "generation_config.json"), Error) << text;
  }
}

}  // namespace
}  // namespace quire
