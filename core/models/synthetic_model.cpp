#include "core/models/synthetic_model.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/core.h>

#include "core/base/error.h"
#include "core/loader/weight_formats.h"
#include "kernels/interface/half.h"

namespace quire {
namespace {

constexpr std::string_view kPrefix = "synthetic:";

struct ShapeRow {
  std::string_view name;
  std::string_view family;  // fields of config.json that are the same in the whole family
  int32_t num_layers;
  std::string_view sizes;  // the other fields of config.json
};

constexpr std::string_view kLlama =
    R"("architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 128256,
        "rope_theta": 500000.0)";
constexpr std::string_view kQwen3Moe =
    R"("architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "vocab_size": 151936,
        "rope_theta": 1000000.0, "norm_topk_prob": true, "decoder_sparse_step": 1, "mlp_only_layers": [])";

constexpr std::string_view kQwen35 =
    R"("architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "vocab_size": 248320,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000000.0, "partial_rotary_factor": 0.25},
        "full_attention_interval": 4, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
        "linear_value_head_dim": 128, "linear_num_key_heads": 16, "head_dim": 256)";

constexpr std::array<ShapeRow, 6> kShapes = {{
    {"llama-3.2-1b", kLlama, 16,
     R"("hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 8,
        "head_dim": 64, "intermediate_size": 8192)"},
    {"llama-3.1-8b", kLlama, 32,
     R"("hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
        "head_dim": 128, "intermediate_size": 14336)"},
    {"llama-3.1-70b", kLlama, 80,
     R"("hidden_size": 8192, "num_attention_heads": 64, "num_key_value_heads": 8,
        "head_dim": 128, "intermediate_size": 28672)"},
    {"qwen3-30b-a3b", kQwen3Moe, 48,
     R"("hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
        "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 128,
        "num_experts_per_tok": 8)"},
    {"qwen3.5-2b", kQwen35, 24,
     R"("hidden_size": 2048, "num_attention_heads": 8, "num_key_value_heads": 2,
        "linear_num_value_heads": 16, "intermediate_size": 6144)"},
    {"qwen3.5-9b", kQwen35, 32,
     R"("hidden_size": 4096, "num_attention_heads": 16, "num_key_value_heads": 4,
        "linear_num_value_heads": 32, "intermediate_size": 12288)"},
}};

const ShapeRow* find_shape(std::string_view name) {
  const auto* found =
      std::find_if(kShapes.begin(), kShapes.end(), [&](const ShapeRow& row) { return row.name == name; });
  return found == kShapes.end() ? nullptr : found;
}

std::string shape_names() {
  std::string names;
  for (const ShapeRow& row : kShapes) names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  return names;
}

[[noreturn]] void refuse(std::string_view word, std::string_view expected) {
  throw Error(ErrorCode::invalid_argument, "synthetic model: \"{}\" is not {}", printable(word), expected)
      .at("path");
}

double number_of(std::string_view text, double min, double max) {
  const std::string copy(text);
  char* end = nullptr;
  const double value = std::strtod(copy.c_str(), &end);
  if (copy.empty() || *end != '\0' || !(value >= min && value <= max)) {
    refuse(text, fmt::format("a number from {} to {}", min, max));
  }
  return value;
}

// Returns the names of the formats that can be synthesized. Dense floats are called f16.
std::string format_names() {
  std::string names;
  for (const FormatRow& row : weight_formats()) {
    if (row.synthesize == nullptr) continue;
    names += fmt::format("{}{}", names.empty() ? "" : "|", row.name == "dense" ? "f16" : row.name);
  }
  return names;
}

std::string format_named(std::string_view name, std::string_view setting) {
  const FormatRow* row = find_format_named(name == "f16" ? "dense" : name);
  if (row == nullptr || row->synthesize == nullptr || name == "dense")
    refuse(setting, "format=" + format_names());
  return std::string(row->name);
}

void apply_setting(SyntheticSpec& spec, std::string_view setting) {
  const size_t equals = setting.find('=');
  const std::string_view name = setting.substr(0, equals);
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view() : setting.substr(equals + 1);
  if (name == "format") {
    spec.format = format_named(value, setting);
  } else if (name == "bits") {
    spec.bits = number_of(value, 2.0, 8.0);
  } else if (name == "head_bits") {
    spec.head_bits = static_cast<int32_t>(number_of(value, 2.0, 8.0));
  } else if (name == "skew") {
    spec.skew = number_of(value, 0.0, 8.0);
  } else if (name == "layers") {
    spec.num_layers = static_cast<int32_t>(number_of(value, 1.0, 1024.0));
  } else if (name == "seed") {
    spec.seed = static_cast<uint64_t>(number_of(value, 0.0, 1e15));
  } else {
    refuse(setting,
           "format=" + format_names() + ", bits=2..8, head_bits=2..8, skew=0..8, layers=N or seed=N");
  }
}

class SyntheticWeights final : public WeightProvider {
 public:
  SyntheticWeights(const SyntheticSpec& spec, ReadScope scope)
      : spec_(spec), format_(*find_format_named(spec.format)), has_data_(scope == ReadScope::all) {}

  bool is_concurrent() const override { return true; }

  bool has_linear(const std::string&) const override { return true; }
  bool has_tensor(const std::string&) const override { return true; }

  // Routers of experts are not quantized, as in common quantized models.
  LinearWeight linear(const LinearRequest& request) override {
    const double bits = request.key == "lm_head" ? spec_.head_bits : spec_.bits;
    SyntheticValues values = values_of(request.key);
    const bool is_router = request.key.ends_with(".mlp.gate");
    const FormatRow& format = is_router ? *find_format_named("dense") : format_;
    LinearWeight weight = format.synthesize({request.key, request.num_in, request.num_out, bits}, values);
    if (is_router && has_data_ && spec_.skew > 0.0) skew_rows(std::get<DenseMatrix>(weight.matrix).weight);
    return weight;
  }

  std::vector<float> vector(const std::string&, int32_t count) override {
    return std::vector<float>(static_cast<size_t>(count), 1.0f);
  }

  HostTensor table(const std::string& name, int32_t rows, int32_t columns) override {
    return values_of(name).normal_halves(rows, columns, 1.0f, name);
  }

 private:
  SyntheticValues values_of(std::string_view name) const {
    return SyntheticValues(spec_.seed, name, has_data_);
  }
  // Scales the rows of a router, one for each expert, by factors from 1 down.
  void skew_rows(HostTensor& router) const {
    const auto num_rows = static_cast<size_t>(router.shape().front());
    const gsl::span<uint16_t> values = router.elements<uint16_t>();
    const size_t columns = values.size() / num_rows;
    for (size_t row = 0; row < num_rows; ++row) {
      const auto factor = static_cast<float>(
          std::exp(-spec_.skew * static_cast<double>(row) / static_cast<double>(num_rows)));
      for (uint16_t& value : values.subspan(row * columns, columns))
        value = kernels::float_to_half(kernels::half_to_float(value) * factor);
    }
  }

  const SyntheticSpec spec_;
  const FormatRow& format_;
  const bool has_data_;
};

// Returns the config.json that such a model would have.
std::string synthetic_config(const SyntheticSpec& spec) {
  const ShapeRow& shape = *find_shape(spec.shape);
  return fmt::format(
      R"({{{}, {}, "num_hidden_layers": {}, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5,
    "hidden_act": "silu", "tie_word_embeddings": false, "bos_token_id": 128000, "eos_token_id": 128001}})",
      shape.family, shape.sizes, spec.num_layers != 0 ? spec.num_layers : shape.num_layers);
}

class SyntheticSource final : public ModelSource {
 public:
  explicit SyntheticSource(const std::string& path) : ModelSource(path), spec_(parse_synthetic_spec(path)) {}

  const std::string& generation_config() override { return none_; }
  bool has_tokenizer() override { return false; }
  TokenizerTexts tokenizer() override {
    throw Error(ErrorCode::unsupported,
                "{}: a synthetic model has no tokenizer; pass token ids instead of text", path());
  }
  std::string chat_template() override { return {}; }
  std::string tokenizer_config() override { return {}; }
  std::unique_ptr<WeightProvider> weights(ReadScope scope, const LoadMonitor&) override {
    return make_synthetic_weights(spec_, scope);
  }
  StoredTensors tensors() override { return {}; }

 private:
  ModelConfig read_config() override { return parse_model_config(synthetic_config(spec_), {}, path()); }
  Sha256 read_identity() override { return sha256(path()); }

  const SyntheticSpec spec_;
  const std::string none_;
};

}  // namespace

bool is_synthetic(std::string_view path) {
  return path.starts_with(kPrefix);
}

SyntheticSpec parse_synthetic_spec(std::string_view path) {
  std::string_view rest = path.substr(kPrefix.size());
  SyntheticSpec spec;
  for (bool first = true; first || !rest.empty(); first = false) {
    const size_t comma = rest.find(',');
    const std::string_view word = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    if (first)
      spec.shape = word;
    else
      apply_setting(spec, word);
  }
  if (find_shape(spec.shape) == nullptr) refuse(spec.shape, "one of " + shape_names());
  if (spec.head_bits == 7) refuse("head_bits=7", "a width of EXL2: 2, 3, 4, 5, 6 or 8");
  return spec;
}

std::shared_ptr<ModelSource> open_synthetic_model(const std::string& path) {
  return std::make_shared<SyntheticSource>(path);
}

std::unique_ptr<WeightProvider> make_synthetic_weights(const SyntheticSpec& spec, ReadScope scope) {
  return std::make_unique<SyntheticWeights>(spec, scope);
}

}  // namespace quire
