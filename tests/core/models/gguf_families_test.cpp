// The tiny model of each family that GGUF files can have, converted to GGUF: the logits are those of its
// directory, and so those of transformers.
#include "core/models/gguf_families.h"

#include <algorithm>
#include <cstring>

#include <gtest/gtest.h>

#include "core/models/draft_scores.h"
#include "core/models/draft_source.h"
#include "tests/core/models/gguf_conversion.h"
#include "tests/core/models/golden_file.h"
#include "tests/core/models/transformer_runner.h"
#include "tests/support/expect_error.h"
#include "tests/support/golden_families.h"
#include "tests/support/memory_file_system.h"

namespace quire::testing {
namespace {

std::shared_ptr<const Model> load_file(const std::string& bytes, int32_t num_shards = 1) {
  MemoryFileSystem files;
  files.write("m/model.gguf", bytes);
  ModelOptions options;
  options.source = open_model_source(files, "m/model.gguf");
  options.devices = {open_test_device()};
  options.num_shards = num_shards;
  return Model::load(options);
}

// Loads a file with its module for multi-token prediction.
std::shared_ptr<const Model> load_with_module(const std::string& bytes) {
  MemoryFileSystem files;
  files.write("m/model.gguf", bytes);
  ModelOptions options;
  options.source = open_model_source(files, "m/model.gguf");
  options.devices = {open_test_device()};
  options.drafter = std::make_shared<const DraftSource>(open_draft_source(files, "mtp", options.source));
  return Model::load(options);
}

class GgufFamilyTest : public ::testing::TestWithParam<GgufConversion> {};

TEST_P(GgufFamilyTest, LogitsAreThoseOfTheDirectory) {
  const FamilyDirectory directory(GetParam().family);
  if (const std::string refusal = refusal_of(directory.path()); !refusal.empty()) GTEST_SKIP() << refusal;
  const StoredModel model = read_stored_model(directory.path());
  TransformerRunner runner(load_file(gguf_of(model, GetParam()).build()), {});
  const double error =
      golden_error(runner.logits(read_ids(directory.golden(), "input_ids"), 512), directory.golden());
  RecordProperty("relative_rms", std::to_string(error));
  EXPECT_LE(error, tolerance(2e-3, 1e-2));
}

std::string family_name(const ::testing::TestParamInfo<GgufConversion>& conversion) {
  return conversion.param.family;
}

INSTANTIATE_TEST_SUITE_P(Golden, GgufFamilyTest, ::testing::ValuesIn(gguf_conversions()), family_name);

StoredModel llama() {
  return read_stored_model(FamilyDirectory("llama3").path());
}

GgufBuilder llama_file() {
  return gguf_of(llama(), gguf_conversions().front());
}

// Rows of q and k are ordered anew, and a shard takes its own heads of them.
TEST(GgufModels, ShardsChangeNothing) {
  if (!open_test_device()->has(kernels::kCapabilityShards))
    GTEST_SKIP() << "this device does not split layers";
  const std::string file = llama_file().build();
  const TokenIds ids = {1, 5, 9, 33, 2, 7};
  EXPECT_EQ(TransformerRunner(load_file(file, 2), {}).logits(ids, 512),
            TransformerRunner(load_file(file), {}).logits(ids, 512));
}

TEST(GgufModels, AreRefusedByNameIfTheyAreNoModelOfText) {
  const auto refuse = [](const std::function<void(GgufBuilder&)>& change, const std::string& message) {
    GgufBuilder file = llama_file();
    change(file);
    expect_error(ErrorCode::unsupported, {"m/model.gguf", message}, [&] { load_file(file.build()); });
  };
  refuse(
      [](GgufBuilder& file) {
        file.keys[0] = GgufKey{"general.architecture", 8, GgufBuilder::text("clip")};
      },
      "a projector of images or sound");
  refuse(
      [](GgufBuilder& file) {
        file.keys[0] = GgufKey{"general.architecture", 8, GgufBuilder::text("rwkv7")};
      },
      "the architecture \"rwkv7\" of GGUF files is not supported");
  refuse(
      [](GgufBuilder& file) {
        for (GgufKey& key : file.keys) {
          if (key.name.starts_with("llama.")) key.name.replace(0, 5, "baichuan");
          if (key.name == "baichuan.block_count") key.bytes[0] = 40;
        }
        file.keys[0] = GgufKey{"general.architecture", 8, GgufBuilder::text("baichuan")};
      },
      "Baichuan with 40 layers has ALiBi");
  refuse([](GgufBuilder& file) { file.add_text("general.type", "adapter"); }, "an adapter, not a model");
  refuse(
      [](GgufBuilder& file) {
        file.add_floats("blk.1.attn_sub_norm.weight", {2}, {1.0f, 1.0f});
      },
      "tensor \"blk.1.attn_sub_norm.weight\" is no part of LlamaForCausalLM");
}

TEST(GgufModels, AShapeThatContradictsTheMetadataIsRefused) {
  GgufBuilder file = llama_file();
  for (GgufTensor& tensor : file.tensors)
    if (tensor.name == "blk.0.attn_q.weight") std::swap(tensor.shape[0], tensor.shape[1] = 32);
  try {
    load_file(file.build());
    ADD_FAILURE() << "loaded";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("m/model.gguf"), std::string::npos) << error.what();
  }
}

const GgufConversion& conversion_of(const std::string& family) {
  for (const GgufConversion& conversion : gguf_conversions())
    if (conversion.family == family) return conversion;
  throw std::runtime_error("no conversion of " + family);
}

// Returns the file of a family.
GgufBuilder file_of(const std::string& family) {
  return gguf_of(read_stored_model(FamilyDirectory(family).path()), conversion_of(family));
}

GgufTensor& tensor_of(GgufBuilder& file, const std::string& name) {
  return *std::find_if(file.tensors.begin(), file.tensors.end(),
                       [&](const GgufTensor& tensor) { return tensor.name == name; });
}

TEST(GgufModels, LatentAttentionNeedsBothOfItsTensors) {
  GgufBuilder file = file_of("deepseek_v3");
  std::erase_if(file.tensors,
                [](const GgufTensor& tensor) { return tensor.name == "blk.0.attn_v_b.weight"; });
  expect_error(ErrorCode::format, {"m/model.gguf", "layer 0", "\"attn_v_b\""},
               [&] { load_file(file.build()); });
}

TEST(GgufModels, TensorsOfLatentAttentionMustFitEachOther) {
  GgufBuilder file = file_of("deepseek_v3");
  GgufTensor& keys = tensor_of(file, "blk.0.attn_k_b.weight");
  keys.shape[1] *= 2;
  keys.data += keys.data;
  expect_error(ErrorCode::format, {"m/model.gguf", "attn_k_b", "attn_v_b"}, [&] { load_file(file.build()); });
}

const std::string kModules = std::string(QUIRE_SHARED_DIR) + "/golden/mtp/";

// Returns the file of a model with a module, which is the block after its two layers.
GgufBuilder file_with_module(const std::string& family) {
  GgufConversion conversion = conversion_of(family);
  for (const char* name : {"eh_proj", "enorm", "hnorm", "embed_tokens"})
    conversion.parts.emplace_back(name, std::string("nextn.") + name);
  conversion.parts.emplace_back("shared_head.norm", "nextn.shared_head_norm");
  conversion.parts.emplace_back("shared_head.head", "nextn.shared_head_head");
  GgufBuilder file = gguf_of(read_stored_model(kModules + family), conversion);
  for (GgufKey& key : file.keys)
    if (key.name.ends_with(".block_count")) key.bytes[0] = 3;
  file.add_u32(conversion.architecture + ".nextn_predict_layers", 1);
  return file;
}

TEST(GgufModules, LogitsAreThoseOfTheReference) {
  for (const char* family : {"glm4_moe", "deepseek_v3"}) {
    SCOPED_TRACE(family);
    const std::string golden = kModules + family + "/golden.safetensors";
    if (!exists(golden)) GTEST_SKIP() << golden << " is not here";
    const auto model = load_with_module(file_with_module(family).build());
    const DraftScores scores = score_drafter(model->transformer(), read_ids(golden, "input_ids"));
    EXPECT_LE(relative_rms(scores.logits, read_floats(golden, "mtp_logits")), tolerance(2e-3, 1e-2));
  }
}

TEST(GgufModules, AreRefusedByNameIfTheFileHasNone) {
  expect_error(ErrorCode::unsupported, {"m/model.gguf: the model has no module", "num_nextn_predict_layers"},
               [] { load_with_module(file_of("glm4_moe").build()); });
  expect_error(ErrorCode::unsupported, {"m/model.gguf", "GLM-4.5", "choose another drafter"},
               [] { load_with_module(llama_file().build()); });
  if (!exists(kModules + "glm4_moe/config.json")) GTEST_SKIP() << kModules << "glm4_moe is not here";
  GgufBuilder file = file_with_module("glm4_moe");
  std::erase_if(file.tensors, [](const GgufTensor& tensor) { return tensor.name.starts_with("blk.2."); });
  expect_error(ErrorCode::unsupported, {"m/model.gguf", "model.layers.2.eh_proj.weight"},
               [&] { load_with_module(file.build()); });
}

TEST(GgufModels, ADecayThatIsNotNegativeIsRefusedByName) {
  GgufBuilder file = file_of("mamba2");
  GgufTensor& decays = tensor_of(file, "blk.0.ssm_a");
  const float positive = 1.0f;
  std::memcpy(decays.data.data() + sizeof(float), &positive, sizeof(positive));
  expect_error(ErrorCode::numeric, {"m/model.gguf", "A_log", "element 1"}, [&] { load_file(file.build()); });
}

TEST(GgufModels, AMissingKeyIsAnErrorThatNamesIt) {
  for (const char* key : {"general.architecture", "llama.block_count", "llama.embedding_length"}) {
    GgufBuilder file = llama_file();
    std::erase_if(file.keys, [&](const GgufKey& one) { return one.name == key; });
    expect_error(ErrorCode::format, {"m/model.gguf", key}, [&] { load_file(file.build()); });
  }
}

}  // namespace
}  // namespace quire::testing
