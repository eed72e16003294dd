// Messages arrive whole and in order; frames that are too large, unsigned, replayed, out of turn or unknown
// end the connection; a silent peer is lost in bounded time, a slow one is not.
#include "core/net/channel.h"

#include <future>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/net/stream_fixture.h"
#include "tests/support/expect_error.h"

namespace quire::testing {
namespace {

constexpr Duration kPatience = std::chrono::seconds(20);

ChannelOptions options_of(std::string peer) {
  ChannelOptions options;
  options.peer = std::move(peer);
  return options;
}

gsl::span<const std::byte> bytes_of(std::string_view text) {
  return gsl::as_bytes(gsl::span(text.data(), text.size()));
}

std::string text_in(const Channel::Message& message) {
  return std::string(text_of(gsl::span<const std::byte>(message)));
}

struct ChannelPair {
  StreamPair streams = connected_streams();
  Channel host{streams.first, test_keys().host, options_of("the stage")};
  Channel stage{streams.second, test_keys().stage, options_of("the host")};
};

// A channel of a host whose peer is the test.
struct OneChannel {
  StreamPair streams = connected_streams();
  const HmacKey key = test_keys().stage.send;
  Channel host;
  explicit OneChannel(const ChannelOptions& options = options_of("the stage"))
      : host(streams.first, test_keys().host, options) {}

  void expect_lost(std::string_view why) {
    expect_error(ErrorCode::device_lost, {"the stage is lost", why}, [&] { (void)host.receive(); });
    EXPECT_TRUE(host.is_lost());
    expect_error(ErrorCode::device_lost, {why}, [&] { host.send({bytes_of("x")}); });
  }
};

TEST(Channel, BringsMessagesInTurn) {
  ChannelPair pair;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{100'000}, size_t{1} << 20}) {
    const std::string text(size, 'm');
    auto sent = std::async(std::launch::async, [&] { pair.host.send({bytes_of(text)}); });
    EXPECT_EQ(text_in(pair.stage.receive()), text);
    sent.get();
    pair.stage.send({bytes_of("an"), {}, bytes_of("swer")});
    EXPECT_EQ(text_in(pair.host.receive()), "answer");
  }
  EXPECT_GT(pair.host.sent_bytes(), 1'100'000U);
  EXPECT_GT(pair.stage.received_bytes(), 1'100'000U);
}

// The peer computes for longer than the silence that would lose it.
TEST(Channel, ASlowPeerIsNotLost) {
  ChannelPair pair;
  auto answer = std::async(std::launch::async, [&] {
    (void)pair.stage.receive();
    std::this_thread::sleep_for(std::chrono::milliseconds(2200));
    pair.stage.send({bytes_of("late")});
  });
  pair.host.send({bytes_of("work")});
  EXPECT_EQ(text_in(pair.host.receive()), "late");
  answer.get();
}

TEST(Channel, ASilentPeerIsLostInBoundedTime) {
  OneChannel channel;
  const TimePoint begin = steady_clock().now();
  channel.expect_lost("sent nothing for 1300 ms");
  EXPECT_GE(steady_clock().now() - begin, std::chrono::milliseconds(1200));
}

TEST(Channel, APeerThatTakesNoBytesIsLost) {
  ChannelOptions options = options_of("the stage");
  options.silence = std::chrono::milliseconds(200);
  OneChannel channel(options);
  const std::string much(size_t{8} << 20, 'x');
  expect_error(ErrorCode::device_lost, {"the stage is lost"}, [&] { channel.host.send({bytes_of(much)}); });
}

TEST(Channel, AnEndedConnectionIsLost) {
  OneChannel channel;
  channel.streams.second->shut_down();
  channel.expect_lost("");
}

TEST(Channel, AWaitCanBeCancelled) {
  ChannelPair pair;
  const std::atomic<bool> cancel{true};
  expect_error(ErrorCode::cancelled, {"the stage"}, [&] { (void)pair.host.receive({&cancel}); });
  const TimePoint soon = steady_clock().now() + std::chrono::milliseconds(20);
  expect_error(ErrorCode::cancelled, {"the stage"}, [&] { (void)pair.host.receive({nullptr, soon}); });
}

TEST(Channel, ClosingEndsAWait) {
  auto pair = std::make_unique<ChannelPair>();
  auto waiting = std::async(std::launch::async, [&] { (void)pair->host.receive(); });
  pair->host.close();
  EXPECT_THROW(waiting.get(), Error);
}

TEST(HostileFrames, TooLarge) {
  OneChannel channel;
  channel.host.set_max_message(100);
  send_text(*channel.streams.second, frame_of(channel.key, 0, 0, std::string(101, 'x')));
  channel.expect_lost("at most 100");
}

// The declared size takes no memory, and the message never comes.
TEST(HostileFrames, OfADeclaredSizeOnly) {
  OneChannel channel;
  channel.host.set_max_message(uint64_t{1} << 32);
  send_text(*channel.streams.second, std::string("\xff\xff\xff\x7f\0\0\0\0", 8) + "few bytes");
  channel.expect_lost("sent nothing");
}

TEST(HostileFrames, OfAnUnknownKind) {
  for (const uint8_t kind : {uint8_t{2}, uint8_t{255}}) {
    OneChannel channel;
    send_text(*channel.streams.second, frame_of(channel.key, 0, kind, "x"));
    channel.expect_lost("unknown kind");
  }
  OneChannel channel;
  std::string frame = frame_of(channel.key, 0, 0, "x");
  frame[6] = 1;
  send_text(*channel.streams.second, frame);
  channel.expect_lost("unknown kind");
}

TEST(HostileFrames, BeatsWithContent) {
  OneChannel channel;
  send_text(*channel.streams.second, frame_of(channel.key, 0, 1, "b"));
  channel.expect_lost("at most 0");
}

TEST(HostileFrames, NotSignedByTheKey) {
  const std::string sound = frame_of(test_keys().stage.send, 0, 0, "content");
  for (size_t at = 8; at < sound.size(); ++at) {
    if (at % 5 != 0 && at + 1 < sound.size()) continue;
    SCOPED_TRACE(at);
    OneChannel channel;
    std::string changed = sound;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    send_text(*channel.streams.second, changed);
    channel.expect_lost("did not sign");
  }
}

TEST(HostileFrames, ReplayedOrLeftOut) {
  {
    OneChannel channel;
    const std::string first = frame_of(channel.key, 0, 0, "pay");
    send_text(*channel.streams.second, first);
    EXPECT_EQ(text_in(channel.host.receive()), "pay");
    send_text(*channel.streams.second, first);
    channel.expect_lost("did not sign");
  }
  OneChannel channel;
  send_text(*channel.streams.second, frame_of(channel.key, 1, 0, "second"));
  channel.expect_lost("did not sign");
}

// The frames of the host itself, sent back.
TEST(HostileFrames, Reflected) {
  OneChannel channel;
  send_text(*channel.streams.second, frame_of(test_keys().host.send, 0, 0, "own"));
  channel.expect_lost("did not sign");
}

TEST(HostileFrames, OutOfTurn) {
  OneChannel channel;
  send_text(*channel.streams.second, frame_of(channel.key, 0, 0, "one") + frame_of(channel.key, 1, 0, "two"));
  const TimePoint deadline = steady_clock().now() + kPatience;
  while (!channel.host.is_lost() && steady_clock().now() < deadline) std::this_thread::yield();
  EXPECT_TRUE(channel.host.is_lost());
}

TEST(HostileFrames, RandomBytes) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 100; ++i) {
    OneChannel channel;
    std::string bytes = frame_of(channel.key, 0, 0, "content");
    if (i % 2 == 0) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    } else {
      bytes.resize(random() % bytes.size());
      while (random() % 40 != 0) bytes.push_back(static_cast<char>(random()));
    }
    try {
      send_text(*channel.streams.second, bytes);
      channel.streams.second->shut_down();
      EXPECT_EQ(text_in(channel.host.receive()), "content");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::device_lost);
    }
  }
}

}  // namespace
}  // namespace quire::testing
