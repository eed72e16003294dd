#include "core/loader/tensor_names.h"

#include <gtest/gtest.h>

#include "tests/support/memory_file_system.h"
#include "tests/support/safetensors_builder.h"

namespace quire {
namespace {

using testing::MemoryFileSystem;
using testing::SafetensorsBuilder;

struct StoredMatrix {
  std::string key;
  int64_t num_out = 1;
};

WeightDirectory directory_of(const std::vector<StoredMatrix>& matrices) {
  SafetensorsBuilder builder;
  for (const StoredMatrix& matrix : matrices) {
    builder.add<float>(matrix.key + ".weight", "F32", {matrix.num_out, 2},
                       std::vector<float>(2 * static_cast<size_t>(matrix.num_out)));
  }
  MemoryFileSystem files;
  files.write("m/model.safetensors", builder.build());
  return WeightDirectory::open(files, "m");
}

const TensorKeys& keys_of(std::string_view architecture) {
  return find_architecture(architecture)->keys;
}

TEST(TensorNames, TheEmbeddingDecidesThePrefix) {
  for (const char* prefix : {"model.", "", "language_model.", "language_model.model.",
                             "model.language_model.", "model.text_model.", "text_model.", "llm.model."}) {
    const std::string base = prefix;
    const WeightDirectory directory =
        directory_of({{base + "embed_tokens"}, {base + "layers.0.mlp.up_proj"}, {base + "norm"}});
    const TensorNames names(directory, keys_of("LlamaForCausalLM"));
    EXPECT_EQ(names.layers(), base + "layers.");
    EXPECT_EQ(names.stored("model.layers.0.mlp.up_proj"), base + "layers.0.mlp.up_proj");
    EXPECT_EQ(names.stored("model.norm.weight"), base + "norm.weight");
    EXPECT_EQ(names.stored("model.absent"), "model.absent");
  }
}

TEST(TensorNames, OtherFamiliesHaveOtherBases) {
  const WeightDirectory gpt2 = directory_of({{"wte"}, {"h.0.attn.c_attn"}});
  EXPECT_EQ(TensorNames(gpt2, keys_of("GPT2LMHeadModel")).stored("transformer.h.0.attn.c_attn"),
            "h.0.attn.c_attn");
  const WeightDirectory neox = directory_of({{"embed_in"}, {"layers.0.attention.dense"}, {"embed_out"}});
  const TensorNames names(neox, keys_of("GPTNeoXForCausalLM"));
  EXPECT_EQ(names.layers(), "layers.");
  EXPECT_EQ(names.stored("gpt_neox.layers.0.attention.dense"), "layers.0.attention.dense");
  EXPECT_EQ(names.stored("embed_out"), "embed_out");
}

TEST(TensorNames, ABaseOfSeveralPartsMayLackTheFirst) {
  for (const char* base : {"model.decoder.", "decoder.", ""}) {
    const WeightDirectory directory =
        directory_of({{base + std::string("embed_tokens")}, {base + std::string("layers.0.fc1")}});
    EXPECT_EQ(TensorNames(directory, keys_of("OPTForCausalLM")).stored("model.decoder.layers.0.fc1"),
              base + std::string("layers.0.fc1"));
  }
}

TEST(TensorNames, TheHeadMayBeInsideTheWrapper) {
  for (const char* head : {"lm_head", "language_model.lm_head", "model.lm_head"}) {
    const WeightDirectory directory = directory_of({{"language_model.model.embed_tokens"}, {head}});
    EXPECT_EQ(TensorNames(directory, keys_of("LlamaForCausalLM")).stored("lm_head"), head);
  }
}

TEST(TensorNames, AFusedMatrixIsReadInSlices) {
  const WeightDirectory directory = directory_of({{"model.embed_tokens"},
                                                  {"model.layers.0.self_attn.qkv_proj", 16},
                                                  {"model.layers.0.mlp.gate_up_proj", 12}});
  const TensorNames names(directory, keys_of("LlamaForCausalLM"));
  const auto first_of = [&](const std::string& part, int32_t num_out) {
    LinearRequest request;
    request.key = "model.layers.0." + part;
    request.num_in = 2;
    request.num_out = num_out;
    const LinearRequest sliced = names.with_fused_source(request);
    EXPECT_TRUE(directory.has(sliced.key + ".weight")) << sliced.key;
    return sliced.part.first;
  };
  EXPECT_EQ(first_of("self_attn.q_proj", 8), 0);
  EXPECT_EQ(first_of("self_attn.k_proj", 4), 8);
  EXPECT_EQ(first_of("self_attn.v_proj", 4), 12);
  EXPECT_EQ(first_of("mlp.gate_proj", 6), 0);
  EXPECT_EQ(first_of("mlp.up_proj", 6), 6);
  EXPECT_TRUE(names.slices_of("model.layers.0.self_attn.qkv_proj").empty());
}

// Published files of Qwen3.5 have the experts in stacks, and transformers writes them one by one.
TEST(TensorNames, AnExpertIsReadFromTheStackOfAll) {
  const std::string prefix = "model.language_model.";
  SafetensorsBuilder builder;
  builder.add<float>(prefix + "embed_tokens.weight", "F32", {1, 2}, std::vector<float>(2));
  builder.add<float>(prefix + "layers.0.mlp.experts.gate_up_proj", "F32", {3, 8, 2}, std::vector<float>(48));
  builder.add<float>(prefix + "layers.0.mlp.experts.down_proj", "F32", {3, 2, 4}, std::vector<float>(24));
  MemoryFileSystem files;
  files.write("m/model.safetensors", builder.build());
  const WeightDirectory directory = WeightDirectory::open(files, "m");
  const TensorNames names(directory, keys_of("Qwen3_5MoeForCausalLM"));
  const auto found = [&](const std::string& part, int32_t num_in, int32_t num_out) {
    LinearRequest request;
    request.key = "model.layers.0.mlp.experts." + part;
    request.num_in = num_in;
    request.num_out = num_out;
    return names.with_fused_source(request);
  };
  const LinearRequest up = found("2.up_proj", 2, 4);
  EXPECT_EQ(up.key, prefix + "layers.0.mlp.experts.gate_up_proj");
  EXPECT_EQ(up.part.num_experts, 3);
  EXPECT_EQ(up.part.expert, 2);
  EXPECT_EQ(up.part.num_stored, 8);
  EXPECT_EQ(up.part.first, 4);
  EXPECT_EQ(found("0.gate_proj", 2, 4).part.first, 0);
  const LinearRequest down = found("1.down_proj", 4, 2);
  EXPECT_EQ(down.key, prefix + "layers.0.mlp.experts.down_proj");
  EXPECT_EQ(down.part.expert, 1);
  EXPECT_EQ(down.part.num_stored, 0);
  for (const char* other : {"3.up_proj", ".up_proj", "x.up_proj", "99999.up_proj", "1.other", "1"})
    EXPECT_EQ(found(other, 2, 4).part.num_experts, 0) << other;
}

TEST(TensorNames, TheSlicesOfAFusedMatrixAreFound) {
  const WeightDirectory directory = directory_of({{"model.embed_tokens"},
                                                  {"model.layers.0.self_attn.q_proj", 8},
                                                  {"model.layers.0.self_attn.k_proj", 4},
                                                  {"model.layers.0.self_attn.v_proj", 5},
                                                  {"model.layers.0.mlp.gate_proj", 6}});
  const TensorNames names(directory, keys_of("Phi3ForCausalLM"));
  const std::vector<MatrixSlice> slices = names.slices_of("model.layers.0.self_attn.qkv_proj");
  ASSERT_EQ(slices.size(), 3U);
  EXPECT_EQ(slices[0].key, "model.layers.0.self_attn.q_proj");
  EXPECT_EQ(slices[2].num_out, 5);
  EXPECT_TRUE(names.slices_of("model.layers.0.mlp.gate_up_proj").empty());
}

}  // namespace
}  // namespace quire
