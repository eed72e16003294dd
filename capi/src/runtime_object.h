// The object of a quire_runtime: the engine's runtime, the gate to the host's log, and the devices.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "capi/src/handle_census.h"
#include "capi/src/log_gate.h"
#include "capi/src/options_objects.h"
#include "core/base/mutex.h"
#include "core/engine/engine.h"
#include "core/engine/model/backends.h"
#include "core/engine/model/model_plan.h"
#include "core/engine/residency/runtime.h"

namespace quire::capi {

struct CacheShare;

// Shared by the handle and by all that was made from it. Any thread.
class RuntimeShare {
 public:
  struct KnownDevice {
    std::string name;  // "cpu", "cuda:0"
    const kernels::Backend* backend = nullptr;
    int32_t index = 0;
    std::string refusal;  // why it cannot be used; empty where it can
  };

  // Throws ErrorCode::not_found or ErrorCode::unsupported where the default device cannot be had.
  explicit RuntimeShare(const RuntimeSettings& settings);

  const std::shared_ptr<Runtime>& runtime() const { return runtime_; }
  const std::vector<KnownDevice>& devices() const { return devices_; }
  // Throws ErrorCode::invalid_argument.
  const KnownDevice& device_at(int32_t device_idx) const;
  // Opens a device, once; "" is the first of the default ones, "cuda" is "cuda:0".
  std::shared_ptr<Device> open_device(std::string_view name);
  // Those of a list of names; "" is the default.
  std::vector<ModelDevice> open_devices(std::string_view names);
  // The name of a device that may be known by a shorter one; throws as open_device.
  const std::string& full_name(std::string_view name) const { return devices_[find_device(name)].name; }
  // As full_name, or kPinnedMemory.
  std::string budget_name(const std::string& name) const {
    return name == kPinnedMemory ? name : full_name(name);
  }
  const std::shared_ptr<HandleCensus>& census() const { return census_; }
  LogGate& log_gate() const { return *log_gate_; }

  struct LiveCache {
    std::string name;
    std::shared_ptr<Engine> cache;
  };
  void add_cache(const std::shared_ptr<const CacheShare>& cache);
  // In the order in which they were made.
  std::vector<LiveCache> live_caches();
  // Tells the log which handles made from the runtime are still alive, and then no more: no call of the sink
  // is in progress afterwards, and none will come.
  void close_log() noexcept;

 private:
  size_t find_device(std::string_view name) const;

  std::string default_devices_;
  kernels::DeviceOptions device_options_;
  const std::shared_ptr<HandleCensus> census_ = std::make_shared<HandleCensus>();
  std::shared_ptr<LogGate> log_gate_;
  std::shared_ptr<Runtime> runtime_;
  std::vector<KnownDevice> devices_;
  Mutex mutex_;
  std::vector<std::shared_ptr<Device>> open_devices_ QUIRE_GUARDED_BY(mutex_);  // as devices_
  struct KnownCache {
    int64_t number;
    std::weak_ptr<const CacheShare> cache;
  };
  std::vector<KnownCache> caches_ QUIRE_GUARDED_BY(mutex_);
  int64_t num_caches_ QUIRE_GUARDED_BY(mutex_) = 0;
};

struct RuntimeObject final : Object {
  explicit RuntimeObject(const RuntimeSettings& settings) : share(std::make_shared<RuntimeShare>(settings)) {}
  const std::shared_ptr<RuntimeShare> share;
};

template <>
struct HandleTraits<quire_runtime> {
  using Object = RuntimeObject;
  static constexpr HandleType type = HandleType::runtime;
};

// All devices that this build and machine have, and for each backend without one an entry that says why.
std::vector<RuntimeShare::KnownDevice> list_devices(const std::vector<BackendReport>& reports);

}  // namespace quire::capi
