// Modules for multi-token prediction (MTP), which a checkpoint has beside the layers of its model.
#pragma once

#include "core/config/config_fields.h"
#include "core/config/draft_network.h"

namespace quire {

// Implements parse_mtp_network. `fields` are those of the target's configuration.
DraftNetworkConfig read_mtp_network(const ConfigFields& fields, const ModelConfig& target);

}  // namespace quire
