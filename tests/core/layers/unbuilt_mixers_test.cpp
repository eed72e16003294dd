// Tests that a model with a mixer that has no layer is refused by the name of the mixer.
#include "core/layers/unbuilt_mixers.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace quire::testing {
namespace {

ModelConfig config_of(MixerSpec mixer) {
  ModelConfig config;
  config.architecture = find_architecture("LlamaForCausalLM");
  config.spec.layers.resize(2);
  config.spec.layers.back().mixer = std::move(mixer);
  return config;
}

template <typename Part>
void expect_refusal(std::string_view name) {
  const ModelConfig config = config_of(Part());
  if constexpr (UnbuiltPart<Part>) {
    expect_error(ErrorCode::unsupported, {"m/x: LlamaForCausalLM", "recurrent state", name},
                 [&] { require_built_mixers(config, "m/x"); });
  } else {
    EXPECT_NO_THROW(require_built_mixers(config, "m/x")) << name;
  }
}

TEST(UnbuiltMixers, AreRefusedByName) {
  expect_refusal<DeltaPart>("the gated delta rule");
  expect_refusal<Mamba2Part>("Mamba-2");
  expect_refusal<Mamba1Part>("Mamba-1");
  expect_refusal<LightningPart>("lightning attention");
  expect_refusal<ShortConvPart>("short convolutions");
  expect_refusal<AttentionAndMambaPart>("attention beside Mamba-2");
}

TEST(UnbuiltMixers, OtherLayersAreNot) {
  EXPECT_NO_THROW(require_built_mixers(config_of(AttentionPart()), "m/x"));
  EXPECT_NO_THROW(require_built_mixers(config_of(EmptyPart()), "m/x"));
}

}  // namespace
}  // namespace quire::testing
