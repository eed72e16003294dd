#include "core/config/quantization_config.h"

#include <string>

#include "core/base/error.h"

namespace quire {
namespace {

constexpr int64_t kMaxGroupSize = 1 << 20;

int32_t read_group_size(const JsonView& settings) {
  const auto value = settings.find("group_size");
  if (!value) return 0;
  const int64_t size = value->as_int(-1, kMaxGroupSize);
  if (size == 0) throw Error(ErrorCode::format, "{} must be -1 or above 0", value->where());
  return static_cast<int32_t>(size);
}

QuantizationConfig read_gptq(const JsonView& settings) {
  QuantizationConfig config;
  config.method = QuantizationConfig::Method::gptq;
  const int64_t bits = settings.int_or("bits", 4, 1, 64);
  if (bits != 4) {
    throw Error(ErrorCode::unsupported, "{}.bits: {} bit GPTQ is not supported, only 4 bit", settings.where(),
                bits);
  }
  config.bits = static_cast<double>(bits);
  config.gptq_group_size = read_group_size(settings);
  config.gptq_act_order = settings.bool_or("desc_act", false);
  settings.bool_or("sym", true);
  const std::string format = settings.string_or("checkpoint_format", "gptq");
  if (format != "gptq" && format != "gptq_v2") {
    throw Error(ErrorCode::unsupported,
                "{}.checkpoint_format: \"{}\" is not supported, only gptq and gptq_v2", settings.where(),
                printable(format, 32));
  }
  config.gptq_v2 = format == "gptq_v2";
  return config;
}

struct Fp8Block {
  int32_t out = 0;
  int32_t in = 0;
  bool operator==(const Fp8Block&) const = default;
};

// The pair [outputs, inputs] of that name; nothing said where it is absent or null.
Fp8Block read_block(const JsonView& settings, std::string_view name) {
  const auto value = settings.find(name);
  if (!value) return {};
  const std::vector<JsonView> sizes = value->items();
  if (sizes.size() != 2) throw Error(ErrorCode::format, "{} must be a list of two sizes", value->where());
  return {static_cast<int32_t>(sizes[0].as_int(1, kMaxGroupSize)),
          static_cast<int32_t>(sizes[1].as_int(1, kMaxGroupSize))};
}

void require_word(const JsonView& settings, std::string_view name, std::string_view fallback,
                  std::string_view expected) {
  const std::string word = settings.string_or(name, fallback);
  if (word == expected) return;
  throw Error(ErrorCode::unsupported, "{}.{}: \"{}\" is not supported, only {}", settings.where(), name,
              printable(word, 32), expected);
}

QuantizationConfig fp8_config(const Fp8Block& block) {
  QuantizationConfig config;
  config.method = QuantizationConfig::Method::fp8;
  config.bits = 8.0;
  config.fp8_block_out = block.out;
  config.fp8_block_in = block.in;
  return config;
}

QuantizationConfig read_fp8(const JsonView& settings) {
  require_word(settings, "fmt", "e4m3", "e4m3");
  return fp8_config(read_block(settings, "weight_block_size"));
}

QuantizationConfig read_modelopt(const JsonView& settings) {
  require_word(settings, "quant_algo", "", "FP8");
  return fp8_config({});
}

// How the weights of one of compressed-tensors' groups share scales.
Fp8Block read_weights_of_group(const JsonView& weights) {
  require_word(weights, "type", "int", "float");
  const int64_t bits = weights.int_or("num_bits", 8, 1, 64);
  if (bits != 8) {
    throw Error(ErrorCode::unsupported, "{}.num_bits: {} bit floats are not supported, only 8 bit",
                weights.where(), bits);
  }
  const int64_t group_size = weights.int_or("group_size", -1, -1, kMaxGroupSize);
  if (group_size > 0) return {1, static_cast<int32_t>(group_size)};
  return read_block(weights, "block_structure");
}

QuantizationConfig read_compressed_tensors(const JsonView& settings) {
  const std::string format = settings.string_or("format", "float-quantized");
  if (format != "naive-quantized") require_word(settings, "format", format, "float-quantized");
  const JsonView groups = settings.at("config_groups");
  Fp8Block block;
  bool said = false;
  for (const JsonMember& member : groups.members()) {
    const auto weights = groups.at(member.key).find("weights");
    if (!weights) continue;
    const Fp8Block next = read_weights_of_group(*weights);
    if (said && next != block) {
      throw Error(ErrorCode::unsupported, "{}: blocks of different sizes in one model are not supported",
                  weights->where());
    }
    block = next;
    said = true;
  }
  return fp8_config(block);
}

}  // namespace

QuantizationConfig read_quantization_config(const ConfigFields& fields) {
  const auto settings = fields.find("quantization_config");
  if (!settings) return {};
  if (!settings->is_object()) throw Error(ErrorCode::format, "{} must be an object", settings->where());
  const std::string method = settings->at("quant_method").as_string();
  if (method == "gptq") return read_gptq(*settings);
  if (method == "exl2") {
    QuantizationConfig config;
    config.method = QuantizationConfig::Method::exl2;
    config.bits = settings->number_or("bits", 0.0, 0.0, 64.0);
    return config;
  }
  if (method == "fp8") return read_fp8(*settings);
  if (method == "fbgemm_fp8") return fp8_config({});
  if (method == "modelopt") return read_modelopt(*settings);
  if (method == "compressed-tensors") return read_compressed_tensors(*settings);
  throw Error(ErrorCode::unsupported,
              "{}.quant_method: \"{}\" is not supported, only exl2, gptq, fp8, fbgemm_fp8, modelopt and "
              "compressed-tensors",
              settings->where(), printable(method, 32));
}

}  // namespace quire
