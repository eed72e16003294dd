// Perplexity of a text under a model.
#pragma once

#include <memory>

#include "tests/core/models/transformer_runner.h"

namespace quire::testing {

constexpr int32_t kPerplexityWindow = 512;

// Returns the perplexity over the first num_windows windows of kPerplexityWindow ids. Each window is
// evaluated alone; all ids but its first are predicted.
double perplexity(const std::shared_ptr<const Model>& model, const TokenIds& ids, int32_t num_windows);

}  // namespace quire::testing
