#include "tests/core/models/perplexity.h"

#include <algorithm>
#include <cmath>

namespace quire::testing {
namespace {

// Returns the sum of -log p(ids[i + 1] | ids[0..i]).
double negative_log_likelihood(const TokenIds& ids, const std::vector<float>& logits, int32_t vocab) {
  double sum = 0.0;
  for (size_t i = 0; i + 1 < ids.size(); ++i) {
    const float* row = logits.data() + i * static_cast<size_t>(vocab);
    const auto largest = static_cast<double>(*std::max_element(row, row + vocab));
    double mass = 0.0;
    for (int32_t v = 0; v < vocab; ++v) mass += std::exp(static_cast<double>(row[v]) - largest);
    sum += largest + std::log(mass) - static_cast<double>(row[ids[i + 1]]);
  }
  return sum;
}

}  // namespace

double perplexity(const std::shared_ptr<const Model>& model, const TokenIds& ids, int32_t num_windows) {
  TransformerRunner runner(model, {});
  double sum = 0.0;
  for (int32_t w = 0; w < num_windows; ++w) {
    const TokenIds window(ids.begin() + w * kPerplexityWindow, ids.begin() + (w + 1) * kPerplexityWindow);
    sum += negative_log_likelihood(window, runner.logits(window, kPerplexityWindow), runner.vocab_size());
  }
  return std::exp(sum / (num_windows * (kPerplexityWindow - 1)));
}

}  // namespace quire::testing
