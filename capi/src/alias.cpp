#include <optional>

#include <quire/alias.h>

#include "capi/src/alias_object.h"
#include "capi/src/arguments.h"
#include "capi/src/guard.h"
#include "capi/src/job_object.h"
#include "capi/src/read_request.h"
#include "core/base/message_text.h"

namespace quire::capi {

void AliasTargets::exchange(Target target) {
  Target old;  // destroyed after the lock is released
  const MutexLock lock(mutex_);
  if (first_ != nullptr && first_ != target) ++num_swaps_;
  old = std::exchange(first_, std::move(target));
}

void AliasTargets::add_fallback(Target target) {
  const MutexLock lock(mutex_);
  if (fallbacks_.size() == kMaxFallbacks) {
    throw Error(ErrorCode::capacity,
                "cache: the alias has {} fallbacks, which is the limit; clear them first", kMaxFallbacks)
        .at("alias");
  }
  fallbacks_.push_back(std::move(target));
}

void AliasTargets::clear_fallbacks() {
  std::vector<Target> old;
  const MutexLock lock(mutex_);
  old.swap(fallbacks_);
}

std::vector<AliasTargets::Target> AliasTargets::chain() const {
  const MutexLock lock(mutex_);
  std::vector<Target> chain{first_};
  chain.insert(chain.end(), fallbacks_.begin(), fallbacks_.end());
  return chain;
}

bool AliasTargets::is_first(const Target& target) const {
  const MutexLock lock(mutex_);
  return first_ == target;
}

void AliasTargets::note_fallback(std::string reason) {
  const MutexLock lock(mutex_);
  reason_ = std::move(reason);
  ++num_fallbacks_;
}

std::string AliasTargets::reason() const {
  const MutexLock lock(mutex_);
  return reason_;
}

int64_t AliasTargets::num_swaps() const {
  const MutexLock lock(mutex_);
  return num_swaps_;
}

int64_t AliasTargets::num_fallbacks() const {
  const MutexLock lock(mutex_);
  return num_fallbacks_;
}

}  // namespace quire::capi

using namespace quire::capi;
using quire::Error;
using quire::ErrorCode;

namespace {

// Returns true if the reason concerns one cache only, so that another may accept the job.
bool may_fit_elsewhere(ErrorCode code) {
  switch (code) {
    case ErrorCode::not_found:
    case ErrorCode::closed:
    case ErrorCode::device_lost:
    case ErrorCode::capacity:
    case ErrorCode::quota:
    case ErrorCode::deadline_too_short:
    case ErrorCode::too_large:
    case ErrorCode::out_of_memory:
      return true;
    default:
      return false;
  }
}

quire_job* submit_to(const AliasObject& alias, const AliasTargets::Target& target,
                     quire_job_request* request) {
  if (target == nullptr)
    throw Error(ErrorCode::not_found, "alias: \"{}\" has no cache; set one first",
                quire::printable(alias.name))
        .at("alias");
  quire::JobRequest job = read_request(request, *target, Counts::for_kind);
  const quire::JobKind kind = job.kind;
  return make_handle<quire_job>(target, target->cache->submit(std::move(job)), kind);
}

// Submits to the first cache of the chain that accepts the job. If none does, throws the first one's error.
quire_job* submit_in_turn(AliasObject& alias, const std::vector<AliasTargets::Target>& chain,
                          quire_job_request* request) {
  std::optional<Error> refusal;
  for (const AliasTargets::Target& target : chain) {
    try {
      quire_job* const job = submit_to(alias, target, request);
      if (refusal) alias.targets.note_fallback(refusal->what());
      return job;
    } catch (const Error& error) {
      if (!refusal) refusal.emplace(error);
      if (!may_fit_elsewhere(error.code())) break;
    }
  }
  throw Error(*refusal);
}

// Returns a cache of the alias's runtime that accepts jobs.
AliasTargets::Target target_argument(const AliasObject& alias, quire_cache* cache) {
  AliasTargets::Target target = Pinned(cache, "cache")->share;
  if (target->model->runtime != alias.runtime)
    throw Error(
        ErrorCode::invalid_argument,
        "cache: it belongs to another runtime than the alias; create the alias with the cache's runtime")
        .at("cache");
  if (target->cache->closed())
    throw Error(ErrorCode::closed, "cache: it is closed; use an open one").at("cache");
  return target;
}

}  // namespace

quire_alias* quire_alias_create(quire_runtime* runtime, const char* text, size_t text_len,
                                quire_error** error) {
  return guard(error, static_cast<quire_alias*>(nullptr), [&] {
    constexpr size_t kMaxBytes = 256;
    std::string name = short_text_argument(text, text_len, kMaxBytes, "name");
    if (name.empty())
      throw Error(ErrorCode::invalid_argument, "name: it is empty; an alias needs one").at("name");
    return make_handle<quire_alias>(Pinned(runtime, "runtime")->share, std::move(name));
  });
}

int32_t quire_alias_free(quire_alias* handle, quire_error** error) {
  return free_handle(handle, error);
}

int32_t quire_alias_set_cache(quire_alias* alias, quire_cache* cache, quire_error** error) {
  return guard(error, 0, [&] {
    const Pinned pinned(alias, "alias");
    pinned->targets.exchange(cache == nullptr ? nullptr : target_argument(*pinned, cache));
    return 1;
  });
}

int32_t quire_alias_add_fallback(quire_alias* alias, quire_cache* cache, quire_error** error) {
  return guard(error, 0, [&] {
    const Pinned pinned(alias, "alias");
    pinned->targets.add_fallback(target_argument(*pinned, cache));
    return 1;
  });
}

int32_t quire_alias_clear_fallbacks(quire_alias* alias, quire_error** error) {
  return guard(error, 0, [&] {
    Pinned(alias, "alias")->targets.clear_fallbacks();
    return 1;
  });
}

quire_job* quire_alias_submit(quire_alias* alias, quire_job_request* request, quire_error** error) {
  return guard(error, static_cast<quire_job*>(nullptr), [&] {
    const Pinned pinned(alias, "alias");
    const Pinned pinned_request(request, "request");  // checked even if the alias has no cache
    for (;;) {
      const std::vector<AliasTargets::Target> chain = pinned->targets.chain();
      try {
        return submit_in_turn(*pinned, chain, request);
      } catch (const Error& refusal) {
        // The cache was exchanged during the submission: try again with the new one.
        if (refusal.code() != ErrorCode::closed || pinned->targets.is_first(chain.front())) throw;
      }
    }
  });
}

int64_t quire_alias_reason(quire_alias* alias, char* out_text, size_t out_capacity, quire_error** error) {
  return guard(error, int64_t{-1},
               [&] { return write_text(Pinned(alias, "alias")->targets.reason(), out_text, out_capacity); });
}

int64_t quire_alias_num_swaps(quire_alias* alias, quire_error** error) {
  return guard(error, int64_t{-1}, [&] { return Pinned(alias, "alias")->targets.num_swaps(); });
}

int64_t quire_alias_num_fallbacks(quire_alias* alias, quire_error** error) {
  return guard(error, int64_t{-1}, [&] { return Pinned(alias, "alias")->targets.num_fallbacks(); });
}
