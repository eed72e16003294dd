// Scheduling policy, quotas and limits of an engine, chosen by the host.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/drafting/drafting_options.h"
#include "core/engine/prefixes/prefix_options.h"

namespace quire {

class Drafter;
class NamespaceQuotas;

// Limits of one namespace. 0 is no limit.
struct NamespaceQuota {
  int32_t max_running_jobs = 0;
  int32_t max_queued_jobs = 0;
  int32_t max_pages = 0;         // pages of its jobs; a shared page counts for each job that uses it
  int32_t max_pinned_pages = 0;  // 0 here: the engine's own limit
  double weight = 1.0;           // share of the namespace relative to the others
};

struct NamespaceOptions {
  std::string name;
  NamespaceQuota quota;
};

// Running jobs may wait up to 2.5 times their usual step while a prompt is computed.
inline constexpr double kDefaultStepStretch = 2.5;

// Scheduling policy. Sizes that cost memory (pages, tokens of a step, sequences) belong to the executor.
// Wide type: the settings of a cache are independent of each other.
struct EngineOptions {
  int32_t max_running_jobs = 0;  // 0: as many as the executor can run
  int32_t max_chunk_tokens = 0;  // decode tokens and prompt chunks of one step; 0: the executor's limit
  int32_t max_seq_len = 0;       // prompt and new tokens of a job; 0: the model's limit
  int32_t max_queued_jobs = 1024;
  // How often later jobs may overtake a job that does not fit, before it blocks them.
  int32_t max_overtakes = 16;
  // Each interval adds 1 to the priority of a waiting job; 0: never.
  Duration ageing_interval = std::chrono::seconds(10);
  Duration watchdog_timeout{0};  // a longer step counts as a device failure; 0: no watchdog
  Duration close_timeout = std::chrono::seconds(2);  // close() gives up on a hung device after this
  int32_t max_pinned_pages = 0;                      // over all namespaces; 0: a quarter of the pages
  // Share of device time when other engines compute on the same devices: twice the weight is twice the time.
  double device_weight = 1.0;
  // How many times longer a step may take when it computes prompts beside running jobs; 0: no limit.
  double step_stretch = kDefaultStepStretch;
  // Idle time after which an elastic cache frees unused pages; 0: only when another cache or model needs
  // memory.
  Duration page_idle_time = std::chrono::seconds(60);
  PrefixStoreOptions prefixes;
  DraftingOptions drafting;
  NamespaceQuota default_quota;  // of every namespace without an entry in `namespaces`
  std::vector<NamespaceOptions> namespaces;
  std::shared_ptr<NamespaceQuotas> quotas;  // current values of the two above; created with the engine

  // Audits page accounting after every step, and fills the pages and state slots that it released with NaN,
  // so that a later read of one fails. Costs time; set by tests and by builds with QUIRE_CHECKED.
#ifdef QUIRE_CHECKED
  bool check_invariants = true;
#else
  bool check_invariants = false;
#endif

  // For tests.
  int32_t prefix_hash_bits = 64;     // fewer bits force collisions
  std::shared_ptr<Drafter> drafter;  // replaces the one that `drafting` names; null: it does not
  bool start_thread = true;          // false: the caller runs steps by EngineThread::run_once
};

}  // namespace quire
