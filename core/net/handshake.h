// How two processes that share a key prove it to each other, and agree on the keys of one connection.
#pragma once

#include <string>
#include <string_view>

#include "core/base/file_system.h"
#include "core/net/byte_stream.h"
#include "core/net/hmac.h"

namespace quire {

// Changes whenever a message of the protocol changes.
inline constexpr uint32_t kProtocolVersion = 2;

// Part that a process has in a connection. A host connects to a stage.
enum class PeerRole : uint8_t { host, stage };

// Keys of one connection, one for each direction.
struct SessionKeys {
  HmacKey send, receive;
};

// Reads a key of 32 to 4,096 bytes; white space at its ends does not count. Throws
// ErrorCode::invalid_argument for another size, and the errors of reading.
std::string read_key_file(const FileSystem& files, const std::string& path);

// Both sides send a random number, and prove by HMAC over both numbers that they have the key. The key itself
// is never sent. Throws ErrorCode::invalid_argument if the peer has another key, ErrorCode::version if it has
// another version of the protocol, ErrorCode::unsupported if it is something else, and ErrorCode::device_lost
// if it does not answer until the deadline.
SessionKeys shake_hands(ByteStream& stream, std::string_view key, PeerRole own_role, TimePoint deadline);

}  // namespace quire
