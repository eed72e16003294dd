// Chooses the KV format by the free memory: the most exact one that fits.
#pragma once

#include <iterator>
#include <memory>
#include <vector>

#include <gsl/gsl>

#include "core/base/error.h"
#include "core/engine/model/model_cache.h"

namespace quire {

// Returns the result of `attempt` for the first choice that it does not reject with ErrorCode::out_of_memory
// and for whose result `goes` returns true. The result of the last choice is returned without calling `goes`.
// Throws the errors of `attempt` for the last choice, and any other error at once. Needs at least one choice.
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

// Returns the index of the formats in kKvFormats. Throws ErrorCode::internal if they are not in it.
size_t kv_formats_of(const ModelCacheOptions& options);

// Returns the options with each KV format that the model can have on these devices, the most exact first.
// Returns them unchanged if `kv_by_room` is not set.
std::vector<ModelCacheOptions> kv_choices(const ModelCacheOptions& options, const ModelConfig& config,
                                          gsl::span<const std::shared_ptr<Device>> devices);

struct CreatedCache {
  std::shared_ptr<Engine> cache;
  ModelCacheOptions options;  // with the chosen formats
};

// Calls create_model_cache with the first of kv_choices that fits into memory.
CreatedCache create_cache_that_fits(const std::shared_ptr<Runtime>& runtime,
                                    const std::shared_ptr<const Model>& model,
                                    const ModelCacheOptions& options,
                                    const std::shared_ptr<const ResidentModel>& home = nullptr);

}  // namespace quire
