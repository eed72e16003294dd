#include <quire/constraint.h>

#include "capi/src/arguments.h"
#include "capi/src/constraint_object.h"
#include "capi/src/guard.h"
#include "capi/src/model_object.h"

namespace quire::capi {
namespace {

constexpr size_t kMaxForcedBytes = 4096;

ConstraintKind kind_argument(int32_t kind) {
  switch (kind) {
    case QUIRE_CONSTRAINT_JSON_SCHEMA:
      return ConstraintKind::json_schema;
    case QUIRE_CONSTRAINT_JSON_OBJECT:
      return ConstraintKind::json_object;
    case QUIRE_CONSTRAINT_REGEX:
      return ConstraintKind::regex;
    case QUIRE_CONSTRAINT_CHOICE:
      return ConstraintKind::choice;
    case QUIRE_CONSTRAINT_GBNF:
      return ConstraintKind::gbnf;
    case QUIRE_CONSTRAINT_LARK:
      return ConstraintKind::lark;
    default:
      throw Error(ErrorCode::invalid_argument, "kind: {} is not in {} to {}", kind,
                  QUIRE_CONSTRAINT_JSON_SCHEMA, QUIRE_CONSTRAINT_LARK)
          .at("kind");
  }
}

// Returns the bytes of the words, the lowest first, on machines of any byte order.
std::vector<uint8_t> bytes_of(const TokenBits& mask) {
  std::vector<uint8_t> bytes;
  bytes.reserve(mask.size() * sizeof(uint32_t));
  for (const uint32_t word : mask) {
    for (uint32_t shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<uint8_t>(word >> shift));
  }
  return bytes;
}

}  // namespace

}  // namespace quire::capi

using namespace quire::capi;

quire_constraint* quire_constraint_create(quire_model* model, int32_t kind, const char* text, size_t text_len,
                                          quire_error** error) {
  return guard(error, static_cast<quire_constraint*>(nullptr), [&] {
    const Pinned pinned(model, "model");
    const auto source = text_argument(text, text_len);
    const quire::Model& of = *pinned->share->model;
    const auto cache = pinned->share->constraints->cache_of(of);
    auto made = cache->get(kind_argument(kind), source, quire::kDrawnForm);
    return make_handle<quire_constraint>(quire::ConstraintChoice{std::move(made), of.path(), nullptr}, cache);
  });
}

int32_t quire_constraint_free(quire_constraint* handle, quire_error** error) {
  return free_handle(handle, error);
}

quire_matcher* quire_matcher_create(quire_constraint* constraint, quire_error** error) {
  return guard(error, static_cast<quire_matcher*>(nullptr), [&] {
    const Pinned pinned(constraint, "constraint");
    const quire::Constraint& drawn = *pinned->choice.constraint;
    return make_handle<quire_matcher>(pinned->cache->get(drawn.kind(), drawn.source()));
  });
}

int32_t quire_matcher_accept(quire_matcher* matcher, int32_t token, quire_error** error) {
  return guard(error, -1, [&] {
    const Pinned pinned(matcher, "matcher");
    const quire::MutexLock lock(pinned->mutex);
    return pinned->matcher.accept(token) ? 1 : 0;
  });
}

int64_t quire_matcher_mask(quire_matcher* matcher, uint8_t* out_bytes, size_t out_capacity,
                           quire_error** error) {
  return guard(error, int64_t{-1}, [&] {
    const Pinned pinned(matcher, "matcher");
    const OutArgument<uint8_t> out(out_bytes, out_capacity, "out_bytes");
    const quire::MutexLock lock(pinned->mutex);
    quire::TokenBits mask(pinned->matcher.constraint().vocabulary().num_words());
    if (!out.fits(mask.size() * sizeof(uint32_t)))
      return static_cast<int64_t>(mask.size() * sizeof(uint32_t));
    pinned->matcher.mask(mask);
    return out.write(bytes_of(mask));
  });
}

int32_t quire_matcher_may_end(quire_matcher* matcher, quire_error** error) {
  return guard(error, -1, [&] {
    const Pinned pinned(matcher, "matcher");
    const quire::MutexLock lock(pinned->mutex);
    return pinned->matcher.may_end() ? 1 : 0;
  });
}

int64_t quire_matcher_forced_text(quire_matcher* matcher, char* out_text, size_t out_capacity,
                                  quire_error** error) {
  return guard(error, int64_t{-1}, [&] {
    const Pinned pinned(matcher, "matcher");
    const quire::MutexLock lock(pinned->mutex);
    return write_text(pinned->matcher.forced(kMaxForcedBytes), out_text, out_capacity);
  });
}

int32_t quire_matcher_rollback(quire_matcher* matcher, int64_t num_steps, quire_error** error) {
  return guard(error, 0, [&] {
    const Pinned pinned(matcher, "matcher");
    const quire::MutexLock lock(pinned->mutex);
    const auto most = static_cast<int64_t>(pinned->matcher.num_steps());
    pinned->matcher.rollback(static_cast<size_t>(range_argument(num_steps, int64_t{0}, most, "num_steps")));
    return 1;
  });
}

int32_t quire_matcher_free(quire_matcher* handle, quire_error** error) {
  return free_handle(handle, error);
}
