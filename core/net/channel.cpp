#include "core/net/channel.h"

#include <algorithm>
#include <cstring>

#include "core/base/error.h"

namespace quire {
namespace {

// The memory of a frame grows by this much, so that its declared size alone costs nothing.
constexpr size_t kGrowthBytes = size_t{1} << 20;
constexpr Duration kCancelPoll = std::chrono::milliseconds(50);

template <typename Number>
std::array<std::byte, sizeof(Number)> to_bytes(Number number) {
  std::array<std::byte, sizeof(Number)> bytes{};
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(number >> (8 * i));
  return bytes;
}

template <typename Number>
Number from_bytes(gsl::span<const std::byte> bytes) {
  Number number = 0;
  for (size_t i = 0; i < sizeof number; ++i) number |= std::to_integer<Number>(bytes[i]) << (8 * i);
  return number;
}

}  // namespace

Channel::Channel(std::shared_ptr<ByteStream> stream, const SessionKeys& keys, ChannelOptions options)
    : stream_(std::move(stream)),
      keys_(keys),
      options_(std::move(options)),
      pump_{0, steady_clock().now(), steady_clock().now()},
      thread_(options_.threads->start("quire-channel", [this] { pump(); })) {}

Channel::~Channel() {
  is_closing_ = true;
  stream_->shut_down();
  thread_->join();
}

void Channel::send(std::initializer_list<gsl::span<const std::byte>> pieces) {
  if (is_lost_) throw_loss();
  try {
    const MutexLock lock(outbox_.mutex);
    send_frame(Kind::message, pieces);
  } catch (const Error& error) {
    lose(error.what());
    throw_loss();
  }
}

void Channel::send_frame(Kind kind, std::initializer_list<gsl::span<const std::byte>> pieces) {
  size_t size = 0;
  for (const auto piece : pieces) size += piece.size();
  const auto length = to_bytes(gsl::narrow<uint32_t>(size));
  outbox_.frame.assign(length.begin(), length.end());
  outbox_.frame.push_back(static_cast<std::byte>(kind));
  outbox_.frame.resize(kHeaderBytes);
  for (const auto piece : pieces) outbox_.frame.insert(outbox_.frame.end(), piece.begin(), piece.end());
  const auto counter = to_bytes(outbox_.num_sent++);
  const Sha256 tag = keys_.send.sign({text_of(counter), text_of(outbox_.frame)});
  const auto tag_bytes = gsl::as_bytes(gsl::span(tag));
  outbox_.frame.insert(outbox_.frame.end(), tag_bytes.begin(), tag_bytes.end());
  stream_->send(outbox_.frame, options_.silence);
  bytes_.own += outbox_.frame.size();
}

Channel::Message Channel::receive(const ChannelWait& wait) {
  MutexLock lock(inbox_.mutex);
  const auto is_ready = [&]() QUIRE_NO_THREAD_ANALYSIS { return inbox_.message.has_value() || is_lost_; };
  for (;;) {
    const TimePoint poll = wait.cancel == nullptr ? TimePoint::max() : steady_clock().now() + kCancelPoll;
    if (steady_clock().wait_until(inbox_.arrived, lock.native(), std::min(poll, wait.deadline), is_ready))
      break;
    if ((wait.cancel != nullptr && *wait.cancel) || steady_clock().now() >= wait.deadline)
      throw Error(ErrorCode::cancelled, "the wait for {} was cancelled", options_.peer);
  }
  if (!inbox_.message) throw Error(ErrorCode::device_lost, "{}", inbox_.loss);
  Message message = std::move(*inbox_.message);
  inbox_.message.reset();
  return message;
}

void Channel::pump() noexcept {
  try {
    for (;;) receive_frame();
  } catch (const std::exception& error) {
    lose(error.what());
  }
}

void Channel::receive_frame() {
  std::array<std::byte, kHeaderBytes> header{};
  fill(header);
  const size_t size = from_bytes<uint32_t>(header);
  const auto kind = static_cast<Kind>(header[4]);
  const bool is_beat = kind == Kind::beat;
  const bool is_sound =
      (is_beat || kind == Kind::message) &&
      std::all_of(header.begin() + 5, header.end(), [](std::byte b) { return b == std::byte{0}; });
  if (!is_sound) throw Error(ErrorCode::format, "it sent a frame of an unknown kind");
  const uint64_t most = is_beat ? 0 : max_message_.load();
  if (size > most)
    throw Error(ErrorCode::format, "it sent a frame of {} bytes; at most {} are allowed", size, most);
  Message content;
  while (content.size() < size) {
    const size_t begin = content.size();
    content.resize(std::min(size, begin + kGrowthBytes));
    fill(gsl::span(content).subspan(begin));
  }
  Sha256 tag{};
  fill(gsl::as_writable_bytes(gsl::span(tag)));
  const auto counter = to_bytes(pump_.num_received++);
  if (!equal_in_constant_time(tag, keys_.receive.sign({text_of(counter), text_of(header), text_of(content)})))
    throw Error(ErrorCode::format, "it sent a frame that its key did not sign");
  take(kind, std::move(content));
}

void Channel::take(Kind kind, Message content) {
  if (kind == Kind::beat) return;
  const MutexLock lock(inbox_.mutex);
  if (inbox_.message) throw Error(ErrorCode::format, "it sent a message out of turn");
  inbox_.message = std::move(content);
  inbox_.arrived.notify_all();
}

// Receives all bytes of `out`, and sends beats meanwhile. Bytes that have arrived count before the silence,
// so that a process that was stopped for a while does not lose a peer that went on.
void Channel::fill(gsl::span<std::byte> out) {
  while (!out.empty()) {
    beat_if_due();
    const size_t count = stream_->receive(out, std::min(pump_.next_beat, pump_.heard + options_.silence));
    const TimePoint now = steady_clock().now();
    if (count > 0) {
      pump_.heard = now;
      bytes_.peer += count;
      out = out.subspan(count);
    } else if (now >= pump_.heard + options_.silence) {
      throw Error(ErrorCode::device_lost, "it has sent nothing for {} ms",
                  options_.silence / std::chrono::milliseconds(1));
    }
  }
}

// While a message is being sent, its bytes are the beat.
void Channel::beat_if_due() QUIRE_NO_THREAD_ANALYSIS {
  const TimePoint now = steady_clock().now();
  if (now < pump_.next_beat) return;
  pump_.next_beat = now + options_.beat;
  if (!outbox_.mutex.native().try_lock()) return;
  const auto unlock = gsl::finally([this]() QUIRE_NO_THREAD_ANALYSIS { outbox_.mutex.native().unlock(); });
  send_frame(Kind::beat, {});
}

// Keeps the first reason. Reports a connection that this side closes as closed, not as lost.
void Channel::lose(std::string_view why) noexcept {
  stream_->shut_down();
  const MutexLock lock(inbox_.mutex);
  if (is_lost_) return;
  try {
    inbox_.loss = is_closing_ ? fmt::format("the connection to {} is closed", options_.peer)
                              : fmt::format("{} is lost: {}", options_.peer, why);
  } catch (const std::bad_alloc&) {
    set_message(inbox_.loss, "a peer is lost");
  }
  is_lost_ = true;
  inbox_.arrived.notify_all();
}

void Channel::throw_loss() {
  const MutexLock lock(inbox_.mutex);
  throw Error(ErrorCode::device_lost, "{}", inbox_.loss);
}

}  // namespace quire
