// Quotas and weights of namespaces (fair share). They may change while jobs run.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "core/base/mutex.h"
#include "core/engine/settings/engine_options.h"

namespace quire {

// Thread-safe.
class NamespaceQuotas {
 public:
  explicit NamespaceQuotas(const EngineOptions& options);

  NamespaceQuota of(const std::string& name) const;
  using Change = std::function<void(NamespaceQuota&)>;
  // Changes the default quota of all namespaces without one of their own. Weights are set for single
  // namespaces only.
  void change_default(const Change& change);
  // Changes the quota of one namespace, which from then on has its own. Throws ErrorCode::too_large if
  // kMaxNamespaces others already have one.
  void change(const std::string& name, const Change& change);

  static constexpr size_t kMaxNamespaces = 1024;

 private:
  mutable Mutex mutex_;
  NamespaceQuota default_ QUIRE_GUARDED_BY(mutex_);
  std::map<std::string, NamespaceQuota, std::less<>> own_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire
