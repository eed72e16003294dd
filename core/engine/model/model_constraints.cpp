#include "core/engine/model/model_constraints.h"

namespace quire {
namespace {

constexpr size_t kMaxHeldBytes = size_t{256} << 20;  // limit for the compiled constraints of one model

}  // namespace

std::shared_ptr<ConstraintCache> ModelConstraints::cache_of(const Model& model) {
  const MutexLock lock(mutex_);
  if (cache_ == nullptr) {
    const TokenIds ends = model.has_config() ? model.config().eos_ids : TokenIds{};
    static_cast<void>(model.tokenizer());  // throws if the model has none
    cache_ =
        std::make_shared<ConstraintCache>(TokenVocabulary::of(model.shared_tokenizer(), ends), kMaxHeldBytes);
  }
  return cache_;
}

std::shared_ptr<const Constraint> ModelConstraints::get(const Model& model, ConstraintKind kind,
                                                        std::string_view source, const JsonForm& form) {
  return cache_of(model)->get(kind, source, form);
}

std::shared_ptr<const TokenVocabulary> ModelConstraints::vocabulary(const Model& model) {
  return cache_of(model)->vocabulary();
}

bool ModelConstraints::suit(const Model& model, const Constraint& constraint) {
  const TokenVocabulary& made_for = constraint.vocabulary();
  const TokenVocabulary& own = *cache_of(model)->vocabulary();
  return &made_for == &own || (made_for.size() == own.size() && made_for.fingerprint() == own.fingerprint());
}

}  // namespace quire
