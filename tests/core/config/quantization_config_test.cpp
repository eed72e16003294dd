#include "core/config/quantization_config.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/json_text.h"

namespace quire {
namespace {

using testing::expect_error;
using testing::Json;

QuantizationConfig read(const Json& settings) {
  const JsonValue json = testing::parsed({{"quantization_config", settings}});
  return read_quantization_config(ConfigFields(JsonView(json, "c")));
}

TEST(QuantizationConfig, ReadsGptq) {
  const QuantizationConfig config = read({{"quant_method", "gptq"},
                                          {"bits", 4},
                                          {"group_size", 128},
                                          {"desc_act", true},
                                          {"sym", false},
                                          {"checkpoint_format", "gptq_v2"}});
  EXPECT_EQ(config.method, QuantizationConfig::Method::gptq);
  EXPECT_EQ(config.gptq_group_size, 128);
  EXPECT_TRUE(config.gptq_act_order);
  EXPECT_TRUE(config.gptq_v2);
  const QuantizationConfig bare = read({{"quant_method", "gptq"}});
  EXPECT_EQ(bare.gptq_group_size, 0);
  EXPECT_FALSE(bare.gptq_act_order || bare.gptq_v2);
  EXPECT_EQ(read({{"quant_method", "gptq"}, {"group_size", -1}}).gptq_group_size, -1);
}

TEST(QuantizationConfig, ReadsExl2AsInformation) {
  const QuantizationConfig config =
      read({{"quant_method", "exl2"}, {"bits", 4.125}, {"head_bits", 6}, {"version", "0.3.2"}});
  EXPECT_EQ(config.method, QuantizationConfig::Method::exl2);
  EXPECT_EQ(config.bits, 4.125);
}

Json compressed(const Json& weights) {
  return {{"quant_method", "compressed-tensors"},
          {"format", "float-quantized"},
          {"config_groups", {{"group_0", {{"targets", {"Linear"}}, {"weights", weights}}}}},
          {"ignore", {"lm_head"}}};
}

void expect_fp8(const Json& settings, int32_t block_out, int32_t block_in) {
  const QuantizationConfig config = read(settings);
  EXPECT_EQ(config.method, QuantizationConfig::Method::fp8) << settings;
  EXPECT_EQ(config.bits, 8.0);
  EXPECT_EQ(config.fp8_block_out, block_out) << settings;
  EXPECT_EQ(config.fp8_block_in, block_in) << settings;
}

TEST(QuantizationConfig, ReadsTheBlocksOfFp8) {
  expect_fp8({{"quant_method", "fp8"}, {"activation_scheme", "static"}}, 0, 0);
  expect_fp8({{"quant_method", "fp8"}, {"weight_block_size", nullptr}}, 0, 0);
  expect_fp8({{"quant_method", "fp8"}, {"fmt", "e4m3"}, {"weight_block_size", {128, 64}}}, 128, 64);
  expect_fp8({{"quant_method", "fbgemm_fp8"}, {"activation_scale_ub", 1200.0}}, 0, 0);
  expect_fp8({{"quant_method", "modelopt"}, {"quant_algo", "FP8"}}, 0, 0);
}

TEST(QuantizationConfig, ReadsFloatsOfCompressedTensors) {
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
  // A group without weights is one of activations.
  Json settings = compressed(floats);
  settings["config_groups"]["group_1"] = {{"targets", {"Attention"}}, {"weights", nullptr}};
  expect_fp8(settings, 0, 0);
  settings["config_groups"]["group_1"]["weights"] = weights;
  expect_error(ErrorCode::unsupported, {"config_groups", "different sizes"}, [&] { read(settings); });
  settings = compressed(floats);
  settings["format"] = "pack-quantized";
  expect_error(ErrorCode::unsupported,
               {"quantization_config.format", "\"pack-quantized\"", "float-quantized"},
               [&] { read(settings); });
  weights = {{"type", "int"}, {"num_bits", 8}};
  expect_error(ErrorCode::unsupported, {"weights.type", "\"int\"", "float"},
               [&] { read(compressed(weights)); });
  weights = {{"type", "float"}, {"num_bits", 4}};
  expect_error(ErrorCode::unsupported, {"weights.num_bits", "4 bit"}, [&] { read(compressed(weights)); });
}

TEST(QuantizationConfig, SaysWhatItDoesNotRead) {
  for (const int bits : {2, 3, 8}) {
    expect_error(ErrorCode::unsupported, {"c.quantization_config.bits", "only 4 bit"}, [&] {
      read({{"quant_method", "gptq"}, {"bits", bits}});
    });
  }
  for (const char* method : {"awq", "FP8", "bitsandbytes", "mxfp4", "exl3", "GPTQ", ""}) {
    expect_error(ErrorCode::unsupported,
                 {"c.quantization_config.quant_method", std::string("\"") + method + "\""}, [&] {
                   read({{"quant_method", method}});
                 });
  }
  expect_error(ErrorCode::unsupported, {"quantization_config.fmt", "\"e5m2\"", "e4m3"}, [] {
    read({{"quant_method", "fp8"}, {"fmt", "e5m2"}});
  });
  expect_error(ErrorCode::unsupported, {"quant_algo", "\"NVFP4\"", "FP8"}, [] {
    read({{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}});
  });
  expect_error(ErrorCode::unsupported, {"checkpoint_format", "\"marlin\""}, [] {
    read({{"quant_method", "gptq"}, {"checkpoint_format", "marlin"}});
  });
}

TEST(QuantizationConfig, RefusesNonsense) {
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
  };
  for (const auto& [settings, word] : kNonsense) {
    expect_error(ErrorCode::format, {"c.quantization_config", word}, [&, &s = settings] { read(s); });
  }
}

}  // namespace
}  // namespace quire
