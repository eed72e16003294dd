#include "capi/src/cache_settings.h"

namespace quire::capi {
namespace {

// How keys and values are stored. Q6 is the name for keys of 8 and values of 4 bits.
struct KvFormats {
  kernels::KvFormat keys;
  kernels::KvFormat values;
};

KvFormats kv_formats(int32_t format) {
  using kernels::KvFormat;
  switch (format) {
    case QUIRE_KV_Q8:
      return {KvFormat::q8, KvFormat::q8};
    case QUIRE_KV_Q6:
      return {KvFormat::q8, KvFormat::q4};
    case QUIRE_KV_Q4:
      return {KvFormat::q4, KvFormat::q4};
    case QUIRE_KV_FP8:
      return {KvFormat::fp8, KvFormat::fp8};
    default:
      return {KvFormat::f16, KvFormat::f16};
  }
}

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
  for (int32_t format = QUIRE_KV_F16; format < QUIRE_KV_AUTO; ++format) {
    const KvFormats formats = kv_formats(format);
    if (formats.keys == options.key_format && formats.values == options.value_format) return format;
  }
  throw Error(ErrorCode::internal, "the cache has formats of keys and values without a name");
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
  const KvFormats formats = kv_formats(settings.kv_format);
  out.key_format = formats.keys;
  out.value_format = formats.values;
  out.kv_by_room = settings.kv_format == QUIRE_KV_AUTO;
  out.engine.max_queued_jobs = settings.max_queue;
  out.engine.max_overtakes = settings.max_overtakes;
  out.engine.ageing_interval = settings.ageing;
  out.engine.watchdog_timeout = settings.step_timeout;
  out.engine.close_timeout = settings.close_timeout;
  out.engine.device_weight = settings.device_weight;
  out.engine.step_stretch = settings.step_stretch;
  out.engine.prefixes = prefixes_of(settings);
  out.engine.max_pinned_pages = settings.max_pinned_pages;
  out.engine.default_quota = quota_of(settings, {});
  for (const auto& [name, own] : settings.namespaces) {
    out.engine.namespaces.push_back({name, quota_of(settings, own)});
  }
  return out;
}

}  // namespace quire::capi
