// Caches of models in tests of drafts.
#pragma once

#include <memory>

#include "core/engine/model/model_cache.h"
#include "tests/support/engine_fakes.h"

namespace quire::testing {

inline ModelCacheOptions small_cache() {
  ModelCacheOptions options;
  options.max_tokens = 2048;
  options.max_seq_len = 512;
  options.page_tokens = 16;
  options.max_batch_size = 6;
  options.max_chunk_tokens = 64;
  options.engine.start_thread = false;
  options.engine.check_invariants = true;
  options.engine.drafting.drafter = DrafterKind::none;
  return options;
}

// The clock does not advance, so drafts are used whenever there are some.
inline std::shared_ptr<Engine> still_cache(const std::shared_ptr<const Model>& model,
                                           const ModelCacheOptions& options) {
  static const SimulatedClock clock;
  RuntimeOptions runtime;
  runtime.clock = &clock;
  return create_model_cache(Runtime::create(std::move(runtime)), model, options);
}

}  // namespace quire::testing
