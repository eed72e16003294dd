// What stands behind a quire_stats.
#pragma once

#include "capi/src/handle.h"
#include "core/engine/cache.h"

namespace quire::capi {

struct StatsObject final : Object {
  StatsObject(const CacheStats& the_stats, int32_t the_page_tokens, uint64_t the_device_bytes)
      : stats(the_stats), page_tokens(the_page_tokens), device_bytes(the_device_bytes) {}
  const CacheStats stats;
  const int32_t page_tokens;
  const uint64_t device_bytes;
};

template <>
struct HandleTraits<quire_stats> {
  using Object = StatsObject;
  static constexpr HandleType type = HandleType::stats;
};

}  // namespace quire::capi
