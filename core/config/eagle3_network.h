// EAGLE-3 networks: one layer, or a few, that read states of several layers of the target. Two spellings of
// config.json: that of SpecForge and SGLang, and that of the package `speculators`.
#pragma once

#include <string>

#include "core/base/json.h"
#include "core/config/draft_network.h"

namespace quire {

// Returns whether this is the configuration of such a network. Throws ErrorCode::unsupported for other
// networks of the package `speculators`, and for other versions of EAGLE.
bool is_eagle3(const JsonView& config);

// Implements parse_draft_network for it.
DraftNetworkConfig read_eagle3_network(const JsonView& config, const ModelConfig& target);

}  // namespace quire
