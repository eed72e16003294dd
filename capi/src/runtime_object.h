// Object of a quire_runtime: the engine's runtime, the gate to the host's log, and the devices.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "capi/src/handle_census.h"
#include "capi/src/log_gate.h"
#include "capi/src/options_objects.h"
#include "core/base/mutex.h"
#include "core/engine/engine.h"
#include "core/engine/model/device_registry.h"
#include "core/engine/residency/runtime.h"

namespace quire::capi {

struct CacheShare;

// Shared by the handle and everything created from it. Thread-safe.
class RuntimeShare {
 public:
  // Throws ErrorCode::not_found or ErrorCode::unsupported if a default device cannot be used.
  explicit RuntimeShare(const RuntimeSettings& settings);

  const std::shared_ptr<Runtime>& runtime() const { return runtime_; }
  DeviceRegistry& devices() { return devices_; }
  // Throws ErrorCode::invalid_argument if there is no such device.
  const KnownDevice& device_at(int32_t device_idx) const;
  const std::shared_ptr<HandleCensus>& census() const { return census_; }
  LogGate& log_gate() const { return *log_gate_; }

  struct LiveCache {
    std::string name;
    std::shared_ptr<Engine> cache;
  };
  void add_cache(const std::shared_ptr<const CacheShare>& cache);
  // Returns the live caches in order of creation.
  std::vector<LiveCache> live_caches();
  // Logs which handles created from the runtime are still alive, and closes the log: afterwards no call of
  // the sink is running and none will follow.
  void close_log() noexcept;

 private:
  const std::shared_ptr<HandleCensus> census_ = std::make_shared<HandleCensus>();
  std::shared_ptr<LogGate> log_gate_;
  std::shared_ptr<Runtime> runtime_;
  DeviceRegistry devices_;
  Mutex mutex_;
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

}  // namespace quire::capi
