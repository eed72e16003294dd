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
// ErrorCode::out_of_memory, and that `goes` says goes; the last needs no such word. Throws what `attempt`
// throws for the last, and anything else at once.
template <typename Choices, typename Attempt, typename Goes>
auto first_that_fits(const Choices& choices, const Attempt& attempt, const Goes& goes) {
  for (auto choice = choices.begin();; ++choice) {
    const bool is_last = std::next(choice) == choices.end();
    try {
      auto made = attempt(*choice);
      if (is_last || goes(made)) return made;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::out_of_memory || is_last) throw;
    }
  }
}

template <typename Choices, typename Attempt>
auto first_that_fits(const Choices& choices, const Attempt& attempt) {
  return first_that_fits(choices, attempt, [](const auto&) { return true; });
}

// The place in kKvFormats. Throws ErrorCode::internal where there is none.
size_t kv_formats_of(const ModelCacheOptions& options);

// The same cache in each KV format that the model may have on these devices, the most exact first; as it is
// where `kv_by_room` is not set.
std::vector<ModelCacheOptions> kv_choices(const ModelCacheOptions& options, const ModelConfig& config,
                                          gsl::span<const std::shared_ptr<Device>> devices);

struct CacheByRoom {
  std::shared_ptr<Engine> cache;
  ModelCacheOptions options;  // with the formats that it has
};

// create_model_cache, in the first of kv_choices that there is memory for.
CacheByRoom create_cache_by_room(const std::shared_ptr<Runtime>& runtime,
                                 const std::shared_ptr<const Model>& model, const ModelCacheOptions& options,
                                 const std::shared_ptr<const ResidentModel>& home = nullptr);

}  // namespace quire
