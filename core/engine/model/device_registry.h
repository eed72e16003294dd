// Devices of this build and this machine, each opened at most once.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/mutex.h"
#include "core/engine/model/backends.h"
#include "core/engine/model/model_plan.h"
#include "core/stages/stage_host.h"
#include "core/tensor/device.h"

namespace quire {

struct KnownDevice {
  std::string name;  // "cpu", "cuda:0"
  const kernels::Backend* backend = nullptr;
  int32_t index = 0;
  std::string refusal;                         // reason why it cannot be used; empty if it can
  std::shared_ptr<StageHost> stage = nullptr;  // of another process; null: a device of this machine
};

// Stages in other processes that models may use.
struct StageSettings {
  std::string names;     // "tcp://HOST:PORT", separated by commas; those of the default devices count too
  std::string key_file;  // file of the key that the stages have too
  StageTransport transport = StageTransport::automatic;
};

// Returns all devices, and for each backend without a device an entry with the reason.
std::vector<KnownDevice> list_devices(const std::vector<BackendReport>& reports);

// Thread-safe.
class DeviceRegistry {
 public:
  // `default_devices`: names separated by commas, used if a model names no device. Connects to no stage.
  // Throws ErrorCode::invalid_argument for a malformed name of a stage or a missing key, and the errors of
  // read_key_file.
  DeviceRegistry(const std::vector<BackendReport>& reports, std::string default_devices,
                 const kernels::DeviceOptions& options, const StageSettings& stages = {});

  const std::vector<KnownDevice>& devices() const { return devices_; }
  // Returns the backends that can be used, in order of preference.
  std::vector<const kernels::Backend*> backends() const { return backends_; }

  // Opens a device, or returns the open one. "" is the first default device, "cuda" is "cuda:0". Throws
  // ErrorCode::not_found with the known names, ErrorCode::unsupported with the refusal, or the errors of
  // StageHost::open_device.
  std::shared_ptr<Device> open(std::string_view name);
  // Opens the devices in a list of names; "" is the default list. Throws like open.
  std::vector<ModelDevice> open_all(std::string_view names);
  // Returns why a device cannot be used now: its refusal, or that a stage does not answer. Connects to a
  // stage that is not connected.
  std::string refusal_now(const KnownDevice& device);
  // Returns the file of the key of stages; empty: none.
  const std::string& stage_key_file() const { return stage_settings_.key_file; }
  StageTransport stage_transport() const { return stage_settings_.transport; }
  // Returns the stages among the devices.
  std::vector<std::shared_ptr<StageHost>> stages() const;
  // Returns the full name of a device that may be given by a shorter one. Throws like open.
  const std::string& full_name(std::string_view name) const { return devices_[find(name)].name; }
  // Returns full_name, or kPinnedMemory unchanged.
  std::string budget_name(const std::string& name) const;
  // Throws like open if a default device cannot be used.
  void check_default_devices() const;

 private:
  size_t find(std::string_view name) const;

  const std::string default_devices_;
  const StageSettings stage_settings_;
  const kernels::DeviceOptions options_;
  const std::vector<KnownDevice> devices_;
  std::vector<const kernels::Backend*> backends_;
  Mutex mutex_;
  std::vector<std::shared_ptr<Device>> open_devices_ QUIRE_GUARDED_BY(mutex_);  // in the order of devices_
};

}  // namespace quire
