#include "core/engine/jobs/namespaces.h"

#include <algorithm>

namespace quire {

Namespaces::Namespaces(const EngineOptions& options)
    : quotas_(options.quotas ? options.quotas : std::make_shared<NamespaceQuotas>(options)) {}

void Namespaces::take_new_quotas() {
  for (Entry& entry : entries_) {
    if (entry.num_jobs > 0) take_quota(entry);
  }
}

void Namespaces::take_quota(Entry& entry) const {
  const NamespaceQuota quota = quota_of(entry.name);
  entry.weight = quota.weight;
  entry.view.max_running_jobs = quota.max_running_jobs;
  entry.view.max_pages = quota.max_pages;
}

// Returns the smallest served time of the active namespaces. A namespace that becomes active starts from it:
// it gets no credit for the time it was idle.
double Namespaces::least_served() const {
  double least = 0.0;
  bool any = false;
  for (const Entry& entry : entries_) {
    if (entry.num_jobs == 0) continue;
    least = any ? std::min(least, entry.view.served) : entry.view.served;
    any = true;
  }
  return least;
}

int32_t Namespaces::enter(const std::string& name) {
  const auto known = index_of_.find(name);
  if (known != index_of_.end()) {
    ++at(known->second).num_jobs;
    return known->second;
  }
  const auto vacant =
      std::find_if(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.num_jobs == 0; });
  const auto index = static_cast<int32_t>(vacant - entries_.begin());
  Entry entry{name, {}, 1.0, 1};
  take_quota(entry);
  entry.view.served = least_served();
  views_.reserve(entries_.size() + 1);
  if (at_end(index)) entries_.reserve(entries_.size() + 1);
  index_of_.emplace(name, index);
  if (at_end(index)) {
    entries_.push_back(std::move(entry));
  } else {
    at(index) = std::move(entry);
  }
  return index;
}

void Namespaces::leave(int32_t index) noexcept {
  if (--at(index).num_jobs == 0) index_of_.erase(at(index).name);
}

void Namespaces::add_served(int32_t index, int32_t num_tokens) {
  at(index).view.served += static_cast<double>(num_tokens) / at(index).weight;
}

void Namespaces::clear_held_pages() {
  for (Entry& entry : entries_) entry.view.held_pages = 0;
}

gsl::span<const NamespaceView> Namespaces::views() {
  views_.clear();
  for (const Entry& entry : entries_) views_.push_back(entry.view);
  return views_;
}

}  // namespace quire
