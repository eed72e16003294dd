#include "core/engine/model/model_loader.h"

#include <atomic>
#include <utility>

#include <fmt/format.h>

#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/base/error.h"
#include "core/engine/model/precision.h"
#include "core/models/model_variants.h"

namespace quire {
namespace {

// Ends a load early, by the cancel switch of the wait or by its timeout.
class LoadWait {
 public:
  explicit LoadWait(const Wait& wait)
      : deadline_(deadline_after(steady_clock().now(), wait.timeout)),
        listener_(wait.cancel, [stop = stop_] { stop->trigger(); }) {}

  // Returns the flag that the load polls.
  const std::atomic<bool>& stopped() const { return stop_->flag(); }
  // Cancels the load if the deadline has passed. Called between two pieces of weights.
  void check_deadline() {
    if (stop_->triggered() || steady_clock().now() < deadline_) return;
    late_ = true;
    stop_->trigger();
  }
  bool late() const { return late_; }
  TimePoint deadline() const { return deadline_; }

 private:
  const std::shared_ptr<CancelSwitch> stop_ = std::make_shared<CancelSwitch>();
  const TimePoint deadline_;
  bool late_ = false;
  const CancelSwitch::Listener listener_;
};

// Arguments of a load that are the same for all variants.
struct Load {
  const std::shared_ptr<Runtime>& runtime;
  DeviceRegistry& devices;
  const ModelLoadOptions& options;
  LoadWait& wait;
};

LoadMonitor make_monitor(const Load& load) {
  LoadMonitor monitor;
  monitor.progress = [&load](const LoadProgress& progress) {
    load.wait.check_deadline();
    if (load.options.progress != nullptr) load.options.progress(progress);
  };
  monitor.cancel = &load.wait.stopped();
  monitor.deadline = load.wait.deadline();
  return monitor;
}

LoadedModel load_path(const Load& load, const std::string& path) {
  const FileSystem& files = load.runtime->files();
  ResidentModelOptions options;
  options.scope = load.options.scope;
  options.plan.source = open_model_source(files, path);
  options.plan.num_shards = load.options.num_shards;
  options.plan.drafter = load.options.drafter;
  if (options.scope == ModelScope::full)
    options.plan = plan_options(load.devices, load.options, options.plan.source);
  if (options.scope != ModelScope::tokenizer) open_drafter(files, options.plan);
  options.is_lazy = load.options.is_lazy;
  options.monitor = make_monitor(load);

  LoadedModel loaded;
  loaded.resident = ResidentModel::load(load.runtime, options);
  loaded.model = loaded.resident->model();
  if (options.scope != ModelScope::tokenizer) {
    const auto& unused = loaded.model->config().usage.generation.unused;
    if (!unused.empty()) {
      load.runtime->log()(LogLevel::warning, "{}/generation_config.json: these fields are not followed: {}",
                          path, fmt::join(unused, ", "));
    }
  }
  loaded.generation_config = options.plan.source->generation_config();
  if (files.is_directory(path)) {
    loaded.chat = std::make_shared<ModelChat>(files, path);
  } else if (std::string config = options.plan.source->tokenizer_config(); !config.empty()) {
    loaded.chat = std::make_shared<ModelChat>(std::move(config));
  }
  return loaded;
}

LoadedModel load_variant(const Load& load) {
  if (load.options.path.empty())
    throw Error(ErrorCode::invalid_argument, "path: not set; give the directory of a model").at("path");
  load.wait.check_deadline();
  if (load.wait.stopped()) throw Error(ErrorCode::cancelled, "the load was cancelled before it began");
  const FileSystem& files = load.runtime->files();
  if (load.options.is_lazy)
    return load_path(load, plan_variants(files, load.devices, load.options).options.source->path());
  return first_that_fits(model_variants(files, load.options.path),
                         [&](const std::string& path) { return load_path(load, path); });
}

}  // namespace

LoadedModel load_model(const std::shared_ptr<Runtime>& runtime, DeviceRegistry& devices,
                       const ModelLoadOptions& load, const Wait& wait) {
  LoadWait load_wait(wait);
  try {
    return load_variant({runtime, devices, load, load_wait});
  } catch (const Error& error) {
    if (error.code() != ErrorCode::cancelled) throw;
    load_wait.check_deadline();
    if (!load_wait.late()) throw;
    throw Error(ErrorCode::timeout, "the load did not finish in time; give it a longer timeout");
  }
}

}  // namespace quire
