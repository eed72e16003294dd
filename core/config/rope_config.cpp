#include "core/config/rope_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace quire {
namespace {

struct KindRow {
  std::string_view name;
  RopeKind kind;
};
constexpr std::array<KindRow, 10> kKinds = {{
    {"default", RopeKind::plain},
    {"mrope", RopeKind::plain},
    {"linear", RopeKind::linear},
    {"llama3", RopeKind::llama3},
    {"yarn", RopeKind::yarn},
    {"longrope", RopeKind::longrope},
    {"su", RopeKind::longrope},
    {"dynamic", RopeKind::dynamic},
    {"ntk", RopeKind::dynamic},
    {"proportional", RopeKind::proportional},
}};

constexpr double kMinTheta = 1.0;
constexpr double kMaxTheta = 1e12;
constexpr double kMaxFactor = 1e6;
constexpr size_t kMaxFactors = 512;

std::string kind_names() {
  std::string names;
  for (const KindRow& row : kKinds) {
    if (!names.empty()) names += ", ";
    names += row.name;
  }
  return names;
}

RopeKind read_kind(const JsonView& settings) {
  const auto modern = settings.find("rope_type");
  const auto legacy = settings.find("type");
  // The older spelling writes "mrope" next to "default".
  if (modern && legacy && modern->as_string() != legacy->as_string() && legacy->as_string() != "mrope") {
    throw Error(ErrorCode::format, "{} and {} disagree", modern->where(), legacy->where());
  }
  if (!modern && !legacy) return RopeKind::plain;
  const JsonView& named = modern ? *modern : *legacy;
  const std::string name = named.as_string();
  for (const KindRow& row : kKinds) {
    if (row.name == name) return row.kind;
  }
  throw Error(ErrorCode::unsupported, "{}: \"{}\" is not supported; supported are {}", named.where(),
              printable(name, 32), kind_names());
}

int32_t read_original_positions(const JsonView& settings, const RopeDefaults& defaults) {
  const auto inner = settings.find("original_max_position_embeddings");
  if (inner) return static_cast<int32_t>(inner->as_int(1, INT32_MAX));
  if (defaults.original_max_positions > 0) return defaults.original_max_positions;
  if (defaults.max_positions > 0) return defaults.max_positions;
  return static_cast<int32_t>(settings.at("original_max_position_embeddings").as_int(1, INT32_MAX));
}

void read_llama3(const JsonView& settings, RopeConfig& rope) {
  rope.llama3.low_freq_factor = settings.at("low_freq_factor").as_number(1e-3, kMaxFactor);
  rope.llama3.high_freq_factor = settings.at("high_freq_factor").as_number(1e-3, kMaxFactor);
  rope.original_max_positions =
      static_cast<int32_t>(settings.at("original_max_position_embeddings").as_int(1, INT32_MAX));
  if (rope.llama3.low_freq_factor >= rope.llama3.high_freq_factor) {
    throw Error(ErrorCode::format, "{}.low_freq_factor must be below high_freq_factor", settings.where());
  }
}

double yarn_magnitude(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

void read_yarn(const JsonView& settings, const RopeDefaults& defaults, RopeConfig& rope) {
  rope.original_max_positions = read_original_positions(settings, defaults);
  const auto factor = settings.find("factor");
  const double of_contexts = static_cast<double>(defaults.max_positions) / rope.original_max_positions;
  rope.factor = factor ? factor->as_number(1.0, kMaxFactor) : std::max(1.0, of_contexts);
  rope.yarn.beta_fast = settings.number_or("beta_fast", 32.0, 1e-3, kMaxFactor);
  rope.yarn.beta_slow = settings.number_or("beta_slow", 1.0, 1e-3, kMaxFactor);
  const auto truncate = settings.find("truncate");
  rope.yarn.truncate = !truncate || truncate->as_bool();
  const double mscale = settings.number_or("mscale", 0.0, 0.0, kMaxFactor);
  rope.yarn.mscale_all_dim = settings.number_or("mscale_all_dim", 0.0, 0.0, kMaxFactor);
  const bool has_both = mscale != 0.0 && rope.yarn.mscale_all_dim != 0.0;
  rope.magnitude =
      has_both ? yarn_magnitude(rope.factor, mscale) / yarn_magnitude(rope.factor, rope.yarn.mscale_all_dim)
               : yarn_magnitude(rope.factor, 1.0);
  rope.magnitude = settings.number_or("attention_factor", rope.magnitude, 1e-6, kMaxFactor);
}

std::vector<float> read_factors(const JsonView& settings, std::string_view name) {
  const JsonView list = settings.at(name);
  if (!list.is_array() || list.elements().size() > kMaxFactors) {
    throw Error(ErrorCode::format, "{} must be a list of at most {} numbers", list.where(), kMaxFactors);
  }
  std::vector<float> factors;
  for (const JsonView& factor : list.items())
    factors.push_back(static_cast<float>(factor.as_number(1e-3, kMaxFactor)));
  return factors;
}

void read_longrope(const JsonView& settings, const RopeDefaults& defaults, RopeConfig& rope) {
  rope.original_max_positions = read_original_positions(settings, defaults);
  rope.longrope.factors = read_factors(settings, "long_factor");
  rope.longrope.short_factors = read_factors(settings, "short_factor");
  const auto factor = settings.find("factor");
  const double ratio = factor ? factor->as_number(1e-3, kMaxFactor)
                              : static_cast<double>(defaults.max_positions) / rope.original_max_positions;
  rope.factor = std::max(ratio, 1.0);
  const double of_context = std::log(static_cast<double>(rope.original_max_positions));
  const double magnitude =
      ratio <= 1.0 || of_context == 0.0 ? 1.0 : std::sqrt(1.0 + std::log(ratio) / of_context);
  rope.magnitude = settings.number_or("attention_factor", magnitude, 1e-6, kMaxFactor);
  rope.short_magnitude = settings.number_or("short_mscale", rope.magnitude, 1e-6, kMaxFactor);
  rope.magnitude = settings.number_or("long_mscale", rope.magnitude, 1e-6, kMaxFactor);
}

// Reads one settings object of either spelling. `base` holds the values outside of it.
RopeConfig read_settings(const JsonView& settings, const RopeDefaults& defaults, RopeConfig base) {
  if (!settings.is_object()) throw Error(ErrorCode::format, "{} must be an object", settings.where());
  base.theta = settings.number_or("rope_theta", base.theta, kMinTheta, kMaxTheta);
  base.partial_factor = settings.number_or("partial_rotary_factor", base.partial_factor, 1e-3, 1.0);
  base.kind = read_kind(settings);
  switch (base.kind) {
    case RopeKind::plain:
      break;
    case RopeKind::linear:
      base.factor = settings.at("factor").as_number(1.0, kMaxFactor);
      break;
    case RopeKind::llama3:
      base.factor = settings.at("factor").as_number(1.0, kMaxFactor);
      read_llama3(settings, base);
      break;
    case RopeKind::yarn:
      read_yarn(settings, defaults, base);
      break;
    case RopeKind::longrope:
      read_longrope(settings, defaults, base);
      break;
    case RopeKind::dynamic:
      base.alpha = settings.number_or("alpha", 0.0, 0.0, kMaxFactor);
      break;
    case RopeKind::proportional:
      base.factor = settings.number_or("factor", 1.0, 1e-3, kMaxFactor);
      break;
  }
  return base;
}

bool is_by_layer_type(const JsonView& settings) {
  if (!settings.is_object() || settings.has("rope_type") || settings.has("type")) return false;
  for (const auto& [key, value] : settings.members()) {
    if (value.as_object() != nullptr) return true;
  }
  return false;
}

// Returns the settings of a layer type, if the model distinguishes layer types.
JsonView settings_of(const JsonView& settings, std::string_view layer_type) {
  return !layer_type.empty() && is_by_layer_type(settings) ? settings.at(layer_type) : settings;
}

// YaRN: returns the dimension whose frequency makes `turns` rotations within the original context.
double correction_dim(const RopeConfig& rope, double turns, int32_t rotary_dim) {
  const double context = static_cast<double>(rope.original_max_positions);
  return rotary_dim * std::log(context / (turns * 2.0 * std::numbers::pi)) / (2.0 * std::log(rope.theta));
}

float mix_yarn(const RopeConfig& rope, float frequency, int32_t index, int32_t rotary_dim) {
  double low = correction_dim(rope, rope.yarn.beta_fast, rotary_dim);
  double high = correction_dim(rope, rope.yarn.beta_slow, rotary_dim);
  if (rope.yarn.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(rotary_dim - 1));
  if (low == high) high += 0.001;
  const double ramp = std::clamp((index - low) / (high - low), 0.0, 1.0);
  const auto kept = static_cast<float>(1.0 - ramp);
  return frequency / static_cast<float>(rope.factor) * (1.0f - kept) + frequency * kept;
}

// Llama 3 scaling: frequencies with fewer than low_freq_factor rotations within the original context are
// divided by the factor, frequencies with more than high_freq_factor stay, and those between are
// interpolated.
float smooth_llama3(const RopeConfig& rope, float frequency) {
  const auto context = static_cast<float>(rope.original_max_positions);
  const auto factor = static_cast<float>(rope.factor);
  const auto low_wavelength = static_cast<float>(rope.original_max_positions / rope.llama3.low_freq_factor);
  const auto high_wavelength = static_cast<float>(rope.original_max_positions / rope.llama3.high_freq_factor);
  const float wavelength = static_cast<float>(2.0 * std::numbers::pi) / frequency;
  if (wavelength < high_wavelength) return frequency;
  if (wavelength > low_wavelength) return frequency / factor;
  const float smooth = (context / wavelength - static_cast<float>(rope.llama3.low_freq_factor)) /
                       static_cast<float>(rope.llama3.high_freq_factor - rope.llama3.low_freq_factor);
  return (1.0f - smooth) * frequency / factor + smooth * frequency;
}

}  // namespace

RopeConfig read_rope_config(const ConfigFields& fields, const RopeDefaults& defaults,
                            std::string_view layer_type) {
  RopeConfig base;
  base.theta = defaults.of_list ? defaults.theta
                                : fields.number_or({"rope_theta", "rotary_emb_base"}, defaults.theta,
                                                   kMinTheta, kMaxTheta);
  base.partial_factor =
      fields.number_or({"partial_rotary_factor", "rotary_pct"}, defaults.partial_factor, 1e-3, 1.0);
  const auto parameters = fields.find("rope_parameters");
  const auto scaling = fields.find("rope_scaling");
  if (!parameters && !scaling) return base;
  RopeDefaults known = defaults;
  // Phi writes the original context next to the settings, not inside them.
  known.original_max_positions = fields.int_or({{"original_max_position_embeddings"}, 1, INT32_MAX}, 0);
  const JsonView chosen = settings_of(parameters ? *parameters : *scaling, layer_type);
  const RopeConfig rope = read_settings(chosen, known, base);
  if (parameters && scaling) {
    const JsonView second = settings_of(*scaling, layer_type);
    RopeConfig other = read_settings(second, known, base);
    if (!second.has("rope_theta")) other.theta = rope.theta;
    if (!second.has("partial_rotary_factor")) other.partial_factor = rope.partial_factor;
    if (other != rope) {
      throw Error(ErrorCode::format, "{} and {} disagree", parameters->where(), scaling->where());
    }
  }
  return rope;
}

bool has_rope_by_layer_type(const ConfigFields& fields) {
  const auto parameters = fields.find("rope_parameters");
  return parameters && is_by_layer_type(*parameters);
}

double yarn_attention_factor(const RopeConfig& rope) {
  if (rope.kind != RopeKind::yarn || rope.yarn.mscale_all_dim == 0.0) return 1.0;
  const double magnitude = yarn_magnitude(rope.factor, rope.yarn.mscale_all_dim);
  return magnitude * magnitude;
}

std::vector<float> inverse_frequencies(const RopeConfig& rope, int32_t rotary_dim, bool is_short) {
  std::vector<float> frequencies;
  frequencies.reserve(static_cast<size_t>(rotary_dim) / 2);
  const double exponent_of_base = rotary_dim > 2 ? rotary_dim / (rotary_dim - 2.0) : 1.0;
  const double theta = rope.alpha > 0.0 ? rope.theta * std::pow(rope.alpha, exponent_of_base) : rope.theta;
  const auto turning =
      static_cast<int32_t>(rope.partial_factor * rotary_dim / 2.0);  // kind `proportional` only
  for (int32_t i = 0; i < rotary_dim; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(rotary_dim);
    float frequency = 1.0f / std::pow(static_cast<float>(theta), exponent);
    if (rope.kind == RopeKind::linear) frequency /= static_cast<float>(rope.factor);
    if (rope.kind == RopeKind::llama3) frequency = smooth_llama3(rope, frequency);
    if (rope.kind == RopeKind::yarn) frequency = mix_yarn(rope, frequency, i / 2, rotary_dim);
    if (rope.kind == RopeKind::longrope)
      frequency /=
          (is_short ? rope.longrope.short_factors : rope.longrope.factors)[static_cast<size_t>(i / 2)];
    if (rope.kind == RopeKind::proportional)
      frequency = i / 2 < turning ? frequency / static_cast<float>(rope.factor) : 0.0f;
    frequencies.push_back(frequency);
  }
  return frequencies;
}

}  // namespace quire
