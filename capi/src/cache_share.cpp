#include "capi/src/cache_object.h"

namespace quire::capi {
namespace {

constinit thread_local int may_wait = 0;

// Deletes elsewhere; here where no thread can be had.
void delete_share(const CacheShare* share) noexcept {
  if (may_wait > 0) {
    delete share;
    return;
  }
  // The threads outlive the runtime that the share may hold last.
  const ThreadFactory& threads = share->model->runtime->runtime()->threads();
  try {
    threads.start("quire-close", [share] { delete share; })->detach();
  } catch (...) {
    delete share;
  }
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
