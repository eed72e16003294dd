// Object of a quire_alias.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "capi/src/cache_object.h"
#include "core/base/error.h"
#include "core/base/mutex.h"

namespace quire::capi {

// Caches of an alias: the current one, then its fallbacks. Thread-safe.
class AliasTargets {
 public:
  using Target = std::shared_ptr<const CacheShare>;  // null: none is set
  static constexpr size_t kMaxFallbacks = 16;

  // Sets the current cache. Does not wait for the old one.
  void exchange(Target target);
  // Throws ErrorCode::capacity if there are kMaxFallbacks.
  void add_fallback(Target target);
  void clear_fallbacks();
  // Returns the caches in the order in which they are tried. The first may be null.
  std::vector<Target> chain() const;
  // True if `target` is still the current cache.
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
