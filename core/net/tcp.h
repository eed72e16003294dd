// Connections by TCP.
#pragma once

#include <memory>

#include "core/net/address.h"
#include "core/net/byte_stream.h"

namespace quire {

// A file descriptor, closed by the destructor.
class FileDescriptor {
 public:
  explicit FileDescriptor(int number) : number_(number) {}
  FileDescriptor(FileDescriptor&& other) noexcept : number_(other.number_) { other.number_ = -1; }
  FileDescriptor& operator=(FileDescriptor&&) = delete;
  ~FileDescriptor();
  int get() const { return number_; }

 private:
  int number_;
};

// Connects to an address. Looking up a name may take longer than `timeout`. Throws ErrorCode::device_lost if
// the address refuses or does not answer in time, ErrorCode::not_found if the host has no address.
std::unique_ptr<ByteStream> connect_tcp(const NetAddress& address, Duration timeout);

// Returns a stream over an open socket, which it takes over.
std::unique_ptr<ByteStream> stream_over(FileDescriptor socket);

// Accepts connections at one address.
class TcpListener {
 public:
  // Throws ErrorCode::io if the address cannot be listened at, ErrorCode::not_found if the host has none.
  explicit TcpListener(const NetAddress& address);
  // Returns the next connection, or null if none came until the deadline or the system has no descriptor for
  // it now.
  std::unique_ptr<ByteStream> accept(TimePoint deadline);
  // Returns the address, with the port that was taken if 0 was given.
  const NetAddress& address() const { return address_; }

 private:
  NetAddress address_;
  FileDescriptor socket_;
};

}  // namespace quire
