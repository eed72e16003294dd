// Converts the settings of a quire_cache_options to the engine's options.
#pragma once

#include "capi/src/options_objects.h"
#include "core/engine/model/model_cache.h"

namespace quire::capi {

ModelCacheOptions engine_options(const CacheSettings& settings);

// Returns the QUIRE_KV_* constant of a cache's formats.
int32_t kv_format_of(const ModelCacheOptions& options);

// Returns the limit that a QUIRE_QUOTA_* constant names.
int32_t& limit_of(NamespaceQuota& quotas, int32_t quota);

}  // namespace quire::capi
