// The object of a quire_alias.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "capi/src/cache_object.h"
#include "core/base/error.h"
#include "core/base/mutex.h"

namespace quire::capi {

// The caches that a name stands for: the one behind it, then its fallbacks. Any thread.
class AliasTargets {
 public:
  using Target = std::shared_ptr<const CacheShare>;  // null: there is none
  static constexpr size_t kMaxFallbacks = 16;

  // The one that was there goes without a wait.
  void exchange(Target target);
  // Throws ErrorCode::capacity.
  void add_fallback(Target target);
  void clear_fallbacks();
  // In the order in which they are tried; the first may be null.
  std::vector<Target> chain() const;
  // Whether the cache behind the name is still this one.
  bool is_first(const Target& target) const;
  void note_fallback(std::string reason);

  std::string reason() const;
  int64_t num_swaps() const;
  int64_t num_fallbacks() const;

 private:
  mutable Mutex mutex_;
  Target first_ QUIRE_GUARDED_BY(mutex_);
  std::vector<Target> fallbacks_ QUIRE_GUARDED_BY(mutex_);
  std::string reason_ QUIRE_GUARDED_BY(mutex_);
  int64_t num_swaps_ QUIRE_GUARDED_BY(mutex_) = 0;
  int64_t num_fallbacks_ QUIRE_GUARDED_BY(mutex_) = 0;
};

struct AliasObject final : Object {
  AliasObject(std::shared_ptr<RuntimeShare> of_runtime, std::string its_name)
      : runtime(std::move(of_runtime)),
        name(std::move(its_name)),
        counted(runtime->census(), HandleType::alias) {}
  const std::shared_ptr<RuntimeShare> runtime;
  const std::string name;
  AliasTargets targets;
  const CensusEntry counted;
};

template <>
struct HandleTraits<quire_alias> {
  using Object = AliasObject;
  static constexpr HandleType type = HandleType::alias;
};

}  // namespace quire::capi
