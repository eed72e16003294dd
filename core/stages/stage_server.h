// A process in the role of a stage: has devices for layers of hosts that have its key.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "core/net/tcp.h"
#include "core/stages/stage_session.h"

namespace quire {

struct StageServerOptions {
  NetAddress address;                            // to listen at; port 0 takes a free one
  std::string key;                               // see read_key_file
  std::vector<std::shared_ptr<Device>> devices;  // one, or one for each shard
  int32_t num_shards = 1;                        // of all layers
  uint64_t memory_bytes = 0;  // of all devices, for all hosts together; 0: what the devices have
  StageTransport transport = StageTransport::automatic;
  std::string models;  // directory of the models; empty: only synthetic ones
  const FileSystem* files = &posix_file_system();
  const ThreadFactory* threads = &system_threads();
  Log log;
};

class StageServer {
 public:
  // Listens at the address from now on. Throws ErrorCode::io or ErrorCode::not_found, and
  // ErrorCode::unsupported if rows are to travel by NCCL and it cannot be used.
  explicit StageServer(StageServerOptions options);
  StageServer(const StageServer&) = delete;
  StageServer& operator=(const StageServer&) = delete;

  const NetAddress& address() const { return listener_.address(); }
  // Serves hosts until the deadline, or until `stop` is set (may be null); then ends all connections and
  // frees what they had. Each connection has two threads.
  void run_until(TimePoint deadline, const std::atomic<bool>* stop);
  // Returns the bytes that hosts have now. Any thread.
  uint64_t reserved_bytes() const { return state_.memory->reserved_bytes(); }

 private:
  struct Connection {
    std::shared_ptr<ByteStream> stream;
    std::atomic<bool> has_joined{false};  // the host has proved that it has the key
    std::atomic<bool> is_over{false};
    std::unique_ptr<Thread> thread;  // last member, which uses the others
  };

  void start(std::shared_ptr<ByteStream> stream);
  void serve(Connection& connection) noexcept;
  bool has_place() const;

  const std::string key_;
  TcpListener listener_;
  StageState state_;
  std::list<Connection> connections_;  // of the thread that runs
};

}  // namespace quire
