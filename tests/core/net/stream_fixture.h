// Streams over a pair of connected sockets, and frames made by hand.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/net/channel.h"
#include "core/net/tcp.h"

namespace quire::testing {

using StreamPair = std::pair<std::shared_ptr<ByteStream>, std::shared_ptr<ByteStream>>;

StreamPair connected_streams();

inline constexpr std::string_view kTestKey = "0123456789abcdef0123456789abcdef";

// Keys of a host and of a stage that have joined.
struct KeyPair {
  SessionKeys host, stage;
};
KeyPair test_keys();

void send_text(ByteStream& stream, std::string_view bytes);
// Receives bytes until the peer ends the connection or nothing comes for the time.
std::string receive_all(ByteStream& stream, Duration patience);

// Returns a frame as a peer sends it. `counter` is its number, from 0.
std::string frame_of(const HmacKey& key, uint64_t counter, uint8_t kind, std::string_view content);

}  // namespace quire::testing
