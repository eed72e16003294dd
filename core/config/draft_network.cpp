#include "core/config/draft_network.h"

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/config/config_fields.h"
#include "core/config/eagle3_network.h"
#include "core/config/mtp_network.h"

namespace quire {
namespace {

// Returns what a layer has that a draft model must not have; empty if there is nothing.
std::string_view foreign_part(const LayerSpec& layer) {
  if (std::holds_alternative<EmptyPart>(layer.mixer)) return {};
  const auto* const attention = std::get_if<AttentionPart>(&layer.mixer);
  return attention == nullptr ? mixer_name(layer.mixer) : std::string_view();
}

}  // namespace

DraftNetworkConfig parse_mtp_network(std::string_view config_text, const ModelConfig& target,
                                     const std::string& where) {
  const JsonValue json = parse_json(config_text, where, kConfigLimits);
  return read_mtp_network(ConfigFields(JsonView(json, where)), target);
}

bool is_eagle3_config(std::string_view config_text, const std::string& directory) {
  const std::string path = path_in(directory, "config.json");
  const JsonValue json = parse_json(config_text, path, kConfigLimits);
  return is_eagle3(JsonView(json, path));
}

DraftNetworkConfig parse_draft_network(std::string_view config_text, const ModelConfig& target,
                                       const std::string& directory) {
  const std::string path = path_in(directory, "config.json");
  const JsonValue json = parse_json(config_text, path, kConfigLimits);
  const JsonView config(json, path);
  if (is_eagle3(config)) return read_eagle3_network(config, target);
  return as_draft_model(parse_model_config(config_text, {}, directory), path);
}

DraftNetworkConfig as_draft_model(ModelConfig model, const std::string& where) {
  for (const LayerSpec& layer : model.spec.layers) {
    const std::string_view part = foreign_part(layer);
    if (part.empty()) continue;
    throw Error(
        ErrorCode::unsupported,
        "{}: layers with {} are not supported in a draft model, only attention; choose another drafter",
        where, part);
  }
  DraftNetworkConfig config;
  config.network = std::move(model);
  return config;
}

std::string name_in_files(const std::vector<NamePrefix>& prefixes, const std::string& name) {
  for (const NamePrefix& prefix : prefixes)
    if (name.starts_with(prefix.from)) return prefix.to + name.substr(prefix.from.size());
  return name;
}

}  // namespace quire
