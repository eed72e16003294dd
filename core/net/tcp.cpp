#include "core/net/tcp.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>

#include <fmt/core.h>

#include "core/base/error.h"

namespace quire {
namespace {

std::string reason_of(int number) {
  return std::generic_category().message(number);
}

[[noreturn]] void lose(std::string_view why) {
  throw Error(ErrorCode::device_lost, "{}", why);
}

// Waits until the socket is ready or the deadline passes; returns whether it is ready.
bool wait_for(int socket, int16_t events, TimePoint deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock().now()).count();
    pollfd poll_for{socket, events, 0};
    const int ready = ::poll(&poll_for, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 60'000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) lose(reason_of(errno));
    if (ready == 0 && steady_clock().now() >= deadline) return false;
  }
}

class TcpStream final : public ByteStream {
 public:
  explicit TcpStream(FileDescriptor socket) : socket_(std::move(socket)) {
    const int on = 1;  // small messages leave at once; fails on other kinds of sockets, which do not delay
    ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }

  void send(gsl::span<const std::byte> bytes, Duration silence) override {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) {
        bytes = bytes.subspan(static_cast<size_t>(sent));
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        if (!wait_for(socket_.get(), POLLOUT, steady_clock().now() + silence))
          lose("it takes no bytes any more");
      } else if (errno != EINTR) {
        lose(reason_of(errno));
      }
    }
  }

  size_t receive(gsl::span<std::byte> out, TimePoint deadline) override {
    for (;;) {
      if (!wait_for(socket_.get(), POLLIN, deadline)) return 0;
      const ssize_t count = ::recv(socket_.get(), out.data(), out.size(), MSG_DONTWAIT);
      if (count > 0) return static_cast<size_t>(count);
      if (count == 0) lose("it ended the connection");
      if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) lose(reason_of(errno));
    }
  }

  void shut_down() noexcept override { ::shutdown(socket_.get(), SHUT_RDWR); }

 private:
  const FileDescriptor socket_;
};

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

AddressList look_up(const NetAddress& address, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failure =
      ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (failure != 0)
    throw Error(ErrorCode::not_found, "{}: the host has no address ({})", address.text(),
                ::gai_strerror(failure));
  return {found, &::freeaddrinfo};
}

FileDescriptor open_socket(const addrinfo& to) {
  return FileDescriptor(
      ::socket(to.ai_family, to.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, to.ai_protocol));
}

// Connects a socket. Returns 0 or the number of an error.
int connect_until(int socket, const addrinfo& to, TimePoint deadline) {
  if (socket < 0) return errno;
  if (::connect(socket, to.ai_addr, to.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS && errno != EINTR) return errno;
  if (!wait_for(socket, POLLOUT, deadline)) return ETIMEDOUT;
  int failure = 0;
  socklen_t size = sizeof failure;
  if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &failure, &size) != 0) return errno;
  return failure;
}

FileDescriptor listen_at(const NetAddress& address) {
  const AddressList found = look_up(address, AI_PASSIVE);
  int failure = 0;
  for (const addrinfo* to = found.get(); to != nullptr; to = to->ai_next) {
    FileDescriptor socket = open_socket(*to);
    const int on = 1;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (socket.get() >= 0 && ::bind(socket.get(), to->ai_addr, to->ai_addrlen) == 0 &&
        ::listen(socket.get(), SOMAXCONN) == 0)
      return socket;
    failure = errno;
  }
  throw Error(ErrorCode::io, "{}: it cannot be listened at: {}", address.text(), reason_of(failure));
}

uint16_t port_of(int socket) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size) != 0) return 0;
  return own.ss_family == AF_INET6 ? ntohs(reinterpret_cast<const sockaddr_in6&>(own).sin6_port)
                                   : ntohs(reinterpret_cast<const sockaddr_in&>(own).sin_port);
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (number_ >= 0) ::close(number_);
}

std::unique_ptr<ByteStream> stream_over(FileDescriptor socket) {
  return std::make_unique<TcpStream>(std::move(socket));
}

std::unique_ptr<ByteStream> connect_tcp(const NetAddress& address, Duration timeout) {
  const AddressList found = look_up(address, 0);
  const TimePoint deadline = steady_clock().now() + timeout;
  int failure = 0;
  for (const addrinfo* to = found.get(); to != nullptr; to = to->ai_next) {
    FileDescriptor socket = open_socket(*to);
    failure = connect_until(socket.get(), *to, deadline);
    if (failure == 0) return stream_over(std::move(socket));
  }
  lose(fmt::format("it cannot be reached: {}", reason_of(failure)));
}

TcpListener::TcpListener(const NetAddress& address) : address_(address), socket_(listen_at(address)) {
  address_.port = port_of(socket_.get());
}

std::unique_ptr<ByteStream> TcpListener::accept(TimePoint deadline) {
  if (!wait_for(socket_.get(), POLLIN, deadline)) return nullptr;
  FileDescriptor socket(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket.get() >= 0) return stream_over(std::move(socket));
  // Without descriptors the connection stays in the queue, and poll would return at once again and again.
  if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) ::poll(nullptr, 0, 100);
  return nullptr;
}

}  // namespace quire
