#include "core/engine/jobs/namespace_quotas.h"

#include "core/base/error.h"

namespace quire {

NamespaceQuotas::NamespaceQuotas(const EngineOptions& options) : default_(options.default_quota) {
  for (const NamespaceOptions& entry : options.namespaces) own_[entry.name] = entry.quota;
}

NamespaceQuota NamespaceQuotas::of(const std::string& name) const {
  const MutexLock lock(mutex_);
  const auto own = own_.find(name);
  return own == own_.end() ? default_ : own->second;
}

void NamespaceQuotas::change_default(const Change& change) {
  const MutexLock lock(mutex_);
  change(default_);
}

void NamespaceQuotas::change(const std::string& name, const Change& change) {
  const MutexLock lock(mutex_);
  if (own_.find(name) == own_.end() && own_.size() >= kMaxNamespaces) {
    throw Error(
        ErrorCode::too_large,
        "namespace: {} namespaces have their own quota or weight, which is the maximum; change one of those",
        kMaxNamespaces)
        .at("namespace");
  }
  change(own_.try_emplace(name, default_).first->second);
}

}  // namespace quire
