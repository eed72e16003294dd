// The figures of a runtime's models and memory as a part of a page for a monitoring system.
#pragma once

#include <string>

namespace quire {

class Runtime;

// Families of the models, with the labels model (its path) and number, and of the bytes that were given away
// on each device, with the labels device and taker. Empty where there are neither.
std::string format_residency_metrics(const Runtime& runtime);

}  // namespace quire
