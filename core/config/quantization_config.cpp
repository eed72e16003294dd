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
  throw Error(ErrorCode::unsupported, "{}.quant_method: \"{}\" is not supported, only exl2 and gptq",
              settings->where(), printable(method, 32));
}

}  // namespace quire
