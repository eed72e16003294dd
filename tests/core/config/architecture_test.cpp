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

TEST(Architecture, ClassesWithoutAHeadBelongToTheFamily) {
  const auto is_class = [](std::string_view row, std::string_view name) {
    return is_class_of(*find_architecture(row), name);
  };
  EXPECT_TRUE(is_class("Qwen3ForCausalLM", "Qwen3Model"));
  EXPECT_TRUE(is_class("GPT2LMHeadModel", "GPT2Model"));
  EXPECT_TRUE(is_class("Gemma3ForCausalLM", "Gemma3TextModel"));
  EXPECT_TRUE(is_class("LlamaForCausalLM", "LLaMAForCausalLM"));
  EXPECT_FALSE(is_class("Qwen2ForCausalLM", "Qwen3Model"));
  EXPECT_FALSE(is_class("Qwen2ForCausalLM", "Qwen2ForRewardModel"));
  EXPECT_FALSE(is_class("Qwen2ForCausalLM", "Qwen2ForProcessRewardModel"));
  EXPECT_FALSE(is_class("LlamaForCausalLM", "LlamaForSequenceClassification"));
}

TEST(Architecture, UnsupportedOnesAreDescribedByKindAndNearestFamily) {
  const auto nearest = [](std::string_view name) {
    return "the nearest supported architecture is " + std::string(name);
  };
  EXPECT_EQ(describe_unsupported("LlamaModel"), nearest("LlamaForCausalLM"));
  EXPECT_EQ(describe_unsupported("LlamaForSequenceClassification"),
            "a classifier; " + nearest("LlamaForCausalLM"));
  EXPECT_EQ(describe_unsupported("Qwen2ForRewardModel"), "a reward model; " + nearest("Qwen2ForCausalLM"));
  EXPECT_EQ(describe_unsupported("LamaForCausalLM"), nearest("LlamaForCausalLM"));
  EXPECT_EQ(describe_unsupported("DeepseekV4ForCausalLM"), nearest("DeepseekV3ForCausalLM"));
  EXPECT_EQ(describe_unsupported("KimiK27ForConditionalGeneration"),
            "a model with an encoder or with several kinds of input; " +
                nearest("KimiK25ForConditionalGeneration"));
  EXPECT_EQ(describe_unsupported("HYV4ForCausalLM"), nearest("HYV3ForCausalLM"));
  EXPECT_EQ(describe_unsupported("WhisperForConditionalGeneration"),
            "a model with an encoder or with several kinds of input");
  EXPECT_EQ(describe_unsupported("BertForMaskedLM"), "an encoder");
  EXPECT_EQ(describe_unsupported("XLNetForCausalLM"), "");
  EXPECT_EQ(describe_unsupported("RwkvForCausalLM"),
            "its layers have a recurrent state by the time mixing of RWKV");
}

TEST(Architecture, OtherNamesLeadToTheRow) {
  const ArchitectureSpec* const qwen = find_architecture("Qwen2_5_VLForConditionalGeneration");
  EXPECT_EQ(find_architecture_by_model_type("qwen2_5_vl"), qwen);
  EXPECT_EQ(find_architecture_by_model_type("qwen2_5_vl_text"), qwen);
  for (const char* name : {"KimiK25ForConditionalGeneration", "Kimi_K25ForConditionalGeneration"})
    EXPECT_EQ(find_architecture(name), find_architecture("DeepseekV3ForCausalLM")) << name;
  EXPECT_EQ(find_architecture_by_model_type("kimi_k2"), find_architecture("DeepseekV3ForCausalLM"));
  EXPECT_EQ(find_architecture("MiMoForCausalLM"), find_architecture("Qwen2ForCausalLM"));
  EXPECT_EQ(find_architecture_by_model_type("mimo"), find_architecture("Qwen2ForCausalLM"));
}

TEST(Architecture, KeysOfALayerContainItsNumber) {
  const ArchitectureSpec& spec = *find_architecture("LlamaForCausalLM");
  EXPECT_EQ(layer_key(spec, 12, spec.keys.query), "model.layers.12.self_attn.q_proj");
}

}  // namespace
}  // namespace quire
