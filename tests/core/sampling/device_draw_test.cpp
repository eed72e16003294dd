// Draws converted for a backend compared with the draws of the sampler.
#include "core/sampling/device_draw.h"

#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "tests/support/random_draws.h"
#include "tests/support/slow_draw.h"

namespace quire::testing {
namespace {

constexpr int32_t kManyEdits = 1 << 16;

TEST(DeviceDraw, IsWhatTheSamplerDraws) {
  int32_t num_faults = 0;
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    std::mt19937_64 random(seed);
    const RandomDraw drawn = random_draw(random, 1 + static_cast<int32_t>(random() % 300));
    DeviceDraws draws;
    ASSERT_TRUE(add_device_draw(drawn.request(), 0, kManyEdits, draws)) << "seed " << seed;
    const SampledToken device = sampled_by_device(slow_draw(drawn.logits, draws.rows[0], draws.edits));
    const SampledToken host = Sampler(drawn.vocab_size()).sample(drawn.request());
    ASSERT_EQ(device.fault, host.fault) << "seed " << seed;
    ASSERT_EQ(device.token, host.token) << "seed " << seed;
    ASSERT_EQ(device.log_prob, host.log_prob) << "seed " << seed;
    num_faults += host.fault != SampleFault::none ? 1 : 0;
  }
  EXPECT_GT(num_faults, 20);
}

TEST(DeviceDraw, EachRowHasItsOwnEdits) {
  std::mt19937_64 random(7);
  std::vector<RandomDraw> all;
  for (int32_t i = 0; i < 20; ++i) all.push_back(random_draw(random, 100));
  DeviceDraws draws;
  for (int32_t i = 0; i < 20; ++i)
    ASSERT_TRUE(add_device_draw(all[static_cast<size_t>(i)].request(), 2 * i, kManyEdits, draws));
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(draws.rows[i].logit_row, static_cast<int32_t>(2 * i));
    EXPECT_EQ(slow_draw(all[i].logits, draws.rows[i], draws.edits).token,
              Sampler(100).sample(all[i].request()).token)
        << "row " << i;
  }
}

class DeviceDrawRefusal : public ::testing::Test {
 protected:
  bool takes(const SampleRequest& request, int32_t max_edits = kManyEdits) {
    DeviceDraws draws;
    const bool taken = add_device_draw(request, 0, max_edits, draws);
    EXPECT_EQ(draws.rows.empty(), !taken);
    EXPECT_TRUE(taken || draws.edits.empty());
    return taken;
  }
};

TEST_F(DeviceDrawRefusal, TheMostLikelyTokens) {
  const SamplerState state({}, 10);
  EXPECT_TRUE(takes({.logits = {}, .state = &state, .want_log_prob = true}));
  EXPECT_FALSE(takes({.logits = {}, .state = &state, .num_top_log_probs = 1}));
}

TEST_F(DeviceDrawRefusal, AMaskIsAccepted) {
  const SamplerState state({}, 10);
  const std::vector<uint32_t> words{0x3ff};
  DeviceDraws draws;
  EXPECT_TRUE(add_device_draw({.logits = {}, .state = &state, .mask = {words}}, 0, 10, draws));
  EXPECT_EQ(draws.rows[0].mask, words.data());
}

TEST_F(DeviceDrawRefusal, PenaltiesThatFadeOnceTheyDo) {
  SamplerState state({.presence_penalty = 1.0F, .penalty_range = 2, .penalty_decay = 3}, 10);
  state.append(TokenIds{1, 2});
  EXPECT_TRUE(takes({.logits = {}, .state = &state}));
  state.append(3);
  EXPECT_FALSE(takes({.logits = {}, .state = &state}));
}

TEST_F(DeviceDrawRefusal, MoreEditsThanTheLimit) {
  SamplerState state({.presence_penalty = 1.0F, .logit_bias = {{4, 1.0F}}, .banned_tokens = {5}}, 10);
  state.append(TokenIds{1, 2, 1});
  const TokenIds banned{6};
  const SampleRequest request{.logits = {}, .state = &state, .banned = banned};
  EXPECT_TRUE(takes(request, 5));
  EXPECT_FALSE(takes(request, 4));
}

}  // namespace
}  // namespace quire::testing
