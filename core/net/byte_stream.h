// Interface of a transport between two processes: bytes in both directions, in order. TCP implements it.
#pragma once

#include <cstddef>

#include <gsl/gsl>

#include "core/base/clock.h"

namespace quire {

// One thread may send while another one receives.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Sends all bytes. Throws ErrorCode::device_lost if the peer has ended the connection, or takes no byte for
  // `silence`.
  virtual void send(gsl::span<const std::byte> bytes, Duration silence) = 0;
  // Receives at least one byte, and returns how many. Returns 0 if none came until the deadline. Throws
  // ErrorCode::device_lost if the peer has ended the connection.
  virtual size_t receive(gsl::span<std::byte> out, TimePoint deadline) = 0;
  // Ends the connection; calls in progress fail at once. Any thread.
  virtual void shut_down() noexcept = 0;
};

}  // namespace quire
