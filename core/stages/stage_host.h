// The host's side of a stage: opens its device, and runs layers of models there.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/models/remote_stage.h"
#include "core/stages/stage_connection.h"
#include "core/tensor/device.h"

namespace quire {

// Returns whether a name of a device is that of a stage: "tcp://HOST:PORT".
bool is_stage_name(std::string_view name);

// One stage of a runtime. Connects when its device is opened, and again when the connection was lost. Each
// loaded model and each cache has a connection of its own. Thread-safe.
class StageHost final : public StagePeer, public std::enable_shared_from_this<StageHost> {
 public:
  // Throws ErrorCode::invalid_argument for a name that is_stage_name does not accept or a malformed address.
  static std::shared_ptr<StageHost> create(const std::string& name, std::string key,
                                           StageTransport transport = StageTransport::automatic,
                                           const ThreadFactory& threads = system_threads());

  const std::string& name() const { return stage_.name; }
  // Connects, and returns the device of the stage. Throws the errors of StageConnection, and
  // ErrorCode::version if the stage has another version of the library.
  std::shared_ptr<Device> open_device();
  std::shared_ptr<const RemoteLayers> build(const RemoteBuild& what) override;
  // Returns a new connection. Throws the errors of StageConnection.
  std::shared_ptr<StageConnection> connect() const;

  // Returns why rows cannot travel from card to card between this device and the stage; empty if they can.
  std::string link_refusal(const Device& home);
  // Keeps the reason why cards could not be connected. No further caches try it with this connection.
  void refuse_links(std::string why);
  StageTransport transport() const { return transport_; }

  const StageCounters& counters() const { return *counters_; }
  // Connects again if the connection was lost. Throws the errors of open_device.
  void ensure_connected() { (void)control(); }
  // Returns whether the stage was connected and is not known to be lost.
  bool is_connected() { return live_control() != nullptr; }

 private:
  StageHost(StageAddress stage, StageTransport transport) : stage_(std::move(stage)), transport_(transport) {}
  std::shared_ptr<StageConnection> control();
  // Returns the connection for plans; null if there is none or it is lost.
  std::shared_ptr<StageConnection> live_control();

  const StageAddress stage_;
  const StageTransport transport_;
  const std::shared_ptr<StageCounters> counters_ = std::make_shared<StageCounters>();
  // Held while the connection for plans is made, so that there is one.
  Mutex connect_mutex_;
  // Guards that connection and what the stage has answered there.
  Mutex mutex_;
  std::shared_ptr<StageConnection> control_ QUIRE_GUARDED_BY(mutex_);
  StageDescription description_ QUIRE_GUARDED_BY(mutex_);
  std::string link_failure_ QUIRE_GUARDED_BY(mutex_);  // empty: none
};

}  // namespace quire
