#include "capi/src/cache_object.h"

namespace quire::capi {
namespace {

constinit thread_local int may_wait = 0;

void delete_share(const CacheShare* share) noexcept {
  if (may_wait == 0) share->cache->abandon();
  delete share;
}

}  // namespace

MayWait::MayWait() noexcept {
  ++may_wait;
}
MayWait::~MayWait() {
  --may_wait;
}

std::shared_ptr<const CacheShare> share_cache(CacheShare parts) {
  auto share = std::make_unique<CacheShare>(std::move(parts));
  return std::shared_ptr<const CacheShare>(share.release(), delete_share);
}

}  // namespace quire::capi
