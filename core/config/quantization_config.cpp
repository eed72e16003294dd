#include "core/config/quantization_config.h"

#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>
#include <gsl/gsl>

#include "core/base/error.h"

namespace quire {
namespace {

using Method = QuantizationConfig::Method;

constexpr int64_t kMaxGroupSize = 1 << 20;
constexpr size_t kMaxNames = 1 << 16;

int32_t read_group_size(const JsonView& settings, std::string_view name = "group_size") {
  const auto value = settings.find(name);
  if (!value) return 0;
  const int64_t size = value->as_int(-1, kMaxGroupSize);
  if (size == 0) throw Error(ErrorCode::format, "{} must be -1 or above 0", value->where());
  return static_cast<int32_t>(size);
}

// Reads a list of strings; absent or null gives an empty list.
ModuleNames read_names(const JsonView& settings, std::string_view name, NameRule rule) {
  const auto value = settings.find(name);
  if (!value) return {};
  const std::vector<JsonView> items = value->items();
  if (items.size() > kMaxNames)
    throw Error(ErrorCode::format, "{}: more than {} names", value->where(), kMaxNames);
  std::vector<std::string> names;
  names.reserve(items.size());
  for (const JsonView& item : items) names.push_back(item.as_string());
  return ModuleNames(std::move(names), rule, value->where());
}

void require_word(const JsonView& settings, std::string_view name, std::string_view fallback,
                  gsl::span<const std::string_view> expected) {
  const std::string word = settings.string_or(name, fallback);
  if (std::find(expected.begin(), expected.end(), word) != expected.end()) return;
  throw Error(ErrorCode::unsupported, "{}.{}: \"{}\" is not supported, only {}", settings.where(), name,
              printable(word, 32), fmt::join(expected, ", "));
}

template <typename... Words>
std::array<std::string_view, sizeof...(Words)> words(Words... all) {
  return {all...};
}

QuantizationConfig of_method(Method method, int32_t bits) {
  QuantizationConfig config;
  config.method = method;
  config.bits = bits;
  config.scheme.bits = bits;
  return config;
}

QuantizationConfig read_gptq(const JsonView& settings) {
  const int64_t bits = settings.int_or("bits", 4, 1, 64);
  if (bits != 4 && bits != 8) {
    throw Error(ErrorCode::unsupported, "{}.bits: {} bit GPTQ is not supported, only 4 and 8 bit",
                settings.where(), bits);
  }
  QuantizationConfig config = of_method(Method::gptq, static_cast<int32_t>(bits));
  config.scheme.bits = 0;  // layers may have different widths; their tensors show which
  config.scheme.group_size = read_group_size(settings);
  config.gptq_act_order = settings.bool_or("desc_act", false);
  settings.bool_or("sym", true);
  require_word(settings, "checkpoint_format", "gptq", words("gptq", "gptq_v2"));
  config.gptq_v2 = settings.string_or("checkpoint_format", "gptq") == "gptq_v2";
  return config;
}

QuantizationConfig read_awq(const JsonView& settings) {
  const int64_t bits = settings.int_or("bits", 4, 1, 64);
  if (bits != 4) {
    throw Error(ErrorCode::unsupported, "{}.bits: {} bit AWQ is not supported, only 4 bit", settings.where(),
                bits);
  }
  const std::string version = settings.string_or("version", "gemm");
  if (version != "gemm" && version != "GEMM") {
    throw Error(ErrorCode::unsupported, "{}.version: \"{}\" is not supported, only gemm", settings.where(),
                printable(version, 32));
  }
  QuantizationConfig config = of_method(Method::awq, 4);
  config.scheme.group_size = read_group_size(settings);
  settings.bool_or("zero_point", true);
  config.ignored = read_names(settings, "modules_to_not_convert", NameRule::part);
  return config;
}

// Bits and codebook are checked and not used: each matrix has its own.
QuantizationConfig read_exl3(const JsonView& settings) {
  require_word(settings, "codebook", "3inst", words("3inst", "mcg", "mul1"));
  settings.number_or("head_bits", 8.0, 1.0, 16.0);
  QuantizationConfig config;
  config.method = Method::exl3;
  config.bits = settings.number_or("bits", 0.0, 0.0, 16.0);
  return config;
}

// Reads a pair [outputs, inputs]; does nothing if the field is absent or null.
void read_block(const JsonView& settings, std::string_view name, QuantizationScheme& scheme) {
  const auto value = settings.find(name);
  if (!value) return;
  const std::vector<JsonView> sizes = value->items();
  if (sizes.size() != 2) throw Error(ErrorCode::format, "{} must be a list of two sizes", value->where());
  scheme.block_out = static_cast<int32_t>(sizes[0].as_int(1, kMaxGroupSize));
  scheme.block_in = static_cast<int32_t>(sizes[1].as_int(1, kMaxGroupSize));
}

QuantizationConfig read_fp8(const JsonView& settings) {
  require_word(settings, "fmt", "e4m3", words("e4m3"));
  QuantizationConfig config = of_method(Method::fp8, 8);
  read_block(settings, "weight_block_size", config.scheme);
  config.ignored =
      read_names(settings, settings.find("ignored_layers") ? "ignored_layers" : "modules_to_not_convert",
                 NameRule::wildcard);
  return config;
}

QuantizationConfig read_modelopt(const JsonView& settings) {
  require_word(settings, "quant_algo", "", words("FP8", "NVFP4", "W4A16_NVFP4"));
  const bool is_fp8 = settings.string_or("quant_algo", "") == "FP8";
  QuantizationConfig config = is_fp8 ? of_method(Method::fp8, 8) : of_method(Method::nvfp4, 4);
  config.ignored = read_names(settings, settings.find("exclude_modules") ? "exclude_modules" : "ignore",
                              NameRule::wildcard);
  return config;
}

QuantizationConfig read_mxfp4(const JsonView& settings) {
  QuantizationConfig config = of_method(Method::mxfp4, 4);
  config.scheme.group_size = 32;
  config.ignored = read_names(settings, "modules_to_not_convert", NameRule::wildcard);
  return config;
}

// The class of the layers determines the meaning of the scale. Refuses online quantization and layers with
// their own norm, because the results would be wrong.
QuantizationConfig read_bitnet(const JsonView& settings) {
  require_word(settings, "linear_class", "bitlinear", words("bitlinear", "autobitlinear"));
  require_word(settings, "quantization_mode", "offline", words("offline"));
  if (settings.bool_or("use_rms_norm", false)) {
    throw Error(ErrorCode::unsupported, "{}.use_rms_norm: a norm in each linear layer is not supported",
                settings.where());
  }
  QuantizationConfig config = of_method(Method::bitnet, 2);
  const bool is_auto = settings.string_or("linear_class", "bitlinear") == "autobitlinear";
  config.bitnet_scale = is_auto ? BitNetScale::multiplies : BitNetScale::divides;
  config.ignored = read_names(settings, "modules_to_not_convert", NameRule::wildcard);
  return config;
}

// Reads the scheme of the weights of one group in compressed-tensors.
QuantizationScheme read_weights_of_group(const JsonView& weights) {
  require_word(weights, "type", "int", words("int", "float"));
  const bool is_float = weights.string_or("type", "int") == "float";
  QuantizationScheme scheme;
  scheme.bits = static_cast<int32_t>(weights.int_or("num_bits", 8, 1, 64));
  if (scheme.bits != 8 && scheme.bits != 4) {
    throw Error(ErrorCode::unsupported, "{}.num_bits: {}s of {} bits are not supported, only of 4 and 8",
                weights.where(), is_float ? "float" : "integer", scheme.bits);
  }
  require_word(weights, "strategy", "tensor", words("tensor", "channel", "group", "block", "tensor_group"));
  const std::string strategy = weights.string_or("strategy", "");
  scheme.group_size = strategy == "channel" || strategy == "tensor" ? -1 : read_group_size(weights);
  if (is_float && scheme.bits == 8 && scheme.group_size > 0) {
    scheme.block_out = 1;
    scheme.block_in = scheme.group_size;
  }
  read_block(weights, "block_structure", scheme);
  return scheme;
}

// Refuses rotations and other transforms of weights or activations: ignoring them would give wrong results.
void refuse_transforms(const JsonView& settings) {
  const auto transforms = settings.find("transform_config");
  if (!transforms || !transforms->is_object() || transforms->members().empty()) return;
  const auto groups = transforms->find("config_groups");
  if (groups && groups->is_object() && groups->members().empty()) return;
  throw Error(ErrorCode::unsupported, "{}: transforms of weights are not supported", transforms->where());
}

void refuse_sparsity(const JsonView& settings) {
  const auto sparsity = settings.find("sparsity_config");
  if (!sparsity || !sparsity->is_object() || sparsity->members().empty()) return;
  require_word(*sparsity, "format", "dense", words("dense"));
}

constexpr std::array<std::string_view, 7> kCompressedFormats = {
    "float-quantized",      "naive-quantized", "pack-quantized", "mxfp4-pack-quantized",
    "nvfp4-pack-quantized", "mixed-precision", "dense"};

QuantizationConfig read_compressed_tensors(const JsonView& settings) {
  require_word(settings, "format", "float-quantized", kCompressedFormats);
  refuse_transforms(settings);
  refuse_sparsity(settings);
  QuantizationConfig config = of_method(Method::compressed, 0);
  config.ignored = read_names(settings, "ignore", NameRule::exact);
  const JsonView groups = settings.at("config_groups");
  for (const JsonMember& member : groups.members()) {
    const JsonView group = groups.at(member.key);
    const auto weights = group.find("weights");
    if (!weights) continue;
    require_word(group, "format", "float-quantized", kCompressedFormats);
    config.groups.push_back({read_names(group, "targets", NameRule::exact), read_weights_of_group(*weights)});
  }
  if (!config.groups.empty()) {
    config.scheme = config.groups.front().scheme;
    config.bits = config.scheme.bits;
  }
  const bool all_fp8 = std::all_of(config.groups.begin(), config.groups.end(),
                                   [](const QuantizedGroup& group) { return group.scheme.bits == 8; });
  const std::string format = settings.string_or("format", "float-quantized");
  if (all_fp8 && (format == "float-quantized" || format == "naive-quantized")) config.method = Method::fp8;
  return config;
}

}  // namespace

const QuantizationScheme& QuantizationConfig::scheme_of(std::string_view module) const {
  const auto by_name = std::find_if(groups.begin(), groups.end(), [&](const QuantizedGroup& group) {
    return group.targets.contains(module);
  });
  if (by_name != groups.end()) return by_name->scheme;
  const auto by_class = std::find_if(groups.begin(), groups.end(), [](const QuantizedGroup& group) {
    return group.targets.has_entry("Linear");
  });
  return by_class != groups.end() ? by_class->scheme : scheme;
}

QuantizationConfig read_quantization_config(const ConfigFields& fields) {
  const auto settings = fields.find("quantization_config");
  if (!settings) return {};
  if (!settings->is_object()) throw Error(ErrorCode::format, "{} must be an object", settings->where());
  const std::string method = settings->at("quant_method").as_string();
  if (method == "gptq") return read_gptq(*settings);
  if (method == "awq") return read_awq(*settings);
  if (method == "exl2") {
    QuantizationConfig config;
    config.method = Method::exl2;
    config.bits = settings->number_or("bits", 0.0, 0.0, 64.0);
    return config;
  }
  if (method == "exl3") return read_exl3(*settings);
  if (method == "fp8") return read_fp8(*settings);
  if (method == "fbgemm_fp8") return of_method(Method::fp8, 8);
  if (method == "modelopt") return read_modelopt(*settings);
  if (method == "mxfp4") return read_mxfp4(*settings);
  if (method == "bitnet") return read_bitnet(*settings);
  if (method == "compressed-tensors") return read_compressed_tensors(*settings);
  throw Error(
      ErrorCode::unsupported,
      "{}.quant_method: \"{}\" is not supported, only exl2, exl3, gptq, awq, fp8, fbgemm_fp8, modelopt, "
      "mxfp4, bitnet and compressed-tensors",
      settings->where(), printable(method, 32));
}

}  // namespace quire
