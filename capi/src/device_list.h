// Lists in the text of options: devices, layers of each, bytes of each.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quire::capi {

// "cuda:0,cuda:1": names, none of them empty. Throws ErrorCode::invalid_argument, as do all here.
std::vector<std::string> parse_devices(std::string_view text);

// Layers of each device, or bytes of each at most; neither: automatically.
struct SplitChoice {
  std::vector<int32_t> layers;
  std::vector<uint64_t> bytes;
};

// "auto"; "20,12" numbers of layers; "24G,512M" bytes.
SplitChoice parse_split(std::string_view text);

// "256M" or "1G,512M": bytes.
std::vector<uint64_t> parse_reserve(std::string_view text);

}  // namespace quire::capi
