// Stages for tests: in a process of their own, or on a thread of the test.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <sys/types.h>
#include <thread>
#include <vector>

#include "core/engine/model/model_plan.h"
#include "core/stages/stage_host.h"
#include "core/stages/stage_server.h"
#include "tests/support/temp_directory.h"

namespace quire::testing {

inline constexpr const char* kStageKey = "stage-key-of-the-tests-0123456789";

// Device of a stage process.
struct StageDeviceChoice {
  std::string device = "cpu:0";
  std::string library = {};  // opened by its path before the device is; empty: none
  int32_t num_shards = 1;    // of each layer, all on the device
};

// A stage in another process, killed by the destructor.
class StageProcess {
 public:
  // `before` is what starts the process: a command and its arguments, such as "ip netns exec NAME".
  explicit StageProcess(uint64_t memory_bytes = 0, const std::string& models = "/",
                        const std::vector<std::string>& before = {},
                        const std::string& address = "127.0.0.1:0", const StageDeviceChoice& choice = {});
  explicit StageProcess(const StageDeviceChoice& choice, const std::vector<std::string>& before = {})
      : StageProcess(0, "/", before, "127.0.0.1:0", choice) {}
  StageProcess(const StageProcess&) = delete;
  StageProcess& operator=(const StageProcess&) = delete;
  ~StageProcess();

  // "tcp://127.0.0.1:PORT"
  const std::string& name() const { return name_; }
  std::string address() const { return name_.substr(6); }
  void send_signal(int number) const;
  // Ends the process at once and waits for it.
  void kill();

 private:
  const TempDirectory directory_;
  pid_t pid_ = -1;
  std::string name_;
};

// A stage on a thread of the test.
class StageThread {
 public:
  explicit StageThread(std::shared_ptr<Device> device, uint64_t memory_bytes = 0,
                       const std::string& models = "/")
      : StageThread(std::vector{std::move(device)}, memory_bytes, models) {}
  // A stage with one shard on each device.
  explicit StageThread(std::vector<std::shared_ptr<Device>> devices, uint64_t memory_bytes = 0,
                       const std::string& models = "/");
  ~StageThread();
  std::string name() const { return "tcp://" + server_.address().text(); }
  StageServer& server() { return server_; }

 private:
  StageServer server_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// `limit_bytes` is the memory that may be taken; 0: no limit.
std::shared_ptr<Device> open_cpu(uint64_t limit_bytes = 0);
// Opens the device of a stage.
std::shared_ptr<Device> join_stage(const std::string& name, const std::string& key = kStageKey);

// Returns the options of a plan on devices with these numbers of layers; no numbers: an automatic split.
ModelPlanOptions options_on(const std::string& path, const std::vector<std::shared_ptr<Device>>& devices,
                            const std::vector<int32_t>& split);
std::shared_ptr<Model> load_planned(const ModelPlanOptions& options);
// Loads a model with these numbers of layers on the devices, and so many shards of the layers in this
// process.
std::shared_ptr<Model> load_on(const std::string& path, const std::vector<std::shared_ptr<Device>>& devices,
                               const std::vector<int32_t>& split = {}, int32_t num_shards = 1);

}  // namespace quire::testing
