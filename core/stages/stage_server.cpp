#include "core/stages/stage_server.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/models/stage_checks.h"

namespace quire {
namespace {

constexpr Duration kHandshakeTime = std::chrono::seconds(2);
constexpr Duration kStopPoll = std::chrono::milliseconds(100);
constexpr int64_t kMostStrangers = 16;  // connections that have not proved that they have the key
constexpr int64_t kMostHosts = 256;     // connections that have

// Throws unless the shards can be on the devices: all on one, or one on each.
void require_devices(const StageServerOptions& options) {
  const auto num_devices = gsl::narrow<int64_t>(options.devices.size());
  const int32_t num_shards = options.num_shards;
  require_num_shards(num_shards);
  if (num_devices != 1 && num_devices != num_shards) {
    throw Error(ErrorCode::invalid_argument,
                "num_shards is {}, but {} devices are named; name one for each shard, or one for all of them",
                num_shards, num_devices)
        .at("num_shards");
  }
  for (const std::shared_ptr<Device>& device : options.devices) {
    if (std::count(options.devices.begin(), options.devices.end(), device) > 1) {
      throw Error(ErrorCode::invalid_argument, "device: {} is named twice; name it once for all shards",
                  device->name())
          .at("device");
    }
    require_same_backend(*options.devices.front(), *device);
    require_shards_on(*device, num_shards);
  }
}

}  // namespace

StageServer::StageServer(StageServerOptions options)
    : key_(std::move(options.key)), listener_(options.address) {
  require_devices(options);
  state_.devices = std::move(options.devices);
  state_.num_shards = options.num_shards;
  state_.memory = std::make_shared<StageMemory>(state_.devices, options.memory_bytes);
  state_.links = offer_links(*state_.devices.front(), options.transport);
  if (options.transport == StageTransport::nccl && state_.links.library.empty())
    throw Error(ErrorCode::unsupported, "stage_transport is nccl: {}", state_.links.refusal)
        .at("stage_transport");
  state_.models = std::move(options.models);
  state_.files = options.files;
  state_.threads = options.threads;
  state_.log = std::move(options.log);
}

void StageServer::run_until(TimePoint deadline, const std::atomic<bool>* stop) {
  const auto end_all = gsl::finally([this] {
    for (const Connection& connection : connections_) connection.stream->shut_down();
    connections_.clear();
  });
  while ((stop == nullptr || !*stop) && steady_clock().now() < deadline) {
    std::shared_ptr<ByteStream> stream =
        listener_.accept(std::min(deadline, steady_clock().now() + kStopPoll));
    connections_.remove_if([](const Connection& connection) { return connection.is_over.load(); });
    if (stream != nullptr && has_place()) start(std::move(stream));
  }
}

bool StageServer::has_place() const {
  const auto num_hosts =
      std::count_if(connections_.begin(), connections_.end(),
                    [](const Connection& connection) { return connection.has_joined.load(); });
  const auto num_strangers = static_cast<int64_t>(connections_.size()) - num_hosts;
  return num_hosts < kMostHosts && num_strangers < kMostStrangers;
}

void StageServer::start(std::shared_ptr<ByteStream> stream) {
  Connection& connection = connections_.emplace_back();
  connection.stream = std::move(stream);
  try {
    connection.thread = state_.threads->start("quire-stage", [this, &connection] { serve(connection); });
  } catch (const Error& error) {
    state_.log(LogLevel::warning, "a connection was refused: {}", error.what());
    connections_.pop_back();
  }
}

void StageServer::serve(Connection& connection) noexcept {
  try {
    const SessionKeys keys =
        shake_hands(*connection.stream, key_, PeerRole::stage, steady_clock().now() + kHandshakeTime);
    connection.has_joined = true;
    ChannelOptions options;
    options.threads = state_.threads;
    options.peer = "the host";
    Channel channel(connection.stream, keys, options);
    StageSession session(state_, channel);
    state_.log(LogLevel::debug, "a connection of a host has ended: {}", session.serve());
  } catch (const std::exception& error) {
    state_.log(LogLevel::warning, "a connection was refused: {}", error.what());
  }
  connection.stream->shut_down();
  connection.is_over = true;
}

}  // namespace quire
