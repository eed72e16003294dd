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

// Reads bytes such as "256M" or "1G,512M". Throws ErrorCode::invalid_argument for anything else.
std::vector<uint64_t> parse_reserve(std::string_view text);

}  // namespace quire
