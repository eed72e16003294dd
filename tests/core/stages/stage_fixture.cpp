#include "tests/core/stages/stage_fixture.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <spawn.h>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/cpu/cpu_backend.h"

extern char** environ;

namespace quire::testing {
namespace {

StageServerOptions server_options(std::vector<std::shared_ptr<Device>> devices, uint64_t memory_bytes,
                                  const std::string& models) {
  StageServerOptions options;
  options.address = {"127.0.0.1", 0};
  options.key = kStageKey;
  options.num_shards = gsl::narrow<int32_t>(devices.size());
  options.devices = std::move(devices);
  options.memory_bytes = memory_bytes;
  options.models = models;
  return options;
}

std::string first_line(int descriptor) {
  std::string line;
  for (char symbol = 0; ::read(descriptor, &symbol, 1) == 1 && symbol != '\n';) line.push_back(symbol);
  return line;
}

}  // namespace

StageProcess::StageProcess(uint64_t memory_bytes, const std::string& models,
                           const std::vector<std::string>& before, const std::string& address,
                           const StageDeviceChoice& choice) {
  std::vector<std::string> words = before;
  words.insert(words.end(),
               {QUIRE_TEST_STAGE, directory_.write("key", kStageKey), models, std::to_string(memory_bytes),
                address, choice.device, choice.library, std::to_string(choice.num_shards)});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  const FileDescriptor reads(ends[0]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  const int failure =
      ::posix_spawnp(&pid_, words.front().c_str(), &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  if (failure != 0) throw std::runtime_error("no process");
  const std::string at = first_line(reads.get());
  if (at.empty()) throw std::runtime_error("the stage did not start");
  name_ = "tcp://" + at;
}

StageProcess::~StageProcess() {
  kill();
}

void StageProcess::send_signal(int number) const {
  ::kill(pid_, number);
}

void StageProcess::kill() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

StageThread::StageThread(std::vector<std::shared_ptr<Device>> devices, uint64_t memory_bytes,
                         const std::string& models)
    : server_(server_options(std::move(devices), memory_bytes, models)),
      thread_([this] { server_.run_until(TimePoint::max(), &stop_); }) {}

StageThread::~StageThread() {
  stop_ = true;
  thread_.join();
}

std::shared_ptr<Device> open_cpu(uint64_t limit_bytes) {
  kernels::DeviceOptions options;
  options.num_threads = 2;
  options.memory_limit_bytes = limit_bytes;
  return Device::open(kernels::cpu_backend(), 0, options);
}

std::shared_ptr<Device> join_stage(const std::string& name, const std::string& key) {
  return StageHost::create(name, key)->open_device();
}

ModelPlanOptions options_on(const std::string& path, const std::vector<std::shared_ptr<Device>>& devices,
                            const std::vector<int32_t>& split) {
  ModelPlanOptions options;
  options.source = open_model_source(posix_file_system(), path);
  for (const auto& device : devices) options.devices.push_back({device->name(), device});
  options.split = split;
  return options;
}

std::shared_ptr<Model> load_planned(const ModelPlanOptions& options) {
  ModelOptions load;
  load.source = options.source;
  for (const ModelDevice& device : options.devices) load.devices.push_back(device.device);
  load.placement = plan_model(options).memory.placement;
  load.drafter = options.draft_source;
  load.num_shards = options.num_shards;
  return Model::load(load);
}

std::shared_ptr<Model> load_on(const std::string& path, const std::vector<std::shared_ptr<Device>>& devices,
                               const std::vector<int32_t>& split, int32_t num_shards) {
  ModelPlanOptions options = options_on(path, devices, split);
  options.num_shards = num_shards;
  return load_planned(options);
}

}  // namespace quire::testing
