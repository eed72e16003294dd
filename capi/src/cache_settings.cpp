#include "capi/src/cache_settings.h"

#include <string_view>

#include "core/engine/model/precision.h"

namespace quire::capi {
namespace {

constexpr std::string_view name_of(int32_t kv_format) {
  return kKvFormats[static_cast<size_t>(kv_format)].name;
}
static_assert(name_of(QUIRE_KV_F16) == "F16" && name_of(QUIRE_KV_Q8) == "Q8" &&
              name_of(QUIRE_KV_Q6) == "Q6" && name_of(QUIRE_KV_Q4) == "Q4" && name_of(QUIRE_KV_FP8) == "FP8");
static_assert(QUIRE_DRAFTER_AUTO == static_cast<int32_t>(DrafterKind::automatic));
static_assert(QUIRE_DRAFTER_NONE == static_cast<int32_t>(DrafterKind::none));
static_assert(QUIRE_DRAFTER_NGRAM == static_cast<int32_t>(DrafterKind::ngram));
static_assert(QUIRE_DRAFTER_NETWORK == static_cast<int32_t>(DrafterKind::network));

NamespaceQuota quota_of(const CacheSettings& cache, const NamespaceSettings& own) {
  NamespaceQuota out;
  for (size_t quota = 0; quota < cache.quotas.size(); ++quota) {
    limit_of(out, static_cast<int32_t>(quota)) = own.quotas[quota].value_or(cache.quotas[quota]);
  }
  out.weight = own.weight;
  return out;
}

quire::PrefixStoreOptions prefixes_of(const CacheSettings& settings) {
  constexpr int64_t kDefaultDirectoryBytes = int64_t{4} << 30;
  quire::PrefixStoreOptions out;
  out.host_bytes = static_cast<uint64_t>(settings.prefix_bytes);
  out.directory = settings.prefix_directory;
  out.directory_bytes = static_cast<uint64_t>(
      settings.prefix_directory_bytes > 0 ? settings.prefix_directory_bytes : kDefaultDirectoryBytes);
  return out;
}

}  // namespace

int32_t& limit_of(NamespaceQuota& quotas, int32_t quota) {
  switch (quota) {
    case QUIRE_QUOTA_RUNNING_JOBS:
      return quotas.max_running_jobs;
    case QUIRE_QUOTA_QUEUED_JOBS:
      return quotas.max_queued_jobs;
    case QUIRE_QUOTA_PAGES:
      return quotas.max_pages;
    default:
      return quotas.max_pinned_pages;
  }
}

int32_t kv_format_of(const ModelCacheOptions& options) {
  return static_cast<int32_t>(kv_formats_of(options));
}

ModelCacheOptions engine_options(const CacheSettings& settings) {
  ModelCacheOptions out;
  out.max_tokens = settings.max_tokens;
  out.min_tokens = settings.min_tokens;
  out.engine.page_idle_time = settings.page_idle;
  out.page_tokens = settings.page_tokens;
  out.max_batch_size = settings.max_batch_size;
  out.window_sequences = settings.window_sequences;
  out.max_chunk_tokens = settings.max_chunk_tokens;
  out.max_seq_len = settings.max_seq_len;
  out.card_expert_bytes = settings.card_expert_bytes;
  out.picks_kv_format = settings.kv_format == QUIRE_KV_AUTO;
  const KvFormats& formats =
      kKvFormats[out.picks_kv_format ? QUIRE_KV_F16 : static_cast<size_t>(settings.kv_format)];
  out.key_format = formats.keys;
  out.value_format = formats.values;
  out.engine.max_queued_jobs = settings.max_queue;
  out.engine.max_overtakes = settings.max_overtakes;
  out.engine.ageing_interval = settings.ageing;
  out.engine.watchdog_timeout = settings.step_timeout;
  out.engine.close_timeout = settings.close_timeout;
  out.engine.device_weight = settings.device_weight;
  out.engine.step_stretch = settings.step_stretch;
  out.engine.prefixes = prefixes_of(settings);
  out.engine.drafting.drafter = static_cast<DrafterKind>(settings.drafter);
  out.engine.drafting.max_drafts = settings.max_drafts;
  out.engine.max_pinned_pages = settings.max_pinned_pages;
  out.engine.default_quota = quota_of(settings, {});
  for (const auto& [name, own] : settings.namespaces) {
    out.engine.namespaces.push_back({name, quota_of(settings, own)});
  }
  return out;
}

}  // namespace quire::capi
