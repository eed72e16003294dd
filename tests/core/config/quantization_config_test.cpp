#include "core/config/quantization_config.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/json_text.h"

namespace quire {
namespace {

using testing::expect_error;
using testing::Json;

QuantizationConfig read_quantization(const Json& settings) {
  const JsonValue json = testing::parsed({{"quantization_config", settings}});
  return read_quantization_config(ConfigFields(JsonView(json, "c")));
}

TEST(QuantizationConfig, ReadsGptq) {
  const QuantizationConfig config = read_quantization({{"quant_method", "gptq"},
                                                       {"bits", 4},
                                                       {"group_size", 128},
                                                       {"desc_act", true},
                                                       {"sym", false},
                                                       {"checkpoint_format", "gptq_v2"}});
  EXPECT_EQ(config.method, QuantizationConfig::Method::gptq);
  EXPECT_EQ(config.scheme.group_size, 128);
  EXPECT_TRUE(config.gptq_act_order);
  EXPECT_TRUE(config.gptq_v2);
  const QuantizationConfig bare = read_quantization({{"quant_method", "gptq"}});
  EXPECT_EQ(bare.scheme.group_size, 0);
  EXPECT_FALSE(bare.gptq_act_order || bare.gptq_v2);
  EXPECT_EQ(read_quantization({{"quant_method", "gptq"}, {"group_size", -1}}).scheme.group_size, -1);
}

TEST(QuantizationConfig, ReadsExl2) {
  const QuantizationConfig config =
      read_quantization({{"quant_method", "exl2"}, {"bits", 4.125}, {"head_bits", 6}, {"version", "0.3.2"}});
  EXPECT_EQ(config.method, QuantizationConfig::Method::exl2);
  EXPECT_EQ(config.bits, 4.125);
}

TEST(QuantizationConfig, ReadsExl3) {
  const QuantizationConfig config = read_quantization({{"quant_method", "exl3"},
                                                       {"version", "1.6.5"},
                                                       {"bits", 2.5},
                                                       {"head_bits", 4},
                                                       {"calibration", {{"rows", 250}, {"cols", 2048}}},
                                                       {"out_scales", "auto"},
                                                       {"codebook", "mul1"}});
  EXPECT_EQ(config.method, QuantizationConfig::Method::exl3);
  EXPECT_EQ(config.bits, 2.5);
  // Files of the first versions have no codebook.
  EXPECT_EQ(read_quantization({{"quant_method", "exl3"}}).method, QuantizationConfig::Method::exl3);
  for (const char* codebook : {"3inst", "mcg"})
    EXPECT_NO_THROW(read_quantization({{"quant_method", "exl3"}, {"codebook", codebook}}));
  expect_error(ErrorCode::unsupported, {"quantization_config.codebook", "\"mul2\"", "3inst, mcg, mul1"}, [] {
    read_quantization({{"quant_method", "exl3"}, {"codebook", "mul2"}});
  });
}

Json compressed(const Json& weights) {
  return {{"quant_method", "compressed-tensors"},
          {"format", "float-quantized"},
          {"config_groups", {{"group_0", {{"targets", {"Linear"}}, {"weights", weights}}}}},
          {"ignore", {"lm_head"}}};
}

void expect_fp8(const Json& settings, int32_t block_out, int32_t block_in) {
  const QuantizationConfig config = read_quantization(settings);
  EXPECT_EQ(config.method, QuantizationConfig::Method::fp8) << settings;
  EXPECT_EQ(config.bits, 8.0);
  EXPECT_EQ(config.scheme.block_out, block_out) << settings;
  EXPECT_EQ(config.scheme.block_in, block_in) << settings;
}

TEST(QuantizationConfig, ReadsFp8Blocks) {
  expect_fp8({{"quant_method", "fp8"}, {"activation_scheme", "static"}}, 0, 0);
  expect_fp8({{"quant_method", "fp8"}, {"weight_block_size", nullptr}}, 0, 0);
  expect_fp8({{"quant_method", "fp8"}, {"fmt", "e4m3"}, {"weight_block_size", {128, 64}}}, 128, 64);
  expect_fp8({{"quant_method", "fbgemm_fp8"}, {"activation_scale_ub", 1200.0}}, 0, 0);
  expect_fp8({{"quant_method", "modelopt"}, {"quant_algo", "FP8"}}, 0, 0);
}

TEST(QuantizationConfig, ReadsFloatWeightsOfCompressedTensors) {
  const Json floats = {{"type", "float"}, {"num_bits", 8}, {"symmetric", true}, {"dynamic", false}};
  Json weights = floats;
  weights["strategy"] = "channel";
  weights["group_size"] = nullptr;
  weights["block_structure"] = nullptr;
  expect_fp8(compressed(weights), 0, 0);
  weights["strategy"] = "block";
  weights["block_structure"] = {128, 128};
  expect_fp8(compressed(weights), 128, 128);
  weights = floats;
  weights["group_size"] = 64;
  expect_fp8(compressed(weights), 1, 64);
  // A group without weights quantizes only activations.
  Json settings = compressed(floats);
  settings["config_groups"]["group_1"] = {{"targets", {"Attention"}}, {"weights", nullptr}};
  expect_fp8(settings, 0, 0);
  settings["format"] = "int-quantized";
  expect_error(ErrorCode::unsupported, {"quantization_config.format", "\"int-quantized\"", "pack-quantized"},
               [&] { read_quantization(settings); });
  weights = {{"type", "int"}, {"num_bits", 3}};
  expect_error(ErrorCode::unsupported, {"weights.num_bits", "3 bits"},
               [&] { read_quantization(compressed(weights)); });
}

Json mixed_precision() {
  const Json four = {{"type", "int"}, {"num_bits", 4}, {"strategy", "group"}, {"group_size", 32}};
  const Json eight = {{"type", "int"}, {"num_bits", 8}, {"strategy", "channel"}, {"group_size", nullptr}};
  return {{"quant_method", "compressed-tensors"},
          {"format", "pack-quantized"},
          {"config_groups",
           {{"group_0", {{"targets", {"Linear"}}, {"weights", four}}},
            {"group_1", {{"targets", {R"(re:.*\.down_proj$)", "model.head"}}, {"weights", eight}}}}},
          {"ignore", {"lm_head", R"(re:model\.layers\.0\..*)"}}};
}

TEST(QuantizationConfig, FindsTheGroupOfEachModule) {
  const QuantizationConfig config = read_quantization(mixed_precision());
  EXPECT_EQ(config.method, QuantizationConfig::Method::compressed);
  EXPECT_EQ(config.scheme_of("model.layers.1.mlp.up_proj").bits, 4);
  EXPECT_EQ(config.scheme_of("model.layers.1.mlp.up_proj").group_size, 32);
  EXPECT_EQ(config.scheme_of("model.layers.1.mlp.down_proj").bits, 8);
  EXPECT_EQ(config.scheme_of("model.layers.1.mlp.down_proj").group_size, -1);
  EXPECT_EQ(config.scheme_of("model.head").bits, 8);
  EXPECT_EQ(config.scheme_of("model.header").bits, 4);
}

TEST(QuantizationConfig, MatchesModuleListsByTheRulesOfEachMethod) {
  const ModuleNames exact = read_quantization(mixed_precision()).ignored;
  EXPECT_TRUE(exact.contains("lm_head"));
  EXPECT_FALSE(exact.contains("model.lm_head"));
  EXPECT_TRUE(exact.contains("model.layers.0.mlp.up_proj"));
  EXPECT_FALSE(exact.contains("x.model.layers.0.mlp.up_proj"));  // a pattern is anchored at the beginning
  const ModuleNames parts =
      read_quantization({{"quant_method", "awq"}, {"modules_to_not_convert", {"visual"}}}).ignored;
  EXPECT_TRUE(parts.contains("model.visual.blocks.0.qkv"));
  EXPECT_FALSE(parts.contains("model.layers.0.q_proj"));
  const ModuleNames wild =
      read_quantization(
          {{"quant_method", "mxfp4"}, {"modules_to_not_convert", {"model.layers.*.self_attn", "lm_head"}}})
          .ignored;
  EXPECT_TRUE(wild.contains("model.layers.3.self_attn.q_proj"));
  EXPECT_TRUE(wild.contains("lm_head"));
  EXPECT_FALSE(wild.contains("model.layers.3.mlp.experts.down_proj"));
  EXPECT_TRUE(read_quantization({{"quant_method", "gptq"}}).ignored.empty());
}

TEST(QuantizationConfig, LimitsPatterns) {
  Json settings = mixed_precision();
  settings["ignore"] = {"re:(a+)+$"};
  EXPECT_FALSE(read_quantization(settings).ignored.contains(std::string(200, 'a') + "b"));
  settings["ignore"] = {"re:("};
  expect_error(ErrorCode::format, {"c.quantization_config.ignore", "malformed"},
               [&] { read_quantization(settings); });
  settings["ignore"] = {"re:" + std::string(1025, 'a')};
  expect_error(ErrorCode::format, {"c.quantization_config.ignore", "1025 bytes"},
               [&] { read_quantization(settings); });
}

TEST(QuantizationConfig, RefusesTransforms) {
  Json settings = mixed_precision();
  settings["transform_config"] = {{"config_groups", Json::object()}};
  EXPECT_NO_THROW(read_quantization(settings));
  settings["transform_config"]["config_groups"]["R1"] = {{"type", "hadamard"}};
  expect_error(ErrorCode::unsupported, {"transform_config"}, [&] { read_quantization(settings); });
  settings = mixed_precision();
  settings["sparsity_config"] = {{"format", "sparse-24-bitmask"}};
  expect_error(ErrorCode::unsupported, {"sparsity_config.format", "sparse-24"},
               [&] { read_quantization(settings); });
}

TEST(QuantizationConfig, ReadsTheOtherMethods) {
  using Method = QuantizationConfig::Method;
  EXPECT_EQ(read_quantization({{"quant_method", "awq"}, {"bits", 4}, {"group_size", 64}}).scheme.group_size,
            64);
  EXPECT_EQ(read_quantization({{"quant_method", "gptq"}, {"bits", 8}}).bits, 8.0);
  EXPECT_EQ(read_quantization({{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}}).method, Method::nvfp4);
  EXPECT_EQ(read_quantization({{"quant_method", "mxfp4"}}).method, Method::mxfp4);
}

// Without a class, the older one is assumed, as in transformers.
TEST(QuantizationConfig, ReadsTheScaleOfBitNet) {
  EXPECT_EQ(read_quantization({{"quant_method", "bitnet"}}).bitnet_scale, BitNetScale::divides);
  EXPECT_EQ(read_quantization({{"quant_method", "bitnet"}}).method, QuantizationConfig::Method::bitnet);
  const QuantizationConfig config = read_quantization({{"quant_method", "bitnet"},
                                                       {"linear_class", "autobitlinear"},
                                                       {"quantization_mode", "offline"},
                                                       {"modules_to_not_convert", {"lm_head"}}});
  EXPECT_EQ(config.bitnet_scale, BitNetScale::multiplies);
  EXPECT_TRUE(config.ignored.contains("lm_head"));
  expect_error(ErrorCode::unsupported, {"quantization_config.linear_class", "\"linear\""}, [] {
    read_quantization({{"quant_method", "bitnet"}, {"linear_class", "linear"}});
  });
  expect_error(
      ErrorCode::unsupported, {"quantization_config.quantization_mode", "\"online\"", "offline"}, [] {
        read_quantization(
            {{"quant_method", "bitnet"}, {"linear_class", "autobitlinear"}, {"quantization_mode", "online"}});
      });
  expect_error(ErrorCode::unsupported, {"quantization_config.use_rms_norm"}, [] {
    read_quantization({{"quant_method", "bitnet"}, {"use_rms_norm", true}});
  });
}

TEST(QuantizationConfig, NamesUnsupportedSettings) {
  for (const int bits : {2, 3, 16}) {
    expect_error(ErrorCode::unsupported, {"c.quantization_config.bits", "only 4 and 8 bit"}, [&] {
      read_quantization({{"quant_method", "gptq"}, {"bits", bits}});
    });
  }
  for (const char* method : {"AWQ", "FP8", "bitsandbytes", "exl4", "GPTQ", ""}) {
    expect_error(ErrorCode::unsupported,
                 {"c.quantization_config.quant_method", std::string("\"") + method + "\""}, [&] {
                   read_quantization({{"quant_method", method}});
                 });
  }
  expect_error(ErrorCode::unsupported, {"quantization_config.fmt", "\"e5m2\"", "e4m3"}, [] {
    read_quantization({{"quant_method", "fp8"}, {"fmt", "e5m2"}});
  });
  expect_error(ErrorCode::unsupported, {"quant_algo", "\"NVFP4_SVD\"", "FP8"}, [] {
    read_quantization({{"quant_method", "modelopt"}, {"quant_algo", "NVFP4_SVD"}});
  });
  for (const char* version : {"gemv", "marlin"}) {
    expect_error(ErrorCode::unsupported, {"quantization_config.version", version}, [&] {
      read_quantization({{"quant_method", "awq"}, {"version", version}});
    });
  }
  expect_error(ErrorCode::unsupported, {"checkpoint_format", "\"marlin\""}, [] {
    read_quantization({{"quant_method", "gptq"}, {"checkpoint_format", "marlin"}});
  });
}

TEST(QuantizationConfig, RefusesInvalidFields) {
  const std::pair<Json, const char*> kNonsense[] = {
      {"gptq", "quantization_config must be an object"},
      {Json::object(), "quant_method is missing"},
      {{{"quant_method", 4}}, "quant_method must be"},
      {{{"quant_method", "gptq"}, {"bits", 0}}, "bits must be"},
      {{{"quant_method", "gptq"}, {"bits", "4"}}, "bits must be"},
      {{{"quant_method", "gptq"}, {"group_size", 0}}, "group_size must be"},
      {{{"quant_method", "gptq"}, {"group_size", -2}}, "group_size must be"},
      {{{"quant_method", "gptq"}, {"group_size", 1e12}}, "group_size must be"},
      {{{"quant_method", "gptq"}, {"desc_act", "no"}}, "desc_act must be"},
      {{{"quant_method", "gptq"}, {"sym", 1}}, "sym must be"},
      {{{"quant_method", "gptq"}, {"checkpoint_format", 2}}, "checkpoint_format must be"},
      {{{"quant_method", "fp8"}, {"weight_block_size", 128}}, "weight_block_size must be"},
      {{{"quant_method", "fp8"}, {"weight_block_size", {128}}}, "weight_block_size must be"},
      {{{"quant_method", "fp8"}, {"weight_block_size", {128, 0}}}, "weight_block_size[1] must be"},
      {{{"quant_method", "fp8"}, {"weight_block_size", {-1, 128}}}, "weight_block_size[0] must be"},
      {{{"quant_method", "fp8"}, {"weight_block_size", {128, 1e12}}}, "weight_block_size[1] must be"},
      {{{"quant_method", "compressed-tensors"}}, "config_groups is missing"},
      {{{"quant_method", "compressed-tensors"}, {"config_groups", {1}}}, "config_groups must be"},
      {{{"quant_method", "exl2"}, {"bits", -1}}, "bits must be"},
      {{{"quant_method", "exl2"}, {"bits", "4"}}, "bits must be"},
      {{{"quant_method", "exl3"}, {"bits", 17}}, "bits must be"},
      {{{"quant_method", "exl3"}, {"head_bits", 0}}, "head_bits must be"},
      {{{"quant_method", "exl3"}, {"codebook", 1}}, "codebook must be"},
  };
  for (const auto& [settings, word] : kNonsense) {
    expect_error(ErrorCode::format, {"c.quantization_config", word},
                 [&, &s = settings] { read_quantization(s); });
  }
}

}  // namespace
}  // namespace quire
