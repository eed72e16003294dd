// Addresses of other processes: HOST:PORT.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace quire {

struct NetAddress {
  std::string host;  // a name or a number; an IPv6 number has no brackets here
  uint16_t port = 0;
  // Returns "HOST:PORT", with brackets around an IPv6 number.
  std::string text() const;
  bool operator==(const NetAddress&) const = default;
};

// Reads "HOST:PORT" or "[IPV6]:PORT". Throws ErrorCode::invalid_argument for anything else. Port 0 is allowed
// only with `allows_any_port`: a listener then takes a free one.
NetAddress parse_address(std::string_view text, bool allows_any_port = false);

}  // namespace quire
