
#include <quire/runtime.h>

#include "capi/src/arguments.h"
#include "capi/src/cache_object.h"
#include "capi/src/callback_scope.h"
#include "capi/src/device_list.h"
#include "capi/src/guard.h"
#include "capi/src/runtime_object.h"
#include "core/engine/metrics/engine_metrics.h"
#include "core/engine/metrics/residency_metrics.h"

namespace quire::capi {

std::vector<RuntimeShare::KnownDevice> list_devices(const std::vector<BackendReport>& reports) {
  std::vector<RuntimeShare::KnownDevice> devices;
  for (const BackendReport& report : reports) {
    const bool numbered = report.name != "cpu";
    for (int32_t i = 0; i < report.num_devices; ++i) {
      devices.push_back(
          {numbered ? fmt::format("{}:{}", report.name, i) : report.name, report.backend, i, {}});
    }
    if (report.num_devices > 0) continue;
    devices.push_back({report.name, nullptr, 0, report.why.empty() ? "it has no device" : report.why});
  }
  return devices;
}

RuntimeShare::RuntimeShare(const RuntimeSettings& settings)
    : default_devices_(settings.device),
      device_options_{.num_threads = settings.num_threads},
      log_gate_(std::make_shared<LogGate>(settings.log_level, settings.log_sink, settings.log_user_data)) {
  const std::vector<BackendReport> reports = find_backends();
  devices_ = list_devices(reports);
  open_devices_.resize(devices_.size());
  RuntimeOptions options;
  options.log = make_log(log_gate_);
  for (const auto& [device, bytes] : settings.memory_budgets) {
    options.memory_budgets[budget_name(device)] = static_cast<uint64_t>(bytes);
  }
  for (const BackendReport& report : reports) {
    if (report.backend != nullptr) options.backends.push_back(report.backend);
  }
  runtime_ = Runtime::create(std::move(options));
  for (const std::string& name : parse_devices(default_devices_)) find_device(name);
}

const RuntimeShare::KnownDevice& RuntimeShare::device_at(int32_t device_idx) const {
  const auto num_devices = gsl::narrow<int32_t>(devices_.size());
  return devices_[static_cast<size_t>(range_argument(device_idx, 0, num_devices - 1, "device_idx"))];
}

size_t RuntimeShare::find_device(std::string_view name) const {
  const std::string first = std::string(name) + ":0";
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i].name != name && devices_[i].name != first) continue;
    if (devices_[i].refusal.empty()) return i;
    throw Error(ErrorCode::unsupported, "device {}: {}", name, devices_[i].refusal);
  }
  std::string known;
  for (const KnownDevice& device : devices_) known += (known.empty() ? "" : ", ") + device.name;
  throw Error(ErrorCode::not_found, "device: there is no \"{}\"; there are: {}", printable(name), known);
}

std::shared_ptr<Device> RuntimeShare::open_device(std::string_view name) {
  const size_t device_idx = find_device(name.empty() ? parse_devices(default_devices_).front() : name);
  const MutexLock lock(mutex_);
  std::shared_ptr<Device>& device = open_devices_[device_idx];
  if (device == nullptr) {
    device = Device::open(*devices_[device_idx].backend, devices_[device_idx].index, device_options_);
  }
  return device;
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

std::vector<ModelDevice> RuntimeShare::open_devices(std::string_view names) {
  std::vector<ModelDevice> devices;
  for (const std::string& name : parse_devices(names.empty() ? std::string_view(default_devices_) : names)) {
    devices.push_back({name, open_device(name)});
  }
  return devices;
}

void RuntimeShare::close_log() noexcept {
  try {
    const std::string alive = census_->describe();
    if (!alive.empty()) {
      runtime_->log()(LogLevel::warning,
                      "the runtime is freed before {} made from it; what nobody frees later is a leak",
                      alive);
    }
  } catch (...) {  // no memory for a line of the log
  }
  log_gate_->close();
}

}  // namespace quire::capi

using namespace quire::capi;

namespace {

// Runs `read` on the information of a device that can be used; `otherwise` for one that cannot.
template <typename Read>
auto with_device_info(quire_runtime* runtime, int32_t device_idx, int64_t otherwise, Read&& read) {
  const Pinned pinned(runtime, "runtime");
  const RuntimeShare::KnownDevice& known = pinned->share->device_at(device_idx);
  if (!known.refusal.empty()) return otherwise;
  return read(pinned->share->open_device(known.name)->info());
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
  return guard(error, -1,
               [&] { return gsl::narrow<int32_t>(Pinned(runtime, "runtime")->share->devices().size()); });
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
    return write_text(pinned->share->device_at(device_idx).refusal, out_text, out_capacity);
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
    pinned->share->runtime()->set_memory_budget(pinned->share->budget_name(device),
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
    const std::string page =
        quire::format_metrics(caches) + quire::format_residency_metrics(*pinned->share->runtime());
    return out.write({page.data(), page.size()});
  });
}
