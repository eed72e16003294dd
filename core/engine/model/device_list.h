// Lists in the text of options: device names, layers of each device, bytes of each device.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

// Returns the names in a list such as "cuda:0,cuda:1". Throws ErrorCode::invalid_argument if a name is empty.
std::vector<std::string> parse_devices(std::string_view text);

// Number of layers of each device, or maximum bytes on each device. Both are empty for an automatic split.
struct SplitChoice {
  std::vector<int32_t> layers;
  std::vector<uint64_t> bytes;
};

// Reads "auto", numbers of layers such as "20,12", or bytes such as "24G,512M". Throws
// ErrorCode::invalid_argument for anything else.
SplitChoice parse_split(std::string_view text);

// Layers whose experts lie in host memory while the layers are on a card.
struct HostExpertsChoice {
  bool is_automatic = false;  // as few as the cards need
  int32_t num_layers = 0;     // the first ones with experts, if not automatic; INT32_MAX: all

  bool any() const { return is_automatic || num_layers > 0; }
};

// Reads "none", an empty text for the same, "all", "auto" or a number of layers. Throws
// ErrorCode::invalid_argument for anything else.
HostExpertsChoice parse_host_experts(std::string_view text);

// Reads bytes such as "256M" or "1G,512M". Throws ErrorCode::invalid_argument for anything else.
std::vector<uint64_t> parse_reserve(std::string_view text);

}  // namespace quire
