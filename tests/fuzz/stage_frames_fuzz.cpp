// Bytes that a stranger sends to a stage or a host, before and after the handshake: the connection ends, and
// nothing is received that the key did not sign. The first byte of the input selects the state.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "core/base/error.h"
#include "core/net/channel.h"

namespace {

using namespace quire;

void require(bool condition) {
  if (!condition) std::abort();
}

// A stream that has these bytes and ends.
class EndingStream final : public ByteStream {
 public:
  explicit EndingStream(gsl::span<const uint8_t> bytes) : rest_(bytes) {}
  void send(gsl::span<const std::byte>, Duration) override {}
  size_t receive(gsl::span<std::byte> out, TimePoint) override {
    if (rest_.empty()) throw Error(ErrorCode::device_lost, "it ended the connection");
    const size_t count = std::min(out.size(), rest_.size());
    std::memcpy(out.data(), rest_.data(), count);
    rest_ = rest_.subspan(count);
    return count;
  }
  void shut_down() noexcept override {}

 private:
  gsl::span<const uint8_t> rest_;
};

void shake(gsl::span<const uint8_t> bytes, PeerRole role) {
  EndingStream stream(bytes);
  try {
    (void)shake_hands(stream, "0123456789abcdef0123456789abcdef", role,
                      steady_clock().now() + std::chrono::hours(1));
    require(false);  // an HMAC of a random number cannot be guessed
  } catch (const Error& error) {
    require(error.code() != ErrorCode::internal);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t num_bytes) {
  if (num_bytes == 0) return 0;
  const auto bytes = gsl::span(data, num_bytes).subspan(1);
  if (data[0] % 3 == 1) shake(bytes, PeerRole::host);
  if (data[0] % 3 == 2) shake(bytes, PeerRole::stage);
  if (data[0] % 3 != 0) return 0;
  const HmacKey key("key");
  Channel channel(std::make_shared<EndingStream>(bytes), {key, key}, {});
  try {
    (void)channel.receive();
    require(false);
  } catch (const Error& error) {
    require(error.code() == ErrorCode::device_lost);
  }
  return 0;
}
