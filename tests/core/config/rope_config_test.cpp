#include "core/config/rope_config.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/json_text.h"

namespace quire {
namespace {

using testing::expect_error;
using testing::Json;

RopeConfig read(const Json& json, double default_theta = 10000.0) {
  const JsonValue value = testing::parsed(json);
  return read_rope_config(ConfigFields(JsonView(value, "c")), {default_theta, 1.0, 0, 0});
}

const Json kLlama3 = {{"rope_type", "llama3"},
                      {"factor", 8.0},
                      {"low_freq_factor", 1.0},
                      {"high_freq_factor", 4.0},
                      {"original_max_position_embeddings", 8192}};

TEST(RopeConfig, ReadsBothSpellingsAlike) {
  Json modern = kLlama3;
  modern["rope_theta"] = 500000.0;
  Json legacy = kLlama3;
  legacy["type"] = "llama3";
  legacy.erase("rope_type");
  const RopeConfig rope = read({{"rope_parameters", modern}});
  EXPECT_EQ(rope.kind, RopeKind::llama3);
  EXPECT_EQ(rope.theta, 500000.0);
  EXPECT_EQ(rope.factor, 8.0);
  EXPECT_EQ(rope.original_max_positions, 8192);
  EXPECT_EQ(read({{"rope_theta", 500000.0}, {"rope_scaling", kLlama3}}), rope);
  EXPECT_EQ(read({{"rope_theta", 500000.0}, {"rope_scaling", legacy}}), rope);
  EXPECT_EQ(read({{"rope_theta", 1.0}, {"rope_parameters", modern}}), rope);  // the inner value wins
  EXPECT_EQ(read({{"rope_parameters", modern}, {"rope_scaling", kLlama3}}), rope);
}

TEST(RopeConfig, ReadsPlainAndLinear) {
  EXPECT_EQ(read(Json::object()), RopeConfig());
  EXPECT_EQ(read(Json::object(), 1e6).theta, 1e6);
  EXPECT_EQ(read({{"rope_parameters", Json::object()}}), RopeConfig());
  EXPECT_EQ(read({{"rope_scaling", {{"rope_type", "default"}, {"type", "default"}}}}), RopeConfig());
  const RopeConfig linear = read({{"rope_scaling", {{"type", "linear"}, {"factor", 4}}}});
  EXPECT_EQ(linear.kind, RopeKind::linear);
  EXPECT_EQ(linear.factor, 4.0);
}

TEST(RopeConfig, NamesUnsupportedKinds) {
  for (const char* name : {"xpos", "", "Linear"}) {
    for (const char* key : {"type", "rope_type"}) {
      expect_error(
          ErrorCode::unsupported,
          {"c.rope_scaling", std::string("\"") + name + "\"", "default, mrope, linear, llama3, yarn"}, [&] {
            read({{"rope_scaling", {{key, name}, {"factor", 2.0}}}});
          });
    }
  }
}

TEST(RopeConfig, ReadsSettingsByLayerType) {
  const Json json = {{"rope_parameters",
                      {{"full_attention", {{"rope_type", "linear"}, {"factor", 8}, {"rope_theta", 1e6}}},
                       {"sliding_attention", {{"rope_theta", 500.0}}}}}};
  const JsonValue value = testing::parsed(json);
  const ConfigFields fields{JsonView(value, "c")};
  EXPECT_TRUE(has_rope_by_layer_type(fields));
  EXPECT_EQ(read_rope_config(fields, {}, "full_attention").factor, 8.0);
  EXPECT_EQ(read_rope_config(fields, {}, "sliding_attention").theta, 500.0);
  expect_error(ErrorCode::format, {"c.rope_parameters.chunked_attention is missing"},
               [&] { read_rope_config(fields, {}, "chunked_attention"); });
}

TEST(RopeConfig, RefusesContradictoryOrIncompleteSettings) {
  expect_error(ErrorCode::format, {"c.rope_scaling.rope_type", "c.rope_scaling.type", "disagree"}, [] {
    read({{"rope_scaling", {{"type", "linear"}, {"rope_type", "llama3"}, {"factor", 2}}}});
  });
  expect_error(ErrorCode::format, {"c.rope_parameters", "c.rope_scaling", "disagree"}, [] {
    read({{"rope_parameters", {{"rope_type", "linear"}, {"factor", 2}}},
          {"rope_scaling", {{"type", "linear"}, {"factor", 3}}}});
  });
  expect_error(ErrorCode::format, {"c.rope_scaling.factor is missing"}, [] {
    read({{"rope_scaling", {{"type", "linear"}}}});
  });
  for (const char* field :
       {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) {
    Json settings = kLlama3;
    settings.erase(field);
    expect_error(ErrorCode::format, {std::string("c.rope_scaling.") + field, "missing"}, [&] {
      read({{"rope_scaling", settings}});
    });
    for (const Json& value : {Json(0), Json(-1), Json(1e30), Json("8"), Json(true)}) {
      settings[field] = value;
      expect_error(ErrorCode::format, {std::string("c.rope_scaling.") + field, "must be"}, [&] {
        read({{"rope_scaling", settings}});
      });
    }
  }
  Json equal = kLlama3;
  equal["low_freq_factor"] = 4.0;
  expect_error(ErrorCode::format, {"low_freq_factor must be below"}, [&] {
    read({{"rope_scaling", equal}});
  });
  for (const char* field : {"rope_scaling", "rope_parameters"}) {
    expect_error(ErrorCode::format, {field, "must be an object"}, [&] { read({{field, "linear"}}); });
  }
}

TEST(InverseFrequencies, ArePowersOfTheBase) {
  const std::vector<float> plain = inverse_frequencies(RopeConfig(), 16);
  ASSERT_EQ(plain.size(), 8U);
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_NEAR(plain[i], std::pow(10000.0, -static_cast<double>(2 * i) / 16.0), 1e-7);
  }
  RopeConfig linear;
  linear.kind = RopeKind::linear;
  linear.factor = 4.0;
  const std::vector<float> divided = inverse_frequencies(linear, 16);
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(divided[i], plain[i] / 4.0f);
}

// Llama 3.1 in double precision, by the definition: the weight of the unscaled frequency goes from 0 to 1 as
// the rotations within the original context go from low_freq_factor to high_freq_factor.
TEST(InverseFrequencies, AreInterpolatedForLlama3) {
  const RopeConfig rope = read({{"rope_theta", 500000.0}, {"rope_scaling", kLlama3}});
  const std::vector<float> frequencies = inverse_frequencies(rope, 128);
  ASSERT_EQ(frequencies.size(), 64U);
  int kept = 0;
  int scaled = 0;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double plain = std::pow(500000.0, -static_cast<double>(2 * i) / 128.0);
    const double turns = 8192.0 * plain / (2.0 * std::numbers::pi);
    const double share = std::min(1.0, std::max(0.0, (turns - 1.0) / 3.0));
    const double expected = share * plain + (1.0 - share) * plain / 8.0;
    EXPECT_NEAR(frequencies[i] / expected, 1.0, 2e-6) << i;
    kept += share == 1.0 ? 1 : 0;
    scaled += share == 0.0 ? 1 : 0;
  }
  EXPECT_EQ(kept, 29);
  EXPECT_EQ(scaled, 29);
}

}  // namespace
}  // namespace quire
