// Fair-share accounting: the scheduler's view of each namespace that has a live job.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/engine/jobs/namespace_quotas.h"
#include "core/engine/scheduler/scheduler_policy.h"
#include "core/engine/settings/engine_options.h"

namespace quire {

// An entry exists from a namespace's first live job to its last. Not thread-safe.
class Namespaces {
 public:
  explicit Namespaces(const EngineOptions& options);

  // Adds one job to a namespace and returns its index.
  int32_t enter(const std::string& name);
  void leave(int32_t index) noexcept;

  void change_running(int32_t index, int32_t by) { at(index).view.running_jobs += by; }
  void set_held_pages(int32_t index, int32_t pages) { at(index).view.held_pages = pages; }
  void add_held_pages(int32_t index, int32_t pages) { at(index).view.held_pages += pages; }
  void add_served(int32_t index, int32_t num_tokens);
  void clear_held_pages();

  gsl::span<const NamespaceView> views();
  const NamespaceView& view(int32_t index) const { return entries_[static_cast<size_t>(index)].view; }
  NamespaceQuota quota_of(const std::string& name) const { return quotas_->of(name); }
  // Applies changed quotas to the active namespaces. Others read theirs when they become active.
  void take_new_quotas();

 private:
  struct Entry {
    std::string name;
    NamespaceView view;
    double weight = 1.0;
    int32_t num_jobs = 0;
  };
  Entry& at(int32_t index) { return entries_[static_cast<size_t>(index)]; }
  bool at_end(int32_t index) const { return static_cast<size_t>(index) == entries_.size(); }
  void take_quota(Entry& entry) const;
  double least_served() const;

  const std::shared_ptr<NamespaceQuotas> quotas_;
  std::vector<Entry> entries_;
  std::vector<NamespaceView> views_;
  std::unordered_map<std::string, int32_t> index_of_;
};

}  // namespace quire
