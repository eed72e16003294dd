// Writes what a host has counted for its stages in the Prometheus text format.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/stages/stage_host.h"

namespace quire {

// Returns the families of the stages, with the label stage (its name). Empty if there are none.
std::string format_stage_metrics(const std::vector<std::shared_ptr<StageHost>>& stages);

}  // namespace quire
