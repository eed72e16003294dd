// Objects of the option handles: plain values with a lock.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <quire/options.h>

#include "capi/src/guard.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/drafting/drafting_options.h"
#include "core/engine/model/device_list.h"
#include "core/stages/stage_transport.h"

namespace quire::capi {

// Holds a value. Readers get its last complete state; setters run one after another.
template <typename Value>
class OptionsObject : public Object {
 public:
  Value read() const {
    const MutexLock lock(mutex_);
    return value_;
  }
  template <typename Change>
  void change(Change&& apply) {
    const MutexLock lock(mutex_);
    apply(value_);
  }

 private:
  mutable Mutex mutex_;
  Value value_ QUIRE_GUARDED_BY(mutex_);
};

// Implements a setter. `apply` checks its arguments first and then sets; if it throws, the value stays
// unchanged.
template <typename Handle, typename Change>
int32_t set_option(Handle* handle, const char* name, quire_error** error, Change&& apply) noexcept {
  return guard(error, 0, [&] {
    Pinned<Handle>(handle, name)->change(apply);
    return 1;
  });
}

struct RuntimeSettings {
  int32_t num_threads = 0;
  std::string device = "cpu";
  std::string stages;          // names separated by commas; empty: none but those of `device`
  std::string stage_key_file;  // empty: none
  StageTransport stage_transport = StageTransport::automatic;
  int32_t log_level = QUIRE_LOG_WARNING;
  quire_log_fn log_sink = nullptr;
  void* log_user_data = nullptr;
  std::map<std::string, int64_t> memory_budgets;  // by device
};

// Quotas, indexed by QUIRE_QUOTA_*. Unset ones have the cache's default.
struct NamespaceSettings {
  std::array<std::optional<int32_t>, 4> quotas;
  double weight = 1.0;
};

// Settings of a cache as the caller gives them.
// Wide type: one member for each setter of the C interface.
struct CacheSettings {
  static constexpr size_t kMaxNamespaces = 1024;
  static constexpr size_t kMaxNameBytes = 256;

  std::string name;
  int64_t max_tokens = 0;
  int64_t min_tokens = 0;
  Duration page_idle = std::chrono::seconds(60);
  int32_t page_tokens = 256;
  int32_t max_batch_size = 64;
  int32_t window_sequences = 0;
  int32_t max_chunk_tokens = 512;
  int64_t max_seq_len = 0;
  int32_t max_queue = 1024;
  int32_t kv_format = QUIRE_KV_F16;
  int32_t drafter = QUIRE_DRAFTER_AUTO;
  int32_t max_drafts = quire::DraftingOptions{}.max_drafts;
  std::array<int32_t, 4> quotas{};  // indexed by QUIRE_QUOTA_*; 0: no limit
  std::map<std::string, NamespaceSettings, std::less<>> namespaces;
  double device_weight = 1.0;
  double step_stretch = 2.5;
  int64_t card_expert_bytes = 0;
  int64_t prefix_bytes = 0;
  std::string prefix_directory;
  int64_t prefix_directory_bytes = 0;  // 0: the default limit
  int32_t max_pinned_pages = 0;
  int32_t max_overtakes = 16;
  Duration ageing = std::chrono::seconds(10);
  Duration step_timeout{0};
  Duration close_timeout = std::chrono::seconds(2);
};

struct ProgressSettings {
  quire_progress_fn report = nullptr;
  void* user_data = nullptr;
};

struct ModelSettings {
  std::string path;
  std::string device;  // empty: the runtime's default
  SplitChoice split;
  HostExpertsChoice host_experts;
  std::vector<uint64_t> reserve;       // of each device, or one for all; empty: the default
  std::optional<CacheSettings> cache;  // to leave memory for
  int32_t scope = QUIRE_MODEL_SCOPE_FULL;
  bool is_lazy = false;
  ProgressSettings progress;
  int32_t num_shards = 1;
  int32_t activation_dtype = QUIRE_ACTIVATION_FULL;
  std::string drafter = "auto";
};

template <>
struct HandleTraits<quire_runtime_options> {
  using Object = OptionsObject<RuntimeSettings>;
  static constexpr HandleType type = HandleType::runtime_options;
};

template <>
struct HandleTraits<quire_model_options> {
  using Object = OptionsObject<ModelSettings>;
  static constexpr HandleType type = HandleType::model_options;
};

template <>
struct HandleTraits<quire_cache_options> {
  using Object = OptionsObject<CacheSettings>;
  static constexpr HandleType type = HandleType::cache_options;
};

}  // namespace quire::capi
