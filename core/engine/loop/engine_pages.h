// The pages of a cache: the sequences and prefixes in them, where prefixes go that leave them, how many there
// are, and who is told of it.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "core/engine/events/page_followers.h"
#include "core/engine/metrics/cache_stats.h"
#include "core/engine/prefixes/prefix_store.h"
#include "core/engine/residency/elastic_pages.h"
#include "core/engine/settings/engine_options.h"
#include "core/engine/settings/engine_parts.h"
#include "core/kv/kv_cache.h"

namespace quire {

// One thread at a time.
class EnginePages {
 public:
  // All outlive this.
  EnginePages(Runtime& runtime, const EngineParts& parts, const EngineOptions& options);

  KvCache& kv() { return kv_; }
  const KvCache& kv() const { return kv_; }

  // What of this prefix lies outside of the cache comes back to it.
  bool keeps_prefixes() const { return prefixes_ != nullptr; }
  void bring_back(const PrefixDomain& domain, gsl::span<const TokenId> tokens) {
    kv_.bring_back(domain, tokens);
  }
  // What later caches may use is filed, until `stops` says so.
  bool files_prefixes() const { return prefixes_ != nullptr && prefixes_->has_files(); }
  void file_prefixes(const std::function<bool()>& stops) noexcept;

  // Between two steps.
  bool is_elastic() const { return elastic_ != nullptr; }
  // Gives back what was not used for a while; whether it was any.
  bool give_idle(TimePoint now) noexcept;
  // Gives up to so many bytes of a device back that no job uses; how many.
  uint64_t give(std::string_view device, uint64_t bytes);
  // When give_idle is worth a call; max() where never.
  TimePoint next_event() const;

  void follow(const PageFollowing& following);
  // Tells the followers what came since.
  void flush() noexcept { followers_.flush(); }
  // The cache is over, and no more is told.
  void end() noexcept { followers_.end(); }

  // Numbers of pages but for those that are pinned, and of prefixes.
  void measure(CacheStats& stats) const;

 private:
  PageFollowers followers_;
  const std::unique_ptr<PrefixStore> prefixes_;  // null: pages that leave are gone
  const std::unique_ptr<ElasticPages> elastic_;  // null: all pages are there
  KvCache kv_;
};

}  // namespace quire
