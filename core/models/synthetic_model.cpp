#include "core/models/synthetic_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

#include <fmt/core.h>

#include "core/base/checked_math.h"
#include "core/base/error.h"
#include "kernels/interface/half.h"

namespace quire {
namespace {

constexpr std::string_view kPrefix = "synthetic:";

struct ShapeRow {
  std::string_view name;
  std::string_view config;  // the fields of config.json in which the shapes differ
};

constexpr std::array<ShapeRow, 3> kShapes = {{
    {"llama-3.2-1b",
     R"("hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
        "head_dim": 64, "intermediate_size": 8192)"},
    {"llama-3.1-8b",
     R"("hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
        "head_dim": 128, "intermediate_size": 14336)"},
    {"llama-3.1-70b",
     R"("hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8,
        "head_dim": 128, "intermediate_size": 28672)"},
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
  throw Error(ErrorCode::invalid_argument, "synthetic model: \"{}\" is not {}", printable(word), expected);
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

void apply_setting(SyntheticSpec& spec, std::string_view setting) {
  const size_t equals = setting.find('=');
  const std::string_view name = setting.substr(0, equals);
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view() : setting.substr(equals + 1);
  if (name == "format" && value == "exl2")
    spec.format = SyntheticFormat::exl2;
  else if (name == "format" && value == "gptq")
    spec.format = SyntheticFormat::gptq;
  else if (name == "format" && value == "fp8")
    spec.format = SyntheticFormat::fp8;
  else if (name == "format" && value == "f16")
    spec.format = SyntheticFormat::f16;
  else if (name == "bits")
    spec.bits = number_of(value, 2.0, 8.0);
  else if (name == "head_bits")
    spec.head_bits = static_cast<int32_t>(number_of(value, 2.0, 8.0));
  else if (name == "seed")
    spec.seed = static_cast<uint64_t>(number_of(value, 0.0, 1e15));
  else
    refuse(setting, "format=exl2|gptq|fp8|f16, bits=2..8, head_bits=2..8 or seed=N");
}

// xoshiro-like quality is not needed; speed is: a model of 70B takes 35 GB of it.
class FastRandom {
 public:
  explicit FastRandom(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ULL | 1U) {}
  uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }
  void fill(gsl::span<std::byte> out) {
    size_t i = 0;
    for (; i + 8 <= out.size(); i += 8) {
      const uint64_t word = next();
      std::memcpy(out.data() + i, &word, 8);
    }
    for (; i < out.size(); ++i) out[i] = static_cast<std::byte>(next());
  }
  // Approximately normal, variance 1.
  float normal() {
    const uint64_t word = next();
    float sum = 0.0f;
    for (int i = 0; i < 4; ++i) sum += static_cast<float>((word >> (16 * i)) & 0xffffU) / 65536.0f - 0.5f;
    return sum * 1.7320508f;
  }

 private:
  uint64_t state_;
};

constexpr int32_t kGroupRows = 128;
constexpr std::array<int32_t, 6> kWidths = {8, 6, 5, 4, 3, 2};

struct Mix {
  int32_t bits = 0;
  double share = 0.0;
};

// Widths around an average, as the converter mixes them: a tenth of the rows one width up, the rest split so
// that the average comes out.
std::vector<Mix> mix_for(double bits) {
  for (const int32_t width : kWidths) {
    if (bits == width && (width == 8 || width == 2)) return {{width, 1.0}};
  }
  const auto below =
      *std::find_if(kWidths.begin(), kWidths.end(), [&](int32_t width) { return width <= bits; });
  int32_t above = 8;
  for (const int32_t width : kWidths) {
    if (width > bits) above = width;
  }
  if (bits == below && below > 2) {
    const int32_t lower = below == 8 ? 6 : below - 1;
    const double up = 0.1;
    const double down = up * (above - below) / (below - lower);
    return {{above, up}, {below, 1.0 - up - down}, {lower, down}};
  }
  const double up = (bits - below) / (above - below);
  return {{above, up}, {below, 1.0 - up}};
}

class SyntheticWeights final : public WeightProvider {
 public:
  SyntheticWeights(const SyntheticSpec& spec, ReadScope scope)
      : spec_(spec), has_values_(scope == ReadScope::all), random_(spec.seed) {}

  bool is_concurrent() const override { return false; }  // what it gives depends on the order

  bool has_linear(const std::string&) const override { return true; }

  LinearWeight linear(const LinearRequest& request) override {
    switch (spec_.format) {
      case SyntheticFormat::exl2:
        return exl2(request);
      case SyntheticFormat::gptq:
        return gptq(request);
      case SyntheticFormat::fp8:
        return is_head(request) ? dense(request) : fp8(request);  // as published models are
      case SyntheticFormat::f16:
        break;
    }
    return dense(request);
  }

  std::vector<float> vector(const std::string&, int32_t count) override {
    return std::vector<float>(static_cast<size_t>(count), 1.0f);
  }

  HostTensor table(const std::string& name, int32_t rows, int32_t columns) override {
    return normal_halves(rows, columns, 1.0f, name);
  }

 private:
  static LinearWeight empty_linear(const LinearRequest& request) {
    LinearWeight out;
    out.num_in = request.num_in;
    out.num_out = request.num_out;
    out.padded_out = request.num_out;
    return out;
  }

  HostTensor values(DType dtype, int64_t rows, int64_t columns, const std::string& what) const {
    const size_t bytes = static_cast<size_t>(rows * columns) * kernels::dtype_bytes(dtype);
    return has_values_ ? HostTensor(dtype, {rows, columns}, bytes, what)
                       : HostTensor::without_data(dtype, {rows, columns}, bytes);
  }

  HostTensor random_words(int64_t rows, int64_t columns, const std::string& what) {
    HostTensor out = values(DType::i32, rows, columns, what);
    if (has_values_) random_.fill(out.bytes());
    return out;
  }

  HostTensor normal_halves(int32_t rows, int32_t columns, float deviation, const std::string& what) {
    const auto count = static_cast<size_t>(rows) * static_cast<size_t>(columns);
    HostTensor out = values(DType::f16, rows, columns, what);
    if (!has_values_) return out;
    // A block of normals repeated with random signs: the values need variety, not independence.
    std::array<uint16_t, 4096> block{};
    for (uint16_t& value : block) value = kernels::float_to_half(random_.normal() * deviation);
    const gsl::span<uint16_t> target = out.elements<uint16_t>();
    for (size_t i = 0; i < count; i += 64) {
      uint64_t signs = random_.next();
      const size_t start = static_cast<size_t>(signs >> 52) % (block.size() - 64);
      for (size_t j = 0; j < 64 && i + j < count; ++j, signs >>= 1) {
        target[i + j] = static_cast<uint16_t>(block[start + j] ^ ((signs & 1U) << 15));
      }
    }
    return out;
  }

  static bool is_head(const LinearRequest& request) { return request.key == "lm_head"; }

  LinearWeight dense(const LinearRequest& request) {
    LinearWeight out = empty_linear(request);
    DenseMatrix matrix;
    matrix.weight = normal_halves(request.num_out, request.num_in,
                                  1.0f / std::sqrt(static_cast<float>(request.num_in)), request.key);
    out.matrix = std::move(matrix);
    return out;
  }

  // Uniform codes, whose root mean square is 107, with a scale for each block of 128 by 128.
  LinearWeight fp8(const LinearRequest& request) {
    LinearWeight out = empty_linear(request);
    DenseMatrix matrix;
    matrix.weight = values(DType::f8_e4m3, request.num_out, request.num_in, request.key);
    matrix.scale_out = std::min(kGroupRows, request.num_out);
    matrix.scale_in = std::min(kGroupRows, request.num_in);
    if (has_values_) {
      random_.fill(matrix.weight.bytes());
      for (uint8_t& code : matrix.weight.elements<uint8_t>())
        code = static_cast<uint8_t>(code ^ (kernels::is_e4m3_nan(code) ? 1U : 0U));
      const auto num_blocks = ceil_div(static_cast<uint64_t>(request.num_out), kGroupRows) *
                              ceil_div(static_cast<uint64_t>(request.num_in), kGroupRows);
      matrix.scales.assign(num_blocks, 1.0f / (107.0f * std::sqrt(static_cast<float>(request.num_in))));
    }
    out.matrix = std::move(matrix);
    return out;
  }

  // Rows of each width are whole groups, widest first; the last width takes what is left.
  std::vector<kernels::Exl2Group> groups_for(int32_t rows, double bits) const {
    std::vector<kernels::Exl2Group> groups;
    int32_t row = 0;
    int32_t packed = 0;
    const std::vector<Mix> mix = mix_for(bits);
    for (size_t m = 0; m < mix.size(); ++m) {
      const double share = mix[m].share * rows / kGroupRows;
      int32_t left = m + 1 == mix.size() ? rows - row : static_cast<int32_t>(std::lround(share)) * kGroupRows;
      while (left > 0 && row < rows) {
        const int32_t take = std::min({left, kGroupRows, rows - row});
        groups.push_back({mix[m].bits, row, take, packed});
        packed += take * mix[m].bits / 32;
        row += take;
        left -= take;
      }
    }
    return groups;
  }

  // Of uniform codes and scale indices: the ceiling that gives the matrix unit gain.
  static uint16_t scale_ceiling(int32_t bits, int32_t rows) {
    const double codes = std::ldexp(1.0, bits) / std::sqrt(12.0);
    const double scales = 0.45;  // root mean square of ((i + 1) / 16)^2 over i = 0..15
    return kernels::float_to_half(
        static_cast<float>(1.0 / (std::sqrt(static_cast<double>(rows)) * codes * scales)));
  }

  LinearWeight exl2(const LinearRequest& request) {
    LinearWeight out = empty_linear(request);
    Exl2Matrix matrix;
    matrix.groups = is_head(request) ? groups_for(request.num_in, spec_.head_bits)
                                     : groups_for(request.num_in, spec_.bits);
    const kernels::Exl2Group& last = matrix.groups.back();
    const int64_t packed_rows = last.first_packed_row + last.num_rows * last.bits / 32;
    const auto num_groups = static_cast<int64_t>(matrix.groups.size());
    matrix.q_weight = random_words(packed_rows, request.num_out, request.key);
    matrix.q_scale = random_words(num_groups, request.num_out / 8, request.key);
    matrix.q_scale_max =
        HostTensor(DType::f16, {num_groups}, static_cast<size_t>(num_groups) * 2, request.key);
    for (size_t g = 0; g < matrix.groups.size(); ++g) {
      matrix.q_scale_max.elements<uint16_t>()[g] = scale_ceiling(matrix.groups[g].bits, request.num_in);
    }
    out.row_order = order_of(request);
    out.matrix = std::move(matrix);
    return out;
  }

  LinearWeight gptq(const LinearRequest& request) {
    LinearWeight out = empty_linear(request);
    GptqMatrix matrix;
    const int32_t num_groups = request.num_in / kGroupRows;
    matrix.q_weight = random_words(request.num_in / 8, request.num_out, request.key);
    matrix.q_zeros = values(DType::i32, num_groups, request.num_out / 8, request.key);
    if (has_values_) {
      for (uint32_t& word : matrix.q_zeros.elements<uint32_t>()) word = 0x77777777U;
      const float deviation = 1.0f / (std::sqrt(static_cast<float>(request.num_in)) * 4.6f);
      matrix.scales.assign(static_cast<size_t>(num_groups) * static_cast<size_t>(request.num_out),
                           kernels::float_to_half(deviation));
    }
    for (int32_t row = 0; row < request.num_in; ++row) matrix.group_of_row.push_back(row / kGroupRows);
    out.matrix = std::move(matrix);
    return out;
  }

  // q, k and v share one order, gate and up another: the key up to its last part decides, and the width.
  std::vector<int32_t> order_of(const LinearRequest& request) {
    const bool shares = request.key.ends_with("q_proj") || request.key.ends_with("k_proj") ||
                        request.key.ends_with("v_proj") || request.key.ends_with("gate_proj") ||
                        request.key.ends_with("up_proj");
    const std::string block = request.key.substr(0, request.key.rfind('.'));
    if (shares && block == shared_block_) return shared_order_;
    std::vector<int32_t> order(static_cast<size_t>(request.num_in));
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_.next() % i]);
    if (shares) {
      shared_block_ = block;
      shared_order_ = order;
    }
    return order;
  }

  SyntheticSpec spec_;
  bool has_values_;
  FastRandom random_;
  std::string shared_block_;
  std::vector<int32_t> shared_order_;
};

// The config.json that such a model would have.
std::string synthetic_config(const SyntheticSpec& spec) {
  return fmt::format(R"({{"architectures": ["LlamaForCausalLM"], "model_type": "llama", {},
    "vocab_size": 128256, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "hidden_act": "silu",
    "rope_theta": 500000.0, "tie_word_embeddings": false, "bos_token_id": 128000, "eos_token_id": 128001}})",
                     find_shape(spec.shape)->config);
}

class SyntheticSource final : public ModelSource {
 public:
  explicit SyntheticSource(const std::string& path) : ModelSource(path), spec_(parse_synthetic_spec(path)) {}

  const std::string& generation_config() override { return none_; }
  bool has_tokenizer() override { return false; }
  TokenizerTexts tokenizer() override {
    throw Error(ErrorCode::unsupported, "{}: a synthetic model has no tokenizer", path());
  }
  std::string chat_template() override { return {}; }
  std::unique_ptr<WeightProvider> weights(ReadScope scope, const LoadMonitor&) override {
    return make_synthetic_weights(spec_, scope);
  }
  StoredTensors tensors() override { return {}; }

 private:
  ModelConfig read_config() override { return parse_model_config(synthetic_config(spec_), {}, path()); }

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
