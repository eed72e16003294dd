#include "core/sampling/guidance.h"

#include <cmath>
#include <limits>

#include "core/sampling/selection.h"

namespace quire {

double log_sum_exp(gsl::span<const float> row, float max_logit) {
  double sum = 0.0;
  for (const float logit : row) sum += std::exp(static_cast<double>(logit) - max_logit);
  return max_logit + std::log(sum);
}

void mix_guided(gsl::span<const float> lane, gsl::span<const float> guide, float scale,
                std::vector<float>& mixed) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const RowScan scan = scan_row(lane), scan_of_guide = scan_row(guide);
  if (!scan.finite || !scan_of_guide.finite) {
    mixed.assign(lane.size(), std::numeric_limits<float>::quiet_NaN());
    return;
  }
  const double total = log_sum_exp(lane, scan.max_logit);
  const double total_of_guide = log_sum_exp(guide, scan_of_guide.max_logit);
  mixed.resize(lane.size());
  for (size_t i = 0; i < lane.size(); ++i) {
    if (lane[i] == kNever || guide[i] == kNever) {
      mixed[i] = kNever;
      continue;
    }
    const double away = guide[i] - total_of_guide;
    mixed[i] = static_cast<float>(away + scale * (lane[i] - total - away));
  }
}

}  // namespace quire
