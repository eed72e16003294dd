// Compiled constraints of one vocabulary, kept for whoever asks for the same again.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/mutex.h"
#include "core/constrained/constraint.h"

namespace quire {

// Any thread. Two threads that ask for the same at once may both compile it; one result is kept.
class ConstraintCache {
 public:
  ConstraintCache(std::shared_ptr<const TokenVocabulary> vocabulary, size_t max_bytes)
      : vocabulary_(std::move(vocabulary)), max_bytes_(max_bytes) {}

  // As Constraint::compile. What was not asked for longest goes first where the bytes held are too many.
  std::shared_ptr<const Constraint> get(ConstraintKind kind, std::string_view source);

  size_t size() const;
  const std::shared_ptr<const TokenVocabulary>& vocabulary() const { return vocabulary_; }

 private:
  struct Entry {
    ConstraintKind kind;
    std::string source;
    std::shared_ptr<const Constraint> constraint;
  };
  std::shared_ptr<const Constraint> find(ConstraintKind kind, std::string_view source) QUIRE_REQUIRES(mutex_);
  void shrink() QUIRE_REQUIRES(mutex_);

  const std::shared_ptr<const TokenVocabulary> vocabulary_;
  const size_t max_bytes_;
  mutable Mutex mutex_;
  std::list<Entry> entries_ QUIRE_GUARDED_BY(mutex_);  // the last one asked for comes first
};

}  // namespace quire
