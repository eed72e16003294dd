// What the scheduler knows of each namespace that has a live job.
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

// Entries come with a first job and go with the last. One thread at a time.
class Namespaces {
 public:
  explicit Namespaces(const EngineOptions& options);

  // The index of a namespace, which now has one job more.
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
  // Of the namespaces that have jobs: others take theirs when they come.
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
