// Writes the statistics of a runtime's models and memory in the Prometheus text format.
#pragma once

#include <string>

namespace quire {

class Runtime;

// Returns the families of the models, with the labels model (its path) and number, and the leased bytes of
// each device, with the labels device and taker. Empty if there are no models and no leases.
std::string format_residency_metrics(const Runtime& runtime);

}  // namespace quire
