#include "core/engine/metrics/metrics_store.h"

namespace quire {

namespace {

// Copies everything but the name, which never changes.
void copy_figures(const NamespaceMetrics& from, NamespaceMetrics& to) noexcept {
  to.counts = from.counts;
  to.histograms = from.histograms;
  to.held_pages = from.held_pages;
  to.pinned_pages = from.pinned_pages;
}

}  // namespace

MetricsStore::MetricsStore() {
  current_.name_spaces.reserve(kMaxNamespaces);
  touched_.reserve(kMaxNamespaces);
  const MutexLock lock(published_mutex_);
  published_.name_spaces.reserve(kMaxNamespaces);
}

int32_t MetricsStore::place_of(const std::string& name) {
  const auto known = places_.find(name);
  if (known != places_.end()) return known->second;
  if (places_.size() == kMaxNamespaces) return kNoIndex;
  NamespaceMetrics entry;
  entry.name = name;
  NamespaceMetrics published_entry = entry;
  const auto place = static_cast<int32_t>(places_.size());
  places_.emplace(name, place);
  current_.name_spaces.push_back(std::move(entry));  // does not throw: the capacity is reserved
  touched_.push_back(false);
  const MutexLock lock(published_mutex_);
  published_.name_spaces.push_back(std::move(published_entry));
  return place;
}

void MetricsStore::submitted(int32_t place) noexcept {
  if (place == kNoIndex) ++current_.untracked_jobs;
  count(place, [](JobCounts& of) {
    ++of.submitted_jobs;
    ++of.queued_jobs;
  });
}

void MetricsStore::clear_pages() noexcept {
  for (size_t i = 0; i < current_.name_spaces.size(); ++i) {
    NamespaceMetrics& entry = current_.name_spaces[i];
    if (entry.held_pages == 0 && entry.pinned_pages == 0) continue;
    entry.held_pages = entry.pinned_pages = 0;
    touched_[i] = true;
  }
}

void MetricsStore::add_pages(int32_t place, int32_t num_held, int32_t num_pinned) noexcept {
  if (place == kNoIndex) return;
  NamespaceMetrics& entry = touch(place);
  entry.held_pages += num_held;
  entry.pinned_pages += num_pinned;
}

void MetricsStore::publish() noexcept {
  const MutexLock lock(published_mutex_);
  published_.stats = current_.stats;
  published_.jobs = current_.jobs;
  published_.steps = current_.steps;
  published_.untracked_jobs = current_.untracked_jobs;
  for (size_t i = 0; i < touched_.size(); ++i) {
    if (!touched_[i]) continue;
    copy_figures(current_.name_spaces[i], published_.name_spaces[i]);
    touched_[i] = false;
  }
}

CacheStats MetricsStore::stats() const {
  const MutexLock lock(published_mutex_);
  return published_.stats;
}

CacheMetrics MetricsStore::read() const {
  const MutexLock lock(published_mutex_);
  return published_;
}

}  // namespace quire
