#include <quire/diagnose.h>
#include <quire/version.h>

#include "capi/src/arguments.h"
#include "capi/src/guard.h"
#include "capi/src/runtime_object.h"
#include "core/base/json.h"

using namespace quire::capi;

namespace {

// A device, opened with the options of a runtime without options.
struct DeviceReport {
  std::string name;
  std::string refusal;  // empty if it can be used; then the other fields are set
  std::string kernels;
  quire::kernels::DeviceInfo info;
};

DeviceReport describe_device(const quire::KnownDevice& known) {
  DeviceReport report{known.name, known.refusal, {}, {}};
  if (!report.refusal.empty()) return report;
  try {
    const auto device = quire::Device::open(*known.backend, known.index, {});
    report.info = device->info();
    report.kernels = device->table().name;
  } catch (const quire::Error& failure) {
    report.refusal = failure.what();
  }
  return report;
}

std::vector<DeviceReport> describe_devices() {
  std::vector<DeviceReport> devices;
  for (const auto& known : list_devices(quire::find_backends())) devices.push_back(describe_device(known));
  return devices;
}

// Calls visit(name, count) for each type of handle.
template <typename Visit>
void for_each_handle_count(Visit visit) {
  for (size_t i = 1; i < kNumHandleTypes; ++i) {
    const auto type = static_cast<HandleType>(i);
    visit(handle_type_name(type), HandleTable::instance().num_live(type));
  }
}

std::string as_json(const DeviceReport& device) {
  using quire::json_quoted;
  const std::string name = json_quoted(device.name);
  if (!device.refusal.empty()) {
    return fmt::format(R"({{"name":{},"usable":false,"reason":{}}})", name, json_quoted(device.refusal));
  }
  return fmt::format(
      R"({{"name":{},"usable":true,"description":{},"detail":{},"kernels":{},"total_bytes":{},"free_bytes":{}}})",
      name, json_quoted(device.info.name), json_quoted(device.info.detail), json_quoted(device.kernels),
      device.info.total_bytes, device.info.free_bytes);
}

std::string as_json(const std::vector<DeviceReport>& devices) {
  std::string list;
  for (const DeviceReport& device : devices) list += (list.empty() ? "" : ",") + as_json(device);
  std::string handles;
  for_each_handle_count([&](std::string_view name, int64_t count) {
    handles += fmt::format("{}{}:{}", handles.empty() ? "" : ",", quire::json_quoted(name), count);
  });
  return fmt::format(
      R"({{"version":{},"abi":{{"major":{},"minor":{}}},"devices":[{}],"live_handles":{{{}}}}})",
      quire::json_quoted(QUIRE_VERSION_STRING), QUIRE_ABI_MAJOR, QUIRE_ABI_MINOR, list, handles);
}

std::string as_text(const DeviceReport& device) {
  if (!device.refusal.empty())
    return fmt::format("device {}: cannot be used: {}\n", device.name, device.refusal);
  return fmt::format("device {}: {}; {}; kernels {}; {} MiB of {} MiB free\n", device.name, device.info.name,
                     device.info.detail, device.kernels, device.info.free_bytes >> 20,
                     device.info.total_bytes >> 20);
}

std::string as_text(const std::vector<DeviceReport>& devices) {
  std::string text = fmt::format("Quire {}, binary interface {}.{}\n", QUIRE_VERSION_STRING, QUIRE_ABI_MAJOR,
                                 QUIRE_ABI_MINOR);
  for (const DeviceReport& device : devices) text += as_text(device);
  std::string handles;
  for_each_handle_count([&](std::string_view name, int64_t count) {
    if (count > 0) handles += fmt::format(" {} {}", count, name);
  });
  return text + "live handles:" + (handles.empty() ? " none" : handles) + "\n";
}

}  // namespace

int64_t quire_diagnose(int32_t format, char* out_text, size_t out_capacity, quire_error** error) {
  return guard(error, int64_t{-1}, [&] {
    range_argument(format, QUIRE_DIAGNOSE_TEXT, QUIRE_DIAGNOSE_JSON, "format");
    const OutArgument<char> out(out_text, out_capacity, "out_text");
    const std::vector<DeviceReport> devices = describe_devices();
    const std::string text = format == QUIRE_DIAGNOSE_JSON ? as_json(devices) : as_text(devices);
    return out.write({text.data(), text.size()});
  });
}
