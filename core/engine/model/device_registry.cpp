#include "core/engine/model/device_registry.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "core/base/error.h"
#include "core/engine/model/device_list.h"
#include "core/net/handshake.h"

namespace quire {

std::vector<KnownDevice> list_devices(const std::vector<BackendReport>& reports) {
  std::vector<KnownDevice> devices;
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

namespace {

// Returns the devices of this machine, then the stages, each once.
std::vector<KnownDevice> with_stages(std::vector<KnownDevice> devices, const StageSettings& stages,
                                     const std::string& default_devices) {
  std::vector<std::string> names = parse_devices(default_devices);
  if (!stages.names.empty()) {
    const std::vector<std::string> more = parse_devices(stages.names);
    const auto other = std::find_if_not(more.begin(), more.end(), is_stage_name);
    if (other != more.end())
      throw Error(ErrorCode::invalid_argument, "stages: \"{}\" is not a stage such as tcp://10.0.0.2:7430",
                  printable(*other))
          .at("stages");
    names.insert(names.end(), more.begin(), more.end());
  }
  std::erase_if(names, [](const std::string& name) { return !is_stage_name(name); });
  if (names.empty()) return devices;
  if (stages.key_file.empty()) {
    throw Error(ErrorCode::invalid_argument,
                "stage_key_file: not set; give the file of the key with which the stage {} was started",
                names.front())
        .at("stage_key_file");
  }
  const std::string key =
      with_parameter("stage_key_file", [&] { return read_key_file(posix_file_system(), stages.key_file); });
  for (const std::string& name : names) {
    const bool is_known = std::any_of(devices.begin(), devices.end(),
                                      [&](const KnownDevice& device) { return device.name == name; });
    if (is_known) continue;
    auto stage = with_parameter("stages", [&] { return StageHost::create(name, key, stages.transport); });
    devices.push_back({name, nullptr, 0, {}, std::move(stage)});
  }
  return devices;
}

}  // namespace

DeviceRegistry::DeviceRegistry(const std::vector<BackendReport>& reports, std::string default_devices,
                               const kernels::DeviceOptions& options, const StageSettings& stages)
    : default_devices_(std::move(default_devices)),
      stage_settings_(stages),
      options_(options),
      devices_(with_stages(list_devices(reports), stages, default_devices_)) {
  for (const BackendReport& report : reports) {
    if (report.backend != nullptr) backends_.push_back(report.backend);
  }
  open_devices_.resize(devices_.size());
}

size_t DeviceRegistry::find(std::string_view name) const {
  const std::string first = std::string(name) + ":0";
  const std::string_view backend = name.substr(0, name.find(':'));
  for (size_t i = 0; i < devices_.size(); ++i) {
    // A backend without a device has one entry, whose name has no number.
    const bool is_refused = devices_[i].name == backend && !devices_[i].refusal.empty();
    if (devices_[i].name != name && devices_[i].name != first && !is_refused) continue;
    if (devices_[i].refusal.empty()) return i;
    throw Error(ErrorCode::unsupported, "device: {} cannot be used: {}", printable(name), devices_[i].refusal)
        .at("device");
  }
  if (is_stage_name(name)) {
    throw Error(ErrorCode::not_found, "device: the runtime has no stage \"{}\"; name it in stages",
                printable(name))
        .at("device");
  }
  std::string known;
  for (const KnownDevice& device : devices_) known += (known.empty() ? "" : ", ") + device.name;
  throw Error(ErrorCode::not_found, "device: there is no \"{}\"; use one of: {}", printable(name), known)
      .at("device");
}

std::shared_ptr<Device> DeviceRegistry::open(std::string_view name) {
  const size_t device_idx = find(name.empty() ? parse_devices(default_devices_).front() : name);
  std::shared_ptr<Device> of_stage;  // connected to without the lock
  if (const auto& stage = devices_[device_idx].stage; stage != nullptr) {
    {
      const MutexLock lock(mutex_);
      if (open_devices_[device_idx] != nullptr) return open_devices_[device_idx];
    }
    of_stage = stage->open_device();
  }
  const MutexLock lock(mutex_);
  std::shared_ptr<Device>& device = open_devices_[device_idx];
  if (device == nullptr && of_stage != nullptr) device = std::move(of_stage);
  if (device == nullptr) {
    device = Device::open(*devices_[device_idx].backend, devices_[device_idx].index, options_);
  }
  return device;
}

std::vector<ModelDevice> DeviceRegistry::open_all(std::string_view names) {
  std::vector<ModelDevice> devices;
  for (const std::string& name : parse_devices(names.empty() ? std::string_view(default_devices_) : names)) {
    devices.push_back({name, open(name)});
  }
  return devices;
}

std::string DeviceRegistry::refusal_now(const KnownDevice& device) {
  if (device.stage == nullptr) return device.refusal;
  try {
    (void)open(device.name);
    device.stage->ensure_connected();
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

std::vector<std::shared_ptr<StageHost>> DeviceRegistry::stages() const {
  std::vector<std::shared_ptr<StageHost>> stages;
  for (const KnownDevice& device : devices_)
    if (device.stage != nullptr) stages.push_back(device.stage);
  return stages;
}

std::string DeviceRegistry::budget_name(const std::string& name) const {
  return name == kPinnedMemory ? name : full_name(name);
}

void DeviceRegistry::check_default_devices() const {
  for (const std::string& name : parse_devices(default_devices_)) find(name);
}

}  // namespace quire
