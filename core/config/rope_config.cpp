#include "core/config/rope_config.h"

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
constexpr std::array<KindRow, 3> kKinds = {{
    {"default", RopeKind::plain},
    {"linear", RopeKind::linear},
    {"llama3", RopeKind::llama3},
}};

constexpr double kMinTheta = 1.0;
constexpr double kMaxTheta = 1e12;
constexpr double kMaxFactor = 1e6;

RopeKind read_kind(const JsonView& settings) {
  const auto modern = settings.find("rope_type");
  const auto legacy = settings.find("type");
  if (modern && legacy && modern->as_string() != legacy->as_string()) {
    throw Error(ErrorCode::format, "{} and {} disagree", modern->where(), legacy->where());
  }
  if (!modern && !legacy) {
    for (const auto& [key, value] : settings.members()) {
      if (value.as_object() != nullptr) {
        throw Error(ErrorCode::unsupported,
                    "{}.{}: rotary settings of their own for some layers are not supported", settings.where(),
                    printable(key, 32));
      }
    }
    return RopeKind::plain;
  }
  const JsonView& named = modern ? *modern : *legacy;
  const std::string name = named.as_string();
  for (const KindRow& row : kKinds) {
    if (row.name == name) return row.kind;
  }
  throw Error(ErrorCode::unsupported, "{}: \"{}\" is not supported; supported are default, linear and llama3",
              named.where(), printable(name, 32));
}

void read_llama3(const JsonView& settings, RopeConfig& rope) {
  rope.low_freq_factor = settings.at("low_freq_factor").as_number(1e-3, kMaxFactor);
  rope.high_freq_factor = settings.at("high_freq_factor").as_number(1e-3, kMaxFactor);
  rope.original_max_positions =
      static_cast<int32_t>(settings.at("original_max_position_embeddings").as_int(1, INT32_MAX));
  if (rope.low_freq_factor >= rope.high_freq_factor) {
    throw Error(ErrorCode::format, "{}.low_freq_factor must be below high_freq_factor", settings.where());
  }
}

// One object of either spelling. `base` holds what stands outside of it.
RopeConfig read_settings(const JsonView& settings, RopeConfig base) {
  if (!settings.is_object()) throw Error(ErrorCode::format, "{} must be an object", settings.where());
  base.theta = settings.number_or("rope_theta", base.theta, kMinTheta, kMaxTheta);
  base.partial_factor = settings.number_or("partial_rotary_factor", base.partial_factor, 1e-3, 1.0);
  base.kind = read_kind(settings);
  if (base.kind != RopeKind::plain) base.factor = settings.at("factor").as_number(1.0, kMaxFactor);
  if (base.kind == RopeKind::llama3) read_llama3(settings, base);
  return base;
}

// Frequencies that turn less than low_freq_factor times within the original context are divided by the
// factor, those that turn more than high_freq_factor times stay, and between them it is interpolated.
float smooth_llama3(const RopeConfig& rope, float frequency) {
  const auto context = static_cast<float>(rope.original_max_positions);
  const auto factor = static_cast<float>(rope.factor);
  const auto low_wavelength = static_cast<float>(rope.original_max_positions / rope.low_freq_factor);
  const auto high_wavelength = static_cast<float>(rope.original_max_positions / rope.high_freq_factor);
  const float wavelength = static_cast<float>(2.0 * std::numbers::pi) / frequency;
  if (wavelength < high_wavelength) return frequency;
  if (wavelength > low_wavelength) return frequency / factor;
  const float smooth = (context / wavelength - static_cast<float>(rope.low_freq_factor)) /
                       static_cast<float>(rope.high_freq_factor - rope.low_freq_factor);
  return (1.0f - smooth) * frequency / factor + smooth * frequency;
}

}  // namespace

RopeConfig read_rope_config(const ConfigFields& fields, double default_theta) {
  RopeConfig base;
  base.theta = fields.number_or({"rope_theta"}, default_theta, kMinTheta, kMaxTheta);
  base.partial_factor = fields.number_or({"partial_rotary_factor"}, 1.0, 1e-3, 1.0);
  const auto parameters = fields.find("rope_parameters");
  const auto scaling = fields.find("rope_scaling");
  if (!parameters && !scaling) return base;
  const RopeConfig rope = read_settings(parameters ? *parameters : *scaling, base);
  if (parameters && scaling) {
    RopeConfig other = read_settings(*scaling, base);
    if (!scaling->has("rope_theta")) other.theta = rope.theta;
    if (other != rope) {
      throw Error(ErrorCode::format, "{} and {} disagree", parameters->where(), scaling->where());
    }
  }
  return rope;
}

std::vector<float> inverse_frequencies(const RopeConfig& rope, int32_t rotary_dim) {
  std::vector<float> frequencies;
  frequencies.reserve(static_cast<size_t>(rotary_dim) / 2);
  for (int32_t i = 0; i < rotary_dim; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(rotary_dim);
    float frequency = 1.0f / std::pow(static_cast<float>(rope.theta), exponent);
    if (rope.kind == RopeKind::linear) frequency /= static_cast<float>(rope.factor);
    if (rope.kind == RopeKind::llama3) frequency = smooth_llama3(rope, frequency);
    frequencies.push_back(frequency);
  }
  return frequencies;
}

}  // namespace quire
