// Pages of an engine: KV cache and prefix cache, the store for evicted pages, elastic growth, and page
// events.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "core/engine/events/page_followers.h"
#include "core/engine/loop/freed_memory.h"
#include "core/engine/metrics/cache_stats.h"
#include "core/engine/prefixes/prefix_store.h"
#include "core/engine/residency/elastic_pages.h"
#include "core/engine/settings/engine_options.h"
#include "core/engine/settings/engine_parts.h"
#include "core/kv/kv_cache.h"

namespace quire {

// Not thread-safe.
class EnginePages {
 public:
  // All outlive this.
  EnginePages(Runtime& runtime, const EngineParts& parts, const EngineOptions& options);

  KvCache& kv() { return kv_; }
  const KvCache& kv() const { return kv_; }

  // True if evicted pages are stored and can be restored.
  bool stores_prefixes() const { return prefixes_ != nullptr; }
  // Restores the stored pages of a prefix.
  void reload_prefix(const PrefixDomain& domain, gsl::span<const TokenId> tokens) {
    kv_.reload_prefix(domain, tokens);
  }
  bool has_prefix_files() const { return prefixes_ != nullptr && prefixes_->has_files(); }
  // Writes pages to files for later engines, until `stops` returns true.
  void write_prefix_files(const std::function<bool()>& stops) noexcept;

  // The following functions must be called between two steps.
  bool is_elastic() const { return elastic_ != nullptr; }
  // Frees pages that were unused for the idle time. Returns true if there were any.
  bool free_idle_pages(TimePoint now) noexcept;
  // Frees up to `bytes` bytes of unused pages of a device. Returns the number of bytes freed.
  uint64_t give(std::string_view device, uint64_t bytes);
  // Returns when to call give_idle next; max(): never.
  TimePoint next_event() const;

  // With EngineOptions::check_invariants: see FreedMemory.
  void poison_freed() {
    if (freed_memory_) freed_memory_->poison();
  }
  void poison_begun(const StepPlan& plan, gsl::span<const StateCopy> copies) {
    if (freed_memory_) freed_memory_->poison_begun(plan, copies);
  }

  void follow(const PageFollowing& following);
  // Notifies the followers of new events.
  void flush() noexcept { followers_.flush(); }
  // Ends all subscriptions when the engine closes.
  void end() noexcept { followers_.end(); }

  // Fills in the numbers of pages, except pinned ones, and the statistics of stored prefixes.
  void measure(CacheStats& stats) const;

 private:
  PageFollowers followers_;
  const std::unique_ptr<PrefixStore> prefixes_;  // null: evicted pages are discarded
  const std::unique_ptr<ElasticPages> elastic_;  // null: all pages are allocated at creation
  KvCache kv_;
  std::optional<FreedMemory> freed_memory_;
};

}  // namespace quire
