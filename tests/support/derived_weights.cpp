#include "tests/support/derived_weights.h"

#include <bit>
#include <cstring>
#include <stdexcept>

#include "tests/support/json_text.h"
#include "tests/support/safetensors_builder.h"

namespace quire::testing {
namespace {

uint64_t fnv1a(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// Rounds to nearest, ties to even.
uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t is_odd = bits >> 16 & 1;
  return static_cast<uint16_t>((bits + 0x7fff + is_odd) >> 16);
}

size_t num_elements(const std::vector<int64_t>& shape) {
  size_t count = 1;
  for (const int64_t size : shape) count *= static_cast<size_t>(size);
  return count;
}

// Adds a tensor of the formula. F32 tensors have the values of bf16 numbers too.
void add_derived(SafetensorsBuilder& file, const std::string& name, const Json& row) {
  const auto shape = row[0].get<std::vector<int64_t>>();
  const std::vector<uint16_t> halves =
      derived_bf16(name, num_elements(shape), row[2].get<float>(), row[3].get<float>());
  if (row[1] == "BF16") {
    file.add(name, "BF16", shape, halves);
  } else if (row[1] == "F32") {
    std::vector<uint32_t> bits;
    for (const uint16_t half : halves) bits.push_back(uint32_t{half} << 16);
    file.add(name, "F32", shape, bits);
  } else {
    throw std::runtime_error(name + ": derived elements are BF16 or F32");
  }
}

void add_stored(SafetensorsBuilder& file, const std::string& name, const Json& row) {
  if (row[1] != "I64") throw std::runtime_error(name + ": stored elements are I64");
  file.add(name, "I64", row[0].get<std::vector<int64_t>>(), row[2].get<std::vector<int64_t>>());
}

}  // namespace

std::vector<std::string> expand_ranges(std::string_view name) {
  const size_t open = name.find('{');
  if (open == std::string_view::npos) return {std::string(name)};
  const size_t dash = name.find('-', open), close = name.find('}', open);
  if (close == std::string_view::npos || dash > close)
    throw std::runtime_error("a range that is not {first-last}: " + std::string(name));
  const int first = std::stoi(std::string(name.substr(open + 1, dash - open - 1)));
  const int last = std::stoi(std::string(name.substr(dash + 1, close - dash - 1)));
  const std::string start(name.substr(0, open));
  const std::vector<std::string> ends = expand_ranges(name.substr(close + 1));
  std::vector<std::string> names;
  for (int number = first; number <= last; ++number)
    for (const std::string& end : ends) names.push_back(start + std::to_string(number) + end);
  return names;
}

std::vector<uint64_t> derived_bits(std::string_view name, size_t count) {
  uint64_t state = fnv1a(name);
  std::vector<uint64_t> outputs;
  outputs.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    state += 0x9e3779b97f4a7c15;
    uint64_t z = state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    outputs.push_back(z ^ z >> 31);
  }
  return outputs;
}

std::vector<uint16_t> derived_bf16(std::string_view name, size_t count, float offset, float scale) {
  constexpr float kTwoTo23 = 8388608.0F;
  std::vector<uint16_t> elements;
  elements.reserve(count);
  for (const uint64_t output : derived_bits(name, count)) {
    const float uniform = static_cast<float>(output >> 40) / kTwoTo23 - 1.0F;
    elements.push_back(to_bf16(offset + scale * uniform));
  }
  return elements;
}

std::string derived_safetensors(const std::string& tensors_json) {
  SafetensorsBuilder file;
  const Json rows = Json::parse(tensors_json);
  for (const auto& [names, row] : rows.items()) {
    if (row.size() != 3 && row.size() != 4) throw std::runtime_error(names + ": the row has another length");
    for (const std::string& name : expand_ranges(names)) {
      if (row.size() == 4) {
        add_derived(file, name, row);
      } else {
        add_stored(file, name, row);
      }
    }
  }
  return file.build();
}

}  // namespace quire::testing
