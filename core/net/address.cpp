#include "core/net/address.h"

#include <algorithm>
#include <charconv>

#include <fmt/core.h>

#include "core/base/error.h"

namespace quire {
namespace {

constexpr size_t kMaxHostBytes = 253;  // of a DNS name

bool is_host_symbol(char symbol) {
  const bool is_letter = (symbol >= 'a' && symbol <= 'z') || (symbol >= 'A' && symbol <= 'Z');
  return is_letter || (symbol >= '0' && symbol <= '9') || symbol == '.' || symbol == '-' || symbol == '_';
}

bool is_host(std::string_view text, bool is_ipv6) {
  if (text.empty() || text.size() > kMaxHostBytes) return false;
  return std::all_of(text.begin(), text.end(), [is_ipv6](char symbol) {
    return is_host_symbol(symbol) || (is_ipv6 && (symbol == ':' || symbol == '%'));
  });
}

}  // namespace

std::string NetAddress::text() const {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return is_ipv6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

NetAddress parse_address(std::string_view text, bool allows_any_port) {
  const size_t colon = text.rfind(':');
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  const bool has_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (has_brackets) host = host.substr(1, host.size() - 2);
  NetAddress address{std::string(host)};
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), address.port);
  const bool is_port = !digits.empty() && read.ec == std::errc() && read.ptr == digits.data() + digits.size();
  if (is_host(host, has_brackets) && is_port && (address.port != 0 || allows_any_port)) return address;
  throw Error(ErrorCode::invalid_argument,
              "\"{}\" is not an address; use HOST:PORT such as 10.0.0.2:7430 or [fe80::2]:7430",
              printable(text));
}

}  // namespace quire
