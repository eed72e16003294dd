// Weights that follow from a formula, so that a tiny model of each family takes ten kilobytes. An element of
// a tensor is a pseudorandom number that depends on the name of the tensor and on the index of the element.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quire::testing {

// Returns the names that a name with ranges denotes: `layers.{0-1}.weight` denotes two. Several ranges denote
// every combination.
std::vector<std::string> expand_ranges(std::string_view name);

// Returns the first outputs of the generator of a tensor: splitmix64 that starts at the FNV-1a hash of the
// name.
std::vector<uint64_t> derived_bits(std::string_view name, size_t count);

// Returns the first elements of a tensor as the bits of bf16 numbers between offset - scale and offset +
// scale.
std::vector<uint16_t> derived_bf16(std::string_view name, size_t count, float offset, float scale);

// Returns the safetensors file that a `tensors.json` describes: a row `"name": [shape, dtype, offset, scale]`
// for each tensor or range of tensors, or `[shape, dtype, [elements]]`. Throws std::runtime_error for a row
// that has another form.
std::string derived_safetensors(const std::string& tensors_json);

}  // namespace quire::testing
