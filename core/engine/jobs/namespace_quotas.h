// The quotas and weights of namespaces, which may change while jobs run.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "core/base/mutex.h"
#include "core/engine/settings/engine_options.h"

namespace quire {

// Any thread.
class NamespaceQuotas {
 public:
  explicit NamespaceQuotas(const EngineOptions& options);

  NamespaceQuota of(const std::string& name) const;
  using Change = std::function<void(NamespaceQuota&)>;
  // Of every namespace that has none of its own. The weight is not for all.
  void change_default(const Change& change);
  // Of one, which from then on has its own. Throws ErrorCode::capacity beyond kMaxNamespaces of those.
  void change(const std::string& name, const Change& change);

  static constexpr size_t kMaxNamespaces = 1024;

 private:
  mutable Mutex mutex_;
  NamespaceQuota default_ QUIRE_GUARDED_BY(mutex_);
  std::map<std::string, NamespaceQuota, std::less<>> own_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire
