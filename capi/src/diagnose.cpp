#include <quire/diagnose.h>
#include <quire/version.h>

#include "capi/src/arguments.h"
#include "capi/src/guard.h"
#include "capi/src/runtime_object.h"
#include "core/base/json.h"

using namespace quire::capi;

namespace {

// A device opened for a look, as a runtime with no options opens it.
quire::Json describe_device(const RuntimeShare::KnownDevice& known) {
  quire::Json entry = {{"name", known.name}, {"usable", known.refusal.empty()}};
  try {
    if (!known.refusal.empty()) throw quire::Error(quire::ErrorCode::unsupported, known.refusal);
    const auto device = quire::Device::open(*known.backend, known.index, {});
    const quire::kernels::DeviceInfo info = device->info();
    entry["description"] = info.name;
    entry["detail"] = info.detail;
    entry["kernels"] = device->table().name;
    entry["total_bytes"] = info.total_bytes;
    entry["free_bytes"] = info.free_bytes;
  } catch (const quire::Error& failure) {
    entry["usable"] = false;
    entry["reason"] = failure.what();
  }
  return entry;
}

quire::Json count_handles() {
  quire::Json handles = quire::Json::object();
  for (size_t i = 1; i < kNumHandleTypes; ++i) {
    const auto type = static_cast<HandleType>(i);
    handles[handle_type_name(type)] = HandleTable::instance().num_live(type);
  }
  return handles;
}

quire::Json make_report() {
  quire::Json report;
  report["version"] = QUIRE_VERSION_STRING;
  report["abi"] = {{"major", QUIRE_ABI_MAJOR}, {"minor", QUIRE_ABI_MINOR}};
  report["devices"] = quire::Json::array();
  for (const auto& known : list_devices(quire::find_backends()))
    report["devices"].push_back(describe_device(known));
  report["live_handles"] = count_handles();
  return report;
}

std::string mebibytes(const quire::Json& bytes) {
  return fmt::format("{} MiB", bytes.get<uint64_t>() >> 20);
}

std::string as_text(const quire::Json& report) {
  std::string text = fmt::format("Quire {}, binary interface {}.{}\n", report["version"].get<std::string>(),
                                 report["abi"]["major"].get<int>(), report["abi"]["minor"].get<int>());
  for (const quire::Json& device : report["devices"]) {
    text += fmt::format("device {}: ", device["name"].get<std::string>());
    if (!device["usable"].get<bool>()) {
      text += fmt::format("cannot be used: {}\n", device["reason"].get<std::string>());
      continue;
    }
    text += fmt::format("{}; {}; kernels {}; {} of {} free\n", device["description"].get<std::string>(),
                        device["detail"].get<std::string>(), device["kernels"].get<std::string>(),
                        mebibytes(device["free_bytes"]), mebibytes(device["total_bytes"]));
  }
  std::string handles;
  for (const auto& [name, count] : report["live_handles"].items()) {
    if (count.get<int64_t>() > 0) handles += fmt::format(" {} {}", count.get<int64_t>(), name);
  }
  return text + "live handles:" + (handles.empty() ? " none" : handles) + "\n";
}

}  // namespace

int64_t quire_diagnose(int32_t format, char* out_text, size_t out_capacity, quire_error** error) {
  return guard(error, int64_t{-1}, [&] {
    range_argument(format, QUIRE_DIAGNOSE_TEXT, QUIRE_DIAGNOSE_JSON, "format");
    const OutArgument<char> out(out_text, out_capacity, "out_text");
    const quire::Json report = make_report();
    const std::string text = format == QUIRE_DIAGNOSE_JSON ? report.dump() : as_text(report);
    return out.write({text.data(), text.size()});
  });
}
