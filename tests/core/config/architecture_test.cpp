#include "core/config/architecture.h"

#include <set>

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(Architecture, RowsAreFoundByEitherName) {
  for (const ArchitectureSpec* row : supported_architectures()) {
    const ArchitectureSpec& spec = *row;
    EXPECT_EQ(find_architecture(spec.name), &spec);
    EXPECT_EQ(find_architecture_by_model_type(spec.model_type), &spec);
    EXPECT_NE(supported_architecture_names().find(spec.name), std::string::npos);
  }
  EXPECT_EQ(find_architecture("LlamaForCausalLm"), nullptr);
  EXPECT_EQ(find_architecture(""), nullptr);
  EXPECT_EQ(find_architecture_by_model_type("LlamaForCausalLM"), nullptr);
}

TEST(Architecture, RowsAreComplete) {
  std::set<std::string_view> names;
  for (const ArchitectureSpec* row : supported_architectures()) {
    const ArchitectureSpec& spec = *row;
    EXPECT_TRUE(names.insert(spec.name).second) << spec.name;
    for (const std::string_view key :
         {spec.keys.embedding, spec.keys.layers, spec.keys.attention_norm, spec.keys.attention_output,
          spec.keys.mlp_norm, spec.keys.down, spec.keys.final_norm, spec.keys.head}) {
      EXPECT_FALSE(key.empty()) << spec.name;
    }
    EXPECT_FALSE(spec.keys.qkv.empty() && spec.keys.query.empty()) << spec.name;
    EXPECT_FALSE(spec.model_type.empty()) << spec.name;
    EXPECT_TRUE(spec.keys.layers.ends_with('.')) << spec.name;
    EXPECT_GT(spec.default_norm_epsilon, 0.0) << spec.name;
    EXPECT_GT(spec.default_max_positions, 0) << spec.name;
  }
}

TEST(Architecture, KeysOfALayerContainItsNumber) {
  const ArchitectureSpec& spec = *find_architecture("LlamaForCausalLM");
  EXPECT_EQ(layer_key(spec, 12, spec.keys.query), "model.layers.12.self_attn.q_proj");
}

}  // namespace
}  // namespace quire
