#include "core/stages/stage_connection.h"

#include <utility>

#include "core/net/tcp.h"

namespace quire {
namespace {

constexpr Duration kConnectTime = std::chrono::milliseconds(1500);
constexpr size_t kHeadBytes = sizeof(uint8_t) + sizeof(uint64_t);  // of an answer

std::unique_ptr<Channel> connect(const StageAddress& stage) {
  try {
    std::unique_ptr<ByteStream> stream = connect_tcp(stage.address, kConnectTime);
    const SessionKeys keys =
        shake_hands(*stream, stage.key, PeerRole::host, steady_clock().now() + kConnectTime);
    ChannelOptions options;
    options.threads = stage.threads;
    options.peer = "the stage " + stage.name;
    return std::make_unique<Channel>(std::move(stream), keys, options);
  } catch (const Error& error) {
    throw Error(error.code(), "the stage {}: {}", stage.name, error.what()).at("device");
  }
}

}  // namespace

StageConnection::StageConnection(const StageAddress& stage, std::shared_ptr<StageCounters> counters)
    : name_(stage.name), counters_(std::move(counters)), channel_(connect(stage)) {}

StageAnswer StageConnection::call(StageRequest request, gsl::span<const std::byte> fields,
                                  gsl::span<const std::byte> rest, uint64_t most_bytes,
                                  const ChannelWait& wait) {
  const MutexLock lock(call_mutex_);
  send_request(request, fields, rest, most_bytes);
  return receive_answer(wait);
}

void StageConnection::begin(StageRequest request, gsl::span<const std::byte> fields) {
  const MutexLock lock(call_mutex_);
  send_request(request, fields, {}, kPlainMessageBytes);
}

StageAnswer StageConnection::end(const ChannelWait& wait) {
  const MutexLock lock(call_mutex_);
  return receive_answer(wait);
}

// Counts a loss that this call is the first to notice.
template <typename Body>
auto StageConnection::counting_loss(const Body& body) {
  const bool was_lost = channel_->is_lost();
  try {
    return body();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::cancelled) channel_->close();
    if (error.code() == ErrorCode::device_lost && !was_lost) ++counters_->num_losses;
    throw;
  }
}

void StageConnection::send_request(StageRequest request, gsl::span<const std::byte> fields,
                                   gsl::span<const std::byte> rest, uint64_t most_bytes) {
  const auto kind = static_cast<std::byte>(request);
  channel_->set_max_message(most_bytes);
  counting_loss([&] { channel_->send({gsl::span(&kind, 1), fields, rest}); });
}

StageAnswer StageConnection::receive_answer(const ChannelWait& wait) {
  Channel::Message message = counting_loss([&] { return channel_->receive(wait); });
  counters_->sent_bytes += channel_->sent_bytes() - std::exchange(counted_sent_, channel_->sent_bytes());
  counters_->received_bytes +=
      channel_->received_bytes() - std::exchange(counted_received_, channel_->received_bytes());
  if (const std::optional<ErrorAnswer> failure = failure_in(message)) throw_answered(*failure);
  return StageAnswer(std::move(message), kHeadBytes);
}

std::optional<ErrorAnswer> StageConnection::failure_in(const Channel::Message& message) {
  return sound([&]() -> std::optional<ErrorAnswer> {
    WireReader wire(message);
    bool is_done = false;
    uint64_t free_bytes = 0;
    wire(is_done, free_bytes);
    counters_->free_bytes = free_bytes;
    if (is_done) return std::nullopt;
    ErrorAnswer answer;
    answer.fields(wire);
    wire.finish();
    return answer;
  });
}

void StageConnection::throw_answered(const ErrorAnswer& answer) const {
  const bool is_known = answer.code > 0 && answer.code <= static_cast<int32_t>(ErrorCode::deadline_too_short);
  const auto code = is_known ? static_cast<ErrorCode>(answer.code) : ErrorCode::internal;
  Error error(code, "the stage {}: {}", name_, printable(answer.message, 1024));
  if (answer.parameter.empty()) throw std::move(error);
  throw std::move(error).at(printable(answer.parameter));
}

void StageConnection::lose(std::string_view why) {
  channel_->close();
  ++counters_->num_losses;
  throw Error(ErrorCode::device_lost, "the stage {} is lost: it sent a malformed answer: {}", name_, why);
}

void StageConnection::lose_link(std::string_view why) {
  ++counters_->num_losses;
  if (is_lost()) channel_->send({});  // throws the reason of the loss
  channel_->close();
  throw Error(ErrorCode::device_lost, "the stage {} is lost: {}", name_, why);
}

}  // namespace quire
