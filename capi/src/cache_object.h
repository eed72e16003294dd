// Object of a quire_cache.
#pragma once

#include <memory>
#include <string>

#include "capi/src/model_object.h"
#include "core/engine/engine.h"

namespace quire::capi {

// A cache and everything it needs. Shared by its handle and the handles of its jobs.
struct CacheShare {
  std::shared_ptr<const ModelShare> model;
  std::shared_ptr<Engine> cache;
  int32_t kv_format = QUIRE_KV_F16;
  std::string name;  // label in metrics; empty: its number in the runtime
};

// Creates the shared state of a cache. Dropping the last reference stops the engine's thread. It waits for
// that, which takes as long as the running step, only if the current thread has a MayWait; otherwise the
// thread ends by itself.
std::shared_ptr<const CacheShare> share_cache(CacheShare parts);

// During its lifetime, the current thread may wait for an engine to stop.
class MayWait {
 public:
  MayWait() noexcept;
  MayWait(const MayWait&) = delete;
  MayWait& operator=(const MayWait&) = delete;
  ~MayWait();
};

struct CacheObject final : Object {
  explicit CacheObject(std::shared_ptr<const CacheShare> the_share)
      : share(std::move(the_share)), counted(share->model->runtime->census(), HandleType::cache) {}
  const std::shared_ptr<const CacheShare> share;
  const CensusEntry counted;
};

template <>
struct HandleTraits<quire_cache> {
  using Object = CacheObject;
  static constexpr HandleType type = HandleType::cache;
};

}  // namespace quire::capi
