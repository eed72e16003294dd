#include "core/net/handshake.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "core/base/white_space.h"

namespace quire {
namespace {

constexpr std::string_view kMagic = "QUIRESTG";
constexpr size_t kNonceBytes = 32;
constexpr size_t kProofBytes = 32;
constexpr size_t kHelloBytes = kMagic.size() + sizeof(uint32_t) + kNonceBytes;
constexpr size_t kMinKeyBytes = 32;
constexpr size_t kMaxKeyBytes = 4096;

using Hello = std::array<uint8_t, kHelloBytes>;
using Proof = std::array<uint8_t, kProofBytes>;

Hello make_hello() {
  Hello hello{};
  auto next = std::copy(kMagic.begin(), kMagic.end(), hello.begin());
  for (uint32_t shift = 0; shift < 32; shift += 8) *next++ = static_cast<uint8_t>(kProtocolVersion >> shift);
  const std::array<uint8_t, kNonceBytes> nonce = random_bytes();
  std::copy(nonce.begin(), nonce.end(), next);
  return hello;
}

template <size_t kBytes>
void send(ByteStream& stream, const std::array<uint8_t, kBytes>& bytes, TimePoint deadline) {
  stream.send(gsl::as_bytes(gsl::span(bytes)), deadline - steady_clock().now());
}

template <size_t kBytes>
std::array<uint8_t, kBytes> receive(ByteStream& stream, TimePoint deadline) {
  std::array<uint8_t, kBytes> bytes{};
  gsl::span<std::byte> rest = gsl::as_writable_bytes(gsl::span(bytes));
  while (!rest.empty()) {
    const size_t count = stream.receive(rest, deadline);
    if (count == 0) throw Error(ErrorCode::device_lost, "it does not answer");
    rest = rest.subspan(count);
  }
  return bytes;
}

void require_protocol(const Hello& hello) {
  if (!std::equal(kMagic.begin(), kMagic.end(), hello.begin()))
    throw Error(ErrorCode::unsupported, "it is not a process of Quire");
  uint32_t version = 0;
  for (size_t i = 0; i < sizeof version; ++i) version |= uint32_t{hello[kMagic.size() + i]} << (8 * i);
  if (version == kProtocolVersion) return;
  throw Error(ErrorCode::version,
              "it has version {} of the protocol, this process has {}; install one release on both", version,
              kProtocolVersion);
}

// The numbers of both sides, and what is signed over them.
struct Exchange {
  HmacKey key;
  Hello of_host, of_stage;

  Sha256 sign(std::string_view purpose) const {
    return key.sign(
        {purpose, text_of(gsl::span<const uint8_t>(of_host)), text_of(gsl::span<const uint8_t>(of_stage))});
  }
  Sha256 proof_of(PeerRole role) const {
    return sign(role == PeerRole::host ? "quire proof of the host" : "quire proof of the stage");
  }
  HmacKey key_from(PeerRole role) const {
    const Sha256 secret =
        sign(role == PeerRole::host ? "quire key from the host" : "quire key from the stage");
    return HmacKey(text_of(gsl::span<const uint8_t>(secret)));
  }
};

void require_proof(const Proof& proof, const Sha256& expected) {
  if (equal_in_constant_time(proof, expected)) return;
  throw Error(ErrorCode::invalid_argument, "it has another key; give both processes the same key file");
}

Exchange shake_as_host(ByteStream& stream, std::string_view key, TimePoint deadline) {
  Exchange exchange{HmacKey(key), make_hello(), {}};
  send(stream, exchange.of_host, deadline);
  exchange.of_stage = receive<kHelloBytes>(stream, deadline);
  require_protocol(exchange.of_stage);
  require_proof(receive<kProofBytes>(stream, deadline), exchange.proof_of(PeerRole::stage));
  send(stream, exchange.proof_of(PeerRole::host), deadline);
  return exchange;
}

// A host with another version gets the version of this process before the connection ends.
Exchange shake_as_stage(ByteStream& stream, std::string_view key, TimePoint deadline) {
  Exchange exchange{HmacKey(key), {}, make_hello()};
  exchange.of_host = receive<kHelloBytes>(stream, deadline);
  if (!std::equal(kMagic.begin(), kMagic.end(), exchange.of_host.begin()))
    throw Error(ErrorCode::unsupported, "it is not a process of Quire");
  send(stream, exchange.of_stage, deadline);
  require_protocol(exchange.of_host);
  send(stream, exchange.proof_of(PeerRole::stage), deadline);
  require_proof(receive<kProofBytes>(stream, deadline), exchange.proof_of(PeerRole::host));
  return exchange;
}

}  // namespace

std::string read_key_file(const FileSystem& files, const std::string& path) {
  std::string key(trimmed(files.read_text(path, kMaxKeyBytes)));
  if (key.size() >= kMinKeyBytes) return key;
  throw Error(ErrorCode::invalid_argument,
              "{}: the key has {} bytes; it must have {} to {}, such as those of: openssl rand -hex 32", path,
              key.size(), kMinKeyBytes, kMaxKeyBytes);
}

SessionKeys shake_hands(ByteStream& stream, std::string_view key, PeerRole own_role, TimePoint deadline) {
  const bool is_host = own_role == PeerRole::host;
  const Exchange exchange =
      is_host ? shake_as_host(stream, key, deadline) : shake_as_stage(stream, key, deadline);
  const PeerRole other = is_host ? PeerRole::stage : PeerRole::host;
  return {exchange.key_from(own_role), exchange.key_from(other)};
}

}  // namespace quire
