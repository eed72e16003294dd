// A host and a stage with one key agree on keys of the connection; anything else is refused in bounded time.
#include "core/net/handshake.h"

#include <future>
#include <random>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/net/stream_fixture.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_directory.h"

namespace quire::testing {
namespace {

constexpr Duration kPatience = std::chrono::seconds(20);
constexpr size_t kHelloBytes = 44;

TimePoint soon() {
  return steady_clock().now() + kPatience;
}

std::future<SessionKeys> shake(const std::shared_ptr<ByteStream>& stream, std::string_view key, PeerRole role,
                               Duration patience = kPatience) {
  return std::async(std::launch::async, [=] {
    const auto end = gsl::finally([&] { stream->shut_down(); });
    return shake_hands(*stream, key, role, steady_clock().now() + patience);
  });
}

TEST(Handshake, GivesBothSidesTheSameKeys) {
  const auto [a, b] = connected_streams();
  auto stage = std::async(std::launch::async,
                          [&stream = *b] { return shake_hands(stream, kTestKey, PeerRole::stage, soon()); });
  const SessionKeys host = shake_hands(*a, kTestKey, PeerRole::host, soon());
  const SessionKeys other = stage.get();
  EXPECT_EQ(host.send.sign({"x"}), other.receive.sign({"x"}));
  EXPECT_EQ(host.receive.sign({"x"}), other.send.sign({"x"}));
  EXPECT_NE(host.send.sign({"x"}), host.receive.sign({"x"}));
}

TEST(Handshake, KeysDifferBetweenConnections) {
  std::vector<Sha256> codes;
  for (int i = 0; i < 2; ++i) {
    const auto [a, b] = connected_streams();
    auto stage = shake(b, kTestKey, PeerRole::stage);
    codes.push_back(shake_hands(*a, kTestKey, PeerRole::host, soon()).send.sign({"x"}));
    (void)stage.get();
  }
  EXPECT_NE(codes[0], codes[1]);
}

TEST(Handshake, RefusesAnotherKey) {
  const auto [a, b] = connected_streams();
  auto stage = shake(b, "another key of at least 32 bytes!", PeerRole::stage);
  auto host = shake(a, kTestKey, PeerRole::host);
  expect_error(ErrorCode::invalid_argument, {"another key", "key file"}, [&] { (void)host.get(); });
  EXPECT_THROW((void)stage.get(), Error);
}

// Someone without the key who sends the stage's own messages back.
TEST(Handshake, RefusesAReflection) {
  const auto [a, b] = connected_streams();
  auto host = shake(a, kTestKey, PeerRole::host);
  std::string hello(kHelloBytes, '\0');
  ASSERT_EQ(b->receive(gsl::as_writable_bytes(gsl::span(hello)), soon()), kHelloBytes);
  send_text(*b, hello + std::string(32, 'x'));
  expect_error(ErrorCode::invalid_argument, {"another key"}, [&] { (void)host.get(); });
}

// Messages of an earlier connection prove nothing in a new one.
TEST(Handshake, RefusesAReplay) {
  std::string heard;
  {
    const auto [a, b] = connected_streams();
    const auto [c, d] = connected_streams();
    auto stage = shake(d, kTestKey, PeerRole::stage);
    auto host = shake(a, kTestKey, PeerRole::host);
    std::array<std::byte, 256> bytes{};
    const auto pass_on = [&](ByteStream& from, ByteStream& to, size_t count, std::string* copy) {
      for (size_t done = 0; done < count;) {
        const size_t got = from.receive(gsl::span(bytes).first(count - done), soon());
        to.send(gsl::span(bytes).first(got), kPatience);
        if (copy != nullptr) copy->append(reinterpret_cast<const char*>(bytes.data()), got);
        done += got;
      }
    };
    pass_on(*b, *c, kHelloBytes, &heard);
    pass_on(*c, *b, kHelloBytes + 32, nullptr);
    pass_on(*b, *c, 32, &heard);
    (void)host.get();
    (void)stage.get();
  }
  const auto [a, b] = connected_streams();
  auto stage = shake(b, kTestKey, PeerRole::stage);
  send_text(*a, heard);
  expect_error(ErrorCode::invalid_argument, {"another key"}, [&] { (void)stage.get(); });
}

TEST(Handshake, NamesAnotherVersion) {
  for (const PeerRole role : {PeerRole::host, PeerRole::stage}) {
    const auto [a, b] = connected_streams();
    auto joined = shake(a, kTestKey, role);
    std::string hello = "QUIRESTG";
    hello.append("\x09\0\0\0", 4).append(32, 'n');
    send_text(*b, hello);
    expect_error(ErrorCode::version, {"version 9", "one release"}, [&] { (void)joined.get(); });
    EXPECT_GE(receive_all(*b, kPatience).size(), kHelloBytes);  // its own version
  }
}

TEST(Handshake, RefusesStrangers) {
  for (const PeerRole role : {PeerRole::host, PeerRole::stage}) {
    const auto [a, b] = connected_streams();
    auto joined = shake(a, kTestKey, role);
    send_text(*b, "GET / HTTP/1.1\r\nHost: example.com\r\nUser-Agent: x\r\n\r\n");
    expect_error(ErrorCode::unsupported, {"not a process of Quire"}, [&] { (void)joined.get(); });
  }
}

TEST(Handshake, RandomBytesAreRefused) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 60; ++i) {
    const auto [a, b] = connected_streams();
    auto joined = shake(a, kTestKey, i % 2 == 0 ? PeerRole::host : PeerRole::stage);
    std::string bytes = i % 3 == 0 ? std::string("QUIRESTG\x01\0\0\0", 12) : std::string();
    for (size_t size = random() % 200; bytes.size() < size;) bytes.push_back(static_cast<char>(random()));
    send_text(*b, bytes);
    b->shut_down();
    EXPECT_THROW((void)joined.get(), Error);
  }
}

TEST(Handshake, EndsWithoutAnAnswer) {
  for (const PeerRole role : {PeerRole::host, PeerRole::stage}) {
    const auto [a, b] = connected_streams();
    auto joined = shake(a, kTestKey, role, std::chrono::milliseconds(50));
    expect_error(ErrorCode::device_lost, {"does not answer"}, [&] { (void)joined.get(); });
  }
}

TEST(KeyFile, IsReadWithoutWhiteSpaceAtItsEnds) {
  const TempDirectory directory;
  const std::string path = directory.write("key", "  0123456789abcdef0123456789abcdef\r\n\n");
  EXPECT_EQ(read_key_file(posix_file_system(), path), "0123456789abcdef0123456789abcdef");
  directory.write("key", "short\n");
  expect_error(ErrorCode::invalid_argument, {path, "5 bytes", "openssl rand"},
               [&] { (void)read_key_file(posix_file_system(), path); });
  directory.write("key", std::string(5000, 'k'));
  EXPECT_THROW((void)read_key_file(posix_file_system(), path), Error);
  EXPECT_THROW((void)read_key_file(posix_file_system(), directory.file("none")), Error);
}

}  // namespace
}  // namespace quire::testing
