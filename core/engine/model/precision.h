// Precision by room: of several choices, from the best to the smallest, the first that there is memory for.
#pragma once

#include <iterator>
#include <memory>
#include <vector>

#include <gsl/gsl>

#include "core/base/error.h"
#include "core/engine/model/model_cache.h"

namespace quire {

// What `attempt` returns for the first of the choices (at least one) that it does not refuse with
// ErrorCode::out_of_memory. Throws what it throws for the last, and anything else at once.
template <typename Choices, typename Attempt>
auto first_that_fits(const Choices& choices, const Attempt& attempt) {
  for (auto choice = choices.begin();; ++choice) {
    try {
      return attempt(*choice);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::out_of_memory || std::next(choice) == choices.end()) throw;
    }
  }
}

// The same cache in each KV format that the model may have on these devices, the most exact first; as it is
// where `kv_by_room` is not set.
std::vector<ModelCacheOptions> kv_choices(const ModelCacheOptions& options, const ModelConfig& config,
                                          gsl::span<const std::shared_ptr<Device>> devices);

struct CacheByRoom {
  std::shared_ptr<Cache> cache;
  ModelCacheOptions options;  // with the formats that it has
};

// create_model_cache, in the first of kv_choices that there is memory for.
CacheByRoom create_cache_by_room(const std::shared_ptr<Runtime>& runtime,
                                 const std::shared_ptr<const Model>& model, const ModelCacheOptions& options,
                                 const std::shared_ptr<const ModelHome>& home = nullptr);

}  // namespace quire
