#include "core/sampling/presets.h"

#include <array>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/json.h"

namespace quire {
namespace {

struct Preset {
  std::string_view name;
  void (*apply)(SamplingSettings& settings);
};

constexpr std::array<Preset, 5> kPresets = {{
    {"neutral", [](SamplingSettings&) {}},
    {"greedy", [](SamplingSettings& settings) { settings.temperature = 0.0F; }},
    {"precise",
     [](SamplingSettings& settings) {
       settings.temperature = 0.3F;
       settings.top_p = 0.9F;
     }},
    {"balanced",
     [](SamplingSettings& settings) {
       settings.temperature = 0.8F;
       settings.min_p = 0.05F;
     }},
    {"creative",
     [](SamplingSettings& settings) {
       settings.temperature = 1.1F;
       settings.min_p = 0.02F;
       settings.xtc_probability = 0.5F;
       settings.xtc_threshold = 0.1F;
       settings.dry_multiplier = 0.8F;
     }},
}};

// Some files use 0 for top_p and typical_p to switch them off; the settings use 1.
float mass_or_off(const JsonView& config, std::string_view key) {
  const double mass = config.number_or(key, 1.0, 0.0, 1.0);
  return mass == 0.0 ? 1.0F : static_cast<float>(mass);
}

float number(const JsonView& config, std::string_view key, double neutral, double min, double max) {
  return static_cast<float>(config.number_or(key, neutral, min, max));
}

}  // namespace

SamplingSettings sampling_preset(std::string_view name) {
  std::string names;
  for (const Preset& preset : kPresets) {
    if (preset.name == name) {
      SamplingSettings settings;
      preset.apply(settings);
      return settings;
    }
    names += fmt::format("{}{}", names.empty() ? "" : ", ", preset.name);
  }
  throw Error(ErrorCode::invalid_argument, "there is no sampling preset \"{}\"; choose one of {}", name,
              names)
      .at("sampling_preset");
}

std::optional<SamplingSettings> sampling_from_generation_config(std::string_view text,
                                                                const std::string& source) {
  const JsonValue parsed = parse_json(text, source, {.python_numbers = true});
  const JsonView config(parsed, source);
  if (!config.has("do_sample")) return std::nullopt;
  SamplingSettings settings;
  if (!config.bool_or("do_sample", false)) {
    settings.temperature = 0.0F;
  } else {
    settings.temperature = number(config, "temperature", 1.0, 0.0, 100.0);
    settings.top_k = static_cast<int32_t>(config.int_or("top_k", 0, 0, 1 << 30));
    settings.top_p = mass_or_off(config, "top_p");
    settings.min_p = number(config, "min_p", 0.0, 0.0, 1.0);
    settings.typical = mass_or_off(config, "typical_p");
    settings.top_n_sigma = number(config, "top_n_sigma", 0.0, 0.0, 1000.0);
  }
  settings.repetition_penalty = number(config, "repetition_penalty", 1.0, 0.01, 100.0);
  return settings;
}

}  // namespace quire
