#include "core/constrained/constraint_cache.h"

#include <algorithm>

namespace quire {

std::shared_ptr<const Constraint> ConstraintCache::find(ConstraintKind kind, std::string_view source) {
  const auto it = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.kind == kind && entry.source == source;
  });
  if (it == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, it);
  return entries_.front().constraint;
}

std::shared_ptr<const Constraint> ConstraintCache::get(ConstraintKind kind, std::string_view source) {
  {
    const MutexLock lock(mutex_);
    if (auto known = find(kind, source)) return known;
  }
  auto made = Constraint::compile(kind, source, vocabulary_);
  const MutexLock lock(mutex_);
  if (auto known = find(kind, source)) return known;
  entries_.push_front({kind, std::string(source), made});
  shrink();
  return made;
}

// Counts all entries again, because constraints grow while they are used.
void ConstraintCache::shrink() {
  size_t bytes = 0;
  for (auto it = entries_.begin(); it != entries_.end();) {
    bytes += it->source.size() + it->constraint->held_bytes();
    it = bytes > max_bytes_ ? entries_.erase(it) : std::next(it);
  }
}

size_t ConstraintCache::size() const {
  const MutexLock lock(mutex_);
  return entries_.size();
}

}  // namespace quire
