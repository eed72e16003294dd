#include "tests/core/net/stream_fixture.h"

#include <array>
#include <sys/socket.h>

#include "core/base/error.h"

namespace quire::testing {

StreamPair connected_streams() {
  std::array<int, 2> sockets{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0) std::abort();
  return {stream_over(FileDescriptor(sockets[0])), stream_over(FileDescriptor(sockets[1]))};
}

KeyPair test_keys() {
  const HmacKey from_host("from the host"), from_stage("from the stage");
  return {{from_host, from_stage}, {from_stage, from_host}};
}

void send_text(ByteStream& stream, std::string_view bytes) {
  stream.send(gsl::as_bytes(gsl::span(bytes.data(), bytes.size())), std::chrono::seconds(10));
}

std::string receive_all(ByteStream& stream, Duration patience) {
  std::string all;
  std::array<std::byte, 4096> bytes{};
  try {
    for (;;) {
      const size_t count = stream.receive(bytes, steady_clock().now() + patience);
      if (count == 0) return all;
      all.append(reinterpret_cast<const char*>(bytes.data()), count);
    }
  } catch (const Error&) {
    return all;
  }
}

std::string frame_of(const HmacKey& key, uint64_t counter, uint8_t kind, std::string_view content) {
  std::string frame;
  for (uint32_t shift = 0; shift < 32; shift += 8)
    frame.push_back(static_cast<char>(static_cast<uint32_t>(content.size()) >> shift));
  frame.push_back(static_cast<char>(kind));
  frame.append(3, '\0').append(content);
  std::string number;
  for (uint32_t shift = 0; shift < 64; shift += 8) number.push_back(static_cast<char>(counter >> shift));
  const Sha256 tag = key.sign({number, frame});
  return frame.append(text_of(gsl::span<const uint8_t>(tag)));
}

}  // namespace quire::testing
