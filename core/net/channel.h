// Messages between two processes that share a key: authenticated, in order, with beats that show that the
// peer lives.
#pragma once

#include <atomic>
#include <condition_variable>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "core/net/handshake.h"

namespace quire {

struct ChannelOptions {
  const ThreadFactory* threads = &system_threads();
  std::string peer;  // for messages: "the stage tcp://10.0.0.2:7430"
  // A peer that sends no byte for this long is lost. It sends a beat each `beat`, whatever it computes.
  Duration silence = std::chrono::milliseconds(1300);
  Duration beat = std::chrono::milliseconds(200);
};

// What ends a wait for a message.
struct ChannelWait {
  const std::atomic<bool>* cancel = nullptr;  // null: never set
  TimePoint deadline = TimePoint::max();
};

// Largest message before set_max_message.
inline constexpr uint64_t kSmallMessageBytes = uint64_t{1} << 20;

// A frame is the number of bytes of its content (u32, little endian), its kind (u8), three zeros, the
// content, and HMAC-SHA-256 over a counter of the direction and everything before. The two sides take turns:
// a peer that sends a second message before the first one was received is lost. One thread sends and
// receives; all other functions are for any thread.
class Channel {
 public:
  using Message = std::vector<std::byte>;

  // Starts a thread that receives frames and sends beats.
  Channel(std::shared_ptr<ByteStream> stream, const SessionKeys& keys, ChannelOptions options);
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel();

  // Sends one message. Throws ErrorCode::device_lost if the peer is lost.
  void send(std::initializer_list<gsl::span<const std::byte>> pieces);
  // Waits for the next message. Throws ErrorCode::device_lost if the peer is lost, ErrorCode::cancelled at
  // the end of the wait. Nothing else may be sent after a cancelled wait.
  Message receive(const ChannelWait& wait = {});
  // Sets the largest message that the peer may send. A frame takes memory only as its bytes arrive.
  void set_max_message(uint64_t bytes) { max_message_ = bytes; }

  // Ends the connection. Any thread.
  void close() noexcept { lose("the connection was closed"); }

  // Becomes true when the peer is lost, and stays so.
  const std::atomic<bool>& is_lost() const { return is_lost_; }
  uint64_t sent_bytes() const { return bytes_.own; }
  uint64_t received_bytes() const { return bytes_.peer; }

 private:
  enum class Kind : uint8_t { message = 0, beat = 1 };
  static constexpr size_t kHeaderBytes = 8;

  void pump() noexcept;
  void receive_frame();
  void take(Kind kind, Message content);
  void fill(gsl::span<std::byte> out);
  void beat_if_due();
  void send_frame(Kind kind, std::initializer_list<gsl::span<const std::byte>> pieces)
      QUIRE_REQUIRES(outbox_.mutex);
  void lose(std::string_view why) noexcept;
  [[noreturn]] void throw_loss();

  // Frames that leave. The mutex guards their order.
  struct Outbox {
    Mutex mutex;
    uint64_t num_sent QUIRE_GUARDED_BY(mutex) = 0;
    std::vector<std::byte> frame QUIRE_GUARDED_BY(mutex);
  };
  // The mutex guards the message that waits for its receiver, and the reason of a loss.
  struct Inbox {
    Mutex mutex;
    std::condition_variable arrived;
    std::optional<Message> message QUIRE_GUARDED_BY(mutex);
    std::string loss QUIRE_GUARDED_BY(mutex);
  };
  // What the thread that receives knows.
  struct Pump {
    uint64_t num_received = 0;
    TimePoint heard;  // time of the last byte of the peer
    TimePoint next_beat;
  };
  // Bytes that each side has sent.
  struct Traffic {
    std::atomic<uint64_t> own{0}, peer{0};
  };

  const std::shared_ptr<ByteStream> stream_;
  const SessionKeys keys_;
  const ChannelOptions options_;
  std::atomic<uint64_t> max_message_{kSmallMessageBytes};
  Traffic bytes_;
  std::atomic<bool> is_lost_{false};
  std::atomic<bool> is_closing_{false};
  Outbox outbox_;
  Inbox inbox_;
  Pump pump_;
  std::unique_ptr<Thread> thread_;  // last member: it starts when all others exist
};

}  // namespace quire
