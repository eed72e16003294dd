#include "core/constrained/constraint_cache.h"

#include <algorithm>

namespace quire {
namespace {

bool may_contain_json(ConstraintKind kind) {
  return kind == ConstraintKind::json_schema || kind == ConstraintKind::json_object ||
         kind == ConstraintKind::lark;
}

}  // namespace

std::shared_ptr<const Constraint> ConstraintCache::find(ConstraintKind kind, std::string_view source,
                                                        const JsonForm& form) {
  const auto it = std::find_if(entries_.begin(), entries_.end(), [&](const auto& known) {
    return known->kind() == kind && known->form() == form && known->source() == source;
  });
  if (it == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, it);
  return entries_.front();
}

std::shared_ptr<const Constraint> ConstraintCache::get(ConstraintKind kind, std::string_view source,
                                                       const JsonForm& json_form) {
  const JsonForm form = may_contain_json(kind) ? json_form : JsonForm{};
  {
    const MutexLock lock(mutex_);
    if (auto known = find(kind, source, form)) return known;
  }
  auto made = Constraint::compile(kind, source, vocabulary_, {}, form);
  const MutexLock lock(mutex_);
  if (auto known = find(kind, source, form)) return known;
  entries_.push_front(made);
  shrink();
  return made;
}

// Counts all entries again, because constraints grow while they are used.
void ConstraintCache::shrink() {
  size_t bytes = 0;
  for (auto it = entries_.begin(); it != entries_.end();) {
    bytes += (*it)->source().size() + (*it)->held_bytes();
    it = bytes > max_bytes_ ? entries_.erase(it) : std::next(it);
  }
}

size_t ConstraintCache::size() const {
  const MutexLock lock(mutex_);
  return entries_.size();
}

}  // namespace quire
