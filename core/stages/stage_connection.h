// A connection of a host to a stage, and requests over it.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/mutex.h"
#include "core/net/address.h"
#include "core/net/channel.h"
#include "core/stages/messages.h"

namespace quire {

// What a host has counted for one stage, over all connections. Any thread.
class StageCounters {
 public:
  std::atomic<uint64_t> free_bytes{0};  // of its device, by its last answer
  std::atomic<uint64_t> sent_bytes{0};
  std::atomic<uint64_t> received_bytes{0};
  std::atomic<uint64_t> num_losses{0};         // connections that were lost
  std::atomic<uint64_t> num_passes{0};         // steps through its layers
  std::atomic<uint64_t> pass_nanoseconds{0};   // from the request to the answer
  std::atomic<uint64_t> num_linked_passes{0};  // passes whose rows travelled from card to card

  // How rows of the latest cache travel: "rows by NCCL 2.27.3", "rows by TCP (reason)"; empty before it.
  std::string transport() const {
    const MutexLock lock(mutex_);
    return transport_;
  }
  void set_transport(std::string text) {
    const MutexLock lock(mutex_);
    transport_ = std::move(text);
  }

 private:
  // Guards the text.
  mutable Mutex mutex_;
  std::string transport_ QUIRE_GUARDED_BY(mutex_);
};

struct StageAddress {
  std::string name;  // "tcp://10.0.0.2:7430"
  NetAddress address;
  std::string key;
  const ThreadFactory* threads = &system_threads();
};

// Answer to a request: its fields.
class StageAnswer {
 public:
  explicit StageAnswer(Channel::Message message, size_t head) : message_(std::move(message)), head_(head) {}
  gsl::span<const std::byte> bytes() const { return gsl::span(message_).subspan(head_); }

 private:
  Channel::Message message_;
  size_t head_;
};

// Any thread; one request at a time.
class StageConnection {
 public:
  // Connects within two seconds. Throws ErrorCode::device_lost if the stage does not answer, and the errors
  // of shake_hands.
  StageConnection(const StageAddress& stage, std::shared_ptr<StageCounters> counters);

  // Sends a request and waits for the answer, which has at most most_bytes. Throws the error that the stage
  // answers, and ErrorCode::device_lost if it is lost or its answer is malformed. At the end of
  // the wait, throws ErrorCode::cancelled and ends the connection.
  StageAnswer call(StageRequest request, gsl::span<const std::byte> fields,
                   gsl::span<const std::byte> rest = {}, uint64_t most_bytes = kPlainMessageBytes,
                   const ChannelWait& wait = {});

  // The two halves of a call, if one thread alone uses the connection and does something else between them.
  void begin(StageRequest request, gsl::span<const std::byte> fields);
  StageAnswer end(const ChannelWait& wait = {});

  // Does the same for structs of messages.h.
  template <typename Answer, typename Fields>
  Answer ask(StageRequest request, Fields fields, const ChannelWait& wait = {}) {
    WireWriter wire;
    fields.fields(wire);
    const StageAnswer answer = call(request, wire.bytes(), {}, kPlainMessageBytes, wait);
    return read<Answer>(answer);
  }
  template <typename Answer>
  Answer read(const StageAnswer& answer) {
    return sound([&] {
      WireReader wire(answer.bytes());
      Answer fields;
      fields.fields(wire);
      wire.finish();
      return fields;
    });
  }
  const std::atomic<bool>& is_lost() const { return channel_->is_lost(); }
  // Ends the connection because of an impossible answer. Throws ErrorCode::device_lost.
  [[noreturn]] void lose(std::string_view why);
  // Ends the connection because of a failed link. Throws ErrorCode::device_lost, with the reason why the
  // connection is lost if it is.
  [[noreturn]] void lose_link(std::string_view why);
  // Ends the connection because of an answer, and counts the loss unless a call has noticed it.
  void give_up() noexcept {
    if (!is_lost()) ++counters_->num_losses;
    channel_->close();
  }

 private:
  template <typename Body>
  auto counting_loss(const Body& body);
  void send_request(StageRequest request, gsl::span<const std::byte> fields, gsl::span<const std::byte> rest,
                    uint64_t most_bytes) QUIRE_REQUIRES(call_mutex_);
  StageAnswer receive_answer(const ChannelWait& wait) QUIRE_REQUIRES(call_mutex_);
  // Runs `body`, and ends the connection if it finds the answer malformed.
  template <typename Body>
  auto sound(const Body& body) {
    try {
      return body();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::format) throw;
      lose(error.what());
    }
  }
  // Returns the error in an answer; nothing if the request was carried out.
  std::optional<ErrorAnswer> failure_in(const Channel::Message& message);
  [[noreturn]] void throw_answered(const ErrorAnswer& answer) const;

  const std::string name_;
  const std::shared_ptr<StageCounters> counters_;
  // Held during a request.
  Mutex call_mutex_;
  std::unique_ptr<Channel> channel_;
  uint64_t counted_sent_ QUIRE_GUARDED_BY(call_mutex_) = 0;
  uint64_t counted_received_ QUIRE_GUARDED_BY(call_mutex_) = 0;
};

}  // namespace quire
