// A cache of compiled constraints of one vocabulary.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/mutex.h"
#include "core/constrained/constraint.h"

namespace quire {

// An LRU cache of constraints; safe to use from any thread. If two threads request the same constraint at
// once, both may compile it; one result is kept.
class ConstraintCache {
 public:
  ConstraintCache(std::shared_ptr<const TokenVocabulary> vocabulary, size_t max_bytes)
      : vocabulary_(std::move(vocabulary)), max_bytes_(max_bytes) {}

  // Like Constraint::compile, but cached. The form of a source without JSON does not matter. If the cache
  // holds too many bytes, the least recently requested entries are removed.
  std::shared_ptr<const Constraint> get(ConstraintKind kind, std::string_view source,
                                        const JsonForm& json_form = {});

  size_t size() const;
  const std::shared_ptr<const TokenVocabulary>& vocabulary() const { return vocabulary_; }

 private:
  std::shared_ptr<const Constraint> find(ConstraintKind kind, std::string_view source, const JsonForm& form)
      QUIRE_REQUIRES(mutex_);
  void shrink() QUIRE_REQUIRES(mutex_);

  const std::shared_ptr<const TokenVocabulary> vocabulary_;
  const size_t max_bytes_;
  mutable Mutex mutex_;
  std::list<std::shared_ptr<const Constraint>> entries_
      QUIRE_GUARDED_BY(mutex_);  // most recently requested first
};

}  // namespace quire
