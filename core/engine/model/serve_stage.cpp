#include "core/engine/model/serve_stage.h"

#include "core/base/deadline.h"
#include "core/base/error.h"
#include "core/stages/stage_server.h"

namespace quire {
namespace {

// Opens the first default device, or all of them if there are several shards.
std::vector<std::shared_ptr<Device>> open_devices(DeviceRegistry& devices, int32_t num_shards) {
  std::vector<std::shared_ptr<Device>> open;
  if (num_shards > 1) {
    for (const ModelDevice& device : devices.open_all({})) open.push_back(device.device);
  } else {
    open.push_back(devices.open({}));
  }
  for (const std::shared_ptr<Device>& device : open) {
    if (!device->is_remote()) continue;
    throw Error(ErrorCode::invalid_argument, "device: {} is a stage itself; choose a device of this machine",
                device->name())
        .at("device");
  }
  return open;
}

StageServerOptions server_options(Runtime& runtime, DeviceRegistry& devices, const StageServing& serving) {
  if (devices.stage_key_file().empty()) {
    throw Error(ErrorCode::invalid_argument,
                "stage_key_file: not set; give a file with a key, such as one of: openssl rand -hex 32")
        .at("stage_key_file");
  }
  StageServerOptions options;
  options.address = with_parameter("listen", [&] { return parse_address(serving.listen, true); });
  options.key = with_parameter("stage_key_file",
                               [&] { return read_key_file(runtime.files(), devices.stage_key_file()); });
  options.num_shards = serving.num_shards;
  options.devices = open_devices(devices, serving.num_shards);
  options.memory_bytes = serving.memory_bytes;
  options.transport = devices.stage_transport();
  options.models = serving.models;
  options.files = &runtime.files();
  options.threads = &runtime.threads();
  options.log = runtime.log();
  return options;
}

}  // namespace

void serve_stage(Runtime& runtime, DeviceRegistry& devices, const StageServing& serving, const Wait& wait) {
  StageServer server(server_options(runtime, devices, serving));
  runtime.log()(LogLevel::info, "the stage listens at {}", server.address().text());
  server.run_until(deadline_after(steady_clock().now(), wait.timeout),
                   wait.cancel == nullptr ? nullptr : &wait.cancel->flag());
  if (wait.cancelled()) throw Error(ErrorCode::cancelled, "the stage was stopped");
  throw Error(ErrorCode::timeout, "the stage has served for its time");
}

}  // namespace quire
