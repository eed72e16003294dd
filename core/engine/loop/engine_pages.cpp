#include "core/engine/loop/engine_pages.h"

namespace quire {
namespace {

struct PageSeams {
  PageOffloadTier* offload_tier = nullptr;
  PageMemorySource* room = nullptr;
  PageListener* listener = nullptr;
};

KvCacheOptions kv_options(const ExecutorLimits& limits, const EngineOptions& options,
                          const PageSeams& seams) {
  KvCacheOptions kv;
  kv.pool = {limits.num_pages, limits.page_tokens, options.prefix_hash_bits, limits.least_pages};
  kv.max_pages_per_sequence = limits.max_pages_per_sequence;
  kv.max_sequences = limits.max_sequences;
  kv.windows = limits.windows;
  kv.num_state_slots = limits.num_state_slots;
  kv.least_state_slots = limits.least_pages > 0 ? limits.least_state_slots : 0;
  kv.offload_tier = seams.offload_tier;
  kv.room = seams.room;
  kv.listener = seams.listener;
  return kv;
}

std::unique_ptr<ElasticPages> elastic_pages(Runtime& runtime, const EngineParts& parts,
                                            const EngineOptions& options) {
  if (parts.executor->limits().least_pages == 0) return nullptr;
  return std::make_unique<ElasticPages>(runtime, *parts.executor,
                                        ElasticOptions{parts.page_memory, options.page_idle_time});
}

}  // namespace

EnginePages::EnginePages(Runtime& runtime, const EngineParts& parts, const EngineOptions& options)
    : prefixes_(PrefixStore::create(options.prefixes,
                                    {*parts.executor, runtime.files(), runtime.log(), followers_})),
      elastic_(elastic_pages(runtime, parts, options)),
      kv_(kv_options(parts.executor->limits(), options, {prefixes_.get(), elastic_.get(), &followers_})) {
  if (options.check_invariants) freed_memory_.emplace(*parts.executor, kv_);
}

void EnginePages::write_prefix_files(const std::function<bool()>& stops) noexcept {
  kv_.offload_all(stops);
  prefixes_->write_all_files(stops);
}

bool EnginePages::free_idle_pages(TimePoint now) noexcept {
  return elastic_ != nullptr && elastic_->free_idle_pages(kv_, now);
}

uint64_t EnginePages::give(std::string_view device, uint64_t bytes) {
  return elastic_ == nullptr ? 0 : elastic_->give(kv_, device, bytes);
}

TimePoint EnginePages::next_event() const {
  return elastic_ == nullptr ? TimePoint::max() : elastic_->next_event();
}

void EnginePages::follow(const PageFollowing& following) {
  followers_.follow(following, [this](const PageVisitor& visit) {
    kv_.visit_pages(visit);
    if (prefixes_ != nullptr) prefixes_->visit_pages(visit);
  });
}

void EnginePages::measure(CacheStats& stats) const {
  const PagePool& pool = kv_.pool();
  stats.pages = {pool.num_pages(), pool.num_free(), pool.num_cached(), pool.num_referenced(), 0};
  stats.pages_deduplicated = kv_.num_deduplicated();
  stats.pages_evicted = pool.num_evicted();
  if (prefixes_ != nullptr) stats.prefixes = prefixes_->stats();
}

}  // namespace quire
