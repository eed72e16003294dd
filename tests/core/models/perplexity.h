// What models say of a text.
#pragma once

#include <memory>

#include "tests/core/models/transformer_runner.h"

namespace quire::testing {

constexpr int32_t kPerplexityWindow = 512;

// Of the first windows of so many ids, each alone, all but its first id predicted.
double perplexity(const std::shared_ptr<const Model>& model, const TokenIds& ids, int32_t num_windows);

}  // namespace quire::testing
