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

TEST(QuantizationConfig, SaysWhatItDoesNotRead) {
  for (const int bits : {2, 3, 8}) {
    expect_error(ErrorCode::unsupported, {"c.quantization_config.bits", "only 4 bit"}, [&] {
      read({{"quant_method", "gptq"}, {"bits", bits}});
    });
  }
  for (const char* method : {"awq", "fp8", "bitsandbytes", "compressed-tensors", "exl3", "GPTQ", ""}) {
    expect_error(ErrorCode::unsupported,
                 {"c.quantization_config.quant_method", std::string("\"") + method + "\""}, [&] {
                   read({{"quant_method", method}});
                 });
  }
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
      {{{"quant_method", "exl2"}, {"bits", -1}}, "bits must be"},
      {{{"quant_method", "exl2"}, {"bits", "4"}}, "bits must be"},
  };
  for (const auto& [settings, word] : kNonsense) {
    expect_error(ErrorCode::format, {"c.quantization_config", word}, [&, &s = settings] { read(s); });
  }
}

}  // namespace
}  // namespace quire
