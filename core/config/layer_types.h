// Kinds of layers, as config.json lists them for a model.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/config/architecture.h"
#include "core/config/config_fields.h"

namespace quire {

enum class LayerType : uint8_t {
  full,
  sliding,
  chunked,
  recurrent,  // a mixer with a state in place of attention
  mlp,        // a dense feed-forward part alone
  experts,    // experts alone
};

constexpr bool has_attention(LayerType type) {
  return type <= LayerType::chunked;
}

// Returns the number of listed layers, for a family that has a list in place of a number; 0 if there is none.
size_t num_listed_layers(const ConfigFields& fields, const ArchitectureSpec& row);

// Returns the listed type of each layer; nothing if there is no list. Throws ErrorCode::format if the list
// has another length, and ErrorCode::unsupported naming a word that the family does not have.
std::optional<std::vector<LayerType>> listed_layer_types(const ConfigFields& fields,
                                                         const ArchitectureSpec& row, size_t num_layers);

// Returns the entries of a list, one for each layer. Entries of layers that predict later tokens
// (num_nextn_predict_layers) may follow and are left out. Throws ErrorCode::format for another length.
std::vector<JsonView> layer_entries(const JsonView& list, const ConfigFields& fields, size_t num_layers);

}  // namespace quire
