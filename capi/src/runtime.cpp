#include <quire/runtime.h>

#include "capi/src/arguments.h"
#include "capi/src/cache_object.h"
#include "capi/src/callback_scope.h"
#include "capi/src/guard.h"
#include "capi/src/runtime_object.h"
#include "core/engine/metrics/engine_metrics.h"
#include "core/engine/metrics/residency_metrics.h"
#include "core/engine/model/stage_metrics.h"

namespace quire::capi {

RuntimeShare::RuntimeShare(const RuntimeSettings& settings)
    : log_gate_(std::make_shared<LogGate>(settings.log_level, settings.log_sink, settings.log_user_data)),
      devices_(find_backends(), settings.device, {.num_threads = settings.num_threads},
               {settings.stages, settings.stage_key_file, settings.stage_transport}) {
  RuntimeOptions options;
  options.log = make_log(log_gate_);
  for (const auto& [device, bytes] : settings.memory_budgets) {
    options.memory_budgets[devices_.budget_name(device)] = static_cast<uint64_t>(bytes);
  }
  options.backends = devices_.backends();
  runtime_ = Runtime::create(std::move(options));
  devices_.check_default_devices();
}

const KnownDevice& RuntimeShare::device_at(int32_t device_idx) const {
  const auto num_devices = gsl::narrow<int32_t>(devices_.devices().size());
  return devices_
      .devices()[static_cast<size_t>(range_argument(device_idx, 0, num_devices - 1, "device_idx"))];
}

void RuntimeShare::add_cache(const std::shared_ptr<const CacheShare>& cache) {
  const MutexLock lock(mutex_);
  std::erase_if(caches_, [](const auto& entry) { return entry.cache.expired(); });
  caches_.push_back({++num_caches_, cache});
}

std::vector<RuntimeShare::LiveCache> RuntimeShare::live_caches() {
  std::vector<LiveCache> live;
  const MutexLock lock(mutex_);
  for (const auto& entry : caches_) {
    const auto cache = entry.cache.lock();
    if (cache == nullptr) continue;
    live.push_back({cache->name.empty() ? std::to_string(entry.number) : cache->name, cache->cache});
  }
  return live;
}

void RuntimeShare::close_log() noexcept {
  try {
    const std::string alive = census_->describe();
    if (!alive.empty()) {
      runtime_->log()(LogLevel::warning,
                      "the runtime is freed before {} created from it; free these later, or they leak",
                      alive);
    }
  } catch (...) {  // no memory for the log line
  }
  log_gate_->close();
}

}  // namespace quire::capi

using namespace quire::capi;

namespace {

// Calls `read` with the information of a device. Returns `otherwise` if the device cannot be used.
template <typename Read>
auto with_device_info(quire_runtime* runtime, int32_t device_idx, int64_t otherwise, Read&& read) {
  const Pinned pinned(runtime, "runtime");
  const quire::KnownDevice& known = pinned->share->device_at(device_idx);
  if (!known.refusal.empty()) return otherwise;
  return read(pinned->share->devices().open(known.name)->info());
}

}  // namespace

quire_runtime* quire_runtime_create(quire_runtime_options* options, quire_error** error) {
  return guard(error, static_cast<quire_runtime*>(nullptr), [&] {
    const RuntimeSettings settings =
        options == nullptr ? RuntimeSettings{} : Pinned(options, "options")->read();
    return make_handle<quire_runtime>(settings);
  });
}

int32_t quire_runtime_free(quire_runtime* handle, quire_error** error) {
  return free_handle(handle, error, [](RuntimeObject& runtime) {
    refuse_in_callback("quire_runtime_free");
    runtime.share->close_log();
  });
}

int32_t quire_runtime_num_devices(quire_runtime* runtime, quire_error** error) {
  return guard(error, -1, [&] {
    return gsl::narrow<int32_t>(Pinned(runtime, "runtime")->share->devices().devices().size());
  });
}

int64_t quire_runtime_device_name(quire_runtime* runtime, int32_t device_idx, char* out_text,
                                  size_t out_capacity, quire_error** error) {
  return guard(error, int64_t{-1}, [&] {
    const Pinned pinned(runtime, "runtime");
    return write_text(pinned->share->device_at(device_idx).name, out_text, out_capacity);
  });
}

int64_t quire_runtime_device_description(quire_runtime* runtime, int32_t device_idx, char* out_text,
                                         size_t out_capacity, quire_error** error) {
  return guard(error, int64_t{-1}, [&] {
    const OutArgument<char> out(out_text, out_capacity, "out_text");
    return with_device_info(runtime, device_idx, 0, [&](const quire::kernels::DeviceInfo& info) {
      const std::string text = fmt::format("{}; {}", info.name, info.detail);
      return out.write({text.data(), text.size()});
    });
  });
}

int64_t quire_runtime_device_refusal(quire_runtime* runtime, int32_t device_idx, char* out_text,
                                     size_t out_capacity, quire_error** error) {
  return guard(error, int64_t{-1}, [&] {
    const Pinned pinned(runtime, "runtime");
    const OutArgument<char> out(out_text, out_capacity, "out_text");
    const std::string refusal = pinned->share->devices().refusal_now(pinned->share->device_at(device_idx));
    return out.write({refusal.data(), refusal.size()});
  });
}

int64_t quire_runtime_device_memory_bytes(quire_runtime* runtime, int32_t device_idx, quire_error** error) {
  return guard(error, int64_t{-1}, [&] {
    return with_device_info(runtime, device_idx, 0, [](const quire::kernels::DeviceInfo& info) {
      return static_cast<int64_t>(info.total_bytes);
    });
  });
}

int64_t quire_runtime_device_free_bytes(quire_runtime* runtime, int32_t device_idx, quire_error** error) {
  return guard(error, int64_t{-1}, [&] {
    return with_device_info(runtime, device_idx, 0, [](const quire::kernels::DeviceInfo& info) {
      return static_cast<int64_t>(info.free_bytes);
    });
  });
}

int32_t quire_runtime_set_memory_budget(quire_runtime* runtime, const char* text, size_t text_len,
                                        int64_t bytes, quire_error** error) {
  return guard(error, 0, [&] {
    const Pinned pinned(runtime, "runtime");
    const std::string device(c_text_argument(text, text_len, "device"));
    const int64_t checked = range_argument(bytes, int64_t{0}, INT64_MAX, "bytes");
    pinned->share->runtime()->set_memory_budget(pinned->share->devices().budget_name(device),
                                                static_cast<uint64_t>(checked));
    return 1;
  });
}

int64_t quire_runtime_metrics(quire_runtime* runtime, char* out_text, size_t out_capacity,
                              quire_error** error) {
  return guard(error, int64_t{-1}, [&] {
    const Pinned pinned(runtime, "runtime");
    const OutArgument<char> out(out_text, out_capacity, "out_text");
    std::vector<quire::LabelledMetrics> caches;
    for (const auto& [name, cache] : pinned->share->live_caches()) caches.push_back({name, cache->metrics()});
    const std::string page = quire::format_metrics(caches) +
                             quire::format_residency_metrics(*pinned->share->runtime()) +
                             quire::format_stage_metrics(pinned->share->devices().stages());
    return out.write({page.data(), page.size()});
  });
}
